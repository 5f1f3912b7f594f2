/* flap.test.js - sockets are cut again and again while much is published: all end with the log. */
import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { tidyTest } from "../lib/leftovers.js";
import { randomFrom } from "../lib/random.js";
import { startRedis, startRoomd } from "../lib/servers.js";
import { Publisher, Visitor, sleep } from "../lib/visitors.js";

const test = tidyTest(60_000);
const CLEAN = { code: 0, signal: null };
const CLIENTS = 20;
const CUTS = 60;
const EARLIER = 100; /* published before anybody comes */
const PUBLISHES = 2000;
const PER_SECOND = 400;
const SECONDS = PUBLISHES / PER_SECOND;

/* logOf: the log's [{ id, data }, ...] once all is published, as somebody else sees it. */
async function flap(t, redis, logOf) {
  const seed = Number(process.env.ROOMD_SEED ?? randomInt(2 ** 31));
  t.diagnostic(`ROOMD_SEED=${seed}`);
  const random = randomFrom(seed);
  const roomd = await startRoomd({ redis });
  const publisher = new Publisher(roomd.wsUrl, "lobby");
  await publisher.paced(EARLIER, 5000, (n) => n);

  /* Half of them join by the URL; each stays away for another while every time. */
  const visitors = Array.from({ length: CLIENTS }, (_, i) => {
    const backMs = () => random() * 150;
    return new Visitor(roomd.wsUrl, ["lobby"], { backMs, viaUrl: i % 2 === 0 });
  });
  const cuts = (async () => {
    for (let i = 0; i < CUTS; i++) {
      await sleep(random() * 2 * ((SECONDS * 1000) / CUTS));
      visitors[Math.floor(random() * CLIENTS)].cut();
      if (i % 6 === 0) publisher.cut();
    }
  })();
  const acks = await publisher.paced(PUBLISHES, PER_SECOND, (n) => EARLIER + n);
  await cuts;

  const log = await logOf(roomd);
  const last = log.at(-1).id;
  for (const visitor of visitors) {
    await visitor.reaches("lobby", last);
    await visitor.live();
    const { entries, resyncs } = visitor.room("lobby");
    assert.deepEqual(resyncs, []);
    assert.deepEqual(entries.map(({ id, data }) => ({ id, data })), log);
  }
  /* The publisher was cut, too, and has published all once. */
  const numbers = log.map((entry) => entry.data).sort((a, b) => a - b);
  assert.deepEqual(numbers, Array.from({ length: EARLIER + PUBLISHES }, (_, n) => n));
  const byId = new Map(log.map((entry) => [entry.id, entry.data]));
  for (const [n, ack] of acks.entries()) assert.equal(byId.get(ack.id), EARLIER + n);

  const sockets = visitors.reduce((sum, visitor) => sum + visitor.sockets, 0);
  t.diagnostic(`${sockets - CLIENTS} sockets were opened again`);
  assert.ok(sockets > CLIENTS + CUTS / 2, "they were cut");
  assert.equal(await roomd.metric("chain_breaks_total"), 0);
  for (const visitor of visitors) await visitor.leave();
  publisher.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
}

test("20 clients that are cut 60 times end with exactly what is in Redis", async (t) => {
  const redis = await startRedis();
  await flap(t, redis, async () => {
    const log = await redis.log("lobby");
    return log.map(({ id, data }) => ({ id, data: Number(data) }));
  });
  await redis.stop();
});

test("20 clients that are cut 60 times end with exactly what the process's log has", async (t) => {
  await flap(t, undefined, async (roomd) => {
    const visitor = new Visitor(roomd.wsUrl, ["lobby"]);
    await visitor.live();
    await visitor.leave();
    return visitor.room("lobby").entries.map(({ id, data }) => ({ id, data }));
  });
});
