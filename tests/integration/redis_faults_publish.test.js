/* redis_faults_publish.test.js - a publish meets a fault: it is in the log once or not at all, and
 * whoever published is told so, or finds out by asking again.
 */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { after, before, describe } from "node:test";
import { Client } from "../lib/clients.js";
import { CLEAN, Stage } from "../lib/faults.js";
import { tidyTest, whenOver } from "../lib/leftovers.js";
import { RedisProxy } from "../lib/redis_proxy.js";
import { startRedis, startRoomd, until } from "../lib/servers.js";
import { Publisher, Visitor, sleep } from "../lib/visitors.js";

const test = tidyTest(60_000);

/* Sends it until it is acknowledged. The ack. */
async function askAgain(client, frame) {
  for (;;) {
    client.send(frame);
    const answer = await client.next(undefined, { ref: frame.ref });
    if (answer.op === "ack") return answer;
    assert.equal(answer.code, 503, JSON.stringify(answer));
    await sleep(answer.retry_after_ms);
  }
}

/* How many bytes a publish sends to Redis and gets back. */
async function bytesOf(proxy, client, frame) {
  const before = { ...proxy.passed.append };
  await askAgain(client, frame());
  const { up, down } = proxy.passed.append;
  return { up: up - before.up, down: down - before.down };
}

/* `count` numbers from first to last, both among them. */
function spread(first, last, count) {
  const step = (last - first) / (count - 1);
  return Array.from({ length: count }, (_, n) => Math.round(first + n * step));
}

const WAYS = 5; /* one roomd each, because the pauses between its connections grow */

describe("a publish whose connection to Redis ends", () => {
  test("anywhere in the request or the answer, and is sent again, is in the log once", async (t) => {
    const redis = await startRedis();
    const room = "lobby";
    const frame = () => ({ op: "publish", room, type: "message", ref: randomUUID(), data: "hi" });
    const watcher = await startRoomd({ redis });
    const visitor = new Visitor(watcher.wsUrl, [room]);
    await visitor.live();

    let first = 0; /* attempts that had got into the log */
    let count = 0;
    const one = async (way) => {
      const proxy = await RedisProxy.open(redis.socketPath, join(redis.dir, `proxy-${way}.sock`));
      const roomd = await startRoomd({ redis: proxy.url });
      const client = await Client.open(roomd.wsUrl);
      await bytesOf(proxy, client, frame);
      const { up, down } = await bytesOf(proxy, client, frame);
      const places = [
        ...spread(1, up, 40).map((bytes) => ["up", bytes]),
        ...spread(0, down - 1, 15).map((bytes) => ["down", bytes]),
      ].filter((_, n) => n % WAYS === way);
      for (const [direction, bytes] of places) {
        const publish = frame();
        const cut = proxy.cutAfter("append", direction, bytes);
        client.send(publish);
        await cut;
        await until("roomd is ready", async () => (await fetch(`${roomd.url}/readyz`)).ok);
        const ack = await askAgain(client, publish);
        const log = (await redis.log(room)).filter((entry) => entry.ref === publish.ref);
        assert.deepEqual(log.map((entry) => entry.id), [ack.id], `${direction}, ${bytes} bytes`);
        /* What had got there in whole is there, and nothing else. */
        const whole = direction === "down" || bytes === up;
        assert.equal(ack.duplicate, whole, `${direction}, ${bytes} of ${up} bytes`);
        first += ack.duplicate;
        count++;
      }
      await client.close();
      assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
      proxy.close();
    };
    await Promise.all(Array.from({ length: WAYS }, (_, way) => one(way)));
    t.diagnostic(`${count} places, ${first} of them behind the append`);

    const log = await redis.log(room);
    assert.equal(log.length, count + 2 * WAYS);
    await visitor.reaches(room, log.at(-1).id);
    assert.deepEqual(visitor.room(room).ids, log.map((entry) => entry.id));
    await visitor.leave();
    assert.deepEqual(await watcher.stop(), CLEAN, watcher.logs());
    await redis.stop();
  });
});

describe("a publish", { concurrency: 4 }, () => {
  let stage;
  before(async () => (stage = await Stage.open({ redisArgs: ["--appendonly", "no"] })));
  after(() => stage.close());

  test("is not hurt by a Redis that forgets its scripts", async () => {
    const visitor = new Visitor(stage.roomd.wsUrl, ["flushed"]);
    await visitor.live();
    const publisher = new Publisher(stage.roomd.wsUrl, "flushed");
    const stop = stage.repeat(20, () => stage.command("SCRIPT", "FLUSH"));
    const acks = await publisher.paced(300, 300, (n) => n);
    await stop();
    assert.deepEqual(publisher.rejects, []);
    const log = await stage.redis.log("flushed");
    assert.deepEqual(log.map((entry) => entry.id).sort(), acks.map((ack) => ack.id).sort());
    await visitor.reaches("flushed", log.at(-1).id);
    publisher.close();
    await visitor.leave();
  });

  test("under a ref that was used is new again where the log is gone", async () => {
    const publisher = new Publisher(stage.roomd.wsUrl, "forgotten");
    const ref = randomUUID();
    const before = await publisher.publish(1, { ref });
    const keys = await stage.command("KEYS", "*forgotten*");
    assert.ok(keys.length >= 2, `the room and what is remembered: ${keys}`);
    await stage.command("DEL", ...keys);
    const after = await publisher.publish(1, { ref });
    assert.deepEqual([before.duplicate, after.duplicate], [false, false]);
    assert.deepEqual((await stage.redis.log("forgotten")).map((entry) => entry.id), [after.id]);
    publisher.close();
  });

  test("in a room whose key holds something else is refused, and nothing else is", async () => {
    const room = "taken";
    const [id] = await stage.add(room);
    const client = await Client.open(`${stage.roomd.wsUrl}?room=${room}`);
    await client.next("live");
    const other = new Publisher(stage.roomd.wsUrl, "not-taken");
    await stage.command("SET", `room:${room}`, "a text");
    const gone = await client.next("reject");
    assert.deepEqual([gone.op_ref, gone.room, gone.code], ["join", room, 500]);
    assert.equal(gone.retry_after_ms, undefined, "waiting is of no use");
    client.send({ op: "publish", room, type: "message", ref: "r", data: 1 });
    const refused = await client.next("reject");
    assert.deepEqual([refused.op_ref, refused.ref, refused.code], ["publish", "r", 500]);
    await other.publish(1);
    assert.equal((await stage.readyz()).status, 200);

    await stage.command("DEL", `room:${room}`);
    const [later] = await stage.add(room);
    await until("the room can be joined again", async () => {
      client.send({ op: "join", room, cursor: id });
      return (await client.next()).op !== "reject";
    });
    assert.equal((await client.next("entry")).id, later);
    client.send({ op: "publish", room, type: "message", ref: "r", data: 1 });
    assert.equal((await client.next("ack")).duplicate, false);
    await client.close();
    other.close();
  });
});
