/* soak.js - everything breaks at random, for a while, and then nothing may be missing.
 *
 *   const report = await soak({ seconds: 60, seed: 7, binary });   // throws what it found
 *
 * Three roomd on one Redis, 200 rooms, with members in each room on each node and others that come
 * and go with their cursors; publishes through roomd, each under a ref until it is acknowledged,
 * and plain XADDs by another program. Meanwhile, from a seed: Redis' connections are killed, Redis
 * stalls, is killed and started again, fails over and loses its newest entries, rooms are trimmed,
 * the tracking table is shrunk, nodes are killed, sockets are cut, readers stop reading.
 *
 * Each round of a minute ends with everything mended and an audit (audit.js); then the next begins.
 * The seed says what is done and in which order; what meets what is up to the clock.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { audit } from "./audit.js";
import { Member, Press, Stranger } from "./crowd.js";
import { Diary, Rng } from "./diary.js";
import { FragileRedis } from "./fragile_redis.js";
import { RoomRecord } from "./room_record.js";
import { startRoomd, until } from "../lib/servers.js";
import { sleep } from "../lib/visitors.js";

const ROOMS = 200;
const NODES = 3;
const ROOMS_OF_A_RESIDENT = 50;
const TRAVELLERS = 15;
const ROOMS_OF_A_TRAVELLER = 8;
const PRESSES_OF_A_NODE = 4;
const PER_SECOND = 1500;
const TICK_MS = 10;
const CATCH_UP = 3; /* times the rate, at most, after a stall */
const BEHIND_S = 4; /* what can't be published for longer isn't made up for */
const ROUND_MS = 60_000;
const MEND_MS = 30_000;
/* Until everybody has the last entry. For a bell that is lost roomd's audit makes up, but later. */
const LATE_MS = 15_000;
/* How the nodes hear of entries: the last one's way is drawn. */
const LIVE = ["auto", "auto"];
const LIVE_OTHERS = ["keyspace", "xread", "poll", "pubsub"];
const KEPT = 20; /* entries of a room, from one round to the next */

const ARGS = [
  ...["--join-rate", "0", "--room-linger", "1s", "--join-timeout", "5s"],
  ...["--redis-connect-timeout", "2s", "--redis-command-timeout", "2s"],
];

export class Soak {
  diary = new Diary();
  report = { published: 0, added: 0, resyncs: {}, lost: 0, applied: 0, rounds: 0 };
  nodes = [];
  records = Array.from({ length: ROOMS }, (_, i) => new RoomRecord(`r${i}`));
  #options;
  #rng;
  #over = false; /* this round's chaos */

  /* options: seconds, seed, binary of roomd, args for it. */
  constructor(options) {
    this.#options = options;
    this.#rng = new Rng(options.seed);
  }

  get seed() {
    return this.#options.seed;
  }

  get members() {
    return [...this.residents, ...this.travellers];
  }

  async run() {
    await this.#build();
    for (let left = this.#options.seconds * 1000; left > 0; left -= ROUND_MS) {
      await this.#round(Math.min(left, ROUND_MS));
    }
    await this.#takeDown();
    return this.report;
  }

  /* --- the stage ---------------------------------------------------------------------------- */

