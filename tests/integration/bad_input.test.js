/* bad_input.test.js - each kind of bad input gets its documented answer, and the server goes on. */
import assert from "node:assert/strict";
import { after, before, test as nodeTest } from "node:test";
import { Client, OPCODE, Raw, frameBytes } from "../lib/clients.js";
import { startRoomd } from "../lib/servers.js";

const test = (name, run) => nodeTest(name, { timeout: 30_000 }, run);
const MAX_FRAME = 65536;
const MAX_ROOMS = 100;

let roomd;

before(async () => {
  roomd = await startRoomd({ args: ["--max-rooms-per-session", String(MAX_ROOMS)] });
});

/* Nothing that was thrown at it may have hurt it: it still serves, and ends cleanly. */
after(async () => {
  const client = await Client.open(roomd.wsUrl);
  client.send({ op: "publish", room: "after", type: "message", data: 1 });
  await client.next("ack");
  await client.close();
  assert.deepEqual(await roomd.stop(), { code: 0, signal: null }, roomd.logs());
});

async function open() {
  const client = await Client.open(roomd.wsUrl);
  await client.next("welcome");
  return client;
}

async function openRaw() {
  const raw = await Raw.connect(roomd.port);
  assert.equal((await raw.upgrade()).status, 101);
  await raw.next("welcome");
  return raw;
}

/* The socket lives: it still answers. */
async function assertLives(client) {
  client.send({ op: "ping", t: 7 });
  assert.equal((await client.next("pong")).t, 7);
}

/* --- frames that make no sense: an error, and the socket lives -------------------------------- */

const NONSENSE = [
  ["text that isn't JSON", "hello", 400],
  ["an empty message", "", 400],
  ["half a JSON text", '{"op":"join"', 400],
  ["two JSON texts", '{"op":"ping"}{"op":"ping"}', 400],
  ["JSON 200 levels deep", `{"op":"ping","t":${"[".repeat(200)}${"]".repeat(200)}}`, 400],
  ["JSON that isn't an object", "[1,2]", 400],
  ["a key given twice", '{"op":"ping","op":"ping"}', 400],
  ["no op", "{}", undefined],
  ["an unknown op", '{"op":"fly"}', 404],
  ["an op that isn't a string", '{"op":1}', undefined],
];

for (const [what, text, code] of NONSENSE) {
  test(`${what} is answered with an error`, async () => {
    const client = await open();
    client.send(text);
    const error = await client.next("error");
    if (code !== undefined) assert.equal(error.code, code);
    assert.ok(error.reason.length > 0);
    await assertLives(client);
    await client.close();
  });
}

/* --- fields that are wrong: a reject that says which ------------------------------------------ */

const WRONG_FIELDS = [
  ...["", "a b", "a/b", "ü", "a\u0000b", "x".repeat(129), 5, null].map((room) => [
    { op: "join", room },
    "join",
  ]),
  ...[
    "1-",
    "-1-0",
    "18446744073709551616-0",
    "1-18446744073709551616",
    "+1-0",
    "01-0",
    "1",
    "x",
    " 1-0",
    "",
  ].map((cursor) => [{ op: "join", room: "lobby", cursor }, "join"]),
  ...[0, 501, -1, 1.5, "10"].map((last) => [{ op: "join", room: "lobby", last }, "join"]),
  [{ op: "publish", room: "lobby", type: "t" }, "publish"],
  [{ op: "publish", room: "lobby", type: "", data: 1 }, "publish"],
  [{ op: "publish", room: "lobby", type: "x".repeat(65), data: 1 }, "publish"],
  [{ op: "publish", room: "lobby", type: "t", data: 1, ref: "x".repeat(129) }, "publish"],
  [{ op: "publish", room: "a b", type: "t", data: 1 }, "publish"],
  [{ op: "leave" }, "leave"],
];

test("a wrong field is answered with a reject 422 that names the op", async () => {
  const client = await open();
  for (const [frame, op] of WRONG_FIELDS) {
    client.send(frame);
    const reject = await client.next();
    assert.deepEqual(
      [reject.op, reject.op_ref, reject.code],
      ["reject", op, 422],
      JSON.stringify(frame),
    );
  }
  await assertLives(client);
  await client.close();
});

test("a bad cursor in the URL is rejected after the welcome", async () => {
  const client = await Client.open(`${roomd.wsUrl}?room=lobby&cursor=1-`);
  assert.equal((await client.next()).op, "welcome");
  const reject = await client.next();
  assert.deepEqual([reject.op, reject.op_ref, reject.code], ["reject", "join", 422]);
  await assertLives(client);
  await client.close();
});

