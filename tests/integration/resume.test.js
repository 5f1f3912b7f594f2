/* resume.test.js - who comes back gets what was missed, once, or is told that it can't be had. */
import assert from "node:assert/strict";
import { after, before, describe } from "node:test";
import { Client } from "../lib/clients.js";
import { tidyTest } from "../lib/leftovers.js";
import { startRedis, startRoomd, until } from "../lib/servers.js";
import { Follower, Publisher, Visitor, compareIds } from "../lib/visitors.js";

const test = tidyTest(60_000);
const CLEAN = { code: 0, signal: null };

let rooms = 0;
const newRoom = () => `room-${++rooms}`;

/* Publishes `count` entries numbered from `first` on; their ids. */
async function publish(roomd, room, count, first = 0) {
  const publisher = new Publisher(roomd.wsUrl, room);
  const acks = await publisher.paced(count, 5000, (n) => ({ n: first + n }));
  publisher.close();
  return acks.map((ack) => ack.id);
}

async function enter(roomd, room, start, options) {
  const visitor = new Visitor(roomd.wsUrl, [new Follower(room, start)], options);
  await visitor.live();
  return visitor;
}

/* The raw text of `data` in the next entry of a room that comes to this client. */
function nextDataText(client) {
  return new Promise((done) => {
    const listen = (message) => {
      const text = String(message);
      if (!text.startsWith('{"op":"entry"')) return;
      client.socket.off("message", listen);
      done(text.slice(text.indexOf('"data":') + '"data":'.length, -1));
    };
    client.socket.on("message", listen);
  });
}

