/* own.js - which entries were published from this tab, over a reload too.
 *
 * By room and id, as an ack or a confirmed entry told them: a `ref` is public once it is in the
 * log, and anybody may publish under it.
 */
import { recall, remember } from "./storage.js";

const KEY = "own";
const MOST = 1000;

export class OwnEntries {
  #names = new Set(read());

  /**
   * @param {string} room
   * @param {string} id
   */
  add(room, id) {
    const name = `${room} ${id}`;
    if (this.#names.has(name)) return;
    this.#names.add(name);
    for (const oldest of this.#names) {
      if (this.#names.size <= MOST) break;
      this.#names.delete(oldest);
    }
    remember(KEY, JSON.stringify([...this.#names]));
  }

  /**
   * @param {string} room
   * @param {string} id
   */
  has(room, id) {
    return this.#names.has(`${room} ${id}`);
  }
}

/** @returns {string[]} */
function read() {
  try {
    return JSON.parse(recall(KEY) ?? "[]");
  } catch {
    return []; /* Not ours, or cut short. */
  }
}
