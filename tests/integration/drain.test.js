/* drain.test.js - SIGTERM: everybody is told when to come back, and the process ends. */
import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { Client, Raw } from "../lib/clients.js";
import { startRoomd, until } from "../lib/servers.js";

const test = (name, run) => nodeTest(name, { timeout: 30_000 }, run);
const CLEAN = { code: 0, signal: null };

async function openMany(roomd, count) {
  const clients = await Promise.all(
    Array.from({ length: count }, () => Client.open(`${roomd.wsUrl}?room=lobby`)),
  );
  await Promise.all(clients.map((client) => client.next("live")));
  return clients;
}

/* Whether somebody listens at the port. */
async function listens(roomd) {
  try {
    (await Raw.connect(roomd.port)).destroy();
    return true;
  } catch {
    return false;
  }
}

test("each client gets bye with its own time, then 1012, and the process exits 0", async () => {
  const roomd = await startRoomd({ args: ["--drain-spread", "4s"] });
  const clients = await openMany(roomd, 100);
  process.kill(roomd.pid, "SIGTERM");
  const byes = await Promise.all(clients.map((client) => client.next("bye")));
  const closes = await Promise.all(clients.map((client) => client.closed));
  assert.deepEqual(await roomd.exited, CLEAN, roomd.logs());

  for (const close of closes) assert.deepEqual(close, { code: 1012, reason: "restart" });
  const times = byes.map((bye) => bye.retry_after_ms);
  for (const bye of byes) assert.equal(bye.reason, "restart");
  assert.ok(
    times.every((ms) => Number.isInteger(ms) && ms >= 0 && ms <= 4000),
    String(times),
  );
  assert.ok(new Set(times).size > 50, "they differ");
  assert.ok(Math.max(...times) - Math.min(...times) > 2000, "they spread");
});

test("SIGINT does the same", async () => {
  const roomd = await startRoomd();
  const [client] = await openMany(roomd, 1);
  process.kill(roomd.pid, "SIGINT");
  assert.equal((await client.closed).code, 1012);
  assert.deepEqual(await roomd.exited, CLEAN, roomd.logs());
});

test("with nobody there it ends at once", async () => {
  const roomd = await startRoomd();
  const began = Date.now();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  assert.ok(Date.now() - began < 2000);
});

test("while it drains nobody new is let in, and it isn't ready", async () => {
  const roomd = await startRoomd({ args: ["--drain-timeout", "20s", "--close-timeout", "20s"] });
  /* It neither reads nor answers a close, so that the drain goes on. */
  const holder = await Raw.connect(roomd.port);
  assert.equal((await holder.upgrade()).status, 101);
  holder.socket.pause();
  const waiting = await Raw.connect(roomd.port);

  process.kill(roomd.pid, "SIGTERM");
  await until("it has stopped listening", async () => !(await listens(roomd)));
  waiting.write("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n");
  const response = await waiting.response();
  assert.equal(response.status, 503);
  assert.match(response.body, /draining/);

  holder.destroy();
  assert.deepEqual(await roomd.exited, CLEAN, roomd.logs());
});

test("who doesn't leave is cut when the drain's time is over", async () => {
  const roomd = await startRoomd({ args: ["--drain-timeout", "500ms", "--close-timeout", "20s"] });
  const holder = await Raw.connect(roomd.port);
  assert.equal((await holder.upgrade()).status, 101);
  const began = Date.now();
  process.kill(roomd.pid, "SIGTERM");
  assert.deepEqual(await roomd.exited, CLEAN, roomd.logs());
  assert.ok(Date.now() - began >= 500);
  assert.ok(Date.now() - began < 5000);
  holder.destroy();
});

test("a second signal ends it at once", async () => {
  const roomd = await startRoomd({ args: ["--drain-timeout", "1h", "--close-timeout", "10m"] });
  const holder = await Raw.connect(roomd.port);
  assert.equal((await holder.upgrade()).status, 101);
  process.kill(roomd.pid, "SIGTERM");
  await until("it drains", () => roomd.logs().includes("draining"));
  process.kill(roomd.pid, "SIGTERM");
  assert.deepEqual(await roomd.exited, CLEAN, roomd.logs());
  holder.destroy();
});

test("a drain under load ends cleanly", async () => {
  const roomd = await startRoomd();
  const clients = await openMany(roomd, 50);
  let publishing = true;
  const publisher = (async () => {
    for (let i = 0; publishing; i++) {
      for (const client of clients) {
        if (client.socket.readyState !== client.socket.OPEN) continue;
        client.send({ op: "publish", room: "lobby", type: "message", data: { i } });
      }
      await new Promise(setImmediate);
    }
  })();
  await clients[0].next("ack");
  process.kill(roomd.pid, "SIGTERM");
  const closes = await Promise.all(clients.map((client) => client.closed));
  publishing = false;
  await publisher;
  assert.deepEqual(await roomd.exited, CLEAN, roomd.logs());
  assert.deepEqual(new Set(closes.map((close) => close.code)), new Set([1012]));
});