/* What holds whatever keeps the log. */
function common(context) {
  test("a reconnect from the cursor gives exactly what was missed, then goes on live", async () => {
    const { roomd } = context;
    const room = newRoom();
    const before = await publish(roomd, room, 30);
    const visitor = await enter(roomd, room);
    assert.deepEqual(visitor.room(room).ids, before);
    for (const count of [0, 1, 700]) {
      await visitor.away();
      const known = visitor.room(room).ids;
      const missed = await publish(roomd, room, count);
      visitor.back();
      await visitor.live();
      const { joined } = visitor.room(room);
      assert.equal(joined.from, known.at(-1));
      assert.equal(joined.oldest, before[0]);
      assert.equal(joined.complete, true);
      assert.equal(joined.head, missed.at(-1) ?? known.at(-1));
      const now = await publish(roomd, room, 3);
      await visitor.reaches(room, now.at(-1));
      assert.deepEqual(visitor.room(room).ids, [...known, ...missed, ...now]);
    }
    assert.deepEqual(visitor.room(room).resyncs, []);
    await visitor.leave();
  });

  test("a rejoin on the same socket starts anew from its cursor", async () => {
    const { roomd } = context;
    const room = newRoom();
    const ids = await publish(roomd, room, 20);
    const visitor = await enter(roomd, room);
    for (let i = 0; i < 20; i++) {
      visitor.rejoin(room);
      ids.push(...(await publish(roomd, room, 2)));
    }
    await visitor.reaches(room, ids.at(-1));
    await visitor.live();
    assert.deepEqual(visitor.room(room).ids, ids);
    assert.equal(visitor.sockets, 1);
    await visitor.leave();
  });

  test("an older cursor gives everything after it", async () => {
    const { roomd } = context;
    const room = newRoom();
    const ids = await publish(roomd, room, 50);
    const client = await Client.open(roomd.wsUrl);
    client.send({ op: "join", room, cursor: ids[9] });
    assert.equal((await client.next("joined")).from, ids[9]);
    for (let i = 10; i < 50; i++) {
      const entry = await client.next("entry");
      assert.deepEqual([entry.id, entry.prev], [ids[i], ids[i - 1]]);
    }
    assert.deepEqual(await client.next(), {
      ...{ op: "live", room, cursor: ids[49], replayed: 40 },
    });
    await client.close();
  });

  test("without a cursor, with 0-0, with $ and with last it is a fresh start", async () => {
    const { roomd } = context;
    const room = newRoom();
    const ids = await publish(roomd, room, 40);
    const wanted = [
      [{}, ids],
      [{ cursor: "0-0" }, ids],
      [{ cursor: "$" }, []],
      [{ last: 7 }, ids.slice(-7)],
      [{ last: 500 }, ids],
      [{ last: 7, cursor: "0-0" }, ids.slice(-7)],
    ];
    for (const [start, expected] of wanted) {
      const client = await Client.open(roomd.wsUrl);
      client.send({ op: "join", room, ...start });
      const joined = await client.next("joined");
      assert.deepEqual([joined.from, joined.head], [null, ids.at(-1)], JSON.stringify(start));
      for (const id of expected) {
        const entry = await client.next();
        assert.deepEqual([entry.op, entry.id], ["entry", id], JSON.stringify(start));
      }
      const live = await client.next();
      assert.deepEqual(
        [live.op, live.cursor, live.replayed],
        ["live", ids.at(-1), expected.length],
        JSON.stringify(start),
      );
      await client.close();
    }
  });

  test("an empty room is live at 0-0, and its first entry follows that", async () => {
    const { roomd } = context;
    const room = newRoom();
    for (const start of [{}, { cursor: "0-0" }, { cursor: "$" }, { last: 3 }]) {
      const visitor = await enter(roomd, room, start);
      assert.equal(visitor.room(room).cursor, "0-0");
      await visitor.leave();
    }
    const visitor = await enter(roomd, room);
    const [id] = await publish(roomd, room, 1);
    await visitor.reaches(room, id);
    await visitor.leave();
  });

  test("a cursor with last is resumed from the cursor", async () => {
    const { roomd } = context;
    const room = newRoom();
    const ids = await publish(roomd, room, 5);
    const visitor = await enter(roomd, room, { last: 2 });
    assert.deepEqual(visitor.room(room).ids, ids.slice(-2));
    await visitor.away();
    ids.push(...(await publish(roomd, room, 10)));
    visitor.back();
    await visitor.live();
    assert.deepEqual(visitor.room(room).ids, ids.slice(3));
    await visitor.leave();
  });

  test("the URL joins like a join", async () => {
    const { roomd } = context;
    const room = newRoom();
    const ids = await publish(roomd, room, 20);
    const visitor = await enter(roomd, room, {}, { viaUrl: true });
    assert.deepEqual(visitor.room(room).ids, ids);
    await visitor.away();
    ids.push(...(await publish(roomd, room, 20)));
    visitor.back();
    await visitor.live();
    assert.deepEqual(visitor.room(room).ids, ids);
    await visitor.leave();

    const tail = await enter(roomd, room, { last: 4 }, { viaUrl: true });
    assert.deepEqual(tail.room(room).ids, ids.slice(-4));
    await tail.leave();
    const news = await enter(roomd, room, { cursor: "$" }, { viaUrl: true });
    assert.deepEqual(news.room(room).ids, []);
    await news.leave();
  });

  test("many rooms on one socket keep their cursors apart", async () => {
    const { roomd } = context;
    const names = Array.from({ length: 60 }, newRoom);
    const ids = new Map();
    const more = async (count) => {
      await Promise.all(
        names.map(async (room, i) => {
          const some = await publish(roomd, room, count + (i % 5));
          ids.set(room, [...(ids.get(room) ?? []), ...some]);
        }),
      );
    };
    await more(3);
    const visitor = new Visitor(roomd.wsUrl, names);
    await visitor.live();
    await more(4);
    await visitor.until("all have come", () =>
      names.every((room) => visitor.room(room).cursor === ids.get(room).at(-1)),
    );
    await visitor.away();
    await more(2);
    visitor.back();
    await visitor.live();
    for (const room of names) assert.deepEqual(visitor.room(room).ids, ids.get(room));
    assert.equal(visitor.sockets, 2);
    await visitor.leave();
  });

  test("whoever left a room hears nothing of it, and may come back", async () => {
    const { roomd } = context;
    const room = newRoom();
    const client = await Client.open(roomd.wsUrl);
    client.send({ op: "join", room });
    await client.next("live");
    client.send({ op: "leave", room });
    assert.deepEqual(await client.next(), { op: "left", room });
    const [id] = await publish(roomd, room, 1);
    client.send({ op: "ping", t: 1 });
    assert.deepEqual(await client.next(), { op: "pong", t: 1 });
    client.send({ op: "join", room, cursor: "0-0" });
    assert.equal((await client.next("entry")).id, id);
    await client.close();
  });

  test("the same ref twice is in the log once, and the second ack says so", async () => {
    const { roomd } = context;
    const room = newRoom();
    const visitor = await enter(roomd, room);
    const client = await Client.open(roomd.wsUrl);
    const frame = { op: "publish", room, type: "message", ref: "r-1", data: 1 };
    client.send(frame);
    client.send({ ...frame, data: 2 });
    const first = await client.next("ack");
    const second = await client.next("ack");
    assert.deepEqual(first, { op: "ack", room, ref: "r-1", id: first.id, duplicate: false });
    assert.deepEqual(second, { ...first, duplicate: true });

    /* On another socket, and after the first is gone. */
    await client.close();
    const again = await Client.open(roomd.wsUrl);
    again.send(frame);
    assert.deepEqual(await again.next("ack"), second);
    /* Other refs, other rooms and no ref at all are other publishes. */
    again.send({ ...frame, ref: "r-2" });
    assert.equal((await again.next("ack")).duplicate, false);
    again.send({ ...frame, room: newRoom() });
    assert.equal((await again.next("ack")).duplicate, false);
    again.send({ ...frame, ref: undefined });
    again.send({ ...frame, ref: undefined });
    const [third, fourth] = [await again.next("ack"), await again.next("ack")];
    assert.notEqual(third.id, fourth.id);
    assert.deepEqual([third.ref, fourth.duplicate], [undefined, false]);
    await again.close();

    await visitor.reaches(room, fourth.id);
    const seen = visitor.room(room).entries.map(({ ref, data }) => [ref, data]);
    assert.deepEqual(seen, [["r-1", 1], ["r-2", 1], [undefined, 1], [undefined, 1]]);
    await visitor.leave();
  });

  test("data comes out as the bytes that went in, live and replayed", async () => {
    const { roomd } = context;
    const texts = [
      "9007199254740993",
      "-18446744073709551617",
      "123456789012345678901234567890.000000000000000000001",
      "1e999",
      "0.10000000000000000000",
      "-0",
      '{ "a" : [ 1.0 , 9223372036854775807 ] , "a" : null }',
      '"\\u00e9é\\ud83d\\ude00😀\\/\\u0000\\u001f"',
      '"</script>\u2028\u007f"',
      "null",
      '""',
    ];
    const room = newRoom();
    const live = await Client.open(`${roomd.wsUrl}?room=${room}`);
    await live.next("live");
    for (const text of texts) {
      const seen = nextDataText(live);
      live.send(`{"op":"publish","room":"${room}","type":"n","data":${text}}`);
      assert.equal(await seen, text);
    }
    await live.close();

    for (let i = 0; i < texts.length; i++) {
      const late = await Client.open(roomd.wsUrl);
      await late.next("welcome");
      const seen = nextDataText(late);
      late.send({ op: "join", room, last: texts.length - i });
      assert.equal(await seen, texts[i]);
      await late.close();
    }
  });

  test("type, ref and key come out as they went in", async () => {
    const { roomd } = context;
    const room = newRoom();
    const visitor = await enter(roomd, room);
    const publisher = new Publisher(roomd.wsUrl, room);
    const texts = { type: 'a "type" \\ é 😀', ref: "r:1:2/\u2028", key: "k".repeat(128) };
    const { id } = await publisher.publish([], texts);
    await visitor.reaches(room, id);
    assert.deepEqual(visitor.room(room).entries, [{ id, ...texts, data: [] }]);
    publisher.close();
    await visitor.leave();
  });

  test("a cursor that can't be had is told why, and given what there is", async () => {
    const { roomd } = context;
    const room = newRoom();
    const [id] = await publish(roomd, room, 1);
    const [ms] = id.split("-").map(BigInt);
    const cases = [
      [`${ms + 1_000_000n}-0`, "ahead"],
      ["18446744073709551615-18446744073709551615", "ahead"],
      ["1-1", "trimmed"],
    ];
    for (const [cursor, reason] of cases) {
      const client = await Client.open(roomd.wsUrl);
      client.send({ op: "join", room, cursor });
      await client.next("welcome");
      assert.deepEqual(await client.next(), { op: "resync", room, reason, from: null });
      assert.equal((await client.next()).id, id);
      const live = await client.next();
      assert.deepEqual([live.op, live.cursor, live.replayed], ["live", id, 1]);
      await client.close();
    }
    const client = await Client.open(roomd.wsUrl);
    client.send({ op: "join", room: newRoom(), cursor: id });
    assert.equal((await client.next("resync")).reason, "reset");
    assert.equal((await client.next("live")).cursor, "0-0");
    await client.close();
  });
}

