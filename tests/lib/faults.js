/* faults.js - one fault of Redis, and what everybody saw of it.
 *
 *   await outage({                         // Redis can't, for a while; its data are whole after it
 *     begin: (stage) => stage.freeze(),
 *     end: (stage) => stage.thaw(),
 *     rejects: [503],
 *   });
 *
 * (What changes the log itself is in losses.js.)
 *
 * A fault is a table of what is special about it; all else that has to hold is asserted for every
 * fault alike:
 *
 * - members that were live before stay on their sockets and end with the log: nothing missing,
 *   nothing double, in order, and without a `resync`;
 * - whoever comes back or joins with a cursor, with 0-0 or with nothing, meanwhile or after, too;
 * - each publish is in the log once, however often it had to be sent; an ack names its true id; a
 *   reject has the right code and says when to try again;
 * - /readyz says no while it is so, with a reason, and yes afterwards;
 * - roomd answers pings meanwhile and uses little of a CPU.
 */
import assert from "node:assert/strict";
import { Client } from "./clients.js";
import { RedisControl } from "./redis_control.js";
import { freePort, startRedis, startRoomd, tmpDir, until } from "./servers.js";
import { Follower, Publisher, Visitor, compareIds, sleep } from "./visitors.js";

export const CLEAN = { code: 0, signal: null };
/* So that a stall of a second is more than roomd waits for. */
export const IMPATIENT = [
  ...["--redis-command-timeout", "500ms", "--redis-connect-timeout", "500ms"],
  ...["--publish-wait", "200ms"], // some publishes wait for the end of it, and some are refused
  ...["--join-timeout", "500ms"],
];

const EARLIER = 20; /* entries before the fault */
const PER_SECOND = 40;
const CPU_SHARE = 0.3; /* of one, with sanitizers, while traffic goes on */
const PONG_MS = 2000; /* a machine may be busy with other things */
const REJECT_MS = 3000; /* from a publish to its reject, where Redis is known to be away */
const UNREADY_MS = 3000;
const RETRY_MS = [100, 10_000];

/* A Redis, and a roomd that uses it. */
export class Stage {
  /* reach(stage): the URL that roomd is told, where it isn't the unix socket's. `args`, `redisArgs`:
   * options; `inside` as in startRedis. */
  static async open({ redisArgs = [], args = [], inside = [], reach } = {}) {
    const stage = new Stage();
    stage.port = await freePort();
    stage.redisArgs = ["--port", stage.port, "--repl-diskless-sync-delay", "0", ...redisArgs];
    Object.assign(stage, { dir: tmpDir(), inside });
    await stage.startRedis();
    stage.roomd = await startRoomd({ redis: (await reach?.(stage)) ?? stage.redis, args });
    return stage;
  }

  /* At the same address as before, with what lies in its directory. */
  async startRedis({ args = this.redisArgs, ...more } = {}) {
    await this.follow(await startRedis({ dir: this.dir, args, inside: this.inside, ...more }));
  }

  command(...words) {
    return this.control.command(...words);
  }

  config(name, value) {
    return this.command("CONFIG", "SET", name, value);
  }

  kill() {
    return this.redis.stop("SIGKILL");
  }

  freeze() {
    process.kill(this.redis.pid, "SIGSTOP");
  }

  thaw() {
    process.kill(this.redis.pid, "SIGCONT");
  }

  /* Ends roomd's connections of this name (all of roomd's, where none is given); their number. */
  async hangUp(name = "") {
    const list = await this.command("CLIENT", "LIST");
    const ids = list.split("\n").flatMap((line) => {
      const [, id, which] = /^id=(\d+) .* name=roomd-(\S+) /.exec(line) ?? [];
      return id !== undefined && (name === "" || which === name) ? [id] : [];
    });
    const kill = (id) => this.command("CLIENT", "KILL", "ID", id).catch(() => 0);
    return (await Promise.all(ids.map(kill))).reduce((sum, killed) => sum + killed, 0);
  }

  /* `count` entries by any other program; their ids. */
  add(room, count = 1) {
    const one = () => this.command("XADD", `room:${room}`, "*", "type", "other", "data", "null");
    return Promise.all(Array.from({ length: count }, one));
  }

  /* Every `everyMs`, until the function that is given back is called (it gives how often). */
  repeat(everyMs, run) {
    let on = true;
    const running = (async () => {
      for (let count = 0; ; count++) {
        if (!on) return count;
        await run();
        await sleep(everyMs);
      }
    })();
    running.catch(() => {}); /* Who stops it is told. */
    return () => {
      on = false;
      return running;
    };
  }

  async readyz() {
    const response = await fetch(`${this.roomd.url}/readyz`);
    return { status: response.status, text: (await response.text()).trim() };
  }

