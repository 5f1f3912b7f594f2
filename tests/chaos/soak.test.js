/* soak.test.js - chaos for a minute, or for ROOMD_SOAK_SECONDS, from ROOMD_SOAK_SEED or a new one.
 *
 * ROOMD_SOAK_BIN names the roomd; without it the released one (ROOMD_RELEASE_BIN) or ROOMD_BIN's.
 * ROOMD_SOAK_ARGS are more options for it. */
import assert from "node:assert/strict";
import { tidyTest } from "../lib/leftovers.js";
import { Soak } from "./soak.js";

const { ROOMD_SOAK_BIN, ROOMD_RELEASE_BIN, ROOMD_BIN, ROOMD_SOAK_SECONDS, ROOMD_SOAK_SEED } =
  process.env;
const seconds = Number(ROOMD_SOAK_SECONDS ?? 60);
const seed = Number(ROOMD_SOAK_SEED ?? Date.now() % 1_000_000);
const binary = ROOMD_SOAK_BIN ?? ROOMD_RELEASE_BIN ?? ROOMD_BIN;
const args = (process.env.ROOMD_SOAK_ARGS ?? "").split(" ").filter(Boolean);

const test = tidyTest((2 * seconds + 300) * 1000);

test("whatever breaks, nothing is lost, doubled or out of order without being told", async (t) => {
  t.diagnostic(`seed ${seed}, ${seconds} s`);
  const soak = new Soak({ seconds, seed, binary, args });
  const report = await soak.run();
  const counts = Object.fromEntries(
    ["connections killed", "redis stalls", "redis is killed", "redis failed over", "trimmed"]
      .concat(["tracking table", "node"])
      .map((text) => [text, soak.diary.count(text)]),
  );
  t.diagnostic(JSON.stringify({ ...report, ...counts }));
  if (seconds < 60) return;
  /* A soak in which these never happened has shown nothing about them. */
  for (const [what, times] of Object.entries(counts)) assert.ok(times > 0, what);
  assert.ok(report.resyncs.trimmed > 0, "a trim cut into what somebody needed");
  assert.ok(report.lost > 0, "a failover lost something");
});
