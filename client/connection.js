/* connection.js - one socket at a time, and its state: connect, ping, back off, try again.
 *
 *              open()               welcome
 *     closed ───────────▶ connecting ─────────▶ open
 *                           ▲    │               │
 *                   retry,  │    │ lost          │ lost
 *                   check() │    ▼               │
 *                          waiting ◀─────────────┘
 *
 * Back to closed from anywhere: close(), or a close code that says stop.
 *
 * A browser sees neither WebSocket pings nor a network that went away, so a silent socket is asked
 * with a `ping` frame, and given up within heartbeat_ms of the last frame heard.
 *
 * Always true: frames come from the newest socket only, and only in state open; at most one timer
 * is running, and it belongs to the state.
 */
import { Backoff } from "./backoff.js";
import { CLOSED_ABNORMALLY, mayResume } from "./codes.js";
import { SUBPROTOCOL, decode, encode } from "./codec.js";
import { Emitter } from "./emitter.js";

/**
 * @typedef {"closed" | "connecting" | "open" | "waiting"} ConnectionState
 * @typedef {object} StateChange
 * @property {ConnectionState} state
 * @property {ConnectionState} previous
 * @property {number} [code] why the socket ended: a close code
 * @property {string} [reason]
 * @property {number} [retryInMs] in state waiting
 *
 * @typedef {object} Clock
 * @property {() => number} now ms; must go on while the machine sleeps
 * @property {(run: () => void, ms: number) => unknown} setTimeout
 * @property {(timer: any) => void} clearTimeout
 *
 * @typedef {object} Wiring
 * @property {(url: string, protocols: string[]) => WebSocket} openSocket
 * @property {Clock} clock
 * @property {() => number} random [0, 1)
 * @property {Pick<EventTarget, "addEventListener" | "removeEventListener"> | null} network where
 *   `online` and `offline` are heard
 * @property {number} backoffBaseMs
 * @property {number} backoffCapMs
 */

const ANSWER_MS = 10_000; /* from opening a socket to its welcome */
const PROBE_MS = 3_000; /* the answer to a ping sent because the network changed */
const STABLE_MS = 10_000; /* a socket that lived this long starts the backoff over */
const LATE_MS = 1_000; /* a timer this late has been asleep, and its silence proves nothing */
const SHORTEST_WATCH_MS = 1_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1; /* beyond it, setTimeout fires at once */
const CLOSED_NORMALLY = 1000;

/** @extends {Emitter<{ state: [StateChange], frame: [import("./codec.js").ServerFrame] }>} */
export class Connection extends Emitter {
  /** @type {ConnectionState} */
  state = "closed";
  /** What a frame may have, as the last `welcome` said. */
  maxFrameBytes = Infinity;

  #url;
  #wiring;
  #backoff;
  /** @type {WebSocket | null} the newest; older ones are not listened to */
  #socket = null;
  /** @type {unknown} the state's one timer */
  #timer = null;
  #openedAt = 0;
  #heartbeatMs = Infinity;
  /** Watch periods that ended since a frame was heard: see #watch. */
  #silentPeriods = 0;
  /** @type {number | null} what `bye` asked for */
  #retryAfterMs = null;

  /**
   * @param {string} url
   * @param {Wiring} wiring
   */
  constructor(url, wiring) {
    super();
    const { backoffBaseMs: baseMs, backoffCapMs: capMs, random } = wiring;
    this.#url = url;
    this.#wiring = wiring;
    this.#backoff = new Backoff({ baseMs, capMs, random });
  }

  open() {
    if (this.state !== "closed") return;
    this.#connect();
    this.#wiring.network?.addEventListener("online", this.check);
    this.#wiring.network?.addEventListener("offline", this.check);
  }

  close() {
    if (this.state !== "closed") this.#stop(CLOSED_NORMALLY, "closed by the page");
  }

  /**
   * Hands a frame's text to the socket.
   * @param {string} text
   * @returns {boolean} false if there is no open socket
   */
  send(text) {
    if (this.state !== "open") return false;
    this.#socket?.send(text);
    return true;
  }

  /**
   * Tries at once, or makes sure that the socket still lives: something happened to the network, or
   * somebody is tired of waiting.
   * @param {{ type: string }} [event]
   */
  check = (event) => {
    if (this.state === "open") return this.#ping(PROBE_MS);
    if (this.state !== "waiting" || event?.type === "offline") return;
    this.#backoff.reset();
    this.#connect();
  };