  isReady() {
    return until("/readyz says yes", async () => (await this.readyz()).status === 200);
  }

  isUnready() {
    return until("/readyz says no", async () => {
      const { status, text } = await this.readyz();
      if (status !== 503) return false;
      assert.notEqual(text, "", "it says why");
      return true;
    });
  }

  /* A replica of it that has all it has; what startRedis gives. */
  async startReplica() {
    const port = await freePort();
    const replica = await startRedis({ args: ["--port", port] });
    await replica.cli("REPLICAOF", "127.0.0.1", this.port);
    await until("the replica has all", async () => (await this.command("WAIT", 1, 1000)) === 1);
    return replica;
  }

  /* From here on this Redis is the one that the test talks to. */
  async follow(redis) {
    this.redis = redis;
    this.control?.close();
    this.control = await RedisControl.open(redis.socketPath);
  }

  async close() {
    this.control.close();
    assert.deepEqual(await this.roomd.stop(), CLEAN, this.roomd.logs());
    await this.redis.stop();
  }
}

/* Those who are in a room, and which part of its log each has to have. */
export class Crowd {
  #people = [];

  constructor(url, room) {
    this.url = url;
    this.room = room;
  }

  /* has(ids): of the log's ids, those that it has to have applied. */
  add(who, { start = {}, cursor = null, has = (ids) => ids } = {}) {
    const follower = new Follower(this.room, start);
    follower.cursor = cursor;
    const visitor = new Visitor(this.url, [follower]);
    this.#people.push({ who, visitor, follower, has });
    return visitor;
  }

  /* Its cursor is from an earlier visit. */
  addAfter(who, cursor) {
    return this.add(who, { cursor, has: (ids) => ids.filter((id) => compareIds(id, cursor) > 0) });
  }

