/* slow.test.js - who doesn't read is shed: told so if it can be told, and nobody else feels it. */
import assert from "node:assert/strict";
import WebSocket from "ws";
import { Raw, within } from "../lib/clients.js";
import { tidyTest } from "../lib/leftovers.js";
import { startRedis, startRoomd, until } from "../lib/servers.js";
import { Publisher, Visitor, sleep } from "../lib/visitors.js";

const test = tidyTest(90_000);
const CLEAN = { code: 0, signal: null };
const MIB = 1024 * 1024;
const READERS = 195;
const SLOW_THAT_COME_BACK = 2;
const DEAD = 3;
const PER_SECOND = 400;
const BURST = 10; /* at a time, so that a test on two cores isn't one about system calls */
const DATA = { pad: "x".repeat(1000) };

const CHUNK = 16384;

const MAY_GROW = 5 * MIB + 10e6;

/* A sanitizer's allocator would keep 256 MB of what was freed. ROOMD_RELEASE_BIN, where it is set,
 * is a build without sanitizers, whose memory is measured in place of that. */
const binary = process.env.ROOMD_RELEASE_BIN;
const asan = ["quarantine_size_mb=1", "thread_local_quarantine_size_kb=64"];
const env = { ASAN_OPTIONS: [process.env.ASAN_OPTIONS, ...asan].filter(Boolean).join(":") };

