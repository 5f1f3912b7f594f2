import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import test from "node:test";
import { RoomdError, connect } from "../roomd.js";
import { FakeServer, Screen } from "./fake-server.js";

function setUp() {
  const server = new FakeServer();
  const client = connect("ws://test/v1/ws", server.options());
  return { server, client };
}

const ops = (socket) => socket.up.map(({ op, room }) => [op, room]);

test("rooms are joined once the connection stands, and again on the next one", () => {
  const { server, client } = setUp();
  const a = client.join("a");
  const b = client.join("b");
  assert.equal(client.join("a"), a);
  server.welcome();
  server.socket.deliver();
  assert.deepEqual(ops(server.socket), [
    ["join", "a"],
    ["join", "b"],
  ]);
  server.settle();
  assert.deepEqual([a.state, b.state], ["live", "live"]);
  server.socket.cut();
  assert.deepEqual([client.state, a.state, b.state], ["waiting", "waiting", "waiting"]);
  client.check();
  server.settle();
  assert.deepEqual([client.state, a.state, b.state], ["open", "live", "live"]);
});

test("two clients in one room see each other's messages once, in one order", async () => {
  const server = new FakeServer();
  const rooms = ["ann", "bob"].map((name) => {
    const options = server.options({ newRef: () => `${name}-${Math.random()}` });
    const room = connect("ws://test/v1/ws", options).join("r");
    server.settle();
    return room;
  });
  const screens = rooms.map((room) => new Screen(room));
  const ids = [];
  for (let i = 0; i < 10; i += 1) ids.push(rooms[i % 2].publish("message", i));
  for (const socket of server.sockets) server.receive(socket);
  for (const socket of server.sockets) socket.deliver();
  const order = server.log("r").entries.map(({ id }) => id);
  for (const screen of screens)
    assert.deepEqual(
      screen.entries.map(({ id }) => id),
      order,
    );
  assert.deepEqual(new Set(await Promise.all(ids)), new Set(order));
});

test("each room has its own cursor, and gets its own frames only", () => {
  const { server, client } = setUp();
  const [a, b] = ["a", "b"].map((name) => client.join(name));
  const [screenA, screenB] = [a, b].map((room) => new Screen(room));
  server.settle();
  server.append("a", 1);
  server.append("b", 2);
  server.append("a", 3);
  server.settle();
  assert.deepEqual([screenA.shown, screenB.shown], [[1, 3], [2]]);
  server.socket.cut();
  server.append("a", 4);
  server.append("b", 5);
  client.check();
  server.settle();
  assert.deepEqual(
    [screenA.shown, screenB.shown],
    [
      [1, 3, 4],
      [2, 5],
    ],
  );
});

test("a room that was left can be joined afresh, even before the server said left", () => {
  const { server, client } = setUp();
  const first = client.join("r");
  server.append("r", 1);
  server.settle();
  first.leave();
  const second = client.join("r");
  assert.notEqual(second, first);
  const screen = new Screen(second);
  server.settle();
  assert.deepEqual([second.state, screen.shown], ["live", [1]]);
});

test("a terminal code ends the rooms with the reason; nothing is tried again", async () => {
  const { server, client } = setUp();
  const room = client.join("r");
  server.settle();
  const id = room.publish("message", 1);
  server.socket.cut(4403, "forbidden");
  assert.deepEqual([client.state, room.state], ["closed", "left"]);
  await assert.rejects(id, (error) => error instanceof RoomdError && error.code === 4403);
  server.clock.advance(3_600_000);
  assert.equal(server.sockets.length, 1);
  assert.throws(() => client.join("r"), RoomdError);
});

test("close leaves the rooms", () => {
  const { server, client } = setUp();
  const room = client.join("r");
  server.settle();
  client.close();
  assert.deepEqual([client.state, room.state, server.clock.pending], ["closed", "left", 0]);
});

test("an error frame is told to the page, and a frame for a room we aren't in is nobody's", () => {
  const { server, client } = setUp();
  const errors = [];
  client.on("error", (error) => errors.push(error.codeName));
  server.settle();
  server.socket.push({ op: "error", code: 404, reason: "unknown op" });
  server.socket.push({ op: "live", room: "elsewhere", cursor: "1-0", replayed: 0 });
  server.socket.push({ op: "reject", op_ref: "auth", code: 401, reason: "no" });
  server.settle();
  assert.deepEqual(errors, ["unknown_op"]);
  assert.equal(client.state, "open");
});

test("refs are 128 random bits, without a secure context", async () => {
  globalThis.crypto ??= webcrypto; /* Node 18 has it as a module only. */
  const { server } = setUp();
  const { newRef, ...options } = server.options();
  const room = connect("ws://test/v1/ws", options).join("r");
  room.publish("message", 1);
  room.publish("message", 2);
  const [a, b] = room.pending.map(({ ref }) => ref);
  assert.match(a, /^[0-9a-f]{32}$/);
  assert.notEqual(a, b);
});

test("without a url, the host of the page is meant", (t) => {
  const { server } = setUp();
  for (const [page, url] of [
    ["https://chat.example/?a=b#lobby", "wss://chat.example/v1/ws"],
    ["http://127.0.0.1:8080/x/y", "ws://127.0.0.1:8080/v1/ws"],
  ]) {
    globalThis.location = { href: page };
    t.after(() => delete globalThis.location);
    connect(undefined, server.options());
    assert.equal(server.socket.url, url);
  }
});
