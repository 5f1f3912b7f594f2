/* snapshot.test.js - a room's state by key, to whoever joins with it: the same on both logs. */
import assert from "node:assert/strict";
import WebSocket from "ws";
import { connect } from "../../client/roomd.js";
import { Client } from "../lib/clients.js";
import { tidyTest } from "../lib/leftovers.js";
import { startRedis, startRoomd, until } from "../lib/servers.js";
import { Publisher } from "../lib/visitors.js";

const test = tidyTest(120_000);
const CLEAN = { code: 0, signal: null };
const KIB = 1024;
const KEEP = 5; /* entries, in the log that is trimmed */

/* The same on a roomd with each log. trim() leaves the newest KEEP: the log in the process has cut
 * the others already. */
function testOnEachLog(name, args, body) {
  test(`${name} (in the process)`, async () => {
    const roomd = await startRoomd({ args });
    await body({ roomd, trim: async () => {} });
    assert.deepEqual(await roomd.stop(), CLEAN);
  });
  test(`${name} (on Redis)`, async () => {
    const redis = await startRedis();
    const roomd = await startRoomd({ redis, args });
    await body({ roomd, redis, trim: () => redis.cli("XTRIM", "room:board", "MAXLEN", `${KEEP}`) });
    assert.deepEqual(await roomd.stop(), CLEAN);
    await redis.stop();
  });
}

/* Publishes [data, key] one after the other, with no key where there is none. Returns their ids. */
async function publish(roomd, ...entries) {
  const publisher = new Publisher(roomd.wsUrl, "board");
  const ids = [];
  for (const [data, key] of entries) ids.push((await publisher.publish(data, { key })).id);
  publisher.close();
  return ids;
}

/* All that comes of the room from a join to `live`. */
async function join(roomd, fields, query = "") {
  const client = await Client.open(roomd.wsUrl + query);
  await client.next("welcome");
  if (!query) client.send({ op: "join", room: "board", ...fields });
  const frames = [];
  do frames.push(await client.next());
  while (frames.at(-1).op !== "live");
  await client.close();
  return frames;
}

const ops = (frames) => frames.map(({ op }) => op);
const ids = (frames) => frames.filter(({ op }) => op === "entry").map(({ id }) => id);
const item = (id, key, data) => ({ id, type: "message", key, data });
const snapshot = (id, ...entries) => ({ op: "snapshot", room: "board", id, entries });

testOnEachLog("a fresh start is the snapshot and what came after it", [], async ({ roomd }) => {
  const published = await publish(roomd, [1, "a"], [2, "b"], [3, "a"], [4, "c"], [null, "c"], [5]);
  const [, b, a, , gone, plain] = published;
  for (const frames of [
    await join(roomd, { state: true }),
    await join(roomd, { state: true, cursor: "$" }),
    await join(roomd, {}, "?room=board&state=1"),
  ]) {
    assert.deepEqual(ops(frames), ["joined", "snapshot", "entry", "live"]);
    assert.equal(frames[0].from, null);
    assert.deepEqual(frames[1], snapshot(gone, item(b, "b", 2), item(a, "a", 3)));
    assert.deepEqual([frames[2].id, frames[2].prev], [plain, gone]);
  }
  assert.deepEqual(ids(await join(roomd, {})), published);
});

testOnEachLog("a cursor that holds gets no snapshot", [], async ({ roomd }) => {
  const [first, second] = await publish(roomd, [1, "a"], [2, "b"]);
  const frames = await join(roomd, { state: true, cursor: first });
  assert.deepEqual(ops(frames), ["joined", "entry", "live"]);
  assert.equal(frames[1].id, second);
});

testOnEachLog(
  "a cursor that doesn't hold is a resync and the snapshot",
  ["--retention-entries", `${KEEP}`, "--ring-entries", "0"],
  async ({ roomd, trim }) => {
    const [first, b] = await publish(roomd, [0, "a"], [1, "b"]);
    const history = Array.from({ length: 20 }, (_, n) => [n, "a"]);
    const published = await publish(roomd, ...history, ["one more"]);
    await trim();
    const [a, plain] = published.slice(-2);

    const exact = await join(roomd, { state: true, cursor: first });
    assert.deepEqual(ops(exact), ["resync", "snapshot", "entry", "live"]);
    assert.equal(exact[0].reason, "trimmed");
    assert.deepEqual(exact[1], snapshot(a, item(b, "b", 1), item(a, "a", 19)));
    assert.equal(exact[2].id, plain);

    const bounded = await join(roomd, { state: true, cursor: first, last: 2 });
    assert.deepEqual(bounded[1], snapshot(null, item(b, "b", 1), item(a, "a", 19)));
    assert.deepEqual(ids(bounded), [a, plain]);

    const without = await join(roomd, { cursor: first });
    assert.equal(without[0].op, "resync");
    assert.deepEqual(ids(without), published.slice(-KEEP));
  },
);