  async live() {
    for (const { visitor } of this.#people) await visitor.live();
  }

  async have(ids) {
    for (const { who, visitor, follower, has } of this.#people) {
      await visitor.until(`${who} is at the end`, () => follower.cursor === ids.at(-1));
      await visitor.live();
      assert.deepEqual(follower.ids, has(ids), who);
      assert.deepEqual(follower.resyncs, [], who);
    }
  }

  /* All have come as far as this. */
  async pass(id) {
    for (const { who, visitor, follower } of this.#people) {
      await visitor.until(`${who} is past ${id}`, () => compareIds(follower.cursor, id) >= 0);
    }
  }

  stayed() {
    for (const { who, visitor } of this.#people) {
      assert.equal(visitor.sockets, 1, `${who}'s socket did not end`);
    }
  }

  async leave() {
    for (const { visitor } of this.#people) await visitor.leave();
  }
}

/* Somebody who asks for a pong ten times a second. */
async function pinger(url) {
  const client = await Client.open(url);
  let on = true;
  let longest = 0;
  const pings = (async () => {
    while (on) {
      const sent = performance.now();
      client.send({ op: "ping" });
      await client.next("pong");
      longest = Math.max(longest, performance.now() - sent);
      await sleep(100);
    }
  })();
  return async () => {
    on = false;
    await pings;
    await client.close();
    assert.ok(longest < PONG_MS, `a pong took ${Math.round(longest)} ms`);
  };
}

/* Publishes numbers into a room, until it is told to stop. */
function stream(url, room) {
  const publisher = new Publisher(url, room);
  const acks = [];
  let on = true;
  const sending = (async () => {
    while (on) {
      if (publisher.underWay < 40) acks.push(publisher.publish(acks.length));
      await sleep(1000 / PER_SECOND);
    }
    return Promise.all(acks);
  })();
  return {
    publisher,
    get count() {
      return acks.length;
    },
    async stop() {
      on = false;
      return sending;
    },
  };
}

/* Each number is in the log once, in entries that the acks name; rejects are as they may be. */
function checkPublishes({ publisher }, acks, log, { rejects, refused }) {
  const published = log.filter((entry) => entry.ref !== undefined);
  const numbers = published.map((entry) => Number(entry.data)).sort((a, b) => a - b);
  assert.deepEqual(numbers, acks.map((_, n) => n), "each publish is there once");
  const byRef = new Map(published.map((entry) => [entry.ref, entry.id]));
  for (const answer of publisher.answers) {
    if (answer.op === "ack") assert.equal(answer.id, byRef.get(answer.ref), "an ack is true");
    else checkReject(answer, rejects);
  }
  assert.ok(publisher.answers.length <= publisher.sent, "no publish was answered twice");
  if (refused) assert.ok(publisher.rejects.length > 0, "some were refused");
}

function checkReject(reject, codes) {
  assert.ok(codes.includes(reject.code), `one of ${codes}: ${JSON.stringify(reject)}`);
  const [least, most] = RETRY_MS;
  const { retry_after_ms: ms } = reject;
  assert.ok(ms >= least && ms <= most, `when to try again: ${JSON.stringify(reject)}`);
}

/* What somebody gets who joins while Redis is away, in a room that is open and in one that isn't. */
async function joinsAreRefused(url, room, cursor) {
  const client = await Client.open(url);
  const asked = performance.now();
  for (const join of [{ room, cursor }, { room, cursor: "0-0" }, { room: `${room}-unopened` }]) {
    client.send({ op: "join", ...join });
    const reject = await client.next("reject");
    assert.deepEqual([reject.op_ref, reject.room], ["join", join.room]);
    checkReject(reject, [503]);
  }
  assert.ok(performance.now() - asked < REJECT_MS, "it did not take long");
  await client.close();
}

/* One fault, from before to after.
 *
 *   begin(stage), end(stage)   the fault; either may replace stage.redis
 *   unready    whether /readyz has to say no meanwhile (true), yes (false), or may do both ("maybe")
 *   refused    whether publishes have to be refused meanwhile (where unready is true)
 *   joins      "refused" (where unready is true), "served" (where it is false), or "later": no
 *              answer is looked for meanwhile
 *   rejects    the codes that a publish may be refused with ([503])
 *   unanswered whether a publish may have no answer, so that it has to be sent again (true)
 *   lasts      how long it is watched, in ms (1500: publishes wait for a second)
 *   delivers   whether members get, meanwhile, what others add meanwhile (false)
 *   then(stage)  what else has to be so at the end
 *
 * Besides, what Stage.open takes. */
export async function outage(fault) {
  const { unready = true, refused = unready === true, rejects = [503], lasts = 1500 } = fault;
  const { joins = { true: "refused", false: "served", maybe: "later" }[unready] } = fault;
  const { unanswered = true, delivers = false } = fault;
  const stage = await Stage.open({ args: IMPATIENT, ...fault });
  const { wsUrl: url } = stage.roomd;

  const earlier = await stage.add("lobby", EARLIER);
  const members = new Crowd(url, "lobby");
  members.add("a member");
  members.add("a member of the newest", { start: { last: 5 }, has: (ids) => ids.slice(EARLIER - 5) });
  members.add("a member from $", { start: { cursor: "$" }, has: (ids) => ids.slice(EARLIER) });
  const others = new Crowd(url, "lobby");
  const away = others.add("one who was away");
  const [quietId] = await stage.add("quiet");
  const quiet = new Crowd(url, "quiet");
  quiet.add("a member of a quiet room");
  for (const crowd of [members, others, quiet]) await crowd.live();
  await away.away();

  const published = stream(url, "lobby");
  const stopPings = await pinger(url);
  await until("publishes are acknowledged", () => published.publisher.answers.length > 5);
  await fault.begin(stage);
  const began = performance.now();
  if (unready === true) await stage.isUnready();
  assert.ok(performance.now() - began < UNREADY_MS, "/readyz says no soon");
  const cpu = { from: stage.roomd.cpuSeconds(), at: performance.now() };
  away.back();
  others.addAfter("one with a cursor who came meanwhile", earlier[7]);
  others.add("one from 0-0 who came meanwhile", { start: { cursor: "0-0" } });
  if (joins === "refused") await joinsAreRefused(url, "lobby", earlier[7]);
  if (joins === "served") await others.live();
  await sleep(lasts);
  if (unready === false) assert.equal((await stage.readyz()).status, 200);
  const seconds = (performance.now() - cpu.at) / 1000;
  const used = stage.roomd.cpuSeconds() - cpu.from;
  fault.diagnostic?.(`${used.toFixed(2)} s of CPU in ${seconds.toFixed(2)} s`);
  assert.ok(used <= 0.1 + CPU_SHARE * seconds, `${used} s of CPU in ${seconds} s`);
  if (delivers) await members.pass((await stage.add("lobby", 3)).at(-1));
  await fault.end(stage);
  await stage.isReady();

  const acks = await published.stop();
  const later = await stage.add("lobby", 3);
  const log = await stage.redis.log("lobby");
  assert.deepEqual(log.slice(-3).map((entry) => entry.id), later);
  checkPublishes(published, acks, log, { rejects, refused });
  if (!unanswered) assert.ok(acks.every((ack) => !ack.duplicate), "nothing had to be sent again");
  others.addAfter("one with a cursor who came after", earlier[13]);
  others.add("one who came after");
  for (const crowd of [members, others]) await crowd.have(log.map((entry) => entry.id));
  await quiet.have([quietId, ...(await stage.add("quiet", 2))]);
  members.stayed();
  quiet.stayed();
  await stopPings();
  await fault.then?.(stage, published);
  for (const crowd of [members, others, quiet]) await crowd.leave();
  published.publisher.close();
  await stage.close();
}
