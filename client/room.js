/* room.js - one room: where we are in its log, and what we published and don't know yet.
 *
 *              join sent           joined, resync           live
 *     waiting ───────────▶ joining ──────────────▶ replaying ─────▶ live
 *        ▲                  ▲  │                       │ ▲             │
 *        │                  └──┼────────── gap ────────┴─┼─────────────┤
 *        │ rejected for now    │                         └── resync ───┤
 *        └─────────────────────┴───── socket lost ─────────────────────┘
 *
 * From anywhere to `left` (leave, or the client closed) and from joining to `refused`; both are
 * final.
 *
 * The rule for entries, with cursor c (null after a fresh start): id <= c is a duplicate and
 * dropped; prev == c, or c == null, is applied and then c = id; anything else is a gap: rejoin from
 * c. While joining, entries are dropped, for they belong to the join before. So what was applied
 * since the last fresh start is exactly a stretch of the log. Where the room was joined with
 * `state`, a fresh start begins with a snapshot, which comes in pieces: it is handed on whole, and
 * c is then the place in the log that it stands for.
 *
 * A publish is pending under its ref until its entry is applied, or until it is withdrawn. Once its
 * fate became unknown (the socket was lost, or no answer came in time), it is sent again under the
 * same ref, but not before the replay is over: that may bring its entry. From then on a rejection
 * for now settles nothing, and is only waited out.
 */
import { Backoff } from "./backoff.js";
import { byteLength, depth, encode } from "./codec.js";
import { ERRORS, RoomdError } from "./codes.js";
import { Emitter } from "./emitter.js";
import { ZERO, compare, isId } from "./stream-id.js";

/**
 * @typedef {"waiting" | "joining" | "replaying" | "live" | "left" | "refused"} RoomState
 *
 * @typedef {object} RoomStateChange
 * @property {RoomState} state
 * @property {RoomState} previous
 * @property {Omit<import("./codec.js").JoinedFrame, "op" | "room">} [joined] what the server said
 *   about the room's log, on the way to replaying
 * @property {number} [replayed] how many entries the replay had, on the way to live
 * @property {RoomdError} [error] why the join was refused, for now or for good, or the room left
 *
 * @typedef {object} Entry
 * @property {string} id
 * @property {string} type
 * @property {any} data
 * @property {string} [from] the authenticated user who published it
 * @property {string} [ref]
 * @property {string} [key]
 *
 * @typedef {object} Snapshot what a room's state is before the entries that follow
 * @property {string | null} id what follows comes after this; null: it may be older than what the
 *   state has
 * @property {import("./codec.js").SnapshotEntry[]} entries of each key the newest, by id
 *
 * @typedef {object} Pending a publish on its way
 * @property {string} ref
 * @property {string} type
 * @property {any} data
 * @property {string} [key]
 * @property {string} [id] once acknowledged
 *
 * @typedef {object} Outgoing
 * @property {Pending} pending
 * @property {string} text
 * @property {"queued" | "sent" | "unknown" | "acked"} state
 * @property {boolean} unsure it was sent before, and may be in the log from then
 * @property {unknown} timer for the answer, in state sent
 * @property {(id: string) => void} resolve
 * @property {(error: RoomdError) => void} reject
 *
 * @typedef {object} RoomOptions
 * @property {string | null} [cursor] start after this id; "$" for what is new only. Default: what
 *   the cursor store has, else everything that is retained
 * @property {number} [last] a fresh start, now or later, has the newest `last` entries only
 * @property {boolean} [state] a fresh start, now or later, begins with a snapshot of the room's
 *   state: of each key the newest entry
 *
 * @typedef {object} RoomWiring
 * @property {(text: string) => boolean} send
 * @property {() => number} maxFrameBytes
 * @property {(room: Room) => void} onEnd
 * @property {import("./cursors.js").CursorStore | null} cursors
 * @property {import("./connection.js").Clock} clock
 * @property {() => number} random
 * @property {() => string} newRef
 * @property {number} backoffBaseMs
 * @property {number} backoffCapMs
 *
 * @typedef {{
 *   state: [RoomStateChange],
 *   entry: [Entry, Pending | null],
 *   snapshot: [Snapshot],
 *   resync: [{ reason: string }],
 *   pending: [Pending],
 *   ack: [Pending],
 *   withdrawn: [Pending, RoomdError | null],
 *   signal: [{ type: string, data: any, from?: string }],
 *   error: [RoomdError],
 * }} RoomEvents
 */

const NAME = /^[A-Za-z0-9_.:-]{1,128}$/;
const MAX_REF_BYTES = 128;
const MAX_DEPTH = 32;
const MAX_IN_FLIGHT = 16; /* A burst after an outage must not run into the server's own limit. */
const ANSWER_MS = 15_000; /* Beyond it no answer is coming: the server doesn't know it either. */

