/* redis_faults_network.test.js - Redis is well, but what lies between is not: connections are ended,
 * held up, refused, cut into pieces, or lead nowhere.
 */
import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { join } from "node:path";
import { describe } from "node:test";
import { IMPATIENT, outage } from "../lib/faults.js";
import { tidyTest } from "../lib/leftovers.js";
import { Wire, wireMissing } from "../lib/netns.js";
import { randomFrom } from "../lib/random.js";
import { RedisProxy } from "../lib/redis_proxy.js";
import { until } from "../lib/servers.js";
import { Visitor, sleep } from "../lib/visitors.js";

const test = tidyTest(60_000);
const PATIENT = []; /* five seconds for everything */

async function throughProxy(stage) {
  stage.proxy = await RedisProxy.open(stage.redis.socketPath, join(stage.dir, "proxy.sock"));
  return stage.proxy.url;
}

/* Ends roomd's connections of this name again and again. */
function endsConnections(name, everyMs = 70) {
  return {
    args: PATIENT,
    unready: "maybe",
    delivers: true,
    lasts: 1000,
    begin(stage) {
      let killed = 0;
      const stop = stage.repeat(everyMs, async () => (killed += await stage.hangUp(name)));
      stage.stopKills = async () => {
        await stop();
        assert.ok(killed >= 5, `${killed} killed`);
      };
    },
    end: (stage) => stage.stopKills(),
    async then(stage) {
      assert.ok((await stage.roomd.metric("log_reconnects_total")) >= 3);
      assert.equal(await stage.roomd.metric("log_timeouts_total"), 0);
    },
  };
}

const faults = {
  "the connection that hears bells is ended": endsConnections("bell"),
  "the connection that reads rooms is ended": endsConnections("live"),
  "the connection that reads pages is ended": endsConnections("read"),
  "the connection that appends is ended": endsConnections("append"),
  /* Two of them have to be there together before there is anything to be read. */
  "all connections are ended": endsConnections("", 400),

  "all commands are held up (CLIENT PAUSE)": {
    begin: (stage) => stage.command("CLIENT", "PAUSE", 5000, "ALL"),
    end: (stage) => stage.command("PING") /* is held up, too */,
  },
  "writes are held up (CLIENT PAUSE WRITE)": {
    joins: "served",
    refused: false, /* those that were sent may have been done */
    begin: (stage) => stage.command("CLIENT", "PAUSE", 60_000, "WRITE"),
    end: (stage) => stage.command("CLIENT", "UNPAUSE"),
  },
  "connections are refused (maxclients)": {
    async begin(stage) {
      await stage.config("maxclients", 1);
      await stage.hangUp();
    },
    end: (stage) => stage.config("maxclients", 1000),
  },
  "connections that are silent are ended (timeout)": {
    redisArgs: ["--timeout", "2"],
    unready: false,
    unanswered: false,
    lasts: 4500,
    begin(stage) {
      const ask = async () => {
        assert.equal((await stage.readyz()).status, 200);
        await stage.command("PING"); /* so that ours isn't */
      };
      stage.stopAsking = stage.repeat(50, ask);
    },
    end: (stage) => stage.stopAsking(),
    then: async (stage) => assert.equal(await stage.roomd.metric("log_reconnects_total"), 0),
  },
  "roomd itself is stopped for a while": {
    unready: "maybe",
    refused: false,
    lasts: 300,
    async begin(stage) {
      process.kill(stage.roomd.pid, "SIGSTOP");
      await sleep(1200); /* more than it waits for an answer, but the answers are there */
      process.kill(stage.roomd.pid, "SIGCONT");
    },
    end() {},
    then: async (stage) => assert.equal(await stage.roomd.metric("log_timeouts_total"), 0),
  },
  "bells don't arrive": {
    args: PATIENT,
    reach: throughProxy,
    unready: "maybe",
    joins: "served",
    delivers: true,
    begin: (stage) => stage.proxy.mute("bell"),
    end: (stage) => stage.proxy.unmute(),
    /* It found out by its probe, or nothing would have come. */
    then: async (stage) => assert.ok((await stage.roomd.metric("log_reconnects_total")) > 0),
  },
  "answers to live reads don't arrive": {
    reach: throughProxy,
    unready: "maybe",
    begin: (stage) => stage.proxy.mute("live"),
    end: (stage) => stage.proxy.unmute(),
    lasts: 2000,
  },
  "answers to pages don't arrive": {
    reach: throughProxy,
    unready: "maybe",
    delivers: true,
    begin: (stage) => stage.proxy.mute("read"),
    end: (stage) => stage.proxy.unmute(),
    lasts: 2000,
  },
  "answers to appends don't arrive": {
    reach: throughProxy,
    delivers: true,
    joins: "served",
    begin: (stage) => stage.proxy.mute("append"),
    end: (stage) => stage.proxy.unmute(),
    lasts: 2000,
    then: (stage, { publisher }) =>
      assert.ok(publisher.answers.some((answer) => answer.duplicate), "some were there already"),
  },
};

