/* diary.js - what was drawn, and what happened when.
 *
 *   const rng = new Rng(7);
 *   rng.below(10); rng.between(0.1, 3); rng.pick(list); rng.chance(0.2); rng.fork();
 *
 *   const diary = new Diary();
 *   diary.note("redis stalls for 1.2 s");
 *   diary.around(Date.now())                 // lines, for whoever looks for a cause
 */

/* SplitMix64, as the C tests have it: any seed will do. */
export class Rng {
  #state;

  constructor(seed) {
    this.#state = BigInt.asUintN(64, BigInt(seed));
  }

  #next() {
    this.#state = BigInt.asUintN(64, this.#state + 0x9e3779b97f4a7c15n);
    let z = this.#state;
    z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return z ^ (z >> 31n);
  }

  /* From 0 on, below `bound`. */
  below(bound) {
    return Number(this.#next() % BigInt(bound));
  }

  between(from, to) {
    return from + ((to - from) * this.below(1_000_000)) / 1_000_000;
  }

  chance(probability) {
    return this.between(0, 1) < probability;
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  /* A source of its own, for what goes on beside: what one draws doesn't move the other. */
  fork() {
    return new Rng(this.#next());
  }
}

const AROUND_MS = [6000, 2000]; /* before, and after */

export class Diary {
  #notes = [];
  #began = Date.now();

  note(text) {
    this.#notes.push({ at: Date.now(), text });
  }

  /* The notes of some seconds around a time. */
  around(ms) {
    return this.#notes
      .filter(({ at }) => at > ms - AROUND_MS[0] && at < ms + AROUND_MS[1])
      .map(({ at, text }) => `${((at - this.#began) / 1000).toFixed(3)} s: ${text}`);
  }

  /* The second of the run, as the notes have it. */
  second(ms) {
    return ((ms - this.#began) / 1000).toFixed(3);
  }

  /* How often something that begins so was noted. */
  count(beginning) {
    return this.#notes.filter(({ text }) => text.startsWith(beginning)).length;
  }
}
