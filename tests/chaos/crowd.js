/* crowd.js - who reads and who writes while everything breaks. */
import { randomUUID } from "node:crypto";
import WebSocket from "ws";
import { whenOver } from "../lib/leftovers.js";
import { RedisControl } from "../lib/redis_control.js";
import { Follower, Visitor, sleep } from "../lib/visitors.js";

/* A place in a room that remembers what it has been told since it was last audited. */
export class Seat extends Follower {
  since = null; /* applied is what comes after this; null: a fresh start */
  told = []; /* { reason, at } of each resync */

  take(frame) {
    const again = super.take(frame);
    if (frame.op === "resync") this.told.push({ reason: frame.reason, at: Date.now() });
    if (this.entries.length === 0 && this.cursor === null) this.since = null;
    return again;
  }

  settle() {
    this.since = this.cursor;
    this.entries = [];
    this.told = [];
  }
}

/* One client in some rooms, that goes from node to node. `name` is for people. */
export class Member extends Visitor {
  #node;
  #nodes;

  constructor(name, rooms, nodes, node, rng) {
    const seats = rooms.map((room) => new Seat(room));
    super(nodes[node].wsUrl, seats, { backMs: () => 50 + rng.below(250) });
    this.name = name;
    this.#node = node;
    this.#nodes = nodes;
  }

  get where() {
    return `${this.name} at node ${this.#node + 1}`;
  }

  async absent(ms, node) {
    await this.away();
    await sleep(ms);
    this.#node = node;
    this.back(this.#nodes[node].wsUrl);
  }

  async slow(ms) {
    const { socket } = this;
    socket?.pause();
    await sleep(ms);
    socket?.resume();
  }
}

const WINDOW = 60; /* publishes under way on one socket; a server takes 64 */
const RESEND_MS = 1500;

/* Publishes through one node under refs, each until it is acknowledged. */
export class Press {
  acked = new Map(); /* ref: { room, id, at } */
  resent = 0;
  rejected = 0;
  failure = null;
  #made = 0;
  #waiting = new Map(); /* ref: { room, frame, timer } */
  #socket = null;
  #node;
  #wanted = true;

  constructor(node) {
    this.#node = node;
    whenOver(() => this.close());
    this.#connect();
  }

  get underWay() {
    return this.#waiting.size;
  }

  /* False: too many are under way. */
  publish(room) {
    if (this.#waiting.size >= WINDOW) return false;
    const ref = randomUUID();
    const frame = { op: "publish", room, type: "message", ref, data: ++this.#made };
    const entry = { room, frame: JSON.stringify(frame), timer: null };
    this.#waiting.set(ref, entry);
    this.#send(entry);
    return true;
  }

  cut() {
    this.#socket.terminate();
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
    entry.timer = setTimeout(() => {
      this.resent++;
      this.#send(entry);
    }, RESEND_MS);
  }

  #connect() {
    const socket = new WebSocket(this.#node.wsUrl, ["roomd.v1"], { perMessageDeflate: false });
    this.#socket = socket;
    socket.on("error", () => {}); /* `close` follows. */
    socket.on("open", () => {
      for (const entry of this.#waiting.values()) this.#send(entry);
    });
    socket.on("message", (data) => this.#take(JSON.parse(String(data))));
    socket.on("close", () => {
      if (this.#wanted) setTimeout(() => this.#wanted && this.#connect(), 100);
    });
  }

  #take(frame) {
    const entry = this.#waiting.get(frame.ref);
    if (!entry) return;
    clearTimeout(entry.timer);
    if (frame.op === "ack") {
      this.#waiting.delete(frame.ref);
      this.acked.set(frame.ref, { room: entry.room, id: frame.id, at: Date.now() });
    } else if (frame.op === "reject" && frame.retry_after_ms !== undefined) {
      this.rejected++;
      entry.timer = setTimeout(() => this.#send(entry), frame.retry_after_ms);
    } else {
      this.failure ??= new Error(`a publish got ${JSON.stringify(frame)}`);
    }
  }
}

/* Another program: XADD, and no more than that. What isn't answered isn't sent again. */
export class Stranger {
  acked = new Map(); /* number: { room, id, at } */
  unknown = 0;
  refused = 0;
  #sent = 0;
  #waiting = 0;
  #path;
  #control = null;
  #connecting = false;
  #wanted = true;

  constructor(path) {
    this.#path = path;
    whenOver(() => this.close());
    this.#connect();
  }

  get underWay() {
    return this.#waiting;
  }

  close() {
    this.#wanted = false;
    this.#control?.close();
  }

  /* False: there is no Redis to be written to, or it has enough to do. */
  publish(room) {
    if (this.#control === null || this.#waiting >= 2000) return false;
    const number = ++this.#sent;
    const control = this.#control;
    this.#waiting++;
    control.command("XADD", `room:${room}`, "*", "type", "message", "data", number).then(
      (id) => {
        this.#waiting--;
        this.acked.set(number, { room, id, at: Date.now() });
      },
      (error) => {
        this.#waiting--;
        if (/^[A-Z]+ /.test(error.message)) this.refused++;
        else this.#lost(control);
      },
    );
    return true;
  }

  #lost(control) {
    this.unknown++;
    if (this.#control !== control) return;
    this.#control = null;
    control.close();
    this.#connect();
  }

  async #connect() {
    if (this.#connecting) return;
    this.#connecting = true;
    while (this.#control === null && this.#wanted) {
      await sleep(30);
      this.#control = await RedisControl.open(this.#path).catch(() => null);
    }
    this.#connecting = false;
  }
}