/** @extends {Emitter<RoomEvents>} */
export class Room extends Emitter {
  /** @type {RoomState} */
  state = "waiting";
  /** @type {string | null} id of the last entry applied; null before the first of a fresh start */
  cursor;

  #wiring;
  #backoff;
  #last;
  #wantsState;
  /** @type {import("./codec.js").SnapshotEntry[]} of a snapshot that has not come whole */
  #pieces = [];
  /** @type {"$" | undefined} where to start while the cursor is null */
  #start;
  /** @type {Map<string, Outgoing>} by ref, in the order in which they were published */
  #outgoing = new Map();
  /** Gaps since an entry was applied; the second in a row is no accident any more. */
  #barrenGaps = 0;
  /** @type {unknown} */
  #joinTimer = null;

  /**
   * @param {string} name
   * @param {RoomOptions} options
   * @param {RoomWiring} wiring
   */
  constructor(name, options, wiring) {
    super();
    if (!NAME.test(name)) throw new TypeError(`not a room name: ${name}`);
    const { backoffBaseMs: baseMs, backoffCapMs: capMs, random } = wiring;
    this.name = name;
    this.#wiring = wiring;
    this.#backoff = new Backoff({ baseMs, capMs, random });
    this.#last = options.last;
    this.#wantsState = options.state || undefined;
    this.#start = options.cursor === "$" ? "$" : undefined;
    const cursor = options.cursor ?? wiring.cursors?.load(name);
    this.cursor = isId(cursor) ? cursor : null;
  }