  async #build() {
    this.redis = await FragileRedis.start(this.diary);
    this.report.live = [...LIVE, this.#rng.pick(LIVE_OTHERS)];
    for (let i = 0; i < NODES; i++) await this.#startNode(i);
    const rooms = this.records.map(({ room }) => room);
    this.residents = [];
    for (let node = 0; node < NODES; node++) {
      for (let at = 0; at < ROOMS; at += ROOMS_OF_A_RESIDENT) {
        const some = rooms.slice(at, at + ROOMS_OF_A_RESIDENT);
        this.residents.push(this.#member(`resident ${node + 1}.${at}`, some, node));
      }
    }
    this.travellers = Array.from({ length: TRAVELLERS }, (_, i) => {
      const some = new Set();
      while (some.size < ROOMS_OF_A_TRAVELLER) some.add(this.#rng.pick(rooms));
      return this.#member(`traveller ${i}`, [...some], i % NODES);
    });
    this.presses = Array.from(
      { length: NODES * PRESSES_OF_A_NODE },
      (_, i) => new Press(this.nodes[i % NODES]),
    );
    this.stranger = new Stranger(this.redis.socketPath);
    await Promise.all(this.members.map((member) => member.live(MEND_MS)));
  }

  #member(name, rooms, node) {
    return new Member(name, rooms, this.nodes, node, this.#rng.fork());
  }

  async #startNode(i) {
    const { binary, args = [] } = this.#options;
    const live = args.includes("--redis-live") ? [] : ["--redis-live", this.report.live[i]];
    const node = await startRoomd({
      redis: this.redis,
      binary,
      port: this.nodes[i]?.port,
      args: [...ARGS, ...live, ...args],
      ready: "/healthz",
    });
    this.nodes[i] = Object.assign(this.nodes[i] ?? {}, {
      ...{ port: node.port, wsUrl: node.wsUrl, url: node.url },
      ...{ stop: node.stop, logs: node.logs, metric: node.metric },
    });
  }

  async #takeDown() {
    for (const press of this.presses) press.close();
    this.stranger.close();
    await Promise.all(this.members.map((member) => member.leave()));
    for (const node of this.nodes) await node.stop();
    await this.redis.stop();
  }

  /* --- a round ------------------------------------------------------------------------------ */

  async #round(ms) {
    this.diary.note(`round ${++this.report.rounds}`);
    this.#over = false;
    const over = sleep(ms).then(() => (this.#over = true));
    await Promise.all([
      over,
      this.#watch(),
      this.#publish(this.#rng.fork()),
      this.#breakRedis(this.#rng.fork()),
      this.#breakNodes(this.#rng.fork()),
      this.#breakSockets(this.#rng.fork()),
    ]);
    this.diary.note("all is mended");
    await this.#mend();
    await audit(this);
    for (const record of this.records) await record.cut(this.redis.control, KEPT);
    for (const record of this.records) record.settle(record.last);
    this.redis.losses = [];
    for (const member of this.members) for (const seat of member.rooms) seat.settle();
  }

  /* What broke the rules is said at once. */
  async #watch() {
    while (!this.#over) {
      await sleep(200);
      this.check();
    }
  }

  check() {
    for (const member of this.members) {
      if (member.failure) this.fail([`${member.where}: ${member.failure.message}`], Date.now());
    }
    for (const { failure } of this.presses) if (failure) this.fail([failure.message], Date.now());
  }

  /* at: when it happened, for what happened around it. */
  fail(problems, at) {
    this.#over = true;
    this.#keepLogs();
    const shown = problems.slice(0, 12).join("\n  ");
    const around = this.diary.around(at).join("\n  ");
    throw new Error(
      `seed ${this.seed}, ${problems.length} problems:\n  ${shown}\n` +
        `around ${this.diary.second(at)} s:\n  ${around}`,
    );
  }

