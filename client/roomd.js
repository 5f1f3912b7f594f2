/* roomd.js - what users import: connect, then join rooms.
 *
 *   import { connect } from "/client/roomd.js";
 *   const room = connect().join("lobby");
 *   room.on("entry", (entry) => console.log(entry.data));
 *   await room.publish("message", { text: "hi" });
 *
 * A client has one connection and any number of rooms on it. It joins them again, each from its own
 * cursor, on every new socket.
 */
import { RoomdError } from "./codes.js";
import { Connection } from "./connection.js";
import { Emitter } from "./emitter.js";
import { Room } from "./room.js";

export { RoomdError } from "./codes.js";
export { sessionCursors } from "./cursors.js";

/**
 * @typedef {object} ClientOptions
 * @property {import("./cursors.js").CursorStore | null} [cursors] where cursors outlive the page;
 *   default: nowhere
 * @property {() => string} [newRef] a globally unique name for a publish; default: 128 random bits
 * @property {number} [backoffBaseMs] the first wait is at most this; default 500
 * @property {number} [backoffCapMs] no wait is longer; default 30,000
 * @property {import("./connection.js").Wiring["openSocket"]} [openSocket] default: `WebSocket`
 * @property {import("./connection.js").Clock} [clock] default: `Date.now`, `setTimeout`
 * @property {() => number} [random] default: `Math.random`
 * @property {import("./connection.js").Wiring["network"]} [network] where `online` and `offline`
 *   are heard; default: the window, where there is one
 */

/**
 * @param {string | URL} [url] default: /v1/ws on the host of the page
 * @param {ClientOptions} [options]
 */
export function connect(url = pageUrl(), options = {}) {
  return new Client(String(url), options);
}

/** @extends {Emitter<{ state: [import("./connection.js").StateChange], error: [RoomdError] }>} */
export class Client extends Emitter {
  #connection;
  #options;
  /** @type {Map<string, Room>} the ones we are in, or want to be */
  #rooms = new Map();

  /**
   * @param {string} url
   * @param {ClientOptions} options
   */
  constructor(url, options) {
    super();
    this.#options = { ...defaults(), ...options };
    this.#connection = new Connection(url, this.#options);
    this.#connection.on("state", (change) => this.#onState(change));
    this.#connection.on("frame", (frame) => this.#onFrame(frame));
    this.#connection.open();
  }

  get state() {
    return this.#connection.state;
  }

  /**
   * Joining a room twice gives the same Room.
   * @param {string} name 1 to 128 of A-Z a-z 0-9 _ . : -
   * @param {import("./room.js").RoomOptions} [options]
   * @returns {Room}
   */
  join(name, options = {}) {
    const known = this.#rooms.get(name);
    if (known) return known;
    const room = new Room(name, options, {
      ...this.#options,
      send: (text) => this.#connection.send(text),
      maxFrameBytes: () => this.#connection.maxFrameBytes,
      onEnd: (ended) => this.#rooms.delete(ended.name),
    });
    if (this.state === "closed") throw new RoomdError(1000, "the client is closed");
    this.#rooms.set(name, room);
    room.connected();
    return room;
  }

  /** Doesn't wait for the next try. With a connection, makes sure that it still lives. */
  check() {
    this.#connection.check();
  }

  /** For good. The rooms are left. */
  close() {
    this.#connection.close();
  }

  /** @param {import("./connection.js").StateChange} change */
  #onState(change) {
    for (const room of [...this.#rooms.values()]) {
      if (change.state === "open") room.connected();
      else if (change.state === "waiting") room.disconnected();
      else if (change.state === "closed") {
        room.end(new RoomdError(change.code ?? 1000, change.reason || "closed"));
      }
    }
    this.emit("state", change);
  }

  /** @param {import("./codec.js").ServerFrame} frame */
  #onFrame(frame) {
    if (frame.op === "error") this.emit("error", new RoomdError(frame.code, frame.reason));
    else if ("room" in frame && frame.room !== undefined)
      this.#rooms.get(frame.room)?.receive(frame);
  }
}

function pageUrl() {
  return new URL("/v1/ws", location.href.replace(/^http/, "ws")).href;
}

function defaults() {
  return {
    cursors: null,
    newRef,
    backoffBaseMs: 500,
    backoffCapMs: 30_000,
    /** @type {import("./connection.js").Wiring["openSocket"]} */
    openSocket: (url, protocols) => new WebSocket(url, protocols),
    /** @type {import("./connection.js").Clock} */
    clock: {
      now: () => Date.now(),
      setTimeout: (run, ms) => setTimeout(run, ms),
      clearTimeout: (timer) => clearTimeout(timer),
    },
    random: Math.random,
    network: typeof window === "undefined" ? null : window,
  };
}

/* crypto.randomUUID would need a secure context, which a server on the local network isn't. */
function newRef() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
