/* writing.test.js - what goes out is whole frames in order, whatever the reader does meanwhile. */
import assert from "node:assert/strict";
import { after, before, test as nodeTest } from "node:test";
import { Client, OPCODE, Raw } from "../lib/clients.js";
import { startRoomd, until } from "../lib/servers.js";

const test = (name, run) => nodeTest(name, { timeout: 60_000 }, run);
let roomd;

before(async () => {
  roomd = await startRoomd({
    args: ["--heartbeat", "300ms", "--max-publishes-per-session", "5000", "--high-water", "8MiB"],
  });
});

after(async () => {
  assert.deepEqual(await roomd.stop(), { code: 0, signal: null }, roomd.logs());
});

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/* Publishes numbered entries of various sizes, some of them above what is joined into one write. */
async function publish(room, count) {
  const client = await Client.open(roomd.wsUrl);
  const sizes = [10, 150, 1000, 20, 5000, 70, 20_000, 130, 40_000, 1];
  for (let i = 0; i < count; i++) {
    const data = { i, pad: "x".repeat(sizes[i % sizes.length]) };
    client.send({ op: "publish", room, type: "n", data });
    if (i % 100 === 99) for (let k = 0; k < 100; k++) await client.next("ack");
  }
  await client.close();
}

async function readAll(client, count) {
  for (let i = 0; i < count; i++) {
    const entry = await client.next("entry");
    assert.equal(entry.data.i, i);
  }
}

test("frames stay whole under the client's pings and a reader that stalls", async () => {
  const count = 1000; /* 6.6 MB: below high water, whatever the reader does */
  const client = await Client.open(`${roomd.wsUrl}?room=stalls`);
  await client.next("live");
  const pongs = [];
  client.socket.on("pong", (data) => pongs.push(String(data)));

  let reading = true;
  const bother = (async () => {
    for (let n = 0; reading; n++) {
      client.socket.ping(`p${n}`);
      if (n % 4 === 0) client.socket.resume();
      else client.socket.pause();
      await sleep(10);
    }
    client.socket.resume();
  })();
  await Promise.all([publish("stalls", count), readAll(client, count)]);
  reading = false;
  await bother;
  assert.ok(pongs.length > 2, `${pongs.length} pongs`);
  await client.close();
});

test("entries of one turn come in few segments", async () => {
  const raw = await Raw.connect(roomd.port);
  await raw.upgrade({ path: "/v1/ws?room=joined" });
  await raw.next("live");
  let segments = 0;
  raw.socket.on("data", () => segments++);

  const count = 500;
  const client = await Client.open(roomd.wsUrl);
  await client.next("welcome");
  /* In one segment of its own they are read in one turn, and so are their entries. */
  client.socket._socket.cork();
  for (let i = 0; i < count; i++)
    client.send({ op: "publish", room: "joined", type: "n", data: i });
  client.socket._socket.uncork();
  for (let i = 0; i < count; i++)
    assert.equal(JSON.parse((await raw.nextFrame(OPCODE.text)).payload).data, i);
  assert.ok(segments < count / 5, `${segments} segments for ${count} entries`);
  raw.destroy();
  await client.close();
});

test("a client that answers empty pings with empty pongs stays", async () => {
  const client = await Client.open(roomd.wsUrl);
  let pings = 0;
  client.socket.on("ping", (data) => {
    assert.equal(data.length, 0);
    pings++;
  });
  await until("eight pings", () => pings >= 8);
  assert.equal(client.socket.readyState, client.socket.OPEN);
  await client.close();
});

test("a client that answers no pings is cut", async () => {
  const raw = await Raw.connect(roomd.port);
  await raw.upgrade();
  const began = Date.now();
  let pings = 0;
  await assert.rejects(async () => {
    for (;;) {
      await raw.nextFrame(OPCODE.ping);
      pings++;
    }
  });
  assert.ok(pings >= 2 && pings <= 3, `${pings} pings`);
  assert.ok(Date.now() - began < 3000);
});
