/* redis_away.test.js - Redis is late, stalls, dies or drops its connections: delay, never loss. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { Client } from "../lib/clients.js";
import { tidyTest } from "../lib/leftovers.js";
import { startRedis, startRoomd, tmpDir, until } from "../lib/servers.js";
import { Publisher, Visitor, sleep } from "../lib/visitors.js";

const test = tidyTest(60_000);
const CLEAN = { code: 0, signal: null };
const PERSISTENT = ["--appendonly", "yes"];
/* Short, so that a stall of a second is more than roomd waits for. */
const IMPATIENT = ["--redis-command-timeout", "500ms", "--redis-connect-timeout", "500ms"];

const readyz = async (roomd) => (await fetch(`${roomd.url}/readyz`)).status;
const isReady = (roomd) => until("it is ready", async () => (await readyz(roomd)) === 200);
const isUnready = (roomd) => until("it is unready", async () => (await readyz(roomd)) === 503);

/* Some who are live, and `count` publishes at `perSecond`, while `disturb(redis)` does its worst;
 * it may give another Redis back. Everybody ends with the log, and that has each publish once. */
async function nothingIsLost({ redisArgs = [], args = [], count, perSecond, disturb }) {
  const dir = tmpDir();
  let redis = await startRedis({ dir, args: redisArgs });
  const roomd = await startRoomd({ redis, args });
  const visitors = Array.from({ length: 5 }, () => new Visitor(roomd.wsUrl, ["lobby"]));
  for (const visitor of visitors) await visitor.live();
  const publisher = new Publisher(roomd.wsUrl, "lobby");
  const [acks, after] = await Promise.all([
    publisher.paced(count, perSecond, (n) => n),
    disturb({ redis, roomd, dir, publisher }),
  ]);
  redis = after ?? redis;
  await isReady(roomd);

  const log = await redis.log("lobby");
  const numbers = log.map((entry) => Number(entry.data)).sort((a, b) => a - b);
  assert.deepEqual(numbers, Array.from({ length: count }, (_, n) => n), "each is there once");
  const byRef = new Map(log.map((entry) => [entry.ref, entry.id]));
  for (const ack of acks) assert.equal(ack.id, byRef.get(ack.ref), "the ack told the truth");
  for (const visitor of visitors) {
    await visitor.reaches("lobby", log.at(-1).id);
    assert.deepEqual(visitor.room("lobby").ids, log.map((entry) => entry.id));
    assert.deepEqual(visitor.room("lobby").resyncs, []);
    assert.equal(visitor.sockets, 1, "nobody's socket ended");
    await visitor.leave();
  }
  publisher.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  await redis.stop();
  return { publisher, acks };
}

test("without Redis at first it says so, keeps its sockets, and works later", async () => {
  const dir = tmpDir();
  const roomd = await startRoomd({
    redis: `unix://${join(dir, "redis.sock")}?db=0`,
    args: ["--join-timeout", "300ms"],
    ready: "/healthz",
  });
  const response = await fetch(`${roomd.url}/readyz`);
  assert.equal(response.status, 503);
  assert.notEqual((await response.text()).trim(), "");
  assert.equal(await roomd.metric("log_ready"), 0);

  const client = await Client.open(roomd.wsUrl);
  client.send({ op: "join", room: "lobby" });
  client.send({ op: "publish", room: "lobby", type: "message", ref: "r", data: 1 });
  const [first, second] = [await client.next("reject"), await client.next("reject")];
  const [publish, joining] = first.op_ref === "publish" ? [first, second] : [second, first];
  assert.deepEqual([publish.op_ref, publish.ref, publish.code], ["publish", "r", 503]);
  assert.deepEqual([joining.op_ref, joining.room, joining.code], ["join", "lobby", 503]);
  for (const { retry_after_ms } of [publish, joining]) {
    assert.ok(retry_after_ms >= 100 && retry_after_ms <= 10_000, String(retry_after_ms));
  }
  client.send({ op: "ping" });
  await client.next("pong");

  const visitor = new Visitor(roomd.wsUrl, ["lobby"]);
  const publisher = new Publisher(roomd.wsUrl, "lobby");
  const acked = publisher.publish(2);
  await until("it was refused", () => publisher.rejects.length > 0);
  const redis = await startRedis({ dir });
  const { id } = await acked;
  await visitor.reaches("lobby", id);
  await visitor.live();
  assert.equal(await readyz(roomd), 200);
  assert.equal(visitor.sockets, 1);
  client.send({ op: "join", room: "lobby" });
  assert.equal((await client.next("entry")).id, id);

  await client.close();
  await visitor.leave();
  publisher.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  await redis.stop();
});

