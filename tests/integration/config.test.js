/* config.test.js - the program's options as an operator meets them. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "../lib/clients.js";
import { runRoomd } from "../lib/program.js";
import { startRoomd, tmpDir } from "../lib/servers.js";

test("--version and --help end with 0 and say what they are", async () => {
  const version = await runRoomd(["--version"]);
  assert.equal(version.code, 0);
  assert.match(version.stdout, /^roomd \d+\.\d+\.\d+\n$/);
  const help = await runRoomd(["--help"]);
  assert.equal(help.code, 0);
  for (const option of [
    "listen",
    "redis",
    "high-water",
    "allow-origin",
    "config",
    "check-config",
  ]) {
    assert.match(help.stdout, new RegExp(`^  --${option}\\b`, "m"));
  }
});

test("--check-config prints what counts, and starts nothing", async () => {
  const file = join(tmpDir(), "roomd.ini");
  writeFileSync(file, "# of a file\nlisten = 127.0.0.1:1\nheartbeat = 10s\nhigh-water = 2MiB\n");
  const { code, stdout, stderr } = await runRoomd(
    ["--config", file, "--high-water=3M", "--check-config"],
    {
      ROOMD_HEARTBEAT: "20s",
    },
  );
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^listen = 127\.0\.0\.1:1$/m);
  assert.match(stdout, /^heartbeat = 20s$/m);
  assert.match(stdout, /^high-water = 3MiB$/m);
  assert.match(stdout, /^low-water = 256KiB$/m);
});

test("an error names its place, and the exit code is 1", async () => {
  const file = join(tmpDir(), "roomd.ini");
  writeFileSync(file, "\nheartbeet = 10s\n");
  const cases = [
    [["--config", file], {}, `${file}:2: unknown key heartbeet: did you mean heartbeat?`],
    [["--high-watr", "1M"], {}, "unknown option high-watr: did you mean high-water?"],
    [
      [],
      { ROOMD_MAX_FRAME: "1" },
      "environment ROOMD_MAX_FRAME: max-frame: 1 is not between 256 and 16MiB",
    ],
    [["--low-water", "2MiB"], {}, "low-water must be below high-water"],
    [["--listen", "8080"], {}, "expected HOST:PORT"],
    [["--redis", "http://localhost"], {}, "redis"],
    [
      ["--redis", "rediss://localhost", "--redis-tls-ca", "/nonexistent.pem"],
      {},
      "/nonexistent.pem: No such file or directory",
    ],
    [
      ["--redis", "rediss://localhost", "--redis-tls-cert", "/nonexistent.pem"],
      {},
      "a certificate and its key go together",
    ],
    [
      ["--redis", "redis://localhost", "--redis-tls-name", "redis.example"],
      {},
      "certificates are of use only where the URL begins with rediss",
    ],
    [["--web-root", "/nonexistent"], {}, "/nonexistent"],
  ];
  for (const [args, env, message] of cases) {
    const { code, stderr } = await runRoomd(args, env);
    assert.equal(code, 1, args.join(" "));
    assert.ok(stderr.includes(message), stderr);
  }
});

test("the Redis password is in no output", async () => {
  const url = "redis://operator:hunter2@127.0.0.1:1/0";
  const { stdout } = await runRoomd(["--redis", url, "--check-config"]);
  assert.match(stdout, /^redis = redis:\/\/operator:\*\*\*@127\.0\.0\.1:1\/0$/m);
  const roomd = await startRoomd({ redis: url, ready: "/healthz", args: ["--log-level", "debug"] });
  const client = await Client.open(`${roomd.wsUrl}?room=lobby`);
  await client.next("welcome");
  await client.close();
  await roomd.stop();
  assert.match(roomd.logs(), /operator/);
  assert.doesNotMatch(roomd.logs(), /hunter2/);
});

test("lines are JSON where that was asked for", async () => {
  const roomd = await startRoomd({ args: ["--log-format", "json"] });
  await roomd.stop();
  const lines = roomd
    .logs()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.ok(lines.some((line) => line.msg === "listening"));
});
