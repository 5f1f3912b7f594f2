/* screen.js - what a room's screen shows, kept over a reload together with its cursor.
 *
 * A cursor alone would resume after entries that the reloaded page no longer shows. So both are one
 * item of sessionStorage: written late and lost in a crash, it is only an older screen, from which
 * the replay goes on.
 */
import { recall, remember } from "./storage.js";

const KEEP = 200; /* entries a reload shows at once; those before are not worth the storage */
const WRITE_AFTER_MS = 300;

/**
 * @typedef {import("/client/room.js").Entry} Entry
 * @typedef {{ cursor: string | null, entries: Entry[] }} Screen
 */

/** A cursor store for connect(), with the entries beside the cursors. */
export class Screens {
  /** @type {Map<string, Screen>} */
  #screens = new Map();
  /** @type {Set<string>} */
  #unsaved = new Set();

  constructor() {
    addEventListener("pagehide", () => this.#write());
    document.addEventListener("visibilitychange", () => this.#write());
  }

  /** @param {string} room */
  entries(room) {
    return this.#of(room).entries;
  }

  /**
   * To be called from the listener; the client calls save() with the entry's id right after it.
   * @param {string} room
   * @param {Entry} entry
   */
  add(room, entry) {
    const screen = this.#of(room);
    screen.entries.push(entry);
    if (screen.entries.length > 2 * KEEP) screen.entries = screen.entries.slice(-KEEP);
  }

  /** @param {string} room */
  clear(room) {
    this.#of(room).entries = [];
  }

  /** @param {string} room */
  load(room) {
    return this.#of(room).cursor;
  }

  /**
   * @param {string} room
   * @param {string | null} cursor
   */
  save(room, cursor) {
    this.#of(room).cursor = cursor;
    if (this.#unsaved.size === 0) setTimeout(() => this.#write(), WRITE_AFTER_MS);
    this.#unsaved.add(room);
  }

  /**
   * @param {string} room
   * @returns {Screen}
   */
  #of(room) {
    const screen = this.#screens.get(room) ?? read(room);
    this.#screens.set(room, screen);
    return screen;
  }

  #write() {
    for (const room of this.#unsaved) {
      const { cursor, entries } = this.#of(room);
      remember(key(room), JSON.stringify({ cursor, entries: entries.slice(-KEEP) }));
    }
    this.#unsaved.clear();
  }
}

/** @param {string} room */
const key = (room) => `screen:${room}`;

/**
 * @param {string} room
 * @returns {Screen}
 */
function read(room) {
  try {
    const { cursor, entries } = JSON.parse(recall(key(room)) ?? "");
    if (typeof cursor === "string" && Array.isArray(entries)) return { cursor, entries };
  } catch {
    /* Nothing there, or nothing usable. */
  }
  return { cursor: null, entries: [] };
}
