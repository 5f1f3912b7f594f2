import assert from "node:assert/strict";
import test from "node:test";
import { byteLength, decode, depth, encode } from "../codec.js";
import { vectors } from "./vectors.js";

const entry = { op: "entry", room: "r", id: "2-0", prev: "1-0", type: "t", data: 1 };

test("every frame that the server's encoder writes is understood", () => {
  const { frames } = vectors("frame_out");
  assert.ok(frames.length > 0);
  for (const { name, text } of frames) {
    assert.deepEqual(decode(text), JSON.parse(text), name);
  }
});

test("what isn't a frame is refused", () => {
  for (const text of ["", "{", "null", "1", "[]", '"x"', "{}", '{"op":1}', new ArrayBuffer(2)]) {
    assert.throws(() => decode(text), undefined, String(text));
  }
});

test("a known op with a field of the wrong kind is refused", () => {
  assert.deepEqual(decode(JSON.stringify(entry)), entry);
  const wrong = [
    { id: "2" },
    { id: undefined },
    { prev: undefined },
    { prev: "01-0" },
    { type: 1 },
    { room: null },
    { ref: 7 },
  ];
  for (const fields of wrong) {
    assert.throws(() => decode(JSON.stringify({ ...entry, ...fields })), JSON.stringify(fields));
  }
  const item = { id: "2-0", type: "t", key: "k", data: null };
  const snapshot = { op: "snapshot", room: "r", id: null, entries: [item] };
  assert.deepEqual(decode(JSON.stringify(snapshot)), snapshot);
  const wrongItems = [{ ...item, id: 2 }, { ...item, key: undefined }, { id: "2-0" }, null];
  for (const entries of [undefined, {}, ...wrongItems.map((one) => [item, one])]) {
    assert.throws(() => decode(JSON.stringify({ ...snapshot, entries })), /entries/);
  }
  assert.throws(() => decode(JSON.stringify({ ...snapshot, id: "2" })), /id/);
  assert.throws(() => decode(JSON.stringify({ ...snapshot, more: 1 })), /more/);
  assert.throws(() => decode('{"op":"live","room":"r","cursor":null,"replayed":0}'), /cursor/);
});

test("unknown fields and unknown ops pass, even ops with an object's own names", () => {
  for (const frame of [{ ...entry, colour: "red" }, { op: "weather" }, { op: "constructor" }]) {
    assert.deepEqual(decode(JSON.stringify(frame)), frame);
  }
});

test("undefined fields are left out, null stays", () => {
  assert.equal(encode({ op: "join", room: "r", cursor: undefined }), '{"op":"join","room":"r"}');
  assert.equal(encode({ op: "publish", data: null }), '{"op":"publish","data":null}');
  assert.throws(() => encode({ op: "publish", data: 1n }), TypeError);
});

test("length is counted in bytes, depth outside of strings", () => {
  assert.equal(byteLength("aé€😀"), 10);
  assert.equal(depth("1"), 0);
  assert.equal(depth('{"a":[1,{}],"b":[]}'), 3);
  assert.equal(depth('["[[[[\\"[[", "\\\\", []]'), 2);
});