/* --- too much --------------------------------------------------------------------------------- */

test("a socket that goes on sending nonsense is closed with 4400", async () => {
  const client = await open();
  for (let i = 0; i < 40; i++) client.send("nonsense");
  assert.deepEqual(await client.closed, { code: 4400, reason: "bad frame" });
});

test("of 10,000 joins on one socket those over the limit are rejected with 429", async () => {
  const client = await open();
  const joins = 10_000;
  for (let i = 0; i < joins; i++) client.send({ op: "join", room: `many-${i}` });
  let joined = 0;
  let rejected = 0;
  while (joined + rejected < joins) {
    const frame = await client.next();
    if (frame.op === "joined") joined++;
    else if (frame.op === "reject") {
      assert.equal(frame.code, 429);
      rejected++;
    } else assert.equal(frame.op, "live");
  }
  assert.deepEqual([joined, rejected], [MAX_ROOMS, joins - MAX_ROOMS]);
  await assertLives(client);
  await client.close();
});

test("a message over the limit is closed with 1009 before it is all there", async () => {
  const raw = await openRaw();
  const frame = frameBytes({ payload: Buffer.alloc(MAX_FRAME + 1, 0x20) });
  raw.write(frame.subarray(0, 100));
  assert.deepEqual(await raw.nextClose(), { code: 1009, reason: "message too big" });
  raw.destroy();
});

test("a message of exactly the limit is read, in one frame or in many", async () => {
  const text = '{"op":"ping","t":1,"pad":"'.padEnd(MAX_FRAME - 2, "x") + '"}';
  assert.equal(text.length, MAX_FRAME);
  const raw = await openRaw();
  raw.frame({ text });
  await raw.next("pong");
  for (let i = 0; i < MAX_FRAME; i += 1000) {
    raw.frame({
      text: text.slice(i, i + 1000),
      opcode: i === 0 ? OPCODE.text : OPCODE.continuation,
      fin: i + 1000 >= MAX_FRAME,
    });
    if (i % 10_000 === 0) raw.frame({ text: "between", opcode: OPCODE.ping });
  }
  await raw.next("pong");
  raw.destroy();
});

test("fragments that together go over the limit are closed with 1009", async () => {
  const raw = await openRaw();
  const part = Buffer.alloc(MAX_FRAME / 2, 0x20);
  raw.frame({ payload: part, fin: false });
  raw.frame({ payload: part, opcode: OPCODE.continuation, fin: false });
  raw.frame({ text: " ", opcode: OPCODE.continuation });
  assert.equal((await raw.nextClose()).code, 1009);
  raw.destroy();
});

test("a frame that announces 2^62 bytes is closed with 1009", async () => {
  const raw = await openRaw();
  raw.write(frameBytes({ text: "{", length: 2 ** 62 }));
  assert.equal((await raw.nextClose()).code, 1009);
  raw.destroy();
});

/* --- what isn't text -------------------------------------------------------------------------- */

test("a binary message is closed with 4400", async () => {
  const client = await open();
  client.send(Buffer.from('{"op":"ping"}'));
  assert.deepEqual(await client.closed, { code: 4400, reason: "bad frame" });
});

for (const [what, bytes] of [
  ["a stray byte", [0x22, 0xff, 0x22]],
  ["an overlong form", [0x22, 0xc0, 0xaf, 0x22]],
  ["a surrogate", [0x22, 0xed, 0xa0, 0x80, 0x22]],
  ["a cut sequence", [0x22, 0xe2, 0x82]],
]) {
  test(`invalid UTF-8 is closed with 1007: ${what}`, async () => {
    const raw = await openRaw();
    raw.frame({ payload: Buffer.from(bytes) });
    assert.equal((await raw.nextClose()).code, 1007);
    raw.destroy();
  });
}

test("a character cut between two fragments is no invalid UTF-8", async () => {
  const raw = await openRaw();
  const text = Buffer.from('{"op":"ping","t":"€"}');
  const cut = text.indexOf(0xe2) + 1;
  raw.frame({ payload: text.subarray(0, cut), fin: false });
  raw.frame({ payload: text.subarray(cut), opcode: OPCODE.continuation });
  assert.equal((await raw.next("pong")).t, "€");
  raw.destroy();
});

