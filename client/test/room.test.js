import assert from "node:assert/strict";
import test from "node:test";
import { Room } from "../room.js";
import { FakeServer, Screen, seededRandom } from "./fake-server.js";
import { connect } from "../roomd.js";

/* A room in state joining, whose frames the test writes by hand. */
function setUp({ cursors = null, ...options } = {}) {
  const { clock } = new FakeServer();
  const sent = [];
  const link = { open: true };
  let refs = 0;
  const room = new Room("r", options, {
    send: (text) => link.open && sent.push(JSON.parse(text)) > 0,
    maxFrameBytes: () => 1000,
    onEnd: () => {},
    cursors,
    clock,
    random: () => 0.5,
    newRef: () => `ref-${++refs}`,
    backoffBaseMs: 1000,
    backoffCapMs: 8000,
  });
  const screen = new Screen(room);
  const changes = [];
  room.on("state", (change) => changes.push(change));
  room.connected();
  const receive = (op, fields = {}) => room.receive({ op, room: "r", ...fields });
  const joined = (from = null) => receive("joined", { from, head: "9-0", oldest: null });
  const entry = (id, prev, fields = {}) =>
    receive("entry", { id, prev, type: "message", data: id, ...fields });
  const live = (cursor) => receive("live", { cursor, replayed: 0 });
  const applied = () => screen.entries.map(({ id }) => id);
  const reconnect = (from) => {
    room.disconnected();
    room.connected();
    joined(from);
  };
  return {
    ...{ room, screen, sent, link, clock, changes },
    ...{ receive, joined, entry, live, applied, reconnect },
  };
}

const publishes = (sent) => sent.filter(({ op }) => op === "publish").map(({ ref }) => ref);
const joins = (sent) => sent.filter(({ op }) => op === "join");

/* --- the rule -------------------------------------------------------------------------------- */

test("after a fresh start the first entry is applied, the next must chain", () => {
  for (const prev of [null, "0-0", "4-0"]) {
    const { joined, entry, applied, room } = setUp();
    joined();
    entry("5-0", prev);
    entry("6-0", "5-0");
    assert.deepEqual(applied(), ["5-0", "6-0"]);
    assert.equal(room.cursor, "6-0");
  }
});

/* --- snapshots ------------------------------------------------------------------------------- */

const item = (id, key, data = id) => ({ id, type: "set", key, data });

function setUpWithState(options = {}) {
  const parts = setUp({ state: true, ...options });
  const snapshots = [];
  parts.room.on("snapshot", (snapshot) => snapshots.push(snapshot));
  const snapshot = (id, entries, more) => parts.receive("snapshot", { id, entries, more });
  return { ...parts, snapshot, snapshots };
}

test("a room may ask for its state, at each join", () => {
  const { sent, joined, live, entry, reconnect } = setUpWithState();
  assert.deepEqual(sent, [{ op: "join", room: "r", state: true }]);
  joined();
  entry("1-0", "0-0");
  live("1-0");
  reconnect("1-0");
  assert.deepEqual(sent.at(-1), { op: "join", room: "r", cursor: "1-0", state: true });
  assert.deepEqual(setUp({ state: false }).sent, [{ op: "join", room: "r" }]);
});

test("a snapshot sets the cursor: what follows must chain to it", () => {
  const saved = [];
  const cursors = { load: () => null, save: (_, cursor) => saved.push(cursor) };
  const { room, joined, snapshot, snapshots, entry, live, applied, sent } = setUpWithState({
    cursors,
  });
  joined();
  snapshot("5-0", [item("2-0", "a"), item("5-0", "b")]);
  assert.deepEqual(snapshots, [{ id: "5-0", entries: [item("2-0", "a"), item("5-0", "b")] }]);
  assert.equal(room.cursor, "5-0");
  assert.deepEqual(saved, ["5-0"]);
  entry("5-0", "4-0"); /* is in it */
  entry("6-0", "5-0");
  live("6-0");
  assert.deepEqual(applied(), ["6-0"]);
  assert.equal(room.state, "live");
  entry("8-0", "7-0");
  assert.equal(sent.at(-1).cursor, "6-0");
});