  /** @returns {Pending[]} in the order in which they were published */
  get pending() {
    return [...this.#outgoing.values()].map((outgoing) => outgoing.pending);
  }

  /**
   * Appends to the room's log, now or when there is a connection again.
   * @param {string} type
   * @param {unknown} [data] what JSON can hold
   * @param {{ key?: string, ref?: string }} [options]
   * @returns {Promise<string>} the entry's id; rejects with a RoomdError
   */
  publish(type, data = null, { key, ref = this.#wiring.newRef() } = {}) {
    if (!ref || byteLength(ref) > MAX_REF_BYTES || /[\p{Cc}\p{Cs}]/u.test(ref)) {
      throw new TypeError(`not a ref: ${ref}`);
    }
    if (this.#outgoing.has(ref)) throw new TypeError(`ref already pending: ${ref}`);
    if (JSON.stringify(data) === undefined) throw new TypeError("data can't be JSON");
    const text = encode({ op: "publish", room: this.name, type, ref, key, data });
    if (this.#ended()) return Promise.reject(new RoomdError(409, "not in the room"));
    const pending = { ref, type, data, key };
    /** @type {Promise<string>} */
    const id = new Promise((resolve, reject) => {
      const fresh = { state: /** @type {const} */ ("queued"), unsure: false, timer: null };
      this.#outgoing.set(ref, { pending, text, ...fresh, resolve, reject });
    });
    id.catch(() => {}); /* `withdrawn` tells the story too, so nobody has to hear it here. */
    this.emit("pending", pending);
    this.#flush();
    return id;
  }

  /**
   * Tells whoever is in the room now; not logged, not kept while there is no connection.
   * @param {string} type
   * @param {unknown} [data]
   * @returns {boolean} whether it was handed to the socket
   */
  signal(type, data = null) {
    const text = encode({ op: "signal", room: this.name, type, data });
    return this.#member() && this.#wiring.send(text);
  }

  leave() {
    if (this.#ended()) return;
    this.#wiring.send(encode({ op: "leave", room: this.name }));
    this.end(new RoomdError(409, "left the room"));
  }

  /* --- what the client tells its rooms ------------------------------------------------------- */

  /** A socket is open. */
  connected() {
    if (!this.#ended()) this.#join();
  }

  /** The socket is gone, and with it the answers to what was sent. */
  disconnected() {
    for (const outgoing of this.#outgoing.values()) {
      if (outgoing.state === "sent") this.#doubt(outgoing);
    }
    this.#wiring.clock.clearTimeout(this.#joinTimer);
    if (this.state !== "waiting" && !this.#ended()) this.#move("waiting");
  }

  /**
   * @param {RoomdError} error
   * @param {"left" | "refused"} [state]
   */
  end(error, state = "left") {
    if (this.#ended()) return;
    this.#move(state, { error });
    for (const [ref, outgoing] of [...this.#outgoing]) {
      if (outgoing.state === "sent") this.#doubt(outgoing);
      this.#withdraw(ref, outgoing.state === "acked" ? null : error);
    }
    this.#wiring.onEnd(this);
  }

  /** @param {import("./codec.js").ServerFrame} frame for this room */
  receive(frame) {
    if (this.#ended()) return;
    switch (frame.op) {
      case "joined":
        if (this.state !== "waiting") this.#joined(frame);
        break;
      case "resync":
        if (this.state !== "waiting") this.#resync(frame.reason, frame.from);
        break;
      case "snapshot":
        if (this.#member()) this.#snapshot(frame);
        break;
      case "entry":
        if (this.#member()) this.#entry(frame);
        break;
      case "live":
        if (this.state === "replaying") this.#live(frame);
        break;
      case "ack":
        this.#ack(frame);
        break;
      case "reject":
        this.#reject(frame);
        break;
      case "signal":
        if (this.#member()) {
          this.emit("signal", { type: frame.type, data: frame.data, from: frame.from });
        }
        break;
    }
  }

  /* --- the cursor ---------------------------------------------------------------------------- */

  #join() {
    const cursor = this.cursor ?? this.#start;
    const options = { cursor, last: this.#last, state: this.#wantsState };
    const text = encode({ op: "join", room: this.name, ...options });
    if (this.#wiring.send(text)) this.#move("joining");
  }

  /** @param {import("./codec.js").JoinedFrame} frame */
  #joined({ op, room, ...joined }) {
    if (joined.from === null) {
      /* A fresh start that we didn't ask for: the answer to an older join, or a server's mistake.
       * */
      if (this.cursor !== null && this.cursor !== ZERO) return this.#resync("gap", null);
      this.cursor =
        null; /* "0-0" is everything that is retained, and its first prev may be null. */
    } else if (joined.from !== this.cursor) {
      /* A resync that crossed our join looked like its answer. This is the answer, and it goes on from a
       * cursor that is ours no more. */
      return this.#gap();
    }
    this.#move("replaying", { joined });
    this.#flush();
  }

  /**
   * @param {string} reason
   * @param {string | null} from
   */
  #resync(reason, from) {
    this.emit("resync", { reason });
    if (this.#ended()) return;
    this.#start = undefined;
    this.#setCursor(from);
    this.#move("replaying");
    this.#flush();
  }

  /** @param {import("./codec.js").SnapshotFrame} frame */
  #snapshot({ id, entries, more }) {
    this.#pieces.push(...entries);
    if (more) return;
    const whole = this.#pieces;
    this.#pieces = [];
    this.emit("snapshot", { id, entries: whole });
    if (this.#ended()) return;
    this.#setCursor(id);
    this.#barrenGaps = 0;
    this.#backoff.reset();
  }

  /** @param {import("./codec.js").EntryFrame} frame */
  #entry({ op, room, prev, ...entry }) {
    if (this.cursor !== null) {
      if (compare(entry.id, this.cursor) <= 0) return;
      if (prev !== this.cursor) return this.#gap();
    }
    const outgoing = entry.ref === undefined ? undefined : this.#take(entry.ref);
    this.emit("entry", entry, outgoing?.pending ?? null);
    this.#setCursor(entry.id);
    this.#barrenGaps = 0;
    this.#backoff.reset();
    outgoing?.resolve(entry.id);
    this.#flush();
  }

  /* A rejoin mends a gap. Should it only lead to the next gap, it must not become a loop. */
  #gap() {
    this.#barrenGaps += 1;
    if (this.#barrenGaps === 1) this.#join();
    else this.#joinLater(this.#backoff.next());
  }

  /**
   * @param {number} ms
   * @param {RoomdError} [error]
   */
  #joinLater(ms, error) {
    this.#move("waiting", { error });
    if (this.#ended()) return;
    this.#joinTimer = this.#wiring.clock.setTimeout(() => this.#join(), ms);
  }

  /** @param {import("./codec.js").LiveFrame} frame */
  #live({ cursor, replayed }) {
    if (this.cursor === null) this.#setCursor(cursor);
    this.#move("live", { replayed });
    this.#withdrawPassed();
    this.#flush();
  }

  /** @param {string | null} cursor */
  #setCursor(cursor) {
    this.cursor = cursor;
    this.#wiring.cursors?.save(this.name, cursor);
  }

  /* --- publishing ---------------------------------------------------------------------------- */

  /* Sends what may be sent, in order. */
  #flush() {
    if (!this.#member()) return;
    let inFlight = 0;
    for (const outgoing of this.#outgoing.values()) {
      if (outgoing.state === "acked") continue;
      if (outgoing.state !== "sent" && !this.#sendPublish(outgoing)) return;
      if (++inFlight === MAX_IN_FLIGHT) return;
    }
  }

  /**
   * @param {Outgoing} outgoing
   * @returns {boolean} false if it has to wait, and what comes after it too
   */
  #sendPublish(outgoing) {
    if (outgoing.state === "unknown" && this.state !== "live") return false;
    const refusal = this.#refusal(outgoing.text);
    if (refusal) {
      this.#withdraw(outgoing.pending.ref, refusal);
      return true;
    }
    if (!this.#wiring.send(outgoing.text)) return false;
    outgoing.state = "sent";
    this.#awaitAnswer(outgoing, ANSWER_MS);
    return true;
  }

  /**
   * @param {Outgoing} outgoing
   * @param {number} ms until it is sent again
   */
  #awaitAnswer(outgoing, ms) {
    const { clock } = this.#wiring;
    clock.clearTimeout(outgoing.timer);
    outgoing.timer = clock.setTimeout(() => {
      this.#doubt(outgoing);
      this.#flush();
    }, ms);
  }

  /** @param {Outgoing} outgoing whose answer isn't coming */
  #doubt(outgoing) {
    this.#wiring.clock.clearTimeout(outgoing.timer);
    outgoing.state = "unknown";
    outgoing.unsure = true;
  }

  /**
   * What the server would close the socket for, or answer without saying which publish it meant.
   * @param {string} text
   */
  #refusal(text) {
    const max = this.#wiring.maxFrameBytes();
    if (byteLength(text) > max) return new RoomdError(413, `larger than ${max} bytes`);
    if (depth(text) > MAX_DEPTH) return new RoomdError(422, `nested deeper than ${MAX_DEPTH}`);
    return null;
  }

  /** @param {import("./codec.js").AckFrame} frame */
  #ack({ ref, id }) {
    const outgoing = this.#outgoing.get(ref ?? "");
    if (!outgoing || outgoing.state === "acked") return;
    this.#wiring.clock.clearTimeout(outgoing.timer);
    outgoing.state = "acked";
    outgoing.pending.id = id;
    outgoing.resolve(id);
    this.emit("ack", outgoing.pending);
    this.#withdrawPassed();
    this.#flush();
  }

  /** @param {import("./codec.js").RejectFrame} frame */
  #reject(frame) {
    const error = new RoomdError(frame.code, frame.reason, frame.retry_after_ms);
    const retry = error.retryAfterMs !== undefined || ERRORS.get(error.code)?.retry;
    if (frame.op_ref === "publish") {
      const outgoing = this.#outgoing.get(frame.ref ?? "");
      /* Not in the log by this try, but perhaps by the one before. Only its ref can tell. */
      if (outgoing?.state === "sent" && outgoing.unsure && retry) {
        return this.#awaitAnswer(outgoing, error.retryAfterMs ?? ANSWER_MS);
      }
      this.#withdraw(frame.ref ?? "", error);
      this.#flush();
    } else if (frame.op_ref !== "join") {
      this.emit("error", error);
    } else if (this.state === "joining" || (this.#member() && error.code !== 422)) {
      /* A member's replay failed, which ended the membership. A malformed rejoin doesn't. */
      if (retry) this.#joinLater(error.retryAfterMs ?? this.#backoff.next(), error);
      else this.end(error, "refused");
    }
  }

  /* An acknowledged entry at or below the cursor isn't coming any more: a fresh start began after
   * it. */
  #withdrawPassed() {
    for (const { pending } of [...this.#outgoing.values()]) {
      if (pending.id !== undefined && this.cursor !== null) {
        if (compare(pending.id, this.cursor) <= 0) this.#withdraw(pending.ref, null);
      }
    }
  }

  /**
   * @param {string} ref
   * @param {RoomdError | null} error null: it is in the log, but the room won't show it
   */
  #withdraw(ref, error) {
    const outgoing = this.#take(ref);
    if (!outgoing) return;
    const told = error && outgoing.unsure ? error.asUnsure() : error;
    if (told) outgoing.reject(told);
    this.emit("withdrawn", outgoing.pending, told);
  }

  /** @param {string} ref */
  #take(ref) {
    const outgoing = this.#outgoing.get(ref);
    this.#outgoing.delete(ref);
    this.#wiring.clock.clearTimeout(outgoing?.timer);
    return outgoing;
  }

  /* --- state --------------------------------------------------------------------------------- */

  #member() {
    return this.state === "replaying" || this.state === "live";
  }

  #ended() {
    return this.state === "left" || this.state === "refused";
  }

  /**
   * The one place where the state changes.
   * @param {RoomState} state
   * @param {Omit<RoomStateChange, "state" | "previous">} [detail]
   */
  #move(state, detail = {}) {
    const previous = this.state;
    this.state = state;
    this.#pieces = [];
    this.#wiring.clock.clearTimeout(this.#joinTimer);
    this.emit("state", { state, previous, ...detail });
  }
}
