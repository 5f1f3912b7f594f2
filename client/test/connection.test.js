import assert from "node:assert/strict";
import test from "node:test";
import { CLOSES } from "../codes.js";
import { Connection } from "../connection.js";
import { FakeServer } from "./fake-server.js";

function setUp(options = {}) {
  const server = new FakeServer();
  const wiring = server.options({ backoffBaseMs: 1000, backoffCapMs: 8000, ...options });
  const connection = new Connection("ws://test/v1/ws", wiring);
  const changes = [];
  connection.on("state", (change) => changes.push(change));
  connection.open();
  const open = () => {
    server.welcome();
    server.socket.deliver();
    assert.equal(connection.state, "open");
  };
  return { server, clock: server.clock, wiring, connection, changes, open };
}

test("is open with the welcome, not with the socket, and offers the subprotocol", () => {
  const { server, connection, changes, open } = setUp();
  assert.deepEqual(server.socket.protocols, ["roomd.v1"]);
  assert.equal(connection.state, "connecting");
  assert.equal(connection.send("{}"), false);
  open();
  assert.equal(connection.maxFrameBytes, 65_536);
  assert.equal(connection.send('{"op":"x"}'), true);
  assert.deepEqual(server.socket.up, [{ op: "x" }]);
  assert.deepEqual(
    changes.map((change) => change.state),
    ["connecting", "open"],
  );
});

test("a socket without a welcome is given up", () => {
  const { server, clock, connection, changes } = setUp();
  clock.advance(9_999);
  assert.equal(connection.state, "connecting");
  clock.advance(1);
  assert.equal(connection.state, "waiting");
  assert.equal(changes.at(-1).reason, "no welcome");
  assert.ok(server.socket.closed);
});

for (const code of [1006, 1001, ...CLOSES.keys()]) {
  const resume = CLOSES.get(code)?.resume ?? true;
  test(`${code} ${resume ? "is resumed after a wait" : "is the end"}`, () => {
    const { server, clock, connection, changes, open } = setUp();
    open();
    server.socket.cut(code, "why");
    assert.equal(connection.state, resume ? "waiting" : "closed");
    assert.equal(changes.at(-1).code, code);
    assert.equal(changes.at(-1).reason, "why");
    assert.equal(changes.at(-1).retryInMs, resume ? 500 : undefined);
    clock.advance(100_000);
    assert.equal(server.sockets.length > 1, resume);
    if (!resume) assert.equal(clock.pending, 0);
  });
}

test("waits grow while sockets die young, and start over after one that lived", () => {
  const { server, clock, changes, open } = setUp();
  const waits = [];
  const dieAfter = (ms) => {
    open();
    clock.advance(ms);
    server.socket.cut();
    waits.push(changes.at(-1).retryInMs);
    clock.advance(waits.at(-1));
  };
  for (const ms of [0, 1000, 0, 9_999, 0]) dieAfter(ms);
  dieAfter(10_000);
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 4000, 500]);
});

test("bye says when to come back, once", () => {
  const { server, clock, connection, changes, open } = setUp();
  open();
  server.socket.push({ op: "bye", reason: "restart", retry_after_ms: 1234 });
  server.socket.deliver();
  server.socket.cut(1012, "restart");
  assert.equal(changes.at(-1).retryInMs, 1234);
  clock.advance(1233);
  assert.equal(connection.state, "waiting");
  clock.advance(1);
  assert.equal(connection.state, "connecting");
  server.socket.cut();
  assert.equal(changes.at(-1).retryInMs, 500);
});

test("an idle socket is pinged, and a pong keeps it", () => {
  const { server, clock, connection, open } = setUp();
  open();
  for (let i = 0; i < 10; i += 1) {
    clock.advance(20_000);
    assert.equal(server.socket.up.at(-1)?.op, "ping");
    server.receive(server.socket);
    server.socket.deliver();
  }
  assert.equal(connection.state, "open");
  assert.equal(server.sockets.length, 1);
});

test("a busy socket isn't pinged", () => {
  const { server, clock, open } = setUp();
  open();
  for (let i = 0; i < 100; i += 1) {
    clock.advance(5_000);
    server.socket.push({ op: "error", code: 404, reason: "any frame is a sign of life" });
    server.socket.deliver();
  }
  assert.deepEqual(server.socket.up, []);
});

