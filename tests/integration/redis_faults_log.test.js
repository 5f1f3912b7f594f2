/* redis_faults_log.test.js - what can be done to a room's key in Redis, and what everybody is told:
 * nothing where nothing was lost, and the reason where something was, or may have been.
 */
import assert from "node:assert/strict";
import { after, before, describe } from "node:test";
import { Client } from "../lib/clients.js";
import { Stage } from "../lib/faults.js";
import { tidyTest } from "../lib/leftovers.js";
import { loss } from "../lib/losses.js";
import { until } from "../lib/servers.js";

const test = tidyTest(60_000);

const isGone = (stage, key) =>
  until("it is gone", async () => (await stage.command("EXISTS", key)) === 0);

const add = (key, id) => ["XADD", key, id, "data", "1"];

const GONE = {
  told: ["reset", null],
  now: { "110-0": "reset", "105-0": "reset" },
  later: { "110-0": "trimmed", "105-0": "trimmed" },
  atOnce: "trimmed",
};
const KEPT = { told: [null, null], now: { "110-0": null, "105-0": null }, atOnce: null };
const REPLACED = {
  "by a log with smaller ids": {
    other: ["5-0", "6-0"],
    more: ["7-0", "8-0"],
    told: ["ahead", null],
    now: { "110-0": "ahead", "105-0": "ahead" },
    atOnce: "ahead",
  },
  "by a log with ids around": {
    other: ["5-0", "105-7", "200-0"],
    more: ["201-0"],
    told: ["diverged", null],
    now: { "110-0": "diverged", "105-0": "diverged" },
    atOnce: "diverged",
  },
  "by a log with larger ids": {
    other: ["300-0", "301-0"],
    more: ["302-0"],
    told: ["trimmed", null],
    now: { "110-0": "trimmed", "105-0": "trimmed" },
    atOnce: "trimmed",
  },
  "by a log that goes on from it": {
    other: ["105-0", "110-0", "111-0"],
    more: ["112-0"],
    ...KEPT,
  },
};

