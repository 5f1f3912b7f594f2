/* losses.js - something was done to a room's log, and what everybody was told of it.
 *
 *   await loss(stage, {
 *     spoil: (key) => [["XTRIM", key, "MAXLEN", "3"]],
 *     told: [null, null],                              // members: after it, and after more entries
 *     now: { "110-0": null, "105-0": "trimmed" },      // who comes with this cursor
 *     atOnce: null,                                    // members, where both came in one step
 *   });
 *
 * `null`: the cursor is honoured, and exactly what came after it follows. A reason: a `resync` with
 * that reason, once, and then exactly what the log holds. Whoever starts fresh gets that, too. All
 * see the entries in order, chained, none twice: the Visitor watches over that.
 *
 * A roomd that holds a room's newest entries (`ring`) may instead resume whoever comes as if they
 * had been there all the time: then they have what the members have.
 */
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { Follower, Publisher, Visitor, compareIds } from "./visitors.js";

let rooms = 0;

/* 101-0 to 110-0, which leaves room on both sides. */
const TEN = Array.from({ length: 10 }, (_, n) => `${101 + n}-0`);

const adds = (key, ids) => ids.map((id) => ["XADD", key, id, "type", "other", "data", "1"]);

const idsOf = async (stage, room) => (await stage.redis.log(room)).map((entry) => entry.id);

/* Members who were live before it, by how they had come. */
class Members {
  #all;

  constructor(url, room) {
    this.room = room;
    this.#all = [{}, { last: 3 }, { cursor: "$" }].map((start) => {
      const visitor = new Visitor(url, [new Follower(room, start)]);
      return { visitor, start, told: [], has: [] };
    });
  }

  async live() {
    for (const { visitor } of this.#all) await visitor.live();
  }

  began(ids) {
    for (const member of this.#all) {
      member.has = member.start.cursor ? [] : ids.slice(-(member.start.last ?? ids.length));
      if (ids.length === 0) member.has = [];
    }
  }

  /* All are told the reason (null: nothing), and have what the log has. */
  async see(reason, ids, cursor) {
    for (const member of this.#all) {
      const { visitor, start } = member;
      const follower = visitor.room(this.room);
      if (reason === null) {
        member.has.push(...ids.filter((id) => compareIds(id, cursor) > 0));
      } else {
        member.told.push(reason);
        member.has = start.last ? ids.slice(-start.last) : [...ids];
      }
      const who = JSON.stringify(start);
      await visitor.until(`${who} was told ${member.told} and has all: ${follower.resyncs}`, () => {
        const { state, resyncs, entries } = follower;
        return (
          (state === "live" && resyncs.length === member.told.length &&
            entries.length === member.has.length) || resyncs.length > member.told.length
        );
      });
      assert.deepEqual(follower.resyncs, member.told, who);
      assert.deepEqual(follower.ids, member.has, who);
      assert.equal(visitor.sockets, 1, "nobody's socket ended");
    }
  }

  /* Of one who came without a cursor, since it was last told anything. */
  get ids() {
    return this.#all[0].has;
  }

  async leave() {
    for (const { visitor } of this.#all) await visitor.leave();
  }
}

/* What somebody gets who comes with this cursor, and who comes with none. */
async function joins(stage, { room, members, ring }, expected) {
  const ids = await idsOf(stage, room);
  const all = Object.entries(expected).map(([cursor, reason]) => ({ cursor, reason }));
  for (const start of [{}, { cursor: "0-0" }]) all.push({ cursor: null, reason: null, start });
  for (const { cursor, reason, start = {} } of all) {
    const follower = new Follower(room, start);
    follower.cursor = cursor;
    const visitor = new Visitor(stage.roomd.wsUrl, [follower]);
    await visitor.live();
    const who = cursor === null ? JSON.stringify(start) : `after ${cursor}`;
    const after = (id) => cursor === null || compareIds(id, cursor) > 0;
    const resumed = ring && cursor !== null && follower.resyncs.length === 0;
    if (!resumed || !isDeepStrictEqual(follower.ids, members.ids.filter(after))) {
      assert.deepEqual(follower.resyncs, reason === null ? [] : [reason], who);
      assert.deepEqual(follower.ids, reason === null ? ids.filter(after) : ids, who);
    }
    await visitor.leave();
  }
}

/* One fault, on a room of its own.
 *
 *   log      the ids that the room has before (101-0 to 110-0)
 *   other    the ids of another stream, whose key is spoil's second argument
 *   tail     ids that are added once members are live, and after prepare(stage, key)
 *   spoil(key, other)   commands, in one step; or
 *   ruin(stage, key)    what else is done to Redis
 *   done(stage, key)    what has to be awaited then
 *   more     ids that are added later (111-0, 112-0)
 *   told     [after spoil, after more]: what members are told
 *   atOnce   the same where spoil and more are one step; not tried where absent
 *   ring     whether roomd holds the newest entries (false)
 *   now, later   what who comes with a cursor is told, after spoil and after more (as now) */
export async function loss(stage, fault) {
  await oneByOne(stage, fault);
  if (fault.atOnce !== undefined) await inOneStep(stage, fault);
}

async function begin(stage, { log = TEN, other = [], tail = [], ring = false, prepare }) {
  const room = `spoiled-${++rooms}`;
  const key = `room:${room}`;
  for (const add of [...adds(key, log), ...adds(`${key}:other`, other)]) {
    await stage.command(...add);
  }
  const members = new Members(stage.roomd.wsUrl, room);
  await members.live();
  members.began(log);
  const cursor = log.at(-1) ?? "0-0";
  await prepare?.(stage, key);
  for (const add of adds(key, tail)) await stage.command(...add);
  await members.see(null, [...log, ...tail], cursor);
  return { room, key, members, ring, cursor: tail.at(-1) ?? cursor };
}

async function oneByOne(stage, fault) {
  const { spoil, told, now, later = now, more = ["111-0", "112-0"] } = fault;
  const scene = await begin(stage, fault);
  const { room, key, members, cursor } = scene;
  if (fault.ruin) await fault.ruin(stage, key);
  else await stage.control.atomically(spoil(key, `${key}:other`));
  await fault.done?.(stage, key);
  const spoiled = await idsOf(stage, room);
  await members.see(told[0], spoiled, cursor);
  await joins(stage, scene, now);

  for (const add of adds(key, more)) await stage.command(...add);
  const position = told[0] === null ? newest(cursor, spoiled) : (spoiled.at(-1) ?? "0-0");
  await members.see(told[1], await idsOf(stage, room), position);
  await joins(stage, scene, later);
  await publishes(stage, scene);
  await members.leave();
}

/* And it goes on. */
async function publishes(stage, { room, members }) {
  const publisher = new Publisher(stage.roomd.wsUrl, room);
  const { id, duplicate } = await publisher.publish("on");
  assert.equal(duplicate, false);
  publisher.close();
  await members.see(null, [id], "0-0");
}

async function inOneStep(stage, fault) {
  const { spoil, atOnce, more = ["111-0", "112-0"] } = fault;
  const { room, key, members, cursor } = await begin(stage, fault);
  await stage.control.atomically([...spoil(key, `${key}:other`), ...adds(key, more)]);
  await members.see(atOnce, await idsOf(stage, room), cursor);
  await members.leave();
}

function newest(cursor, ids) {
  return ids.reduce((most, id) => (compareIds(id, most) > 0 ? id : most), cursor);
}
