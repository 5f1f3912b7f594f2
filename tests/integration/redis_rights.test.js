/* redis_rights.test.js - are the rights that README asks for enough? */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "../lib/clients.js";
import { tidyTest } from "../lib/leftovers.js";
import { freePort, repoRoot, startRedis, startRoomd, until } from "../lib/servers.js";

const test = tidyTest(60_000);
const readme = readFileSync(join(repoRoot, "README.md"), "utf8");
const BASE = /^ACL SETUSER roomd (.*?)\n```/ms.exec(readme)[1].trim().split(/\s+/);
const LIVE = ["tracking", "keyspace", "poll", "xread", "pubsub"];

/* What README names for this besides. */
function rightsFor(what) {
  const line = new RegExp(`\`?${what}\`?: (?:a user of the sentinels )?\`([^\`]+)\``).exec(readme);
  return line[1].split(/\s+/);
}

/* What Redis denied anybody. */
async function denials(redis) {
  const log = JSON.parse(await redis.cli("--json", "ACL", "LOG"));
  return log.map(({ reason, object }) => `${reason} ${object}`);
}

async function restricted(live) {
  const port = await freePort();
  const events = ["--notify-keyspace-events", "Kgxet"];
  const redis = await startRedis({ args: ["--port", String(port), ...events] });
  const rights = [...BASE, ...rightsFor("--retention-age"), ...rightsFor("that isn't 0")];
  if (live !== "poll") rights.push(...rightsFor(live));
  const here = rights.map((right) => right.replace("keyspace@0", "keyspace@1"));
  await redis.cli("ACL", "SETUSER", "roomd", ...here);
  return { redis, url: `redis://roomd:password@127.0.0.1:${port}/1` };
}

for (const live of LIVE) {
  test(`the rights in README are enough for ${live}`, async () => {
    const { redis, url } = await restricted(live);
    const args = ["--redis-live", live, "--retention-age", "1m"];
    const roomd = await startRoomd({ redis: url, args });
    const client = await Client.open(roomd.wsUrl);
    client.send({ op: "join", room: "lobby", state: true });
    await client.next("live");
    for (const [ref, data] of [["a", 1], ["a", 1], ["b", null]]) {
      client.send({ op: "publish", room: "lobby", type: "move", ref, key: "k", data });
      assert.equal((await client.next("ack")).ref, ref);
    }
    await redis.cli("-n", "1", "XADD", "room:lobby", "*", "data", '"by hand"');
    await until("all came", async () => (await roomd.metric("entries_live_total")) === 3, 20_000);
    await until("idle rooms were looked through", () => roomd.metric("sweeps_total"), 20_000);
    client.send({ op: "join", room: "lobby", state: true });
    assert.deepEqual((await client.next("snapshot")).entries, []);
    assert.deepEqual(await denials(redis), []);
    assert.doesNotMatch(roomd.logs(), /refused|denied|NOPERM/);
    await client.close();
    assert.deepEqual(await roomd.stop(), { code: 0, signal: null }, roomd.logs());
    await redis.stop();
  });
}
