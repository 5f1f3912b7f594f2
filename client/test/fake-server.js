/* fake-server.js - a clock that the test turns, and a server that lives in this process.
 *
 * Frames lie in two queues for each socket, `up` and `down`, until the test moves them; so a test
 * decides what arrives, in what state a socket is cut, and what is lost with it. The server keeps
 * the contract: the log, the verdict on a cursor, the seam, refs. What breaks the contract (a lost
 * or doubled frame) the test does itself, to the queues.
 */
import assert from "node:assert/strict";

export class FakeClock {
  #now = 1_000_000;
  #timers = [];

  now = () => this.#now;
  setTimeout = (run, ms) => {
    const timer = { run, due: this.#now + ms };
    this.#timers.push(timer);
    return timer;
  };
  clearTimeout = (timer) => {
    this.#timers = this.#timers.filter((other) => other !== timer);
  };

  get pending() {
    return this.#timers.length;
  }

  /* Runs what falls due on the way, in order. */
  advance(ms) {
    const end = this.#now + ms;
    for (;;) {
      const [next] = this.#timers.sort((a, b) => a.due - b.due);
      if (!next || next.due > end) break;
      this.clearTimeout(next);
      this.#now = Math.max(this.#now, next.due);
      next.run();
    }
    this.#now = end;
  }

  /* The machine slept: time passed, and no timer ran until now. */
  sleep(ms) {
    this.#now += ms;
    this.advance(0);
  }
}

class FakeSocket {
  up = [];
  down = [];
  closed = false;
  welcomed = false;
  rooms = new Set();

  constructor(url, protocols) {
    this.url = url;
    this.protocols = protocols;
  }

  send(text) {
    assert.ok(!this.closed, "send on a closed socket");
    this.up.push(JSON.parse(text));
  }

  close() {
    this.closed = true;
  }

  push(frame) {
    this.down.push(JSON.stringify(frame));
  }

  /* Hands the next frames to the client. */
  deliver(count = Infinity) {
    while (count-- > 0 && this.down.length > 0) this.onmessage({ data: this.down.shift() });
  }

  /* The end, as the client sees it; what was on its way is lost. */
  cut(code = 1006, reason = "") {
    this.closed = true;
    this.up = [];
    this.down = [];
    this.onclose({ code, reason });
  }
}

export class FakeServer {
  clock = new FakeClock();
  sockets = [];
  logs = new Map();
  heartbeatMs = 30_000;
  maxFrameBytes = 65_536;
  #ms =
    10n ** 19n - 12n; /* far above what a JavaScript number can tell apart, soon a digit longer */

  /* Options for connect(). */
  options(more = {}) {
    let refs = 0;
    return {
      clock: this.clock,
      random: () => 0.5,
      network: new EventTarget(),
      newRef: () => `ref-${++refs}`,
      openSocket: (url, protocols) => {
        const socket = new FakeSocket(url, protocols);
        this.sockets.push(socket);
        return socket;
      },
      ...more,
    };
  }

  get socket() {
    return this.sockets.at(-1);
  }

  /* The first frame on every socket; asking twice is fine. */
  welcome(socket = this.socket) {
    if (socket.welcomed) return;
    socket.welcomed = true;
    socket.push({
      ...{ op: "welcome", session: `s${this.sockets.length}`, heartbeat_ms: this.heartbeatMs },
      ...{ max_frame_bytes: this.maxFrameBytes, high_water_bytes: 1_048_576 },
    });
  }

  /* Opens the newest socket and moves frames until both sides have nothing more to say. */
  settle() {
    const { socket } = this;
    this.welcome(socket);
    while (socket === this.socket && (socket.up.length > 0 || socket.down.length > 0)) {
      this.receive(socket);
      socket.deliver();
    }
  }

  /* The server reads the next frames of a socket. */
  receive(socket, count = Infinity) {
    while (count-- > 0 && socket.up.length > 0) this.#answer(socket, socket.up.shift());
  }

  log(room) {
    if (!this.logs.has(room)) {
      /* entries: what is retained; all: what there ever was. */
      const empty = { entries: [], all: [], head: "0-0", trimmedTo: "0-0", ids: new Map() };
      this.logs.set(room, empty);
    }
    return this.logs.get(room);
  }

