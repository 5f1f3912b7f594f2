/* leftovers.js - a test that fails leaves servers and sockets behind, which would keep its process
 * from ever ending: they are cleared when the test is over, however it ended.
 *
 *   const test = tidyTest(60_000);
 *   test("a sentence", async (t) => { ... });
 *
 *   const forget = whenOver(() => child.kill("SIGKILL"));   // in a library
 *   forget();                                               // it has ended by itself
 *
 * What was begun before the test (in `before`) is left alone. Tests of one process follow one
 * another.
 */
import { test } from "node:test";

const leftovers = new Set();

export function whenOver(clear) {
  leftovers.add(clear);
  return () => leftovers.delete(clear);
}

/* node:test's `test` with a time limit. */
export function tidyTest(timeoutMs) {
  return (name, run) =>
    test(name, { timeout: timeoutMs }, (t) => {
      const earlier = new Set(leftovers);
      t.after(() => {
        for (const clear of leftovers) {
          if (earlier.has(clear)) continue;
          leftovers.delete(clear);
          clear();
        }
      });
      return run(t);
    });
}