describe("with the log in the process", () => {
  const context = {};
  before(async () => (context.roomd = await startRoomd()));
  after(async () => assert.deepEqual(await context.roomd.stop(), CLEAN, context.roomd.logs()));
  common(context);

  test("a client that was away for longer than the log retains is told `trimmed`", async () => {
    /* A ring would still hold what the log has cut, and serve it. */
    const args = ["--retention-entries", "50", "--ring-entries", "0"];
    const roomd = await startRoomd({ args });
    const room = newRoom();
    const visitor = new Visitor(roomd.wsUrl, [room]);
    const tail = new Visitor(roomd.wsUrl, [new Follower(room, { last: 5 })]);
    await visitor.live();
    await tail.live();
    const [first] = await publish(roomd, room, 20);
    await visitor.until("some", () => visitor.room(room).entries.length === 20);
    await tail.until("some", () => tail.room(room).entries.length === 20);
    await visitor.away();
    await tail.away();
    const ids = await publish(roomd, room, 200);
    visitor.back();
    tail.back();
    await visitor.live();
    await tail.live();
    assert.deepEqual(visitor.room(room).resyncs, ["trimmed"]);
    assert.deepEqual(tail.room(room).resyncs, ["trimmed"]);
    const kept = visitor.room(room).ids;
    assert.ok(kept.length >= 50 && kept.length < 200, `${kept.length} retained`);
    assert.deepEqual(kept, ids.slice(-kept.length));
    assert.deepEqual(tail.room(room).ids, ids.slice(-5));

    const client = await Client.open(roomd.wsUrl);
    client.send({ op: "join", room });
    const joined = await client.next("joined");
    assert.deepEqual([joined.oldest, joined.complete, joined.max_entries], [kept[0], false, 50]);
    assert.equal((await client.next("entry")).prev, null, `nothing is before it, not ${first}`);
    await client.close();
    await visitor.leave();
    await tail.leave();
    assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
  });

  test("after a restart, which loses this log, every cursor is told so", async () => {
    const roomd = await startRoomd();
    const room = newRoom();
    await publish(roomd, room, 20);
    const visitor = await enter(roomd, room);
    await visitor.away();
    assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());

    const anew = await startRoomd({ port: roomd.port });
    visitor.back();
    await visitor.live();
    assert.deepEqual(visitor.room(room).resyncs, ["reset"]);
    assert.deepEqual([visitor.room(room).cursor, visitor.room(room).ids], ["0-0", []]);
    const ids = await publish(anew, room, 3);
    await visitor.reaches(room, ids.at(-1));
    assert.deepEqual(visitor.room(room).ids, ids);
    await visitor.leave();
    assert.deepEqual(await anew.stop(), CLEAN, anew.logs());
  });
});

