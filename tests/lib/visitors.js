/* visitors.js - clients that follow PROTOCOL.md to the letter, and hold the server to it.
 *
 *   const visitor = new Visitor(roomd.wsUrl, ["lobby"]);
 *   await visitor.live();                     // in all its rooms
 *   visitor.cut();                            // the socket is destroyed; it comes back by itself
 *   await visitor.reaches("lobby", id);
 *   visitor.room("lobby").entries             // what was applied since the last fresh start
 *   await visitor.leave();                    // for good; throws what broke the rules, if anything
 *
 *   const publisher = new Publisher(roomd.wsUrl, "lobby");
 *   const { id } = await publisher.publish({ text: "hi" });
 *   const acks = await publisher.paced(2000, 400, (n) => ({ n }));
 *
 * A correct server never makes a client see a gap or a double once its join was answered, and tells
 * the same as it does: `joined` names the cursor of the join, `live` the last entry and their
 * number. A Visitor whose server does otherwise stops at once and says so wherever it is awaited.
 */
import { randomUUID } from "node:crypto";
import WebSocket from "ws";
import { within } from "./clients.js";
import { whenOver } from "./leftovers.js";
import { until } from "./servers.js";

const RESEND_MS = 1500; /* until a publish that wasn't answered is sent again */
const WINDOW = 48; /* publishes under way; a server takes 64 of one socket */
const TICK_MS = 10;

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/* Below 0, 0 or above it, as the first id is smaller than, the same as or larger than the other. */
export function compareIds(a, b) {
  const [x, y] = [a, b].map((id) => id.split("-").map(BigInt));
  const difference = x[0] - y[0] || x[1] - y[1];
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/* The client's rule for one room, and what else is promised about it. */
export class Follower {
  cursor = null;
  entries = [];
  state = "out"; /* then "asked", "replaying", "live" */
  joined = null; /* the last `joined` */
  resyncs = []; /* the reasons */
  #start;
  #replayed = 0;

  /* start: { cursor: "$" } or { last: 5 }, while there is no cursor; `last` goes with one, too. */
  constructor(room, start = {}) {
    this.room = room;
    this.#start = start;
  }

  get ids() {
    return this.entries.map((entry) => entry.id);
  }

  join() {
    const cursor = this.cursor === null ? {} : { cursor: this.cursor };
    this.state = "asked";
    return { op: "join", room: this.room, ...this.#start, ...cursor };
  }

  lost() {
    this.state = "out";
  }

  /* One frame of the room. True: it has to be joined again. Throws where the server is wrong. */
  take(frame) {
    switch (frame.op) {
      case "joined":
        return this.#onJoined(frame);
      case "resync":
        this.#must(this.state !== "out", "resync in a room that wasn't joined", frame);
        this.#must(frame.from === null, "a cursor in resync that nobody can have", frame);
        this.resyncs.push(frame.reason);
        this.#startFresh();
        return false;
      case "entry":
        if (this.state !== "asked") this.#onEntry(frame);
        return false;
      case "live":
        if (this.state !== "asked") this.#onLive(frame);
        return false;
      default:
        return false;
    }
  }

  #onJoined(frame) {
    this.#must(this.state === "asked", "joined, but nobody asked", frame);
    if (frame.from === null) {
      const nothing = this.cursor === null || this.cursor === "0-0";
      this.#must(nothing, "a fresh start instead of the cursor", frame);
      this.#startFresh();
    } else if (frame.from !== this.cursor) {
      this.#must(this.resyncs.length > 0, "another cursor is honoured", frame);
      return true;
    }
    this.joined = frame;
    this.state = "replaying";
    this.#replayed = 0;
    return false;
  }

  #startFresh() {
    this.cursor = null;
    this.entries = [];
    this.state = "replaying";
    this.#replayed = 0;
  }

  #onEntry(frame) {
    const { op, room, prev, ...entry } = frame;
    this.#must(this.state !== "out", "an entry of a room that wasn't joined", frame);
    if (this.cursor === null) {
      this.#must(this.entries.length === 0, "a second entry after nothing", frame);
    } else {
      this.#must(compareIds(frame.id, this.cursor) > 0, "a double, or disorder", frame);
      this.#must(prev === this.cursor, "a gap", frame);
    }
    this.cursor = frame.id;
    this.entries.push(entry);
    this.#replayed++;
  }

  #onLive(frame) {
    this.#must(this.state === "replaying", "live, without a replay", frame);
    this.cursor ??= frame.cursor;
    this.#must(frame.cursor === this.cursor, "live is not where the entries are", frame);
    this.#must(frame.replayed === this.#replayed, `live after ${this.#replayed} entries`, frame);
    this.state = "live";
  }

  #must(right, what, frame) {
    if (right) return;
    const { op, ...rest } = frame;
    throw new Error(`${what}: cursor ${this.cursor}, ${op} ${JSON.stringify(rest).slice(0, 300)}`);
  }
}

