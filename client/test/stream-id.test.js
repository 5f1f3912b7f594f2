import assert from "node:assert/strict";
import test from "node:test";
import { compare, isId, parse } from "../stream-id.js";
import { vectors } from "./vectors.js";

const { ok, bad, compare: pairs } = vectors("stream_id");

test("every canonical id is read, to the last bit", () => {
  assert.ok(ok.length > 0);
  for (const { text, ms, seq } of ok) {
    assert.deepEqual(parse(text), { ms: BigInt(ms), seq: BigInt(seq) }, text);
    assert.ok(isId(text));
  }
});

test("every malformed form is refused", () => {
  assert.ok(bad.length > 0);
  for (const text of bad) {
    assert.equal(parse(text), null, JSON.stringify(text));
    assert.ok(!isId(text));
  }
  for (const value of [undefined, null, 1, {}, ["1-0"]]) assert.ok(!isId(value));
});

test("ids are compared as two numbers", () => {
  assert.ok(pairs.length > 0);
  for (const [a, b, sign] of pairs) {
    assert.equal(Math.sign(compare(a, b)), sign, `${a} ${b}`);
    assert.equal(Math.sign(compare(b, a)), 0 - sign, `${b} ${a}`);
  }
  assert.equal(compare("9-0", "10-0"), -1);
  assert.equal(compare("18446744073709551615-9", "18446744073709551615-10"), -1);
});

test("comparing what isn't an id is the caller's mistake", () => {
  assert.throws(() => compare("1-0", "$"), /not an id: \$/);
  assert.throws(() => compare("", "1-0"), TypeError);
});