  append(room, data, { ref, type = "message" } = {}) {
    const log = this.log(room);
    const entry = { op: "entry", room, id: `${++this.#ms}-0`, prev: log.head, type, ref, data };
    log.entries.push(entry);
    log.all.push(entry);
    log.head = entry.id;
    for (const socket of this.sockets) {
      if (!socket.closed && socket.rooms.has(room)) socket.push(entry);
    }
    return entry;
  }

  trim(room, keep) {
    const log = this.log(room);
    const cut = log.entries.splice(0, Math.max(0, log.entries.length - keep));
    log.trimmedTo = cut.at(-1)?.id ?? log.trimmedTo;
  }

  #answer(socket, frame) {
    const { op, room, ref } = frame;
    if (op === "ping") socket.push({ op: "pong", t: frame.t });
    else if (op === "join") this.#join(socket, frame);
    else if (op === "leave") {
      socket.rooms.delete(room);
      socket.push({ op: "left", room });
    } else if (op === "publish") {
      const { ids } = this.log(room);
      const known = ids.get(ref);
      const id = known ?? this.append(room, frame.data, { ref, type: frame.type }).id;
      ids.set(ref, id);
      socket.push({ op: "ack", room, ref, id, duplicate: known !== undefined });
    }
  }

  #join(socket, { room, cursor, last }) {
    const log = this.log(room);
    const { op, from, entries } = this.#verdict(log, cursor, last);
    socket.rooms.add(room);
    const [oldest] = log.entries;
    const bounds = { head: log.head, oldest: oldest?.id ?? null, max_entries: 10_000 };
    if (op === "joined") {
      socket.push({ op, room, from, ...bounds, complete: log.trimmedTo === "0-0" });
    } else {
      socket.push({ op: "resync", room, reason: op, from: null });
    }
    entries.forEach((entry, i) => {
      const unknown =
        from === null && i === 0 && entry.prev === log.trimmedTo && entry.prev !== "0-0";
      socket.push(unknown ? { ...entry, prev: null } : entry);
    });
    socket.push({ op: "live", room, cursor: log.head, replayed: entries.length });
  }

  #verdict(log, cursor, last) {
    const fresh = last ? log.entries.slice(-last) : log.entries;
    if (cursor === "$") return { op: "joined", from: null, entries: [] };
    if (cursor === undefined || cursor === "0-0")
      return { op: "joined", from: null, entries: fresh };
    const at = log.entries.findIndex((entry) => entry.id === cursor);
    if (at >= 0 || cursor === log.trimmedTo) {
      return { op: "joined", from: cursor, entries: log.entries.slice(at + 1) };
    }
    const ahead = BigInt(cursor.split("-")[0]) > BigInt(log.head.split("-")[0]);
    return { op: ahead ? "ahead" : "trimmed", from: null, entries: fresh };
  }
}

/* What a page would show, kept from a room's events alone; checks at every step that no message is
 * there twice. */
export class Screen {
  entries = [];
  pending = new Map();
  withdrawn = [];
  resyncs = [];

  constructor(room) {
    room.on("pending", (pending) => this.#change(() => this.pending.set(pending.ref, pending)));
    room.on("entry", (entry, pending) => {
      this.#change(() => {
        if (pending) this.pending.delete(pending.ref);
        this.entries.push(entry);
      });
    });
    room.on("withdrawn", (pending, error) => {
      this.#change(() => this.pending.delete(pending.ref));
      this.withdrawn.push({ ref: pending.ref, error });
    });
    room.on("resync", ({ reason }) => {
      this.entries = [];
      this.resyncs.push(reason);
    });
  }

  get shown() {
    return [...this.entries, ...this.pending.values()].map((message) => message.data);
  }

  #change(change) {
    change();
    const ids = this.entries.map((entry) => entry.id);
    const refs = [
      ...this.entries.map((entry) => entry.ref).filter(Boolean),
      ...this.pending.keys(),
    ];
    assert.equal(new Set(ids).size, ids.length, "an entry is shown twice");
    assert.equal(new Set(refs).size, refs.length, "a message is shown twice");
  }
}

/* mulberry32: small, and the same everywhere for the same seed. */
export function seededRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