  #connect() {
    const socket = this.#openSocket();
    if (!socket) return;
    this.#socket = socket;
    socket.onmessage = (event) => socket === this.#socket && this.#receive(event.data);
    socket.onclose = (event) => socket === this.#socket && this.#lost(event.code, event.reason);
    socket.onerror =
      () => {}; /* A close follows. Node's ws takes an error nobody hears for fatal. */
    this.#move("connecting", {}, ANSWER_MS, () => this.#giveUp("no welcome"));
  }

  /* Null where the socket can't even be made: lost before it began. At the first it is the caller's
   * mistake, a bad URL for one. */
  #openSocket() {
    try {
      return this.#wiring.openSocket(this.#url, [SUBPROTOCOL]);
    } catch (error) {
      if (this.state === "closed") throw error;
      this.#lost(CLOSED_ABNORMALLY, String(error));
      return null;
    }
  }

  /** @param {unknown} text */
  #receive(text) {
    this.#silentPeriods = 0;
    let frame;
    try {
      frame = decode(text);
    } catch (error) {
      return this.#giveUp(`not understood: ${/** @type {Error} */ (error).message}`);
    }
    if (this.state === "connecting" && frame.op === "welcome") return this.#welcome(frame);
    if (this.state !== "open") return this.#giveUp(`${frame.op} before welcome`);
    if (frame.op === "bye") this.#retryAfterMs = frame.retry_after_ms;
    this.emit("frame", frame);
  }

  /** @param {import("./codec.js").WelcomeFrame} frame */
  #welcome(frame) {
    this.#openedAt = this.#wiring.clock.now();
    this.#heartbeatMs = frame.heartbeat_ms;
    this.maxFrameBytes = frame.max_frame_bytes;
    this.#move("open", {}, this.#watchPeriod(), this.#watch);
  }

  /* Three periods make a heartbeat. The first may have begun with a frame; the second was silent
   * from end to end, so we ask; at the end of the third we know. */
  #watchPeriod() {
    return Math.max(this.#heartbeatMs / 3, SHORTEST_WATCH_MS);
  }

  /** @param {number} lateMs */
  #watch = (lateMs) => {
    this.#silentPeriods += 1;
    if (this.#silentPeriods >= 2 && lateMs > LATE_MS) this.#ping(PROBE_MS);
    else if (this.#silentPeriods === 2) this.#ping(this.#watchPeriod());
    else if (this.#silentPeriods > 2) this.#giveUp("no answer to ping");
    else this.#startTimer(this.#watchPeriod(), this.#watch);
  };

  /** @param {number} answerMs until when something has to be heard */
  #ping(answerMs) {
    this.#silentPeriods = 2;
    this.send(encode({ op: "ping", t: this.#wiring.clock.now() }));
    this.#startTimer(Math.min(answerMs, this.#watchPeriod()), this.#watch);
  }

  /** Ends a socket that we no longer believe in, without waiting for its side of the goodbye.
   * @param {string} reason */
  #giveUp(reason) {
    this.#detach()?.close();
    this.#lost(CLOSED_ABNORMALLY, reason);
  }

  /**
   * @param {number} code
   * @param {string} reason
   */
  #lost(code, reason) {
    this.#detach();
    if (!mayResume(code)) return this.#stop(code, reason);
    if (this.state === "open" && this.#wiring.clock.now() - this.#openedAt >= STABLE_MS) {
      this.#backoff.reset();
    }
    const retryInMs = this.#retryAfterMs ?? this.#backoff.next();
    this.#retryAfterMs = null;
    this.#move("waiting", { code, reason, retryInMs }, retryInMs, () => this.#connect());
  }

  /**
   * @param {number} code
   * @param {string} reason
   */
  #stop(code, reason) {
    this.#wiring.network?.removeEventListener("online", this.check);
    this.#wiring.network?.removeEventListener("offline", this.check);
    this.#detach()?.close();
    this.#move("closed", { code, reason });
  }

  #detach() {
    const socket = this.#socket;
    this.#socket = null;
    return socket;
  }

  /**
   * The one place where the state changes. The listeners run last: they may call us.
   * @param {ConnectionState} state
   * @param {{ code?: number, reason?: string, retryInMs?: number }} detail
   * @param {number} [timeoutMs] when to leave the state
   * @param {(lateMs: number) => void} [onTimeout]
   */
  #move(state, detail, timeoutMs, onTimeout) {
    const previous = this.state;
    this.state = state;
    this.#startTimer(timeoutMs, onTimeout);
    this.emit("state", { state, previous, ...detail });
  }

  /**
   * @param {number} [ms]
   * @param {(lateMs: number) => void} [onTimeout]
   */
  #startTimer(ms, onTimeout) {
    const { clock } = this.#wiring;
    clock.clearTimeout(this.#timer);
    if (ms === undefined) return;
    const due = clock.now() + ms;
    const run = () => onTimeout?.(clock.now() - due);
    this.#timer = clock.setTimeout(run, Math.min(ms, LONGEST_TIMER_MS));
  }
}
