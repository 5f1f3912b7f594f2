import assert from "node:assert/strict";
import test from "node:test";
import { CLOSES, ERRORS, RoomdError, mayResume } from "../codes.js";
import { vectors } from "./vectors.js";

const { errors, close } = vectors("codes");

test("the error codes are the protocol's", () => {
  assert.deepEqual(
    [...ERRORS].map(([code, { name, retry }]) => ({ code, name, retry })),
    errors.map(({ code, name, retry }) => ({ code, name, retry })),
  );
});

test("the close codes are the protocol's", () => {
  assert.deepEqual(
    [...CLOSES].map(([code, { name, reason, resume }]) => ({ code, name, reason, resume })),
    close.map(({ code, name, reason, resume }) => ({ code, name, reason, resume })),
  );
});

test("a close that the list doesn't know is resumable, 1006 above all", () => {
  for (const code of [1000, 1001, 1005, 1006, 1011, 3000, 4999]) assert.ok(mayResume(code));
  assert.ok(!mayResume(4403));
});

test("an error names its code", () => {
  const error = new RoomdError(503, "the log is away", 250);
  assert.ok(error instanceof Error);
  assert.deepEqual(
    [error.message, error.code, error.codeName, error.retryAfterMs],
    ["the log is away", 503, "unavailable", 250],
  );
  assert.equal(new RoomdError(4403, "no").codeName, "forbidden");
  assert.equal(new RoomdError(1, "?").codeName, "unknown");
});
