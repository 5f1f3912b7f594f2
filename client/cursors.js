/* cursors.js - where a room's cursor is kept from one page load to the next.
 *
 * A stored cursor says "everything up to here has been applied". It is only as good as the state
 * it was applied to: a page that keeps the cursor over a reload must keep that state too, or it
 * resumes after entries that it no longer shows. So a client without a store forgets both together.
 */

/**
 * @typedef {object} CursorStore
 * @property {(room: string) => string | null} load
 * @property {(room: string, cursor: string | null) => void} save null: there is none any more
 */

/** @typedef {Pick<Storage, "getItem" | "setItem" | "removeItem">} CursorStorage */

/**
 * Survives a reload of the tab. A storage that is full, or not allowed, means a fresh start after
 * the reload, never an error.
 * @param {{ storage?: CursorStorage, prefix?: string }} [options]
 *   storage: default `sessionStorage`
 * @returns {CursorStore}
 */
export function sessionCursors({ storage, prefix = "roomd:" } = {}) {
  /** @param {(storage: CursorStorage) => string | null} use */
  const attempt = (use) => {
    try {
      return use(storage ?? globalThis.sessionStorage); /* The very name may throw. */
    } catch {
      return null;
    }
  };
  return {
    load: (room) => attempt((area) => area.getItem(prefix + room)),
    save: (room, cursor) =>
      void attempt((area) => {
        area.removeItem(prefix + room); /* If what follows fails, no stale cursor stays behind. */
        if (cursor) area.setItem(prefix + room, cursor);
        return null;
      }),
  };
}