const ENTRY = /^{"op":"entry",.*?"id":"([0-9-]+)","prev":"([0-9-]+)"/;

/* Reads ids and prevs, and nothing else of an entry: all together they get 80,000 in a second. */
class Reader {
  ids = [];
  broken = null; /* the first thing that was wrong */
  #cursor = null;

  constructor(url) {
    this.socket = new WebSocket(url, ["roomd.v1"], {
      perMessageDeflate: false,
      skipUTF8Validation: true,
    });
    this.live = new Promise((done) => {
      this.socket.on("message", (data) => {
        const head = data.toString("latin1", 0, 160);
        const [, id, prev] = ENTRY.exec(head) ?? [];
        if (id !== undefined) this.#take(id, prev);
        else if (head.startsWith('{"op":"live"')) done((this.#cursor = JSON.parse(data).cursor));
      });
    });
    this.socket.on("close", (code) => (this.broken ??= `closed with ${code}`));
    this.socket.on("error", (error) => (this.broken ??= error.message));
  }

  #take(id, prev) {
    if (prev !== this.#cursor) this.broken ??= `${id} after ${prev}, but it was at ${this.#cursor}`;
    this.#cursor = id;
    this.ids.push(id);
  }
}

/* `count` publishes of 1 KB, PER_SECOND, in bursts. Gives their ids in order. */
async function publishAll(publisher, count, stop) {
  const acks = [];
  const began = performance.now();
  while (acks.length < count && !stop()) {
    const due = ((performance.now() - began) / 1000) * PER_SECOND;
    if (due < acks.length || publisher.underWay > 50 - BURST) {
      await sleep(2);
      continue;
    }
    for (let i = 0; i < BURST; i++) acks.push(publisher.publish(DATA));
  }
  const took = (performance.now() - began) / 1000;
  const all = await within(() => "all acks", Promise.all(acks), 30_000);
  return { ids: all.map((ack) => ack.id), perSecond: acks.length / took };
}

test("of 200 clients the 5 that don't read are shed, and the others miss nothing", async (t) => {
  const redis = await startRedis();
  const roomd = await startRoomd({ redis, env, binary });
  const url = `${roomd.wsUrl}?room=lobby`;
  const readers = Array.from({ length: READERS }, () => new Reader(url));
  await within(() => "all are live", Promise.all(readers.map((reader) => reader.live)), 30_000);

  /* Some stop reading, and read on once they have been closed; some never do. */
  const late = Array.from({ length: SLOW_THAT_COME_BACK }, () => new Reader(url));
  await Promise.all(late.map((reader) => reader.live));
  for (const { socket } of late) socket.pause();
  const dead = [];
  for (let i = 0; i < DEAD; i++) {
    const raw = await Raw.connect(roomd.port);
    assert.equal((await raw.upgrade({ path: "/v1/ws?room=lobby" })).status, 101);
    await raw.next("live");
    raw.socket.pause();
    dead.push(raw);
  }
  assert.equal(await roomd.metric("members"), READERS + SLOW_THAT_COME_BACK + DEAD);

  const before = roomd.rssBytes();
  let most = before;
  const sample = setInterval(() => (most = Math.max(most, roomd.rssBytes())), 50);
  let over = false;
  t.after(() => {
    clearInterval(sample);
    over = true;
  });
  const publisher = new Publisher(roomd.wsUrl, "lobby");
  const watch = async () => {
    await until(
      "the five are closed",
      async () => (await roomd.metric("slow_consumers_total")) === SLOW_THAT_COME_BACK + DEAD,
      30_000,
    );
    /* These two take the close frame that waits for them, behind what the kernel held. */
    const closes = late.map(({ socket }) => {
      return new Promise((done) => socket.once("close", (code, why) => done([code, String(why)])));
    });
    for (const { socket } of late) socket.resume();
    const told = await within(() => "they are told", Promise.all(closes));
    assert.deepEqual(told, [[4000, "slow consumer"], [4000, "slow consumer"]]);
    assert.equal(await roomd.metric("forced_closes_total"), 0);
    /* And these don't. */
    const cut = async () => (await roomd.metric("forced_closes_total")) === DEAD;
    await until("the dead are cut", cut);
    over = true;
  };
  const [{ ids, perSecond }] = await Promise.all([
    publishAll(publisher, 60 * PER_SECOND, () => over),
    watch(),
  ]);

  clearInterval(sample);

  const last = ids.at(-1);
  await until("the others have all", () => readers.every((each) => each.ids.at(-1) === last));
  for (const reader of readers) {
    assert.equal(reader.broken, null);
    assert.deepEqual(reader.ids, ids);
  }
  assert.equal(await roomd.metric("slow_consumers_total"), SLOW_THAT_COME_BACK + DEAD);
  assert.equal(await roomd.metric("members"), READERS);
  for (const raw of dead) {
    raw.socket.resume();
    await within(() => "a dead one's connection is over", raw.closed);
  }
  /* The mark is passed by the entry that fills the queue above it, and what the socket holds of the
   * chunk being written comes on top. */
  const marks = [...roomd.logs().matchAll(/slow consumer closed.* queued_bytes=(\d+)/g)];
  assert.ok(marks.length > 0, roomd.logs());
  for (const [line, bytes] of marks) {
    assert.ok(bytes > MIB && bytes <= MIB + CHUNK + 2 * JSON.stringify(DATA).length, line);
  }
  /* What the late ones did get before they were closed is the log from its beginning. */
  for (const { ids: got } of late) assert.deepEqual(got, ids.slice(0, got.length));

  t.diagnostic(`${ids.length} entries at ${perSecond.toFixed(0)}/s`);
  t.diagnostic(`memory grew by ${((most - before) / MIB).toFixed(1)} MiB`);
  assert.ok(most - before <= MAY_GROW, `grew by ${((most - before) / MIB).toFixed(1)} MiB`);

  for (const { socket } of readers) socket.terminate();
  publisher.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  await redis.stop();
});

test("a burst of more than the mark at once closes nobody who reads", async () => {
  const redis = await startRedis();
  const roomd = await startRoomd({ redis });
  const visitors = Array.from({ length: 5 }, () => new Visitor(roomd.wsUrl, ["lobby"]));
  for (const visitor of visitors) await visitor.live();

  const pad = JSON.stringify("x".repeat(60_000));
  const burst = Array.from({ length: 40 }, () => ["XADD", "room:lobby", "*", "data", pad]);
  await redis.pipe([["MULTI"], ...burst, ["EXEC"]]);
  const last = (await redis.log("lobby")).at(-1).id;
  for (const visitor of visitors) {
    await visitor.reaches("lobby", last);
    assert.equal(visitor.room("lobby").entries.length, 40);
  }
  assert.ok((await roomd.metric("bursts_total")) > 0);
  assert.equal(await roomd.metric("slow_consumers_total"), 0);
  assert.equal(await roomd.metric("connections_total"), visitors.length);
  for (const visitor of visitors) await visitor.leave();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  await redis.stop();
});