test("a snapshot in pieces is handed on whole, and the cursor waits for the last", () => {
  const { room, joined, snapshot, snapshots } = setUpWithState();
  joined();
  snapshot("5-0", [item("1-0", "a")], true);
  snapshot("5-0", [], true);
  assert.deepEqual(snapshots, []);
  assert.equal(room.cursor, null);
  snapshot("5-0", [item("5-0", "b")]);
  assert.deepEqual(snapshots, [{ id: "5-0", entries: [item("1-0", "a"), item("5-0", "b")] }]);
  assert.equal(room.cursor, "5-0");
});

test("pieces of a snapshot that never became whole are forgotten", () => {
  const { room, joined, snapshot, snapshots, receive, reconnect } = setUpWithState();
  joined();
  snapshot("5-0", [item("1-0", "a")], true);
  receive("resync", { reason: "reset", from: null });
  snapshot("6-0", [item("6-0", "b")], true);
  reconnect(null);
  snapshot("7-0", [item("7-0", "c")]);
  assert.deepEqual(snapshots, [{ id: "7-0", entries: [item("7-0", "c")] }]);
  assert.equal(room.cursor, "7-0");
});

test("after a snapshot without a place the first entry is applied, whatever its prev", () => {
  const { room, receive, snapshot, entry, applied } = setUpWithState({ cursor: "1-0", last: 2 });
  receive("resync", { reason: "trimmed", from: null });
  snapshot(null, [item("8-0", "a")]);
  assert.equal(room.cursor, null);
  entry("7-0", "6-0");
  entry("8-0", "7-0");
  assert.deepEqual(applied(), ["7-0", "8-0"]);
});

test("a snapshot of the join before is dropped", () => {
  const { room, snapshot, snapshots } = setUpWithState();
  snapshot("5-0", [item("5-0", "a")]);
  assert.deepEqual(snapshots, []);
  assert.equal(room.cursor, null);
});

test("a listener may leave from inside a snapshot", () => {
  const { room, joined, snapshot } = setUpWithState();
  room.on("snapshot", () => room.leave());
  joined();
  snapshot("5-0", []);
  assert.equal(room.state, "left");
  assert.equal(room.cursor, null);
});

test("what was published before the snapshot and acknowledged is withdrawn once live", () => {
  const { room, joined, snapshot, receive, live, screen } = setUpWithState();
  joined();
  room.publish("set", 1, { key: "a" });
  receive("ack", { ref: "ref-1", id: "5-0", duplicate: false });
  snapshot("5-0", [item("5-0", "a", 1)]);
  live("5-0");
  assert.deepEqual(screen.withdrawn, [{ ref: "ref-1", error: null }]);
  assert.equal(room.pending.length, 0);
});

test("an id at or below the cursor is dropped, as numbers and not as text", () => {
  const { joined, entry, applied } = setUp();
  joined();
  entry("10-0", null);
  entry("10-0", null);
  entry("9-0", null);
  entry("10-1", "10-0");
  entry("10-0", "9-0");
  assert.deepEqual(applied(), ["10-0", "10-1"]);
});

test("anything else is a gap: rejoin from the cursor, drop what comes before the answer", () => {
  const { room, joined, entry, live, applied, sent } = setUp();
  joined();
  entry("1-0", "0-0");
  live("1-0");
  entry("3-0", "2-0");
  assert.equal(room.state, "joining");
  assert.deepEqual(sent.at(-1), { op: "join", room: "r", cursor: "1-0" });
  entry("2-0", "1-0");
  entry("4-0", "3-0");
  live("4-0");
  assert.deepEqual(applied(), ["1-0"]);
  assert.equal(room.state, "joining");
  joined("1-0");
  for (const [id, prev] of [
    ["2-0", "1-0"],
    ["3-0", "2-0"],
    ["4-0", "3-0"],
  ])
    entry(id, prev);
  assert.deepEqual(applied(), ["1-0", "2-0", "3-0", "4-0"]);
});

