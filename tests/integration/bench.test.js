/* bench.test.js - roomd-bench: sockets that are cut come back and miss nothing, and its report says
 * so. Nothing here is timed. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { tidyTest } from "../lib/leftovers.js";
import { roomdBinary } from "../lib/program.js";
import { startRedis, startRoomd } from "../lib/servers.js";

const test = tidyTest(60_000);
const binary = join(dirname(roomdBinary), "../bench/roomd-bench");

/* Runs one command, which has to find all well, and gives back its report. */
async function isWell(roomd, command, ...args) {
  const words = [command, "--url", roomd.wsUrl, "--pid", String(roomd.pid), "--json", ...args];
  const { error, stdout, stderr } = await new Promise((done) => {
    execFile(binary, words, { timeout: 30_000 }, (failure, out, err) => {
      done({ error: failure, stdout: out, stderr: err });
    });
  });
  assert.equal(error, null, stderr + stdout);
  const report = JSON.parse(stdout);
  assert.equal(report.verdict, "ok");
  assert.equal(report.audit.lost, 0);
  assert.equal(report.audit.resyncs, 0);
  return report;
}

const STORM = ["--sockets", "30", "--others", "10", "--rooms", "3", "--rate", "100"];

test("storm: a room that was cut comes back with one cursor, and with many", async () => {
  const redis = await startRedis();
  const roomd = await startRoomd({ redis });
  for (const cursors of [[], ["--distinct"]]) {
    const args = [...STORM, "--seconds", "1", "--entries", "5", "--redis", redis.url, ...cursors];
    const { storm, audit, redis_cpu } = await isWell(roomd, "storm", ...args);
    assert.equal(storm.distinct_cursors, cursors.length === 1);
    assert.equal(storm.to_live_us.samples, 30, "each came back once");
    assert.equal(typeof storm.xranges_of_replays, "number");
    assert.ok(storm.others_during_us.samples > 0);
    assert.ok(redis_cpu.core_percent > 0);
    /* The crowd's first entry and those it missed; the others' 100 publishes, 50 a room, to 5 each.
     */
    assert.equal(audit.applied, 30 * (1 + 5) + 100 * 5);
  }
});

test("storm: the log in the process serves it too", async () => {
  const roomd = await startRoomd();
  const { storm } = await isWell(roomd, "storm", ...STORM, "--seconds", "0.5");
  assert.ok(!("xranges" in storm));
  assert.equal(typeof storm.pages, "number");
});

test("flap: whoever is cut at random, in any state, ends with everything", async () => {
  const redis = await startRedis();
  const roomd = await startRoomd({ redis });
  const args = ["--sockets", "40", "--rooms", "4", "--rate", "200", "--seconds", "1.5"];
  const report = await isWell(roomd, "flap", ...args, "--flaps", "100");
  assert.ok(report.cut > 50);
  assert.equal(report.audit.applied, 300 * 10);
});
