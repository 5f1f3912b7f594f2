/* redis_faults_data.test.js - Redis loses data, all of it or the newest: everybody is told, and goes
 * on with what there is, even where its ids are smaller.
 */
import assert from "node:assert/strict";
import { renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe } from "node:test";
import { IMPATIENT, Stage } from "../lib/faults.js";
import { tidyTest } from "../lib/leftovers.js";
import { loss } from "../lib/losses.js";
import { freePort, startRedis, until } from "../lib/servers.js";

const test = tidyTest(60_000);

const add = (stage, key, ids) =>
  Promise.all(ids.map((id) => stage.command("XADD", key, id, "data", "1")));

const isGone = (stage, key) =>
  until("it is gone", async () => (await stage.command("EXISTS", key)) === 0);

/* What roomd connects to: it leads to one Redis, and then to another. */
const front = (stage) => join(stage.dir, "front.sock");

function leadTo(stage, redis) {
  symlinkSync(redis.socketPath, `${front(stage)}.new`);
  renameSync(`${front(stage)}.new`, front(stage));
}

async function restart(stage) {
  await stage.kill();
  await stage.startRedis();
}

/* While roomd notices nothing. */
async function unseen(stage, run) {
  process.kill(stage.roomd.pid, "SIGSTOP");
  await run();
  process.kill(stage.roomd.pid, "SIGCONT");
}

async function failOver(stage) {
  const master = stage.redis;
  await master.stop("SIGKILL");
  await stage.follow(stage.replica);
  leadTo(stage, stage.replica);
}

const ALL_GONE = {
  told: ["reset", null],
  now: { "110-0": "reset", "105-0": "reset" },
  later: { "110-0": "trimmed", "105-0": "trimmed" },
};
const NOTHING_GONE = { told: [null, null], now: { "110-0": null, "105-0": null } };
/* 111-0 to 113-0 are lost, and nothing came in their place: what comes then has a smaller id. */
const TAIL_GONE = {
  tail: ["111-0", "112-0", "113-0"],
  more: ["112-5", "112-6"],
  told: ["ahead", null],
  now: { "113-0": "ahead", "111-0": "ahead", "110-0": null, "105-0": null },
  later: { "113-0": "ahead", "111-0": "diverged", "110-0": null, "105-0": null },
};
/* The same, and others had been added by the time roomd came to know. */
const TAIL_REPLACED = {
  tail: ["111-0", "112-0", "113-0"],
  more: ["201-0"],
  told: ["diverged", null],
  now: { "113-0": "diverged", "111-0": "diverged", "110-0": null, "105-0": null },
};
const NEW_TAIL = ["112-5", "200-0"];

/* A replica that stopped hearing its master before the tail was written. */
const FAILOVER = {
  async reach(stage) {
    leadTo(stage, stage.redis);
    return `unix://${front(stage)}`;
  },
  async prepare(stage) {
    stage.replica = await stage.startReplica();
    await stage.replica.cli("REPLICAOF", "NO", "ONE");
  },
};

const faults = {
  "restarted without its data": { ruin: restart, ...ALL_GONE },
  "restarted with an older dump": {
    prepare: (stage) => stage.command("SAVE"),
    ruin: restart,
    ...TAIL_GONE,
  },
  "restarted with an older dump, and written to at once": {
    prepare: (stage) => stage.command("SAVE"),
    ruin: (stage, key) =>
      unseen(stage, async () => {
        await restart(stage);
        await add(stage, key, NEW_TAIL);
      }),
    ...TAIL_REPLACED,
  },
  "replaced by a replica that has all": {
    ...FAILOVER,
    async prepare(stage) {
      stage.replica = await stage.startReplica();
    },
    async ruin(stage) {
      await stage.replica.cli("REPLICAOF", "NO", "ONE");
      await failOver(stage);
    },
    ...NOTHING_GONE,
  },
  "replaced by a replica that lacks the newest": { ...FAILOVER, ruin: failOver, ...TAIL_GONE },
  "replaced by a replica that lacks the newest, and has others": {
    ...FAILOVER,
    async ruin(stage, key) {
      for (const id of NEW_TAIL) await stage.replica.cli("XADD", key, id, "data", "1");
      await failOver(stage);
    },
    ...TAIL_REPLACED,
  },
  "replaced by a replica that takes over its port": {
    ...FAILOVER,
    reach: (stage) => `redis://127.0.0.1:${stage.port}`,
    async ruin(stage) {
      await stage.kill();
      await stage.follow(stage.replica);
      await stage.config("port", stage.port);
    },
    ...TAIL_GONE,
  },
  "made a replica of a master with other data": {
    async ruin(stage, key) {
      const port = await freePort();
      const other = await startRedis({ args: ["--port", port] });
      await other.cli("XADD", key, "5-0", "data", "1");
      await other.cli("XADD", key, "200-0", "data", "1");
      await stage.command("REPLICAOF", "127.0.0.1", port);
      await until("it has the other's data", async () => {
        return (await stage.command("XLEN", key).catch(() => 0)) === 2;
      });
      await stage.command("REPLICAOF", "NO", "ONE");
      await other.stop();
    },
    more: ["201-0"],
    told: ["diverged", null],
    now: { "110-0": "diverged", "105-0": "diverged", "5-0": null },
  },
  "made to reload its data": {
    redisArgs: ["--enable-debug-command", "yes"],
    ruin: (stage) => stage.command("DEBUG", "RELOAD"),
    ...NOTHING_GONE,
  },
  "full, and evicts rooms": {
    async ruin(stage) {
      await stage.config("maxmemory-policy", "allkeys-random");
      await stage.config("maxmemory", "100kb");
    },
    async done(stage, key) {
      await isGone(stage, key);
      await stage.config("maxmemory", "0");
    },
    ...ALL_GONE,
  },
  "given another database by SWAPDB": {
    /* No bell of any kind rings for that. Here every room is read once in ten seconds all the same. */
    args: ["--redis-live", "keyspace"],
    ruin: (stage) => stage.command("SWAPDB", 0, 1),
    ...ALL_GONE,
  },
  "given another database by SWAPDB, with other data": {
    async prepare(stage, key) {
      await stage.command("SELECT", 1);
      await add(stage, key, ["5-0", "200-0"]);
      await stage.command("SELECT", 0);
    },
    async ruin(stage, key) {
      await stage.command("SWAPDB", 0, 1); /* no bell rings for that, but for */
      await add(stage, key, ["201-0"]);
    },
    more: ["202-0"],
    told: ["diverged", null],
    now: { "110-0": "diverged", "5-0": null },
  },
};
for (const command of ["FLUSHALL SYNC", "FLUSHALL ASYNC", "FLUSHDB SYNC", "FLUSHDB ASYNC"]) {
  faults[`emptied by ${command}`] = {
    ruin: (stage) => stage.command(...command.split(" ")),
    ...ALL_GONE,
  };
}

describe("everybody is told what was lost by a Redis that is", { concurrency: 6 }, () => {
  for (const [name, fault] of Object.entries(faults)) {
    test(name, async () => {
      const stage = await Stage.open({ args: IMPATIENT, ...fault });
      await loss(stage, fault);
      await stage.isReady();
      assert.equal(await stage.roomd.metric("chain_breaks_total"), 0);
      await stage.close();
    });
  }
});