test("an unknown prev is a gap once there is a cursor", () => {
  const { room, joined, entry } = setUp();
  joined();
  entry("1-0", "0-0");
  entry("2-0", null);
  assert.equal(room.state, "joining");
});

test("a second gap without an entry between waits longer each time", () => {
  const { room, joined, entry, clock, sent } = setUp({ cursor: "1-0" });
  const gap = () => {
    joined("1-0");
    entry("9-0", "8-0");
  };
  gap();
  assert.equal(joins(sent).length, 2);
  gap();
  assert.equal(room.state, "waiting");
  clock.advance(499);
  assert.equal(joins(sent).length, 2);
  clock.advance(1);
  assert.equal(joins(sent).length, 3);
  gap();
  clock.advance(999);
  assert.equal(joins(sent).length, 3);
  clock.advance(1);
  assert.equal(joins(sent).length, 4);
  joined("1-0");
  entry("2-0", "1-0");
  entry("9-0", "8-0");
  assert.equal(room.state, "joining");
});

test("live sets the cursor where it is still null, and only there", () => {
  const empty = setUp();
  empty.joined();
  empty.live("0-0");
  assert.equal(empty.room.cursor, "0-0");
  empty.entry("1-0", "0-0");
  assert.deepEqual(empty.applied(), ["1-0"]);

  const full = setUp({ cursor: "2-0" });
  full.joined("2-0");
  full.entry("3-0", "2-0");
  full.live("7-0");
  assert.equal(full.room.cursor, "3-0");
});

test("a room that was empty may have been trimmed when we come back to it", () => {
  const { joined, live, reconnect, entry, applied, screen } = setUp();
  joined();
  live("0-0");
  reconnect(null);
  entry("7-0", null);
  assert.deepEqual(applied(), ["7-0"]);
  assert.deepEqual(screen.resyncs, []);
});

test("resync drops the state and replaces the cursor, backwards or to null, at any time", () => {
  for (const from of [null, "2-0"]) {
    const { room, receive, entry, applied, screen } = setUp({ cursor: "50-0", last: 10 });
    receive("resync", { reason: "reset", from });
    assert.equal(room.cursor, from);
    entry("3-0", from);
    receive("live", { cursor: "3-0", replayed: 1 });
    receive("resync", { reason: "hole", from });
    assert.equal(room.state, "replaying");
    assert.equal(room.cursor, from);
    entry("3-0", from);
    assert.deepEqual(applied(), ["3-0"]);
    assert.deepEqual(screen.resyncs, ["reset", "hole"]);
  }
});

test("a fresh start that we didn't ask for is a resync", () => {
  const { joined, entry, applied, screen } = setUp();
  joined();
  entry("5-0", null);
  entry("8-0", "7-0");
  joined(null);
  assert.deepEqual(screen.resyncs, ["gap"]);
  entry("5-0", null);
  assert.deepEqual(applied(), ["5-0"]);
});

test("a resync that crosses a join is not its answer: what the real answer goes on from is no more", () => {
  const { joined, entry, live, receive, applied, clock, sent } = setUp();
  joined();
  entry("1-0", "0-0");
  live("1-0");
  entry("3-0", "2-0"); // a gap: joins from 1-0
  receive("resync", { reason: "trimmed", from: null }); // was on its way
  joined("1-0");
  clock.advance(500); // the second gap in a row
  assert.equal(joins(sent).length, 3);
  assert.equal(sent.at(-1).cursor, undefined);
  entry("2-0", "1-0");
  assert.deepEqual(applied(), []);
  joined();
  entry("1-0", "0-0");
  entry("2-0", "1-0");
  assert.deepEqual(applied(), ["1-0", "2-0"]);
});

test("the cursor moves, and is stored, after the listener ran", () => {
  const stored = [];
  const { room, joined, entry } = setUp({
    cursors: { load: () => "1-0", save: (name, cursor) => stored.push([name, cursor]) },
  });
  const seen = [];
  room.on("entry", () => seen.push([room.cursor, stored.length]));
  joined("1-0");
  entry("2-0", "1-0");
  assert.deepEqual(seen, [["1-0", 0]]);
  assert.deepEqual(stored, [["r", "2-0"]]);
});

