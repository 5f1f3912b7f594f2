import assert from "node:assert/strict";
import test from "node:test";
import { Backoff } from "../backoff.js";

test("the ceiling doubles with each try, up to the cap", () => {
  const backoff = new Backoff({ baseMs: 500, capMs: 3000, random: () => 0.9999 });
  const waits = Array.from({ length: 5 }, () => backoff.next());
  assert.deepEqual(waits, [499, 999, 1999, 2999, 2999]);
});

test("the jitter is full: it is drawn at each try, from zero up", () => {
  const draws = [0, 0.5, 0.25];
  const backoff = new Backoff({ baseMs: 1000, capMs: 1000, random: () => draws.shift() });
  assert.deepEqual([backoff.next(), backoff.next(), backoff.next()], [0, 500, 250]);
});

test("reset starts over from the shortest wait", () => {
  const backoff = new Backoff({ baseMs: 100, capMs: 10_000, random: () => 0.5 });
  for (let i = 0; i < 100; i += 1) backoff.next();
  assert.equal(backoff.next(), 5000);
  backoff.reset();
  assert.equal(backoff.next(), 50);
});