test("it says which sentinel is not there", async () => {
  const roomd = await startRoomd({ redis: "redis+sentinel://127.0.0.1:1/main", ready: "/healthz" });
  await until("it is said", () => /sentinel 127\.0\.0\.1:1: Connection refused/.test(roomd.logs()));
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
});

test("a start is no outage, and replicas that are missing are said once", async () => {
  const redis = await startRedis({ dir: tmpDir() });
  const args = ["--publish-ack", "replica", "--publish-ack-timeout", "50ms"];
  const roomd = await startRoomd({ redis, args: [...args, "--redis-live", "poll"] });
  assert.doesNotMatch(roomd.logs(), /not reachable/);

  const client = await Client.open(roomd.wsUrl);
  for (const ref of ["r1", "r2", "r3"]) {
    client.send({ op: "publish", room: "lobby", type: "message", ref, data: 1 });
    await until("it is counted", async () =>
      (await roomd.metric("publishes_not_durable_total")) >= Number(ref[1]));
  }
  assert.equal(roomd.logs().match(/publishes get no ack/g).length, 1);
  await client.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  await redis.stop();
});

test("what keeps Redis away is said, not only how it went", async () => {
  const redis = await startRedis({ dir: tmpDir() });
  const roomd = await startRoomd({ redis });
  await redis.cli("CONFIG", "SET", "requirepass", "secret");
  const now = ["--no-auth-warning", "-a", "secret"];
  await redis.cli(...now, "CLIENT", "KILL", "TYPE", "pubsub");
  await redis.cli(...now, "CLIENT", "KILL", "TYPE", "normal");
  const said = () => roomd.logs().match(/not reachable.*/g) ?? [];
  await until("the reason", () => said().some((line) => line.includes("NOAUTH")), 30_000);
  assert.ok(said().length <= 3, roomd.logs());
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  await redis.stop();
});

test("while Redis stalls for less than roomd waits nobody notices more than a delay", async () => {
  const { acks } = await nothingIsLost({
    count: 400,
    perSecond: 200,
    disturb: async ({ redis, roomd }) => {
      for (let i = 0; i < 4; i++) {
        process.kill(redis.pid, "SIGSTOP");
        await sleep(300);
        process.kill(redis.pid, "SIGCONT");
        await sleep(100);
      }
      assert.equal(await roomd.metric("log_timeouts_total"), 0);
    },
  });
  assert.ok(acks.every((ack) => !ack.duplicate), "nothing had to be sent again");
});

test("a Redis that stalls is given up, and taken back when it goes on", async () => {
  const { publisher } = await nothingIsLost({
    args: IMPATIENT,
    count: 400,
    perSecond: 100,
    disturb: async ({ redis, roomd }) => {
      for (let i = 0; i < 2; i++) {
        process.kill(redis.pid, "SIGSTOP");
        await isUnready(roomd);
        await sleep(500);
        process.kill(redis.pid, "SIGCONT");
        await isReady(roomd);
      }
      assert.ok((await roomd.metric("log_timeouts_total")) > 0);
    },
  });
  assert.ok(publisher.sent > 400, "some had to be sent again");
});

test("a Redis that is killed and comes back with its data has lost nothing", async () => {
  const { publisher } = await nothingIsLost({
    redisArgs: PERSISTENT,
    args: ["--publish-wait", "0"], /* or most would just wait until it is back */
    count: 600,
    perSecond: 150,
    disturb: async ({ redis: first, roomd, dir, publisher }) => {
      let redis = first;
      for (let i = 0; i < 3; i++) {
        const { sent } = publisher;
        await until("some were published", () => publisher.sent > sent + 20);
        await redis.stop("SIGKILL");
        await isUnready(roomd);
        redis = await startRedis({ dir, args: PERSISTENT });
        await isReady(roomd);
      }
      return redis;
    },
  });
  assert.ok(publisher.sent > 600, "some had to be sent again");
});