test("a room starts at the option, else at what is stored if it is an id, else afresh", () => {
  const stored = (cursor) => ({ load: () => cursor, save() {} });
  const join = (options) => joins(setUp(options).sent)[0];
  assert.deepEqual(join({}), { op: "join", room: "r" });
  assert.deepEqual(join({ last: 5 }), { op: "join", room: "r", last: 5 });
  assert.deepEqual(join({ cursors: stored("3-0"), last: 5 }), {
    ...{ op: "join", room: "r", cursor: "3-0", last: 5 },
  });
  assert.deepEqual(join({ cursors: stored("bad") }), { op: "join", room: "r" });
  assert.deepEqual(join({ cursors: stored("3-0"), cursor: "4-0" }).cursor, "4-0");
  assert.deepEqual(join({ cursors: stored("3-0"), cursor: "$" }).cursor, "$");
});

test("$ is asked for again until there is a cursor, and not after a resync", () => {
  const { room, live, joined, reconnect, receive, sent } = setUp({ cursor: "$" });
  reconnect(null);
  assert.equal(sent.at(-1).cursor, "$");
  live("8-0");
  reconnect("8-0");
  assert.equal(sent.at(-1).cursor, "8-0");
  receive("resync", { reason: "reset", from: null });
  room.disconnected();
  room.connected();
  joined(null);
  assert.equal("cursor" in sent.at(-1), false);
});

test("a join refused for now is tried again, as late as the server asks", () => {
  const { room, receive, clock, sent, changes } = setUp();
  receive("reject", { op_ref: "join", code: 503, reason: "log away", retry_after_ms: 700 });
  assert.equal(room.state, "waiting");
  assert.equal(changes.at(-1).error.message, "log away");
  clock.advance(699);
  assert.equal(joins(sent).length, 1);
  clock.advance(1);
  assert.equal(joins(sent).length, 2);
  receive("reject", { op_ref: "join", code: 429, reason: "rooms" });
  room.disconnected();
  clock.advance(60_000);
  assert.equal(joins(sent).length, 2);
});

test("a join refused for good ends the room, and what was pending is withdrawn", async () => {
  const { room, receive, sent, clock, screen } = setUp();
  const id = room.publish("message", "x");
  receive("reject", { op_ref: "join", code: 403, reason: "not yours" });
  assert.equal(room.state, "refused");
  await assert.rejects(id, { name: "RoomdError", code: 403, message: "not yours" });
  assert.deepEqual(screen.shown, []);
  room.connected();
  clock.advance(60_000);
  assert.equal(joins(sent).length, 1);
  await assert.rejects(room.publish("message", "y"), { code: 409 });
});

test("a replay that fails ends the membership: joined again from the cursor, or refused", () => {
  for (const stage of ["replaying", "live"]) {
    const { room, joined, entry, live, receive, clock, sent } = setUp();
    joined();
    entry("1-0", "0-0");
    if (stage === "live") live("1-0");
    receive("reject", { op_ref: "join", code: 422, reason: "a malformed rejoin" });
    assert.equal(room.state, stage);
    receive("reject", { op_ref: "join", code: 503, reason: "log away", retry_after_ms: 700 });
    assert.equal(room.state, "waiting");
    clock.advance(700);
    assert.deepEqual(sent.at(-1), { op: "join", room: "r", cursor: "1-0" });
    joined("1-0");
    receive("reject", { op_ref: "join", code: 500, reason: "not a log" });
    assert.equal(room.state, "refused");
  }
});

test("a room left because it has to wait isn't joined again", () => {
  const { room, receive, clock, sent } = setUp();
  room.on("state", ({ state }) => state === "waiting" && room.leave());
  receive("reject", { op_ref: "join", code: 503, reason: "log away", retry_after_ms: 700 });
  assert.equal(room.state, "left");
  assert.equal(clock.pending, 0);
  assert.equal(joins(sent).length, 1);
});

