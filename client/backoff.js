/* backoff.js - how long to wait before try n.
 *
 * Full jitter: each wait is drawn evenly from 0 to a ceiling that doubles with every try. Ten
 * thousand clients cut off in one moment come back spread over the whole window.
 */

export class Backoff {
  #tries = 0;
  #options;

  /** @param {{ baseMs: number, capMs: number, random: () => number }} options random: [0, 1) */
  constructor(options) {
    this.#options = options;
  }

  /** How long to wait this time, in ms. */
  next() {
    const { baseMs, capMs, random } = this.#options;
    const ceiling = Math.min(capMs, baseMs * 2 ** this.#tries);
    if (ceiling < capMs) this.#tries += 1;
    return Math.floor(random() * ceiling);
  }

  /** Things went well: start over from the shortest wait. */
  reset() {
    this.#tries = 0;
  }
}
