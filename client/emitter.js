/* emitter.js - listeners by event name; on() returns the function that takes the listener off.
 *
 * A listener that throws doesn't keep the others from running, and doesn't disturb the caller: its
 * error is reported as uncaught, as the DOM does it. A listener taken off during an event isn't
 * called any more; one added during an event waits for the next.
 */

/** @template {Record<string, any[]>} Events */
export class Emitter {
  /** @type {Map<keyof Events, Set<{ call: Function }>>} */
  #listeners = new Map();

  /**
   * @template {keyof Events} Name
   * @param {Name} name
   * @param {(...args: Events[Name]) => void} listener
   * @returns {() => void} takes the listener off
   */
  on(name, listener) {
    const entry = { call: listener };
    const set = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, set.add(entry));
    return () => void set.delete(entry);
  }

  /**
   * For subclasses: runs every listener of `name`, in the order in which they were added.
   * @template {keyof Events} Name
   * @param {Name} name
   * @param {Events[Name]} args
   */
  emit(name, ...args) {
    const set = this.#listeners.get(name);
    if (!set) return;
    for (const entry of [...set]) {
      if (!set.has(entry)) continue;
      try {
        entry.call(...args);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