test("leave is final: nothing is heard, nothing is sent", () => {
  const { room, joined, entry, applied, sent } = setUp();
  joined();
  room.on("entry", () => room.leave());
  entry("1-0", "0-0");
  entry("2-0", "1-0");
  room.leave();
  room.connected();
  assert.equal(room.state, "left");
  assert.deepEqual(applied(), ["1-0"]);
  assert.deepEqual(
    sent.map(({ op }) => op),
    ["join", "leave"],
  );
});

test("signals are heard and sent by members only, and kept for nobody", () => {
  const { room, receive, joined, sent, link } = setUp();
  const heard = [];
  room.on("signal", (signal) => heard.push(signal));
  receive("signal", { type: "typing", data: 1 });
  assert.equal(room.signal("typing"), false);
  joined();
  receive("signal", { type: "typing", data: 2, from: "ann" });
  assert.deepEqual(heard, [{ type: "typing", data: 2, from: "ann" }]);
  assert.equal(room.signal("typing", { on: true }), true);
  assert.deepEqual(sent.at(-1), { op: "signal", room: "r", type: "typing", data: { on: true } });
  link.open = false;
  assert.equal(room.signal("typing"), false);
});

test("what isn't a room name is refused at once", () => {
  for (const name of ["", "a b", "é", "a".repeat(129), "a/b"]) {
    assert.throws(() => new Room(name, {}, {}), TypeError);
  }
});

/* --- publishing ------------------------------------------------------------------------------ */

test("the entry replaces what is pending, before the ack", async () => {
  const { room, joined, entry, receive, screen, sent } = setUp();
  joined();
  const id = room.publish("message", "hi", { key: "k" });
  assert.deepEqual(sent.at(-1), {
    ...{ op: "publish", room: "r", type: "message", ref: "ref-1", key: "k", data: "hi" },
  });
  assert.deepEqual(room.pending, [{ ref: "ref-1", type: "message", data: "hi", key: "k" }]);
  entry("1-0", "0-0", { ref: "ref-1", data: "hi" });
  assert.deepEqual(screen.shown, ["hi"]);
  assert.equal(await id, "1-0");
  receive("ack", { ref: "ref-1", id: "1-0", duplicate: false });
  assert.deepEqual(screen.shown, ["hi"]);
  assert.deepEqual(room.pending, []);
});

test("the ack comes first: confirmed, still shown once, then replaced", async () => {
  const { room, joined, entry, receive, screen } = setUp();
  joined();
  const acked = [];
  room.on("ack", (pending) => acked.push(pending.id));
  const id = room.publish("message", "hi");
  receive("ack", { ref: "ref-1", id: "1-0", duplicate: false });
  assert.equal(await id, "1-0");
  assert.deepEqual(acked, ["1-0"]);
  assert.deepEqual(screen.shown, ["hi"]);
  entry("1-0", "0-0", { ref: "ref-1", data: "hi" });
  assert.deepEqual(screen.shown, ["hi"]);
  assert.equal(screen.entries.length, 1);
});

test("a rejected publish is withdrawn with the reason, and only it", async () => {
  const { room, joined, receive, screen } = setUp();
  joined();
  const id = room.publish("message", "a");
  room.publish("message", "b");
  receive("reject", { op_ref: "publish", ref: "ref-1", code: 507, reason: "log full" });
  await assert.rejects(id, { code: 507, message: "log full" });
  assert.deepEqual(screen.shown, ["b"]);
  assert.equal(screen.withdrawn[0].error.message, "log full");
});

test("a publish without a connection waits for one", () => {
  const { room, joined, link, sent } = setUp();
  room.disconnected();
  link.open = false;
  room.publish("message", "a");
  room.publish("message", "b");
  link.open = true;
  room.connected();
  assert.deepEqual(publishes(sent), []);
  joined();
  assert.deepEqual(publishes(sent), ["ref-1", "ref-2"]);
});