  /* What the nodes said, since they were started last. */
  #keepLogs() {
    const folder = process.env.ROOMD_TEST_ARTIFACTS;
    if (folder === undefined) return;
    for (const [i, node] of this.nodes.entries()) {
      writeFileSync(join(folder, `soak-node${i + 1}.log`), node.logs());
    }
  }

  async #publish(rng) {
    const began = performance.now();
    const before = this.report.published + this.report.added;
    for (let made = 0; !this.#over; await sleep(TICK_MS)) {
      const due = ((performance.now() - began) / 1000) * PER_SECOND;
      made = Math.max(made, due - BEHIND_S * PER_SECOND);
      let most = (CATCH_UP * PER_SECOND * TICK_MS) / 1000;
      for (; made < due && most > 0; most--) {
        const { room } = rng.pick(this.records);
        const strange = rng.chance(0.5);
        if (!(strange ? this.stranger : rng.pick(this.presses)).publish(room)) continue;
        this.report[strange ? "added" : "published"]++;
        made++;
      }
    }
    const count = this.report.published + this.report.added - before;
    this.report.perSecond = Math.round((count * 1000) / (performance.now() - began));
  }

  /* All can be read and written again, and has been. */
  async #mend() {
    const quiet = () => [...this.presses, this.stranger].every(({ underWay }) => underWay === 0);
    const answered = () => (this.check(), quiet());
    await until("every publish is answered", answered, MEND_MS).catch((error) =>
      this.fail([error.message], Date.now()),
    );
    for (const record of this.records) {
      const key = `room:${record.room}`;
      record.last = await this.redis.control.command("XADD", key, "*", "data", `"end"`);
    }
    const began = Date.now();
    const all = () => (this.check(), this.#late().length === 0);
    await until("everybody has the last entry", all, LATE_MS).catch((error) => {
      this.check();
      this.fail([error.message, ...this.#late()], began);
    });
    this.report.settledMs = Math.max(this.report.settledMs ?? 0, Date.now() - began);
  }

  /* Who isn't at the end of a room. */
  #late() {
    return this.members.flatMap((member) =>
      member.rooms
        .map((seat) => ({ seat, last: this.#record(seat).last }))
        .filter(({ seat, last }) => seat.state !== "live" || seat.cursor !== last)
        .map(({ seat: { room, state, cursor }, last }) => {
          return `${member.where} in ${room} is ${state} at ${cursor}, not ${last}`;
        }),
    );
  }

  #record(seat) {
    return this.records[Number(seat.room.slice(1))];
  }

  /* --- chaos -------------------------------------------------------------------------------- */

  /* One thing after the other, each once before any comes again. */
  async #breakRedis(rng) {
    const kinds = {
      kill: () => this.redis.killConnections((all) => all.filter(() => rng.chance(0.5))),
      killOne: () => this.redis.killConnections((all) => (all.length > 0 ? [rng.pick(all)] : [])),
      stall: () => this.redis.stall(rng.between(100, 3000)),
      trim: () => this.#trim(rng, 1 + rng.below(40)),
      trimUnheard: async () => {
        await this.redis.killConnections((all) => all);
        await this.#trim(rng, 1 + rng.below(40));
      },
      forget: () => this.redis.forgetTracking(rng.between(200, 2000)),
      failOver: () => this.redis.failOver(rng.between(50, 600)),
      restart: () => this.redis.restart(rng.between(0, 800)),
    };
    const often = ["kill", "killOne", "trim", "trimUnheard", "trim", "stall"];
    for (let turn = []; !this.#over; ) {
      if (turn.length === 0) turn = [...Object.keys(kinds), ...often];
      const [kind] = turn.splice(rng.below(turn.length), 1);
      await kinds[kind]();
      await sleep(rng.between(100, 900));
    }
  }

  async #trim(rng, rooms) {
    let gone = 0;
    for (let i = 0; i < rooms; i++) {
      const keep = rng.chance(0.3) ? 0 : rng.below(60);
      gone += await rng.pick(this.records).cut(this.redis.control, keep);
    }
    this.diary.note(`trimmed ${gone} entries of ${rooms} rooms`);
  }

  async #breakNodes(rng) {
    for (;;) {
      await this.#pause(rng.between(4000, 12_000));
      if (this.#over) return;
      const i = rng.below(NODES);
      this.diary.note(`node ${i + 1} is killed`);
      await this.nodes[i].stop("SIGKILL");
      await sleep(rng.between(0, 1000));
      await this.#startNode(i);
    }
  }

  async #breakSockets(rng) {
    const busy = new Set();
    const under = (member, run) => {
      busy.add(member);
      run.finally(() => busy.delete(member));
      return run;
    };
    const runs = [];
    while (!this.#over) {
      await sleep(rng.between(50, 250));
      const kind = rng.below(10);
      const member = rng.pick(kind < 6 ? this.travellers : this.members);
      if (kind === 9) rng.pick(this.presses).cut();
      if (kind === 9 || busy.has(member)) continue;
      if (kind < 6) runs.push(under(member, member.absent(rng.between(0, 6000), rng.below(NODES))));
      else if (kind < 8) member.cut();
      else runs.push(under(member, member.slow(rng.between(200, 4000))));
    }
    await Promise.all(runs);
  }

  async #pause(ms) {
    for (const end = Date.now() + ms; Date.now() < end && !this.#over; ) await sleep(100);
  }
}

export const soak = (options) => new Soak(options).run();