/* A socket that is opened again whenever it ends, and the rooms that are followed on it. */
export class Visitor {
  failure = null;
  sockets = 0;
  closes = []; /* { code, reason } of each socket that ended */
  #url;
  #followers;
  #backMs;
  #socket = null;
  #open = false;
  #wanted = true;
  #timers = new Set();

  /* rooms: names or Followers. backMs: how long to stay away after a socket ended, a number or a
   * function. viaUrl: join the first room by the URL. */
  constructor(url, rooms, { backMs = 20, viaUrl = false } = {}) {
    this.#url = url;
    this.#backMs = typeof backMs === "function" ? backMs : () => backMs;
    this.viaUrl = viaUrl;
    whenOver(() => this.#stop());
    this.#followers = new Map(
      rooms
        .map((room) => (room instanceof Follower ? room : new Follower(room)))
        .map((follower) => [follower.room, follower]),
    );
    this.#connect();
  }

  room(name) {
    return this.#followers.get(name);
  }

  get rooms() {
    return [...this.#followers.values()];
  }

  /* The one that is there now, or null. */
  get socket() {
    return this.#socket;
  }

  /* All its rooms are live. */
  live(deadlineMs) {
    const everywhere = () => this.rooms.every((room) => room.state === "live");
    return this.until("live in all rooms", everywhere, deadlineMs);
  }

  reaches(room, id, deadlineMs) {
    return this.until(`at ${id} in ${room}`, () => this.room(room).cursor === id, deadlineMs);
  }

  async until(what, check, deadlineMs) {
    await until(what, () => this.failure !== null || check(), deadlineMs).catch((error) => {
      const where = this.rooms.map((r) => `${r.room}: ${r.state} at ${r.cursor}`).join(", ");
      throw new Error(`${error.message} (${where})`, { cause: error });
    });
    this.check();
  }

  check() {
    if (this.failure) throw this.failure;
  }

  /* At once, without a close frame, as a network does it. */
  cut() {
    this.#socket?.terminate();
  }

  /* Reads on, or doesn't. */
  pause() {
    this.#socket?.pause();
  }

  resume() {
    this.#socket?.resume();
  }

  /* Gone until `back`. */
  away() {
    this.#stop();
    return this.until("the socket has ended", () => this.#socket === null);
  }

  back(url = this.#url) {
    this.#url = url;
    this.#wanted = true;
    this.#connect();
  }

  /* Joins a room again on the same socket, from where it is. */
  rejoin(name) {
    this.#send(this.room(name).join());
  }

  async leave() {
    await this.away();
    this.check();
  }

  #stop() {
    this.#wanted = false;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#socket?.terminate();
  }

  #later(ms, run) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, ms);
    this.#timers.add(timer);
  }

  #send(frame) {
    if (this.#open) this.#socket.send(JSON.stringify(frame));
  }

  #connect() {
    const [first, ...others] = this.rooms;
    let url = this.#url;
    if (this.viaUrl) {
      const { op, ...query } = first.join();
      url += `?${new URLSearchParams(query)}`;
    }
    const socket = new WebSocket(url, ["roomd.v1"], { perMessageDeflate: false });
    this.#socket = socket;
    this.sockets++;
    socket.on("error", (error) => {
      if (/^WS_ERR/.test(error.code ?? "")) this.#fail(error); /* The bytes were wrong. */
    });
    socket.on("open", () => {
      this.#open = true;
      for (const follower of this.viaUrl ? others : this.rooms) this.#send(follower.join());
    });
    socket.on("message", (data) => this.#take(JSON.parse(String(data))));
    socket.on("close", (code, reason) => {
      this.#open = false;
      this.#socket = null;
      this.closes.push({ code, reason: String(reason) });
      for (const follower of this.rooms) follower.lost();
      if (this.#wanted && !this.failure) this.#later(this.#backMs(), () => this.#connect());
    });
  }

  #take(frame) {
    if (this.failure) return;
    try {
      if (frame.op === "reject" || frame.op === "error") this.#onReject(frame);
      else if (this.room(frame.room)?.take(frame)) this.rejoin(frame.room);
    } catch (error) {
      this.#fail(error);
    }
  }