test("connections to Redis may be killed at any time", async () => {
  await nothingIsLost({
    count: 500,
    perSecond: 250,
    disturb: async ({ redis, roomd, publisher }) => {
      let killed = 0;
      await until("it has begun", () => publisher.sent > 0);
      for (let i = 0; i < 24; i++) {
        killed += Number(await redis.cli("CLIENT", "KILL", "TYPE", i % 2 ? "normal" : "pubsub"));
        await sleep(20 + 20 * (i % 5));
      }
      assert.ok(killed > 10, `${killed} killed`);
      assert.ok((await roomd.metric("log_reconnects_total")) >= 5);
    },
  });
});

test("what others add while roomd's connections are killed comes all the same", async () => {
  const redis = await startRedis();
  const roomd = await startRoomd({ redis });
  const visitor = new Visitor(roomd.wsUrl, ["lobby", "hall"]);
  await visitor.live();
  const kills = (async () => {
    for (let i = 0; i < 20; i++) {
      await redis.cli("CLIENT", "KILL", "TYPE", i % 2 ? "normal" : "pubsub");
      await sleep(30);
    }
  })();
  for (let n = 0; n < 50; n++) {
    const command = (_, i) => ["XADD", `room:${i % 3 ? "lobby" : "hall"}`, "*", "data", n * 10 + i];
    /* This connection may be killed, too; what the log has is what counts. */
    await redis.pipe(Array.from({ length: 10 }, command)).catch(() => {});
  }
  await kills;
  for (const room of ["lobby", "hall"]) {
    const log = await redis.log(room);
    assert.ok(log.length >= 100, `${log.length} entries`);
    await visitor.reaches(room, log.at(-1).id);
    assert.deepEqual(visitor.room(room).ids, log.map((entry) => entry.id));
    assert.deepEqual(visitor.room(room).resyncs, []);
  }
  await visitor.leave();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  await redis.stop();
});

test("a Redis that comes back without its data is a fresh start for everybody", async () => {
  const dir = tmpDir();
  const first = await startRedis({ dir });
  const roomd = await startRoomd({ redis: first });
  const publisher = new Publisher(roomd.wsUrl, "lobby");
  await publisher.paced(20, 1000, (n) => n);
  const visitors = [new Visitor(roomd.wsUrl, ["lobby"]), new Visitor(roomd.wsUrl, ["lobby"])];
  for (const visitor of visitors) await visitor.live();
  await visitors[1].away();
  await first.stop("SIGKILL");
  const redis = await startRedis({ dir });
  await isReady(roomd);
  const acks = await publisher.paced(5, 1000, (n) => n);
  visitors[1].back();
  for (const visitor of visitors) {
    await visitor.reaches("lobby", acks.at(-1).id);
    await visitor.live();
    assert.equal(visitor.room("lobby").resyncs.length, 1);
    assert.deepEqual(visitor.room("lobby").ids, acks.map((ack) => ack.id));
    await visitor.leave();
  }
  publisher.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  await redis.stop();
});

test("a Redis that is full refuses publishes for now, and everybody still reads", async () => {
  const redis = await startRedis();
  const roomd = await startRoomd({ redis });
  const publisher = new Publisher(roomd.wsUrl, "lobby");
  const { id } = await publisher.publish(1);
  await redis.cli("CONFIG", "SET", "maxmemory", "1mb");
  const client = await Client.open(`${roomd.wsUrl}?room=lobby`);
  assert.equal((await client.next("entry")).id, id);
  await client.next("live");
  client.send({ op: "publish", room: "lobby", type: "message", ref: "r", data: 2 });
  const reject = await client.next("reject");
  assert.deepEqual([reject.op_ref, reject.ref, reject.code], ["publish", "r", 507]);
  assert.ok(reject.retry_after_ms > 0);
  await redis.cli("CONFIG", "SET", "maxmemory", "0");
  client.send({ op: "publish", room: "lobby", type: "message", ref: "r", data: 2 });
  assert.equal((await client.next("ack")).duplicate, false);
  assert.equal((await client.next("entry")).data, 2);
  await client.close();
  publisher.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  await redis.stop();
});