/* Redis forgets what it was to ring for, and rings to say so. */
faults["there are more rooms than Redis tracks"] = {
  redisArgs: ["--tracking-table-max-keys", "10"],
  unready: false,
  delivers: true,
  lasts: 2000,
  async begin(stage) {
    const names = Array.from({ length: 40 }, (_, n) => `room-${n}`);
    stage.many = new Visitor(stage.roomd.wsUrl, names);
    await stage.many.live();
    const bells = await stage.roomd.metric("feed_bells_total");
    await until("some were forgotten", async () => {
      return (await stage.roomd.metric("feed_bells_total")) > bells;
    });
  },
  async end(stage) {
    for (const { room } of stage.many.rooms) await stage.add(room, 5);
  },
  async then(stage) {
    for (const { room, ids } of stage.many.rooms) {
      const last = (await stage.redis.log(room)).at(-1).id;
      await stage.many.reaches(room, last);
      assert.equal(stage.many.room(room).entries.length, 5);
    }
    await stage.many.leave();
    /* Each of those rings makes roomd read, which makes Redis forget another: not for ever. */
    assert.ok((await stage.roomd.metric("feed_vain_total")) > 0);
    assert.ok((await stage.roomd.metric("feed_reads_total")) < 5000);
  },
};

for (const name of ["live", "bell", "read", "append"]) {
  faults[`an answer on the ${name} connection makes no sense`] = {
    args: PATIENT,
    reach: throughProxy,
    unready: "maybe",
    joins: "served",
    delivers: true,
    begin: (stage) => stage.proxy.garble(name),
    end() {},
    then: async (stage) => assert.ok((await stage.roomd.metric("log_reconnects_total")) > 0),
  };
}

describe("a delay, and never a loss, where", { concurrency: 5 }, () => {
  for (const [name, fault] of Object.entries(faults)) {
    test(name, (t) => outage({ ...fault, diagnostic: (text) => t.diagnostic(text) }));
  }

  test("bytes come late and in other pieces", async (t) => {
    const seed = Number(process.env.ROOMD_SEED ?? randomInt(2 ** 31));
    t.diagnostic(`ROOMD_SEED=${seed}`);
    await outage({
      args: PATIENT,
      reach: throughProxy,
      unready: false,
      unanswered: true,
      delivers: true,
      lasts: 3000,
      begin: (stage) => stage.proxy.stutter(randomFrom(seed)),
      end: (stage) => stage.proxy.stutter(null),
    });
  });

  test("packets are lost without a word", async (t) => {
    const why = wireMissing();
    if (why !== null) return t.skip(why);
    const wire = new Wire();
    await outage({
      args: IMPATIENT,
      inside: wire.inside,
      redisArgs: ["--bind", wire.address, "--protected-mode", "no"],
      reach: (stage) => `redis://${wire.address}:${stage.port}`,
      begin: () => wire.drop(),
      end: () => wire.restore(),
    });
    wire.remove();
  });
});