  #onReject(frame) {
    const follower = this.room(frame.room);
    if (frame.op_ref !== "join" || !follower || frame.retry_after_ms === undefined) {
      throw new Error(`refused: ${JSON.stringify(frame)}`);
    }
    follower.lost();
    const socket = this.#socket;
    this.#later(frame.retry_after_ms, () => {
      if (this.#socket === socket) this.rejoin(frame.room);
    });
  }

  #fail(error) {
    this.failure ??= error;
    this.#socket?.terminate();
  }
}

/* Publishes, each until it is acknowledged: what is refused for now or isn't answered is sent again
 * under the same ref, on the next socket if need be. */
export class Publisher {
  #url;
  #room;
  #waiting = new Map(); /* by ref: { frame, done, fail, timer } */
  #socket = null;
  #wanted = true;
  #doomed = false;
  sent = 0; /* frames, those sent again among them */
  answers = []; /* every `ack` and `reject` */

  constructor(url, room) {
    this.#url = url;
    this.#room = room;
    whenOver(() => this.close());
    this.#connect();
  }

  get rejects() {
    return this.answers.filter((answer) => answer.op === "reject");
  }

  get underWay() {
    return this.#waiting.size;
  }

  /* Resolves with the ack, or fails with a reject that isn't for now. */
  publish(data, { type = "message", ref = randomUUID(), ...more } = {}) {
    const frame = JSON.stringify({ op: "publish", room: this.#room, type, ref, ...more, data });
    return new Promise((done, fail) => {
      const entry = { frame, done, fail, timer: null };
      this.#waiting.set(ref, entry);
      this.#send(entry);
    });
  }

  /* `count` of them, `perSecond`, a few in every tick. The acks, in the order of the publishes. */
  async paced(count, perSecond, data, options = () => ({})) {
    const acks = [];
    const began = performance.now();
    while (acks.length < count) {
      const due = Math.min(count, Math.ceil(((performance.now() - began) / 1000) * perSecond));
      while (acks.length < due && this.underWay < WINDOW) {
        acks.push(this.publish(data(acks.length), options(acks.length)));
      }
      await sleep(TICK_MS);
    }
    return within(() => `${this.underWay} acks`, Promise.all(acks), 30_000);
  }

  /* Once more is sent, so that it is on its way and can't be answered. */
  cut() {
    this.#doomed = true;
  }

  close() {
    this.#wanted = false;
    for (const { timer } of this.#waiting.values()) clearTimeout(timer);
    this.#socket.terminate();
  }

  #send(entry) {
    clearTimeout(entry.timer);
    if (this.#socket.readyState !== WebSocket.OPEN) return; /* It goes with the next socket. */
    this.#socket.send(entry.frame);
    this.sent++;
    if (this.#doomed) this.#socket.terminate();
    this.#doomed = false;
    entry.timer = setTimeout(() => this.#send(entry), RESEND_MS);
  }

  #connect() {
    const socket = new WebSocket(this.#url, ["roomd.v1"], { perMessageDeflate: false });
    this.#socket = socket;
    socket.on("error", () => {}); /* `close` follows. */
    socket.on("open", () => {
      for (const entry of this.#waiting.values()) this.#send(entry);
    });
    socket.on("message", (data) => this.#take(JSON.parse(String(data))));
    socket.on("close", () => {
      if (this.#wanted) setTimeout(() => this.#wanted && this.#connect(), 20);
    });
  }

  #take(frame) {
    if (frame.op === "ack" || frame.op === "reject") this.answers.push(frame);
    const entry = this.#waiting.get(frame.ref);
    if (!entry) return;
    if (frame.op === "ack") {
      clearTimeout(entry.timer);
      this.#waiting.delete(frame.ref);
      entry.done(frame);
    } else if (frame.op === "reject" && frame.retry_after_ms !== undefined) {
      clearTimeout(entry.timer);
      entry.timer = setTimeout(() => this.#send(entry), frame.retry_after_ms);
    } else if (frame.op === "reject") {
      clearTimeout(entry.timer);
      this.#waiting.delete(frame.ref);
      entry.fail(Object.assign(new Error(frame.reason), frame));
    }
  }
}
