/* leftovers.js - a test that fails leaves servers and sockets behind, which would keep its process
 * from ever ending: they are cleared when the test is over, however it ended.
 *
 *   const test = tidyTest(60_000);
 *   test("a sentence", async (t) => { ... });
 *
 *   const forget = whenOver(() => child.kill("SIGKILL"));   // in a library
 *   forget();                                               // it has ended by itself
 *
 * What was begun outside of a test (in `before`) is left alone. Tests of one process may run beside
 * one another: each has its own leftovers.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { test } from "node:test";

const ofThisTest = new AsyncLocalStorage();

export function whenOver(clear) {
  const leftovers = ofThisTest.getStore();
  leftovers?.add(clear);
  return () => leftovers?.delete(clear);
}

/* node:test's `test` with a time limit. */
export function tidyTest(timeoutMs) {
  return (name, run) =>
    test(name, { timeout: timeoutMs }, (t) => {
      const leftovers = new Set();
      t.after(() => {
        for (const clear of leftovers) clear();
      });
      return ofThisTest.run(leftovers, () => run(t));
    });
}