test("a dead socket is found within heartbeat_ms of the last frame, wherever in the period", () => {
  for (let heardAfter = 0; heardAfter < 30_000; heardAfter += 1_000) {
    const { server, clock, changes, open } = setUp();
    open();
    server.socket.push({ op: "pong" });
    clock.advance(heardAfter);
    server.socket.deliver();
    clock.advance(30_000);
    assert.ok(
      changes.some(({ state }) => state === "waiting"),
      `last frame at ${heardAfter} ms`,
    );
  }
});

test("after a sleep the socket is asked before it is given up", () => {
  const { server, clock, connection, open } = setUp();
  open();
  clock.advance(20_000);
  clock.sleep(3_600_000);
  assert.equal(connection.state, "open");
  assert.deepEqual(
    server.socket.up.map((frame) => frame.op),
    ["ping", "ping"],
  );
  clock.advance(3_000);
  assert.equal(connection.state, "waiting");
});

test("offline makes sure, online doesn't wait", () => {
  const { server, clock, wiring, connection, open } = setUp();
  const { network } = wiring;
  open();
  network.dispatchEvent(new Event("offline"));
  assert.equal(server.socket.up.at(-1).op, "ping");
  clock.advance(3_000);
  assert.equal(connection.state, "waiting");
  network.dispatchEvent(new Event("offline"));
  assert.equal(connection.state, "waiting");
  network.dispatchEvent(new Event("online"));
  assert.equal(connection.state, "connecting");
  open();
  network.dispatchEvent(new Event("online"));
  server.receive(server.socket);
  server.socket.deliver();
  clock.advance(5_000);
  assert.equal(connection.state, "open");
  connection.close();
  network.dispatchEvent(new Event("online"));
  assert.equal(connection.state, "closed");
});

test("nothing of an old socket is heard after it was given up", () => {
  const { server, clock, connection, changes, open } = setUp();
  open();
  const [old] = server.sockets;
  clock.advance(30_000);
  clock.advance(500);
  assert.equal(server.sockets.length, 2);
  const frames = [];
  connection.on("frame", (frame) => frames.push(frame));
  const before = changes.length;
  old.onmessage({ data: '{"op":"left","room":"r"}' });
  old.onclose({ code: 4403, reason: "" });
  assert.deepEqual(frames, []);
  assert.equal(changes.length, before);
});

test("a frame that makes no sense ends the socket, not the client", () => {
  for (const text of ["{", '{"op":"entry"}', '{"op":"left"}']) {
    const { server, connection, open } = setUp();
    open();
    server.socket.onmessage({ data: text });
    assert.equal(connection.state, "waiting", text);
    assert.ok(server.socket.closed);
  }
});

test("no frame counts before the welcome", () => {
  const { server, connection } = setUp();
  server.socket.onmessage({ data: '{"op":"left","room":"r"}' });
  assert.equal(connection.state, "waiting");
});

test("close ends everything, in every state", () => {
  for (const reach of ["connecting", "open", "waiting"]) {
    const { server, clock, connection, open } = setUp();
    if (reach !== "connecting") open();
    if (reach === "waiting") server.socket.cut();
    assert.equal(connection.state, reach);
    connection.close();
    assert.equal(connection.state, "closed");
    assert.equal(clock.pending, 0);
    assert.ok(server.socket.closed);
  }
});

test("a socket that can't be made is the caller's mistake at first, and lost later", () => {
  let broken = true;
  const { openSocket } = new FakeServer().options();
  const mayThrow = (...args) => {
    if (broken) throw new SyntaxError("no such scheme");
    return openSocket(...args);
  };
  assert.throws(() => setUp({ openSocket: mayThrow }), SyntaxError);
  broken = false;
  const { clock, connection, changes } = setUp({ openSocket: mayThrow });
  broken = true;
  clock.advance(10_500);
  assert.equal(connection.state, "waiting");
  assert.deepEqual(changes.at(-1), {
    ...{ state: "waiting", previous: "waiting", code: 1006 },
    ...{ reason: "SyntaxError: no such scheme", retryInMs: 1000 },
  });
  broken = false;
  clock.advance(1000);
  assert.equal(connection.state, "connecting");
});

test("a wait too long for a timer isn't cut short to none", () => {
  const { server, clock, connection, open } = setUp();
  open();
  server.socket.push({ op: "bye", reason: "restart", retry_after_ms: 1e12 });
  server.socket.deliver();
  server.socket.cut(1012);
  clock.advance(2 ** 31 - 2);
  assert.equal(connection.state, "waiting");
});