testOnEachLog(
  "a state whose place was cut comes before what is retained",
  ["--retention-entries", `${KEEP}`, "--ring-entries", "0"],
  async ({ roomd, trim }) => {
    const [a] = await publish(roomd, [1, "a"]);
    const plain = await publish(roomd, ...Array.from({ length: 20 }, (_, n) => [n]));
    await trim();
    const frames = await join(roomd, { state: true });
    assert.deepEqual(frames[1], snapshot(null, item(a, "a", 1)));
    assert.deepEqual(ids(frames), plain.slice(-KEEP));
  },
);

testOnEachLog("a room without a state says so", [], async ({ roomd }) => {
  const [id] = await publish(roomd, [1]);
  const frames = await join(roomd, { state: true });
  assert.deepEqual(ops(frames), ["joined", "snapshot", "entry", "live"]);
  assert.deepEqual(frames[1], snapshot(null));
  assert.equal(frames[2].id, id);
});

/* Three times what may wait for a client. */
testOnEachLog(
  "a large state comes in frames below the limit, and closes nobody",
  ["--high-water", "1MiB"],
  async ({ roomd }) => {
    const value = (n) => `${n}`.repeat(50 * KIB).slice(0, 50 * KIB);
    const keys = Array.from({ length: 60 }, (_, n) => [value(n), `key ${n}`]);
    const published = await publish(roomd, ...keys);
    const client = await Client.open(roomd.wsUrl);
    const { max_frame_bytes: max } = await client.next("welcome");
    const lengths = [];
    client.socket.on("message", (data) => lengths.push(data.length));
    client.socket.pause();
    client.send({ op: "join", room: "board", state: true });
    await until("the snapshot was sent", async () => (await roomd.metric("snapshots_total")) === 1);
    await publish(roomd, ["after it"]);
    client.socket.resume();

    const frames = [];
    do frames.push(await client.next());
    while (frames.at(-1).op !== "live");
    const pieces = frames.filter(({ op }) => op === "snapshot");
    const entries = pieces.flatMap((piece) => piece.entries);
    assert.deepEqual(
      entries.map(({ id, key, data }) => [id, key, data]),
      keys.map(([data, key], n) => [published[n], key, data]),
    );
    assert.equal(pieces.length, 60);
    assert.deepEqual(
      pieces.map(({ id, more }) => [id, more]),
      pieces.map((_, n) => [published.at(-1), n < 59 ? true : undefined]),
    );
    assert.ok(Math.max(...lengths) <= max);
    assert.equal(await roomd.metric("slow_consumers_total"), 0);
    await client.close();
  },
);

test("the state of a log that somebody deleted is none of the new log's", async () => {
  const redis = await startRedis();
  const roomd = await startRoomd({ redis });
  await publish(roomd, [1, "a"], [2, "b"]);
  await redis.cli("DEL", "room:board");
  assert.deepEqual((await join(roomd, { state: true }))[1], snapshot(null));
  const [id] = await publish(roomd, [3, "c"]);
  assert.deepEqual((await join(roomd, { state: true }))[1], snapshot(id, item(id, "c", 3)));
  assert.deepEqual(await roomd.stop(), CLEAN);
  await redis.stop();
});

/* Folds as the client's README says. */
function boardOf(room) {
  const board = { cards: new Map(), snapshots: 0, resyncs: 0 };
  const put = ({ id, key, data }) => {
    if (key === undefined) return;
    if (data === null) board.cards.delete(key);
    else board.cards.set(key, { id, data });
  };
  room.on("snapshot", ({ entries }) => {
    board.snapshots++;
    board.cards.clear();
    entries.forEach(put);
  });
  room.on("entry", put);
  room.on("resync", () => board.resyncs++);
  return board;
}

testOnEachLog(
  "the browser's client has the state of a board, whatever it missed",
  ["--retention-entries", `${KEEP}`, "--ring-entries", "0"],
  async ({ roomd, trim }) => {
    const sockets = [];
    const openSocket = (url, protocols) => {
      sockets.push(new WebSocket(url, protocols));
      return sockets.at(-1);
    };
    let online = true;
    const client = connect(roomd.wsUrl, {
      openSocket: (...how) => openSocket(...(online ? how : ["ws://127.0.0.1:1/", how[1]])),
      backoffBaseMs: 50,
      network: null,
    });
    await publish(roomd, [1, "a"], [1, "b"], [1, "c"]);
    const room = client.join("board", { state: true });
    const board = boardOf(room);
    const cards = () => Object.fromEntries([...board.cards].map(([key, { data }]) => [key, data]));
    await until("live", async () => room.state === "live");
    assert.deepEqual(cards(), { a: 1, b: 1, c: 1 });

    await room.publish("message", 2, { key: "a" });
    await until("its own entry", async () => board.cards.get("a").data === 2);
    online = false;
    sockets.at(-1).terminate();
    await publish(roomd, [null, "b"], ...Array.from({ length: 20 }, (_, n) => [n, "d"]), ["plain"]);
    await trim();
    online = true;
    client.check();
    await until("live again", async () => room.state === "live" && board.resyncs === 1);
    assert.deepEqual(cards(), { a: 2, c: 1, d: 19 });
    assert.equal(board.snapshots, 2);
    client.close();
  },
);
