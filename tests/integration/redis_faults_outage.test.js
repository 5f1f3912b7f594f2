/* redis_faults_outage.test.js - Redis dies, stalls or refuses for a while, and has its data after:
 * that is a delay, and never a loss.
 */
import { mkdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { describe } from "node:test";
import { outage } from "../lib/faults.js";
import { tidyTest } from "../lib/leftovers.js";
import { RedisControl } from "../lib/redis_control.js";
import { until } from "../lib/servers.js";

const test = tidyTest(60_000);
const DURABLE = ["--appendonly", "yes", "--appendfsync", "always"];
const LOADS_SLOWLY = ["--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024"];

/* What only slows a load down. */
async function addBallast(stage) {
  for (let i = 0; i < 200; i++) await stage.command("SET", `ballast:${i}`, "x".repeat(2000));
  await stage.command("BGREWRITEAOF");
  await until("the data are rewritten", async () => {
    const info = await stage.command("INFO", "persistence");
    return /aof_rewrite_in_progress:0/.test(info) && /aof_rewrite_scheduled:0/.test(info);
  });
}

/* A user of roomd's own, whose rights and password can be changed. */
async function asRoomd(stage) {
  const rights = ["on", ">secret", "allkeys", "allchannels", "+@all"];
  await stage.command("ACL", "SETUSER", "roomd", ...rights);
  return `redis://roomd:secret@127.0.0.1:${stage.port}`;
}

/* Redis notices that it can't save. */
async function saveFails(stage, fails) {
  await stage.command("BGSAVE");
  await until("it was tried", async () => {
    const info = await stage.command("INFO", "persistence");
    return info.includes(`rdb_last_bgsave_status:${fails ? "err" : "ok"}`);
  });
}

const faults = {
  "killed, and back with its data": {
    redisArgs: DURABLE,
    begin: (stage) => stage.kill(),
    end: (stage) => stage.startRedis(),
  },
  "killed, and back before a publish is given up": {
    redisArgs: DURABLE,
    args: ["--publish-wait", "10s"],
    unready: "maybe",
    rejects: [],
    lasts: 0,
    begin: (stage) => stage.kill(),
    end: (stage) => stage.startRedis(),
  },
  "stopped for less than a command may take": {
    args: [],
    unready: false,
    joins: "later",
    unanswered: false,
    rejects: [],
    lasts: 400,
    begin: (stage) => stage.freeze(),
    end: (stage) => stage.thaw(),
  },
  "stopped for longer than a command may take": {
    begin: (stage) => stage.freeze(),
    end: (stage) => stage.thaw(),
  },
  "killed, and slow to load its data (LOADING)": {
    redisArgs: DURABLE,
    async begin(stage) {
      await addBallast(stage);
      await stage.kill();
      await stage.startRedis({ args: [...stage.redisArgs, ...LOADS_SLOWLY], loaded: false });
    },
    async end(stage) {
      await stage.config("key-load-delay", "0");
      await until("it has loaded", async () => (await stage.command("PING")) === "PONG");
    },
  },
  "busy with a script (BUSY)": {
    redisArgs: ["--busy-reply-threshold", "100"],
    async begin(stage) {
      const other = await RedisControl.open(stage.redis.socketPath);
      stage.script = other.command("EVAL", "while true do end", "0").catch(() => other.close());
    },
    async end(stage) {
      await stage.command("SCRIPT", "KILL");
      await stage.script;
    },
  },
  "unable to save (MISCONF)": {
    joins: "served",
    unanswered: false,
    async begin(stage) {
      mkdirSync(join(stage.dir, "dump.rdb"));
      await stage.config("save", "3600 1");
      await saveFails(stage, true);
    },
    async end(stage) {
      rmdirSync(join(stage.dir, "dump.rdb"));
      await saveFails(stage, false);
    },
  },
  "without its replicas (NOREPLICAS)": {
    joins: "served",
    unanswered: false,
    begin: (stage) => stage.config("min-replicas-to-write", "1"),
    end: (stage) => stage.config("min-replicas-to-write", "0"),
  },
  "made a replica of a master that isn't there (READONLY)": {
    joins: "served",
    unanswered: false,
    begin: (stage) => stage.command("REPLICAOF", "127.0.0.1", "1"),
    end: (stage) => stage.command("REPLICAOF", "NO", "ONE"),
  },
  "made a replica that serves nothing without its master (MASTERDOWN)": {
    redisArgs: ["--replica-serve-stale-data", "no"],
    unanswered: false,
    begin: (stage) => stage.command("REPLICAOF", "127.0.0.1", "1"),
    end: (stage) => stage.command("REPLICAOF", "NO", "ONE"),
  },
  "full (OOM)": {
    joins: "served",
    unanswered: false,
    rejects: [507],
    begin: (stage) => stage.config("maxmemory", "100kb"),
    end: (stage) => stage.config("maxmemory", "0"),
  },
  "no longer willing to serve our user (NOPERM)": {
    reach: asRoomd,
    begin: (stage) => stage.command("ACL", "SETUSER", "roomd", "-@all"),
    end: (stage) => stage.command("ACL", "SETUSER", "roomd", "+@all"),
  },
  "given another password (WRONGPASS)": {
    reach: asRoomd,
    async begin(stage) {
      await stage.command("ACL", "SETUSER", "roomd", "resetpass", ">other");
      await stage.command("CLIENT", "KILL", "USER", "roomd");
    },
    end: (stage) => stage.command("ACL", "SETUSER", "roomd", "resetpass", ">secret"),
  },
};

describe("a delay, and never a loss, where Redis is", { concurrency: 4 }, () => {
  for (const [name, fault] of Object.entries(faults)) {
    test(name, (t) => outage({ ...fault, diagnostic: (text) => t.diagnostic(text) }));
  }
});
