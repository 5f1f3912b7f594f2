/* close_codes.test.js - who reads in time sees why it was closed, and nobody a broken frame. */
import assert from "node:assert/strict";
import WebSocket from "ws";
import { Client, within } from "../lib/clients.js";
import { tidyTest } from "../lib/leftovers.js";
import { startRoomd, until } from "../lib/servers.js";
import { Publisher, Visitor, sleep } from "../lib/visitors.js";

const test = tidyTest(60_000);
const CLEAN = { code: 0, signal: null };

/* Pings every `everyMs` until the socket or the test is over; { pings, pongs, stop }. */
function pinging(socket, everyMs) {
  const counts = { pings: 0, pongs: 0 };
  socket.on("pong", () => counts.pongs++);
  const timer = setInterval(() => {
    if (socket.readyState === WebSocket.OPEN) socket.ping(`p${counts.pings++}`);
  }, everyMs);
  socket.once("close", () => clearInterval(timer));
  counts.stop = () => clearInterval(timer);
  return counts;
}

test("a client that stalls, pings and reads on in time sees 4000 slow consumer", async () => {
  const roomd = await startRoomd();
  const client = await Client.open(`${roomd.wsUrl}?room=lobby`);
  await client.next("live");
  const errors = [];
  client.socket.on("error", (error) => errors.push(error));
  const counts = pinging(client.socket, 20);
  await until("a pong", () => counts.pongs > 0);
  client.socket.pause();

  const publisher = new Publisher(roomd.wsUrl, "lobby");
  const data = { pad: "x".repeat(10_000) };
  let sent = 0;
  await until("it is shed", async () => {
    await Promise.all(Array.from({ length: 20 }, () => publisher.publish(data)));
    sent += 20;
    return (await roomd.metric("slow_consumers_total")) === 1;
  });
  /* It goes on pinging for a while, and so has a pong or two coming in between. */
  const { pings } = counts;
  await until("some pings more", () => counts.pings > pings + 20);
  client.socket.resume();
  const close = await within(() => "the close", client.closed);
  assert.deepEqual(close, { code: 4000, reason: "slow consumer" });
  assert.deepEqual(errors, []);
  assert.equal(await roomd.metric("forced_closes_total"), 0);

  /* It has lost nothing: what it missed is in the log. */
  const visitor = new Visitor(roomd.wsUrl, ["lobby"]);
  await visitor.live();
  assert.equal(visitor.room("lobby").entries.length, sent);
  await visitor.leave();
  publisher.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
});

test("20,000 messages to a reader that pings and mostly stalls are whole frames", async (t) => {
  const COUNT = 20_000;
  const roomd = await startRoomd({
    args: ["--high-water", "256MiB", "--retention-entries", "30000", "--heartbeat", "100ms"],
  });
  const visitor = new Visitor(roomd.wsUrl, ["lobby"]);
  await visitor.live();
  const counts = pinging(visitor.socket, 20);

  /* It reads for a quarter of the time. */
  let over = false;
  t.after(() => (over = true));
  let stalls = 0;
  let most = 0; /* bytes that waited for it */
  const stalling = (async () => {
    while (!over) {
      visitor.pause();
      await sleep(150);
      most = Math.max(most, await roomd.metric("packet_bytes"));
      visitor.resume();
      await sleep(50);
      stalls++;
    }
  })();
  const publisher = new Publisher(roomd.wsUrl, "lobby");
  const sizes = [1, 80, 110, 200, 900, 2000, 10, 118, 15_000, 30];
  const data = (n) => ({ n, pad: "x".repeat(sizes[n % sizes.length]) });
  const acks = await publisher.paced(COUNT, 10_000, data);
  await visitor.reaches("lobby", acks.at(-1).id, 30_000);
  over = true;
  await stalling;
  counts.stop();

  assert.equal(visitor.sockets, 1, "its socket never ended");
  const { entries } = visitor.room("lobby");
  assert.deepEqual(entries.map((entry) => entry.id), acks.map((ack) => ack.id));
  for (const [n, entry] of entries.entries()) assert.deepEqual(entry.data, data(n));
  const { pings, pongs } = counts;
  t.diagnostic(`${stalls} stalls, ${pings} pings, ${pongs} pongs, ${most} bytes waited`);
  assert.ok(stalls >= 15, `${stalls} stalls`);
  assert.ok(most > 256 * 1024, `${most} bytes waited`);
  assert.ok(pongs > 20, `${pongs} pongs`);
  await visitor.leave();
  publisher.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
});