test("an unknown outcome is sent again under its ref, after the replay", () => {
  const { room, joined, entry, live, reconnect, receive, sent, screen } = setUp();
  joined();
  for (const text of ["a", "b"]) room.publish("message", text);
  reconnect(null);
  room.publish("message", "c");
  assert.deepEqual(publishes(sent), ["ref-1", "ref-2"], "c must not overtake a and b");
  entry("1-0", "0-0", { ref: "ref-1", data: "a" });
  live("1-0");
  assert.deepEqual(publishes(sent).slice(2), ["ref-2", "ref-3"]);
  receive("ack", { ref: "ref-2", id: "2-0", duplicate: true });
  entry("2-0", "1-0", { ref: "ref-2", data: "b" });
  assert.deepEqual(screen.shown, ["a", "b", "c"]);
});

test("without an answer for 15 s, on the same socket, it is sent again under its ref", async () => {
  const { room, joined, live, receive, clock, sent, screen } = setUp();
  joined();
  live("0-0");
  const id = room.publish("message", "a");
  clock.advance(5_000);
  room.publish("message", "b");
  clock.advance(9_999);
  assert.deepEqual(publishes(sent), ["ref-1", "ref-2"]);
  clock.advance(1);
  assert.deepEqual(publishes(sent).slice(2), ["ref-1"]);
  receive("ack", { ref: "ref-2", id: "2-0", duplicate: false });
  receive("ack", { ref: "ref-1", id: "1-0", duplicate: true });
  assert.equal(await id, "1-0");
  assert.deepEqual(screen.shown, ["a", "b"]);
  assert.equal(clock.pending, 0);
  clock.advance(60_000);
  assert.equal(publishes(sent).length, 3);
});

test("an answer missed while the room isn't live is asked for once it is", () => {
  const { room, joined, entry, live, clock, sent } = setUp();
  joined();
  room.publish("message", "a");
  room.publish("message", "b");
  clock.advance(15_000);
  assert.equal(publishes(sent).length, 2);
  entry("1-0", "0-0", { ref: "ref-1", data: "a" });
  live("1-0");
  assert.deepEqual(publishes(sent).slice(2), ["ref-2"]);
});

test("a second try refused for now may be in the log by the first: it is tried again", async () => {
  const { room, joined, live, receive, clock, sent, screen } = setUp();
  const refuse = (code, more) =>
    receive("reject", { op_ref: "publish", ref: "ref-1", code, reason: "no", ...more });
  joined();
  live("0-0");
  const id = room.publish("message", "a");
  clock.advance(15_000);
  refuse(503, { retry_after_ms: 700 });
  assert.deepEqual(screen.shown, ["a"]);
  clock.advance(700);
  assert.equal(publishes(sent).length, 3);
  refuse(507);
  clock.advance(15_000);
  assert.equal(publishes(sent).length, 4);
  refuse(500);
  await assert.rejects(id, { code: 500, message: "no", unsure: true });
  assert.deepEqual(screen.shown, []);
  assert.equal(clock.pending, 0);
});

test("an ended room says which publishes may be in the log", async () => {
  const { room, joined, receive, link, clock, screen } = setUp();
  joined();
  const [acked, sent] = [room.publish("message", 1), room.publish("message", 2)];
  receive("ack", { ref: "ref-1", id: "1-0", duplicate: false });
  link.open = false;
  const queued = room.publish("message", 3);
  room.leave();
  assert.equal(await acked, "1-0");
  await assert.rejects(sent, { code: 409, unsure: true });
  await assert.rejects(queued, { code: 409, unsure: false });
  assert.deepEqual(
    screen.withdrawn.map(({ error }) => error?.unsure),
    [undefined, true, false],
  );
  assert.equal(clock.pending, 0);
});

test("what was acked isn't sent again", () => {
  const { room, joined, live, reconnect, receive, sent } = setUp();
  joined();
  room.publish("message", "a");
  receive("ack", { ref: "ref-1", id: "5-0", duplicate: false });
  reconnect(null);
  live("0-0");
  assert.deepEqual(publishes(sent), ["ref-1"]);
});

