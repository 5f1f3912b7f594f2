/* codes.js - the same list as protocol/codes.h, held to it by protocol/vectors/codes.json. */

/**
 * What an `error` or a `reject` frame carries. retry: the same request may succeed later.
 * @type {ReadonlyMap<number, { name: string, retry: boolean }>}
 */
export const ERRORS = new Map([
  [400, { name: "bad_json", retry: false }],
  [401, { name: "unauthorized", retry: false }],
  [403, { name: "forbidden", retry: false }],
  [404, { name: "unknown_op", retry: false }],
  [409, { name: "not_joined", retry: false }],
  [413, { name: "too_big", retry: false }],
  [422, { name: "bad_field", retry: false }],
  [429, { name: "too_many", retry: true }],
  [500, { name: "log_error", retry: false }],
  [503, { name: "unavailable", retry: true }],
  [507, { name: "log_full", retry: true }],
]);

/**
 * What a close frame carries. resume: come back, from the cursor.
 * @type {ReadonlyMap<number, { name: string, reason: string, resume: boolean }>}
 */
export const CLOSES = new Map([
  [1002, { name: "protocol_error", reason: "protocol error", resume: false }],
  [1007, { name: "bad_utf8", reason: "invalid utf-8", resume: false }],
  [1009, { name: "too_big", reason: "message too big", resume: false }],
  [1012, { name: "restart", reason: "restart", resume: true }],
  [1013, { name: "try_later", reason: "try again later", resume: true }],
  [4000, { name: "slow_consumer", reason: "slow consumer", resume: true }],
  [4400, { name: "bad_frame", reason: "bad frame", resume: false }],
  [4401, { name: "token", reason: "token missing, invalid or expired", resume: true }],
  [4403, { name: "forbidden", reason: "forbidden", resume: false }],
  [4410, { name: "operator", reason: "disconnected by operator", resume: false }],
  [4429, { name: "too_many", reason: "too many requests", resume: true }],
]);

/** A socket that ended without a close frame. */
export const CLOSED_ABNORMALLY = 1006;

/**
 * Every code that isn't in the list is resumable. 1006 too: a stalled socket often can't take the
 * close frame that would have said 4000.
 * @param {number} code
 */
export function mayResume(code) {
  return CLOSES.get(code)?.resume ?? true;
}

/** What did not happen, and why. */
export class RoomdError extends Error {
  /**
   * @param {number} code of ERRORS or CLOSES
   * @param {string} reason
   * @param {number} [retryAfterMs] when trying again makes sense, as the server sees it
   */
  constructor(code, reason, retryAfterMs) {
    super(reason);
    this.name = "RoomdError";
    this.code = code;
    this.codeName = (ERRORS.get(code) ?? CLOSES.get(code))?.name ?? "unknown";
    this.retryAfterMs = retryAfterMs;
    /** Whether it may have happened all the same: the answer to an earlier try was lost. */
    this.unsure = false;
  }

  asUnsure() {
    const copy = new RoomdError(this.code, this.message, this.retryAfterMs);
    copy.unsure = true;
    return copy;
  }
}
