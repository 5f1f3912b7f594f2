import assert from "node:assert/strict";
import test from "node:test";
import { sessionCursors } from "../cursors.js";

function fakeStorage() {
  const items = new Map();
  return {
    items,
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => items.set(key, value),
    removeItem: (key) => items.delete(key),
  };
}

test("a cursor is kept for each room under the prefix, and null forgets it", () => {
  const storage = fakeStorage();
  const cursors = sessionCursors({ storage, prefix: "p:" });
  cursors.save("a", "1-0");
  cursors.save("b", "2-0");
  assert.deepEqual(
    [...storage.items],
    [
      ["p:a", "1-0"],
      ["p:b", "2-0"],
    ],
  );
  cursors.save("a", null);
  assert.equal(cursors.load("a"), null);
  assert.equal(cursors.load("b"), "2-0");
});

test("a storage that is full leaves no stale cursor behind", () => {
  const storage = fakeStorage();
  const cursors = sessionCursors({ storage });
  cursors.save("a", "1-0");
  storage.setItem = () => {
    throw new Error("full");
  };
  cursors.save("a", "2-0");
  assert.equal(cursors.load("a"), null);
});

test("without a storage nothing is kept, and nothing breaks", () => {
  assert.equal(globalThis.sessionStorage, undefined);
  const cursors = sessionCursors();
  cursors.save("a", "1-0");
  assert.equal(cursors.load("a"), null);
});