test("an acked entry that a fresh start leaves behind is withdrawn without an error", () => {
  const { room, joined, entry, live, receive, screen } = setUp({ last: 1 });
  joined();
  room.publish("message", "mine");
  receive("ack", { ref: "ref-1", id: "5-0", duplicate: false });
  receive("resync", { reason: "trimmed", from: null });
  assert.deepEqual(screen.shown, ["mine"]);
  entry("9-0", null);
  live("9-0");
  assert.deepEqual(screen.shown, ["9-0"]);
  assert.deepEqual(screen.withdrawn, [{ ref: "ref-1", error: null }]);

  room.publish("message", "again");
  receive("ack", { ref: "ref-2", id: "8-0", duplicate: true });
  assert.deepEqual(screen.shown, ["9-0"]);
});

test("at most 16 are in flight; each answer lets the next one go", () => {
  const { room, joined, receive, entry, sent } = setUp();
  joined();
  for (let i = 0; i < 20; i += 1) room.publish("message", i);
  assert.equal(publishes(sent).length, 16);
  receive("ack", { ref: "ref-2", id: "1-0", duplicate: false });
  assert.equal(publishes(sent).length, 17);
  receive("reject", { op_ref: "publish", ref: "ref-1", code: 500, reason: "no" });
  assert.equal(publishes(sent).length, 18);
  entry("2-0", null, { ref: "ref-3" });
  assert.deepEqual(publishes(sent).slice(-2), ["ref-18", "ref-19"]);
});

test("what the server would close the socket for is withdrawn here, not sent", async () => {
  const { room, joined, sent, screen } = setUp();
  joined();
  let deep = 1;
  for (let i = 0; i < 32; i += 1) deep = [deep];
  await assert.rejects(room.publish("message", "é".repeat(500)), { codeName: "too_big" });
  await assert.rejects(room.publish("message", deep), { codeName: "bad_field" });
  await Promise.race([room.publish("message", deep[0]), Promise.resolve()]);
  assert.deepEqual(publishes(sent), ["ref-3"]);
  assert.equal(screen.pending.size, 1);
});

test("what can't be published is the caller's mistake", () => {
  const { room } = setUp();
  const cycle = {};
  cycle.self = cycle;
  assert.throws(() => room.publish("message", cycle), TypeError);
  for (const data of [1n, () => {}, Symbol("no")]) {
    assert.throws(() => room.publish("message", data), TypeError);
  }
  for (const ref of ["", "a\u0000", "a\ud800", "é".repeat(65)]) {
    assert.throws(() => room.publish("message", 1, { ref }), TypeError);
  }
  room.publish("message", 1, { ref: "twice" });
  assert.throws(() => room.publish("message", 1, { ref: "twice" }), /already pending/);
});

test("data changed after publish changes nothing that is sent", () => {
  const { room, joined, live, reconnect, sent } = setUp();
  joined();
  const data = { n: 1 };
  room.publish("message", data);
  data.n = 2;
  reconnect(null);
  live("0-0");
  assert.deepEqual(
    sent.filter(({ op }) => op === "publish").map((frame) => frame.data.n),
    [1, 1],
  );
});

/* --- the promise, at random ------------------------------------------------------------------ */

 /* One history: a log that grows and is trimmed, a network that loses, doubles and cuts, a page
  * that publishes. Then the network heals, and the page must hold exactly a stretch of the log up
  * to its end, with every publish in it once. */
