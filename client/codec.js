/* codec.js - frames to text and back, as protocol/PROTOCOL.md says.
 *
 * decode() checks every field that the client relies on, so that nothing behind it has to: a frame
 * it returns has a known shape. Unknown fields and unknown ops pass, for the server may be newer.
 */
import { isId } from "./stream-id.js";

export const SUBPROTOCOL = "roomd.v1";

/**
 * @typedef {{ op: "welcome", session: string, heartbeat_ms: number, max_frame_bytes: number,
 *   high_water_bytes: number }} WelcomeFrame
 * @typedef {{ op: "joined", room: string, from: string | null, head: string,
 *   oldest: string | null, complete: boolean, max_entries: number | null }} JoinedFrame
 * @typedef {{ op: "entry", room: string, id: string, prev: string | null, type: string,
 *   from?: string, ref?: string, key?: string, data: any }} EntryFrame
 * @typedef {{ id: string, type: string, from?: string, key: string, data: any }} SnapshotEntry
 * @typedef {{ op: "snapshot", room: string, id: string | null, entries: SnapshotEntry[],
 *   more?: boolean }} SnapshotFrame
 * @typedef {{ op: "live", room: string, cursor: string, replayed: number }} LiveFrame
 * @typedef {{ op: "resync", room: string, reason: string, from: string | null }} ResyncFrame
 * @typedef {{ op: "ack", room: string, ref?: string, id: string, duplicate: boolean }} AckFrame
 * @typedef {{ op: "reject", op_ref: string, ref?: string, room?: string, code: number,
 *   reason: string, retry_after_ms?: number }} RejectFrame
 * @typedef {{ op: "error", code: number, reason: string }} ErrorFrame
 * @typedef {{ op: "signal", room: string, type: string, from?: string, data: any }} SignalFrame
 * @typedef {{ op: "left", room: string }} LeftFrame
 * @typedef {{ op: "pong", t?: unknown }} PongFrame
 * @typedef {{ op: "bye", reason: string, retry_after_ms: number }} ByeFrame
 * @typedef {WelcomeFrame | JoinedFrame | EntryFrame | SnapshotFrame | LiveFrame | ResyncFrame |
 *   AckFrame | RejectFrame | ErrorFrame | SignalFrame | LeftFrame | PongFrame |
 *   ByeFrame} ServerFrame
 */

/** @param {unknown} value */
const isString = (value) => typeof value === "string";
/** @param {unknown} value */
const isCount = (value) => Number.isFinite(value) && /** @type {number} */ (value) >= 0;
/** @param {unknown} value */
const isBoolean = (value) => typeof value === "boolean";
/** @param {(value: unknown) => boolean} check */
const orNull = (check) => (/** @type {unknown} */ value) => value === null || check(value);
/** @param {(value: unknown) => boolean} check */
const orAbsent = (check) => (/** @type {unknown} */ value) => value === undefined || check(value);

/** @param {any} entry */
const isStateEntry = (entry) =>
  isId(entry?.id) && isString(entry.type) && isString(entry.key) && "data" in entry;
/** @param {unknown} value */
const isState = (value) => Array.isArray(value) && value.every(isStateEntry);

/** @type {Record<string, Record<string, (value: unknown) => boolean>>} */
const FIELDS = {
  welcome: { session: isString, heartbeat_ms: isCount, max_frame_bytes: isCount },
  joined: { room: isString, from: orNull(isId), oldest: orNull(isId), complete: isBoolean },
  entry: { room: isString, id: isId, prev: orNull(isId), type: isString, ref: orAbsent(isString) },
  snapshot: { room: isString, id: orNull(isId), entries: isState, more: orAbsent(isBoolean) },
  live: { room: isString, cursor: isId, replayed: isCount },
  resync: { room: isString, reason: isString, from: orNull(isId) },
  ack: { room: isString, ref: orAbsent(isString), id: isId },
  reject: { op_ref: isString, code: isCount, reason: isString, retry_after_ms: orAbsent(isCount) },
  error: { code: isCount, reason: isString },
  signal: { room: isString, type: isString },
  left: { room: isString },
  pong: {},
  bye: { retry_after_ms: isCount },
};

/**
 * @param {unknown} text what the socket received
 * @returns {ServerFrame} or a frame with an unknown op, to be ignored
 * @throws {Error} if it isn't a frame
 */
export function decode(text) {
  if (typeof text !== "string") throw new Error("a binary frame");
  const frame = JSON.parse(text);
  if (!isString(frame?.op)) throw new Error("no op");
  const fields = Object.hasOwn(FIELDS, frame.op) ? FIELDS[frame.op] : {};
  for (const [name, check] of Object.entries(fields ?? {})) {
    if (!check(frame[name])) throw new Error(`${frame.op}: bad ${name}`);
  }
  return frame;
}

/**
 * @param {{ op: string, [field: string]: unknown }} frame undefined fields are left out
 * @returns {string}
 * @throws {TypeError} if it can't be JSON (a BigInt, a cycle)
 */
export function encode(frame) {
  return JSON.stringify(frame);
}

/**
 * Bytes of the text on the wire.
 * @param {string} text
 */
export function byteLength(text) {
  return new TextEncoder().encode(text).length;
}

/**
 * The deepest nesting in a JSON text.
 * @param {string} text
 */
export function depth(text) {
  let open = 0;
  let deepest = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{\]}]/g)) {
    if (token === "[" || token === "{") deepest = Math.max(deepest, ++open);
    else if (token === "]" || token === "}") open -= 1;
  }
  return deepest;
}
