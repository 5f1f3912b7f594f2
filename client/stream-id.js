/* stream-id.js - ids of entries: text `ms-seq`, compared as two unsigned 64-bit numbers.
 *
 * Ids stay strings, for JavaScript's numbers lose bits above 2^53, and become BigInt only to be
 * compared (as text, "9-0" is above "10-0"). The text is canonical, so equal ids are equal strings.
 */

const CANONICAL = /^(0|[1-9]\d{0,19})-(0|[1-9]\d{0,19})$/;
const MAX = 2n ** 64n - 1n;

/** Before every entry; no log ever holds it. */
export const ZERO = "0-0";

/**
 * @param {string} text
 * @returns {{ ms: bigint, seq: bigint } | null} null unless text is exactly one canonical id
 */
export function parse(text) {
  const match = CANONICAL.exec(text);
  if (!match) return null;
  const ms = BigInt(/** @type {string} */ (match[1]));
  const seq = BigInt(/** @type {string} */ (match[2]));
  return ms <= MAX && seq <= MAX ? { ms, seq } : null;
}

/**
 * @param {unknown} value
 * @returns {value is string}
 */
export function isId(value) {
  return typeof value === "string" && parse(value) !== null;
}

/**
 * Below, at or above zero as `a` is below, at or above `b`. Both must be ids.
 * @param {string} a
 * @param {string} b
 */
export function compare(a, b) {
  if (a === b) return 0;
  const x = parse(a);
  const y = parse(b);
  if (!x || !y) throw new TypeError(`not an id: ${x ? b : a}`);
  if (x.ms !== y.ms) return x.ms < y.ms ? -1 : 1;
  return x.seq < y.seq ? -1 : 1;
}