const faults = {
  DEL: { spoil: (key) => [["DEL", key]], ...GONE },
  "DEL, and a new log with smaller ids": {
    spoil: (key) => [["DEL", key]],
    more: ["5-0", "6-0"],
    ...GONE,
    later: { "110-0": "ahead", "105-0": "ahead" },
    atOnce: "ahead",
  },
  "DEL, and a new log with ids around": {
    spoil: (key) => [["DEL", key]],
    more: ["5-0", "200-0"],
    ...GONE,
    later: { "110-0": "diverged", "105-0": "diverged" },
    atOnce: "diverged",
  },
  UNLINK: { spoil: (key) => [["UNLINK", key]], ...GONE },
  "EXPIRE, some time later": {
    spoil: (key) => [["PEXPIRE", key, "20"]],
    done: isGone,
    ...GONE,
    atOnce: undefined,
  },
  "EXPIREAT, in the past": { spoil: (key) => [["EXPIREAT", key, "1"]], ...GONE },
  "RENAME to another name": { spoil: (key, other) => [["RENAME", key, other]], ...GONE },

  "XTRIM to nothing": {
    spoil: (key) => [["XTRIM", key, "MAXLEN", "0"]],
    /* Redis doesn't record what it trimmed: 110-0 may not have been the last. */
    told: [null, "trimmed"],
    now: { "110-0": null, "105-0": "trimmed" },
    later: { "110-0": "trimmed", "105-0": "trimmed" },
    atOnce: "trimmed",
  },
  "XTRIM of what members have seen": {
    spoil: (key) => [["XTRIM", key, "MAXLEN", "3"]],
    ...KEPT,
    now: { "110-0": null, "108-0": null, "107-0": "trimmed", "105-0": "trimmed" },
  },
  "XTRIM by MINID": {
    spoil: (key) => [["XTRIM", key, "MINID", "108-0"]],
    ...KEPT,
    now: { "110-0": null, "108-0": null, "105-0": "trimmed" },
  },
  "XTRIM past what members have seen": {
    spoil: (key) => [
      ...["111-0", "112-0", "113-0"].map((id) => add(key, id)),
      ["XTRIM", key, "MAXLEN", "2"],
    ],
    more: ["114-0", "115-0"],
    told: ["trimmed", null],
    now: { "110-0": "trimmed", "105-0": "trimmed", "112-0": null },
    atOnce: "trimmed",
  },
  "XTRIM past the very beginning": {
    log: [],
    spoil: (key) => [add(key, "1-0"), add(key, "2-0"), ["XTRIM", key, "MAXLEN", "1"]],
    told: ["trimmed", null],
    now: { "1-0": "trimmed", "2-0": null },
    atOnce: "trimmed",
  },

  "XDEL of the newest": { spoil: (key) => [["XDEL", key, "110-0"]], ...KEPT },
  "XDEL of one in the middle": {
    spoil: (key) => [["XDEL", key, "105-0"]],
    ...KEPT,
    now: { "110-0": null, "105-0": null, "104-0": null },
  },
  "XDEL of two": {
    spoil: (key) => [["XDEL", key, "105-0", "107-0"]],
    ...KEPT,
    now: { "110-0": null, "107-0": null, "105-0": "hole", "104-0": null },
  },
  "XDEL of all": {
    spoil: (key) => [["XDEL", key, ...Array.from({ length: 10 }, (_, n) => `${101 + n}-0`)]],
    told: [null, "trimmed"],
    now: { "110-0": null, "105-0": "trimmed" },
    later: { "110-0": "trimmed", "105-0": "trimmed" },
    atOnce: "trimmed",
  },
  "XDEL past what members have seen": {
    spoil: (key) => [add(key, "111-0"), add(key, "112-0"), ["XDEL", key, "110-0", "111-0"]],
    more: ["113-0"],
    told: ["hole", null],
    now: { "110-0": "hole", "109-0": null, "111-0": null },
    atOnce: "hole",
  },
  "XDEL of the very first": {
    log: [],
    spoil: (key) => [add(key, "1-0"), ["XDEL", key, "1-0"]],
    told: ["trimmed", "trimmed"],
    now: { "1-0": null },
    later: { "1-0": "trimmed" },
    atOnce: "trimmed",
  },

  "XSETID forward": { spoil: (key) => [["XSETID", key, "200-0"]], more: ["201-0"], ...KEPT },
  "XSETID forward, after XDEL of the newest": {
    spoil: (key) => [["XDEL", key, "110-0"], ["XSETID", key, "200-0"]],
    more: ["201-0"],
    ...KEPT,
  },
  "XGROUP CREATE in a room without a log": {
    log: [],
    spoil: (key) => [["XGROUP", "CREATE", key, "readers", "$", "MKSTREAM"]],
    ...KEPT,
    now: {},
  },
  "DEL of a room without a log": { log: [], spoil: (key) => [["DEL", key]], ...KEPT, now: {} },
};

for (const [how, fault] of Object.entries(REPLACED)) {
  faults[`RENAME, ${how}`] = { ...fault, spoil: (key, other) => [["RENAME", other, key]] };
  faults[`COPY REPLACE, ${how}`] = {
    ...fault,
    spoil: (key, other) => [["COPY", other, key, "REPLACE"]],
  };
}

/* How roomd hears of it, and whether it holds the newest entries, changes nothing of that. */
const ways = {
  tracking: ["--ring-entries", "0"],
  "tracking, and holds the newest entries": [],
  keyspace: ["--ring-entries", "0"],
  pubsub: ["--ring-entries", "0"],
  xread: ["--ring-entries", "0"],
  poll: ["--ring-entries", "0", "--redis-poll-interval", "30ms"],
};

for (const [way, args] of Object.entries(ways)) {
  const live = ["--redis-live", way.split(",")[0]];
  /* What it doesn't hear of at all it finds some seconds later: then waiting is all there is to do. */
  const concurrency = way === "pubsub" ? 32 : 8;
  describe(`the truth is told about a log by a roomd that uses ${way}, after`, { concurrency }, () => {
    let stage;
    before(async () => (stage = await Stage.open({ args: [...live, ...args] })));
    after(() => stage.close());
    for (const [name, fault] of Object.entries(faults)) {
      test(name, () => loss(stage, { ...fault, ring: args.length === 0 }));
    }
  });
}
