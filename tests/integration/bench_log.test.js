/* bench_log.test.js - roomd-bench-log: every command says that nothing was lost, and would say so
 * if something were. Nothing here is timed. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { tidyTest } from "../lib/leftovers.js";
import { roomdBinary } from "../lib/program.js";
import { startRedis, until } from "../lib/servers.js";

const test = tidyTest(60_000);
const binary = join(dirname(roomdBinary), "../bench/roomd-bench-log");

const bench = (...args) =>
  new Promise((done) => {
    execFile(binary, args, { timeout: 30_000 }, (error, stdout, stderr) => {
      done({ code: error ? error.code : 0, stdout, stderr });
    });
  });

/* Runs one command, which has to find all well, and gives back its report. */
async function isWell(redis, command, ...args) {
  const { code, stdout, stderr } = await bench(command, "--redis", redis.url, "--json", ...args);
  assert.equal(code, 0, stderr + stdout);
  const report = JSON.parse(stdout);
  assert.equal(report.command, command);
  assert.equal(report.verdict, "ok");
  for (const count of Object.values(report.audit)) assert.equal(count, 0);
  return report;
}

const LITTLE = ["--rooms", "50", "--rate", "500", "--seconds", "0.3", "--warm", "0.1"];

test("feed follows rooms, hears of every publish, and tells its medians", async () => {
  const redis = await startRedis();
  const report = await isWell(redis, "feed", ...LITTLE, "--base", "--rounds", "2");
  for (const name of ["live_p50_us", "redis_us_per_publish", "reader_us_per_publish"]) {
    assert.ok(report.median[name] > 0, name);
    assert.ok(report.min[name] <= report.median[name], name);
    assert.ok(report.max[name] >= report.median[name], name);
  }
  assert.ok(report.median.base_redis_us_per_publish > 0);
  assert.equal(await redis.cli("KEYS", "room:bench-*"), "", "its rooms are gone");
});

test("feed without followers is the cost of XADD alone", async () => {
  const redis = await startRedis();
  const { median } = await isWell(redis, "feed", ...LITTLE, "--followed", "0");
  assert.ok(median.base_redis_us_per_publish > 0);
  assert.ok(!("live_p50_us" in median));
});

test("feed publishes as roomd does, to few rooms, with packets", async () => {
  const redis = await startRedis();
  await isWell(redis, "feed", ...LITTLE, "--script", "--hot", "2", "--encode", "--live", "poll");
});

test("feed hears by every source", async () => {
  const redis = await startRedis({ args: ["--notify-keyspace-events", "KA"] });
  for (const live of ["tracking", "keyspace", "xread", "pubsub", "poll"]) {
    const args = live === "pubsub" ? ["--script"] : [];
    const { median } = await isWell(redis, "feed", ...LITTLE, "--live", live, ...args);
    assert.equal(median.hints_per_publish > 0, live === "pubsub", live);
  }
});

test("feed replays rooms meanwhile", async () => {
  const redis = await startRedis();
  const args = [...LITTLE, "--replayed", "3", "--entries", "700"];
  const { median } = await isWell(redis, "feed", ...args);
  assert.ok(median.replayed_per_second > 0);
});

test("reconnect cuts the log's connections, and all that was missed comes", async () => {
  const redis = await startRedis();
  const { median } = await isWell(redis, "reconnect", "--rooms", "200", "--rounds", "2");
  assert.ok(median.connections_cut >= 4);
  assert.ok(median.verified_and_ready_ms > 0);
});

test("replay reads every entry of every room", async () => {
  const redis = await startRedis();
  const { median } = await isWell(redis, "replay", "--rooms", "5", "--entries", "1200");
  assert.ok(median.entries_per_second > 0 && median.encoded_per_second > 0);
});

test("append has its four numbers, and its entries are in the log", async () => {
  const redis = await startRedis();
  const args = ["--rooms", "3", "--seconds", "0.1", "--in-flight", "20", "--keep"];
  const { median } = await isWell(redis, "append", ...args);
  for (const kind of ["alone", "alone_ref", "piped", "piped_ref"])
    assert.ok(median[`${kind}_per_second`] > 0, kind);
  const rooms = (await redis.cli("KEYS", "room:bench-*")).split("\n");
  assert.equal(rooms.length, 3);
});

test("a room that loses its log fails the audit", async () => {
  const redis = await startRedis();
  const args = ["--rooms", "4", "--rate", "200", "--seconds", "2", "--warm", "0", "--json"];
  const running = bench("feed", "--redis", redis.url, ...args);
  const room = await until("a room is filled", async () => {
    const [key] = (await redis.cli("KEYS", "room:bench-*")).split("\n");
    return key && Number(await redis.cli("XLEN", key)) > 3 ? key : null;
  });
  await redis.cli("DEL", room);
  const { code, stdout } = await running;
  assert.equal(code, 1, stdout);
  const { audit, verdict } = JSON.parse(stdout);
  assert.ok(audit.breaks > 0);
  assert.equal(verdict, "the audit found faults");
});

test("an entry of somebody else fails the audit", async () => {
  const redis = await startRedis();
  const args = ["--rooms", "4", "--rate", "200", "--seconds", "2", "--warm", "0", "--json"];
  const running = bench("feed", "--redis", redis.url, ...args);
  const room = await until("a room is filled", async () => {
    const [key] = (await redis.cli("KEYS", "room:bench-*")).split("\n");
    return key && Number(await redis.cli("XLEN", key)) > 3 ? key : null;
  });
  await redis.cli("XADD", room, "*", "type", "bench", "data", "1");
  const { code, stdout } = await running;
  assert.equal(code, 1, stdout);
  assert.equal(JSON.parse(stdout).audit.alien, 1);
});

test("a command line that makes no sense ends with 2, a Redis that is away with 3", async () => {
  for (const args of [["nonsense"], ["feed", "--live", "pubsub"], ["feed", "--live", "nonsense"], ["feed", "--redis", "x"]]) {
    const { code, stderr } = await bench(...args);
    assert.equal(code, 2, args.join(" "));
    assert.match(stderr, /^roomd-bench-log: /);
  }
  const { code } = await bench("append", "--redis", "unix:///nonexistent.sock");
  assert.equal(code, 3);
});