describe("with the log in Redis", () => {
  const context = {};
  let redis;
  let other;

  before(async () => {
    redis = await startRedis();
    context.roomd = await startRoomd({ redis });
    other = await startRoomd({ redis });
  });

  after(async () => {
    const ends = [await context.roomd.stop(), await other.stop()];
    await redis.stop();
    assert.deepEqual(ends, [CLEAN, CLEAN], context.roomd.logs() + other.logs());
  });

  const add = (room, ...words) => redis.cli("XADD", `room:${room}`, "*", ...words);
  common(context);

  test("a server that was restarted resumes everybody", async () => {
    const roomd = await startRoomd({ redis });
    const room = newRoom();
    const ids = await publish(roomd, room, 20);
    const visitor = await enter(roomd, room);
    assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
    ids.push(await add(room, "type", "message", "data", "1"));
    const anew = await startRoomd({ redis, port: roomd.port });
    await visitor.reaches(room, ids.at(-1));
    await visitor.live();
    assert.deepEqual(visitor.room(room).ids, ids);
    assert.deepEqual(visitor.room(room).resyncs, []);
    assert.equal(visitor.closes[0].code, 1012);
    await visitor.leave();
    assert.deepEqual(await anew.stop(), CLEAN, anew.logs());
  });

  test("two nodes share a room: live on both, resumed on either, one ref for both", async () => {
    const room = newRoom();
    const [here, there] = [context.roomd, other];
    const visitor = await enter(here, room);
    const ids = await publish(there, room, 50);
    await visitor.reaches(room, ids.at(-1));
    for (const node of [there, here, there]) {
      await visitor.away();
      ids.push(...(await publish(here, room, 5)), ...(await publish(there, room, 5)));
      visitor.back(node.wsUrl);
      await visitor.live();
      ids.push(...(await publish(here, room, 5)), ...(await publish(there, room, 5)));
      await visitor.reaches(room, ids.at(-1));
      assert.deepEqual(visitor.room(room).ids, ids);
    }
    assert.deepEqual(visitor.room(room).resyncs, []);

    const acks = [];
    for (const node of [here, there, here]) {
      const publisher = new Publisher(node.wsUrl, room);
      acks.push(await publisher.publish("once", { ref: "r-both" }));
      publisher.close();
    }
    assert.deepEqual(acks.map((ack) => ack.duplicate), [false, true, true]);
    assert.equal(new Set(acks.map((ack) => ack.id)).size, 1);
    await visitor.reaches(room, acks[0].id);
    assert.deepEqual((await redis.log(room)).map((entry) => entry.id), visitor.room(room).ids);
    await visitor.leave();
  });

  test("two nodes that publish into a room at once give everybody one order", async () => {
    const room = newRoom();
    const visitors = [await enter(context.roomd, room), await enter(other, room)];
    const publishers = [context.roomd, other].map((node) => new Publisher(node.wsUrl, room));
    await Promise.all(publishers.map((each, who) => each.paced(400, 800, (n) => [who, n])));
    const log = await redis.log(room);
    assert.equal(log.length, 800);
    for (const visitor of visitors) {
      await visitor.reaches(room, log.at(-1).id);
      assert.deepEqual(visitor.room(room).ids, log.map((entry) => entry.id));
      await visitor.leave();
    }
    for (const who of [0, 1]) {
      const own = log.map((entry) => JSON.parse(entry.data)).filter(([by]) => by === who);
      assert.deepEqual(own.map(([, n]) => n), Array.from({ length: 400 }, (_, n) => n));
    }
    for (const publisher of publishers) publisher.close();
  });

  test("what any program adds comes live, made well-formed, and replayed alike", async () => {
    const room = newRoom();
    const visitor = await enter(context.roomd, room);
    const long = "x".repeat(100_000);
    const cases = [
      [["type", "message", "data", '{"text":"hi"}'], { type: "message", data: { text: "hi" } }],
      [["data", '{"text":"hi"}'], { type: "message", data: { text: "hi" } }],
      [["type", "", "data", "1"], { type: "message", data: 1 }],
      [["type", "note"], { type: "note", data: null }],
      [["something", "else"], { type: "message", data: null }],
      [["data", "not json"], { type: "message", data: "not json" }],
      [["data", '{"a":1,}'], { type: "message", data: '{"a":1,}' }],
      [["data", "NaN"], { type: "message", data: "NaN" }],
      [["data", "01"], { type: "message", data: "01" }],
      [["data", ""], { type: "message", data: "" }],
      [["data", "line\nline\t\u0001"], { type: "message", data: "line\nline\t\u0001" }],
      [["data", " [1] "], { type: "message", data: [1] }],
      [["data", "[".repeat(600)], { type: "message", data: "[".repeat(600) }],
      [
        ["type", "t\u0001", "from", "ann", "ref", "r", "key", "k", "data", "1"],
        { type: "t\u0001", from: "ann", ref: "r", key: "k", data: 1 },
      ],
      [["data", JSON.stringify(long)], { type: "message", data: long }],
    ];
    const expected = [];
    for (const [words, entry] of cases) expected.push({ id: await add(room, ...words), ...entry });
    await visitor.reaches(room, expected.at(-1).id);
    assert.deepEqual(visitor.room(room).entries, expected);

    const late = await enter(context.roomd, room);
    assert.deepEqual(late.room(room).entries, expected);
    await late.leave();
    await visitor.leave();
  });

  test("bytes that are no text never reach a client", async () => {
    const room = newRoom();
    const visitor = await enter(context.roomd, room);
    /* redis-cli takes no arbitrary bytes as an argument, but a script makes them. */
    const script = `local function bytes(...) return string.char(...) end
      redis.call('XADD', KEYS[1], '*', 'type', bytes(255, 65), 'data', bytes(34, 195, 34))
      redis.call('XADD', KEYS[1], '*', 'data', bytes(0, 237, 160, 128, 66), 'key', bytes(192, 128))
      return redis.call('XADD', KEYS[1], '*', 'data', bytes(34, 244, 144, 128, 128, 34))`;
    const id = await redis.cli("EVAL", script, "1", `room:${room}`);
    await visitor.reaches(room, id);
    const entries = visitor.room(room).entries;
    assert.equal(entries[0].type, "\ufffdA");
    assert.match(entries[0].data, /^"\ufffd+"$/);
    assert.match(entries[1].data, /^\u0000\ufffd+B$/);
    assert.match(entries[1].key, /^\ufffd+$/);
    assert.match(entries[2].data, /^"\ufffd+"$/);
    await visitor.leave();
  });

  test("a client that was away for longer than the log retains is told `trimmed`", async () => {
    const room = newRoom();
    const visitor = await enter(context.roomd, room);
    await publish(context.roomd, room, 20);
    await visitor.until("all", () => visitor.room(room).entries.length === 20);
    await visitor.away();
    const ids = await publish(context.roomd, room, 100);
    await redis.cli("XTRIM", `room:${room}`, "MAXLEN", "10");
    visitor.back(other.wsUrl); /* whose ring doesn't hold what was cut */
    await visitor.live();
    assert.deepEqual(visitor.room(room).resyncs, ["trimmed"]);
    assert.deepEqual(visitor.room(room).ids, ids.slice(-10));

    /* Cutting only what everybody has seen is none of a live client's business. */
    await redis.cli("XTRIM", `room:${room}`, "MAXLEN", "1");
    const [id] = await publish(context.roomd, room, 1);
    await visitor.reaches(room, id);
    assert.deepEqual(visitor.room(room).resyncs, ["trimmed"]);
    await visitor.leave();
  });

  test("live members of a room that is deleted are told, and go on in the new log", async () => {
    const room = newRoom();
    const start = async (options) => {
      const visitor = new Visitor(context.roomd.wsUrl, [new Follower(room, options)]);
      await visitor.live();
      return visitor;
    };
    await publish(context.roomd, room, 20);
    const visitors = [await start(), await start({ last: 3 }), await start({ cursor: "$" })];
    for (const command of [["DEL"], ["UNLINK"], ["PEXPIRE", "1"]]) {
      const told = visitors.map((each) => each.room(room).resyncs.length);
      await redis.cli(command[0], `room:${room}`, ...command.slice(1));
      await until("it is gone", async () => (await redis.cli("EXISTS", `room:${room}`)) === "0");
      for (const [i, visitor] of visitors.entries()) {
        await visitor.until(`resync after ${command}`, () => {
          return visitor.room(room).resyncs.length === told[i] + 1;
        });
      }
      const ids = await publish(context.roomd, room, 5);
      for (const visitor of visitors) {
        await visitor.reaches(room, ids.at(-1));
        await visitor.live();
        assert.equal(visitor.room(room).resyncs.at(-1), "reset");
        assert.deepEqual(visitor.room(room).ids, ids);
      }
    }
    for (const visitor of visitors) await visitor.leave();
  });

  test("a room that is deleted and begun anew in one step is a fresh start", async () => {
    const room = newRoom();
    await publish(context.roomd, room, 20);
    const visitor = await enter(context.roomd, room);
    const script = `redis.call('DEL', KEYS[1])
      redis.call('XADD', KEYS[1], '*', 'data', '1')
      return redis.call('XADD', KEYS[1], '*', 'data', '2')`;
    const id = await redis.cli("EVAL", script, "1", `room:${room}`);
    await visitor.reaches(room, id);
    await visitor.live();
    assert.equal(visitor.room(room).resyncs.length, 1);
    assert.deepEqual(visitor.room(room).entries.map((entry) => entry.data), [1, 2]);
    await visitor.leave();
  });

  test("where all is flushed every room is told", async () => {
    const names = Array.from({ length: 20 }, newRoom);
    for (const room of names) await add(room, "data", "1");
    const visitor = new Visitor(context.roomd.wsUrl, names);
    await visitor.live();
    await redis.cli("FLUSHALL");
    await visitor.until("all are told", () =>
      visitor.rooms.every((room) => room.resyncs.join() === "reset" && room.state === "live"),
    );
    for (const room of names) await visitor.reaches(room, await add(room, "data", "2"));
    /* The script that appends is gone, too. */
    const [id] = await publish(context.roomd, names[0], 1);
    await visitor.reaches(names[0], id);
    await visitor.leave();
  });

  test("a deleted entry is a `hole` to who was before it, and to nobody else", async () => {
    const room = newRoom();
    const ids = await publish(context.roomd, room, 10);
    const visitor = await enter(context.roomd, room);
    await redis.cli("XDEL", `room:${room}`, ids[4]);
    const behind = await Client.open(context.roomd.wsUrl);
    behind.send({ op: "join", room, cursor: ids[3] });
    const joined = await behind.next("joined");
    assert.equal(joined.from, ids[3], "its own entry is there, so all that is after it comes");
    assert.equal((await behind.next("entry")).id, ids[5]);
    await redis.cli("XDEL", `room:${room}`, ids[3]);
    behind.send({ op: "join", room, cursor: ids[3] });
    assert.equal((await behind.next("resync")).reason, "hole");
    await behind.close();

    const [id] = await publish(context.roomd, room, 1);
    await visitor.reaches(room, id);
    assert.deepEqual(visitor.room(room).resyncs, []);
    await visitor.leave();
  });

  test("ids that another program chose are no trouble up to the largest", async () => {
    const room = newRoom();
    const key = `room:${room}`;
    const visitor = await enter(context.roomd, room);
    const ids = ["0-1", "0-18446744073709551615", "9-0", "10-0", "9007199254740993-1",
      "18446744073709551615-18446744073709551614", "18446744073709551615-18446744073709551615"];
    for (const id of ids) assert.equal(await redis.cli("XADD", key, id, "data", "1"), id);
    await visitor.reaches(room, ids.at(-1));
    assert.deepEqual(visitor.room(room).ids, ids);
    assert.deepEqual([...ids].sort(compareIds), ids);
    await visitor.away();
    visitor.back();
    await visitor.live();
    for (const from of ids) {
      const client = await Client.open(`${context.roomd.wsUrl}?room=${room}&cursor=${from}`);
      assert.equal((await client.next("joined")).from, from);
      assert.equal((await client.next("live")).replayed, ids.length - 1 - ids.indexOf(from));
      await client.close();
    }
    await visitor.leave();
  });

  test("a key that is no stream fails its own room only", async () => {
    const room = newRoom();
    await redis.cli("SET", `room:${room}`, "text");
    const client = await Client.open(context.roomd.wsUrl);
    client.send({ op: "join", room });
    const reject = await client.next("reject");
    assert.deepEqual([reject.op_ref, reject.room, reject.code], ["join", room, 500]);
    client.send({ op: "publish", room, type: "a", ref: "r", data: 1 });
    const second = await client.next("reject");
    assert.deepEqual([second.op_ref, second.ref, second.code], ["publish", "r", 500]);
    client.send({ op: "join", room: newRoom() });
    await client.next("live");
    await redis.cli("DEL", `room:${room}`);
    await until("the room can be joined now", async () => {
      client.send({ op: "join", room });
      return (await client.next()).op === "joined";
    });
    await client.close();
  });
});
