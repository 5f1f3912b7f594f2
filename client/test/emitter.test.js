import assert from "node:assert/strict";
import test from "node:test";
import { Emitter } from "../emitter.js";

test("listeners run in the order in which they were added, with all arguments", () => {
  const emitter = new Emitter();
  const heard = [];
  emitter.on("a", (x, y) => heard.push(["first", x, y]));
  emitter.on("a", (x, y) => heard.push(["second", x, y]));
  emitter.emit("a", 1, 2);
  emitter.emit("b", 3);
  assert.deepEqual(heard, [
    ["first", 1, 2],
    ["second", 1, 2],
  ]);
});

test("on() returns the function that takes just this listener off", () => {
  const emitter = new Emitter();
  let heard = 0;
  const listener = () => (heard += 1);
  const off = emitter.on("a", listener);
  emitter.on("a", listener);
  off();
  off();
  emitter.emit("a");
  assert.equal(heard, 1);
});

test("a listener taken off by another isn't called any more, one added waits", () => {
  const emitter = new Emitter();
  const heard = [];
  emitter.on("a", () => {
    off();
    emitter.on("a", () => heard.push("added"));
  });
  const off = emitter.on("a", () => heard.push("taken off"));
  emitter.emit("a");
  assert.deepEqual(heard, []);
});

test("a listener that throws is reported and keeps no other from running", (t) => {
  const reports = [];
  t.mock.method(globalThis, "queueMicrotask", (report) => reports.push(report));
  const emitter = new Emitter();
  let heard = 0;
  emitter.on("a", () => {
    throw new Error("mine");
  });
  emitter.on("a", () => (heard += 1));
  emitter.emit("a");
  assert.equal(heard, 1);
  assert.equal(reports.length, 1);
  assert.throws(reports[0], /mine/);
});