/* --- frames that break RFC 6455 --------------------------------------------------------------- */

const PING = '{"op":"ping","t":1}';
const BROKEN_FRAMES = {
  "an unmasked text": [{ text: PING, mask: false }],
  "an unmasked ping": [{ opcode: OPCODE.ping, mask: false }],
  "an unmasked close": [{ payload: Buffer.from([3, 232]), opcode: OPCODE.close, mask: false }],
  "an unmasked continuation": [
    { text: PING, fin: false },
    { text: " ", opcode: OPCODE.continuation, mask: false },
  ],
  "an unmasked text behind masked ones": [
    { text: PING },
    { text: PING },
    { text: PING, mask: false },
  ],
  "a reserved bit": [{ text: PING, rsv: 4 }],
  "a reserved opcode": [{ text: PING, opcode: 3 }],
  "a reserved control opcode": [{ text: PING, opcode: 11 }],
  "a fragmented ping": [{ opcode: OPCODE.ping, fin: false }],
  "a close of one byte": [{ payload: Buffer.from([3]), opcode: OPCODE.close }],
  "a ping of 126 bytes": [{ payload: Buffer.alloc(126), opcode: OPCODE.ping }],
  "a continuation of nothing": [{ text: PING, opcode: OPCODE.continuation }],
  "a new message inside another": [{ text: PING, fin: false }, { text: PING }],
};

for (const [what, frames] of Object.entries(BROKEN_FRAMES)) {
  test(`${what} is closed with 1002`, async () => {
    const raw = await openRaw();
    raw.write(Buffer.concat(frames.map(frameBytes)));
    assert.deepEqual(await raw.nextClose(), { code: 1002, reason: "protocol error" });
    raw.destroy();
  });

  test(`${what} is closed with 1002, byte by byte too`, async () => {
    const raw = await openRaw();
    raw.socket.setNoDelay(true);
    const closed = raw.nextClose();
    for (const byte of Buffer.concat(frames.map(frameBytes))) {
      if (raw.socket.destroyed) break;
      await new Promise((done) => raw.socket.write(Buffer.from([byte]), done));
      await new Promise(setImmediate);
    }
    assert.equal((await closed).code, 1002);
    raw.destroy();
  });
}

test("what comes before an unmasked frame is still answered, and nothing after it", async () => {
  const raw = await openRaw();
  raw.write(
    Buffer.concat([
      frameBytes({ text: '{"op":"ping","t":"before"}' }),
      frameBytes({ text: '{"op":"ping","t":"unmasked"}', mask: false }),
      frameBytes({ text: '{"op":"ping","t":"after"}' }),
    ]),
  );
  assert.equal((await raw.next("pong")).t, "before");
  const { opcode } = await raw.nextFrame();
  assert.equal(opcode, OPCODE.close);
  raw.destroy();
});

test("frames that come in one segment with the request are read", async () => {
  const raw = await Raw.connect(roomd.port);
  const response = await raw.upgrade({ then: frameBytes({ text: PING }) });
  assert.equal(response.status, 101);
  assert.equal((await raw.next("pong")).t, 1);
  raw.destroy();
});

test("an unmasked frame in one segment with the request is closed with 1002", async () => {
  const raw = await Raw.connect(roomd.port);
  assert.equal((await raw.upgrade({ then: frameBytes({ text: PING, mask: false }) })).status, 101);
  assert.equal((await raw.nextClose()).code, 1002);
  raw.destroy();
});

/* --- the end of a connection ------------------------------------------------------------------ */

test("a client's close is answered with its own code", async () => {
  for (const code of [1000, 3000, 4999]) {
    const client = await open();
    assert.equal((await client.close(code)).code, code);
  }
});

test("pings are answered with their own payload", async () => {
  const raw = await openRaw();
  raw.frame({ text: "abc", opcode: OPCODE.ping });
  const pong = await raw.nextFrame(OPCODE.pong);
  assert.equal(pong.payload.toString(), "abc");
  assert.equal(pong.masked, false);
  raw.destroy();
});

test("a connection that vanishes in the middle of a frame does no harm", async () => {
  for (let i = 0; i < 20; i++) {
    const raw = await openRaw();
    raw.write(frameBytes({ text: PING }).subarray(0, 1 + i));
    if (i % 2 === 0) raw.destroy();
    else raw.socket.resetAndDestroy();
  }
  const client = await open();
  await assertLives(client);
  await client.close();
});