function runHistory(seed) {
  const random = seededRandom(seed);
  const roll = (sides) => Math.floor(random() * sides);
  const server = new FakeServer();
  server.heartbeatMs = 3_000;
  for (let i = roll(8); i > 0; i -= 1) server.append("r", "before");
  const backoff = { backoffBaseMs: 100, backoffCapMs: 1000 };
  const client = connect("ws://test/v1/ws", server.options({ random, ...backoff }));
  const last = roll(2) ? 1 + roll(6) : undefined;
  const room = client.join("r", { last });
  const screen = new Screen(room);
  let published = 0;

  const steps = [
    () => server.append("r", "theirs"),
    () => room.publish("message", `mine ${(published += 1)}`),
    () => server.socket.closed || server.welcome(),
    () => server.receive(server.socket, 1 + roll(3)),
    () => server.socket.deliver(1 + roll(4)),
    () => server.socket.deliver(),
    () => server.sockets[roll(server.sockets.length)].deliver(1),
    () => loseOne(server.socket.down, room, roll),
    () => losePublish(server.socket.up, roll),
    () => doubleOne(server.socket.down, roll),
    () => server.socket.closed || roll(2) || server.socket.cut(),
    () => server.clock.advance(roll(500)),
    () => roll(4) || server.trim("r", roll(5)),
  ];
  for (let i = 0; i < 150; i += 1) steps[roll(steps.length)]();

  const finish = (done) => {
    for (let i = 0; i < 50 && !done(); i += 1) {
      server.settle();
      server.clock.advance(1000);
    }
    assert.ok(done(), `stuck in ${client.state}, ${room.state}`);
  };
  finish(() => room.state === "live");
  server.append("r", "the end"); /* Without it, a loss at the very end would not show. */
  const { all, entries } = server.log("r");
  finish(() => screen.entries.at(-1)?.id === all.at(-1).id && room.pending.length === 0);

  const start = all.findIndex(({ id }) => id === screen.entries[0].id);
  assert.deepEqual(
    screen.entries.map(({ id }) => id),
    all.slice(start).map(({ id }) => id),
  );
  assert.ok(
    screen.entries.length >= Math.min(entries.length, last ?? Infinity),
    "fresh start too small",
  );
  assert.ok(screen.withdrawn.every(({ error }) => error === null));
  const mine = all.flatMap(({ ref }) => ref ?? []);
  assert.equal(mine.length, published);
  assert.equal(new Set(mine).size, published, "a publish is in the log twice");
  return { resyncs: screen.resyncs.length, sockets: server.sockets.length };
}

const answersJoin = (frame) => /"op":"(joined|resync)"/.test(frame);
const isEntry = (frame) => frame.startsWith('{"op":"entry"');

/* Takes an entry off the wire; but the first after a fresh start, which no client could miss. */
function loseOne(queue, room, roll) {
  const at = roll(queue.length || 1);
  if (!isEntry(queue[at] ?? "")) return;
  const before = queue.slice(0, at);
  const answer = before.findLastIndex(answersJoin);
  const chained = before.slice(answer + 1).some(isEntry);
  if (chained || (answer < 0 && room.cursor !== null)) queue.splice(at, 1);
}

/* As a server does whose log was lost with the entry: no answer. */
function losePublish(queue, roll) {
  const at = roll(queue.length || 1);
  if (queue[at]?.op === "publish") queue.splice(at, 1);
}

/* Sends an entry again, somewhat later; but not past the answer to a join, where it would be part
 * of another story. */
function doubleOne(queue, roll) {
  const at = roll(queue.length || 1);
  if (!isEntry(queue[at] ?? "")) return;
  const rest = queue.slice(at + 1);
  const room = rest.findIndex(answersJoin);
  const later = at + 1 + roll((room < 0 ? rest.length : room) + 1);
  queue.splice(later, 0, queue[at]);
}

test("whatever the network does, a page ends with exactly the log, each publish once", (t) => {
  const histories = Number(process.env.ROOMD_TEST_HISTORIES ?? 2000);
  const first = Number(process.env.ROOMD_TEST_SEED ?? Date.now() % 2 ** 31);
  t.diagnostic(`${histories} histories from ROOMD_TEST_SEED=${first}`);
  const seen = { resyncs: 0, sockets: 0 };
  for (let seed = first; seed < first + histories; seed += 1) {
    try {
      const { resyncs, sockets } = runHistory(seed);
      seen.resyncs += resyncs;
      seen.sockets += sockets;
    } catch (error) {
      error.message = `ROOMD_TEST_SEED=${seed} ROOMD_TEST_HISTORIES=1: ${error.message}`;
      throw error;
    }
  }
  t.diagnostic(`${seen.resyncs} resyncs, ${seen.sockets} sockets`);
  if (histories > 100) assert.ok(seen.resyncs > 0 && seen.sockets > histories, "nothing happened");
});
