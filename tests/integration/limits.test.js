/* limits.test.js - too many connections, and no descriptors left: survived and recovered from. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { test as nodeTest } from "node:test";
import { Client, Raw } from "../lib/clients.js";
import { startRoomd, until } from "../lib/servers.js";

const test = (name, run) => nodeTest(name, { timeout: 60_000 }, run);
const CLEAN = { code: 0, signal: null };

async function metric(roomd, name) {
  const text = await (await fetch(`${roomd.url}/metrics`)).text();
  return Number(new RegExp(`^roomd_${name} (\\d+)$`, "m").exec(text)[1]);
}

test("above max-connections an upgrade gets 503 with Retry-After, and HTTP goes on", async () => {
  const roomd = await startRoomd({ args: ["--max-connections", "5"] });
  const clients = await Promise.all(Array.from({ length: 5 }, () => Client.open(roomd.wsUrl)));

  const waits = new Set();
  for (let i = 0; i < 30; i++) {
    await assert.rejects(Client.open(roomd.wsUrl), (error) => {
      assert.equal(error.status, 503);
      waits.add(Number(error.headers["retry-after"]));
      return true;
    });
  }
  assert.ok(
    [...waits].every((s) => s >= 1 && s <= 10),
    [...waits].join(),
  );
  assert.ok(waits.size > 1, "they differ");
  assert.equal((await fetch(`${roomd.url}/healthz`)).status, 200);
  assert.equal(await metric(roomd, "refused_connection_limit_total"), 30);

  await clients.pop().close();
  await until("there is room for one", async () => {
    const client = await Client.open(roomd.wsUrl);
    clients.push(client);
    return true;
  });
  for (const client of clients) await client.next("welcome");
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
});

test("past the margin for plain HTTP a connection is refused as it comes", async () => {
  const roomd = await startRoomd({ args: ["--max-connections", "1"] });
  const idle = [];
  const margin = 256;
  for (let i = 0; i < margin + 1; i++) idle.push(await Raw.connect(roomd.port));
  const refused = await Raw.connect(roomd.port);
  const text = await refused.rest();
  assert.match(text, /^HTTP\/1\.1 503 /);
  assert.match(text, /\r\nRetry-After: \d+\r\n/);

  for (const raw of idle) raw.destroy();
  await until("it serves again", async () => (await fetch(`${roomd.url}/healthz`)).status === 200);
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
});

test("where descriptors run out accepting pauses, nothing spins, and it recovers", async () => {
  const roomd = await startRoomd({ args: ["--max-connections", "1000"] });
  const client = await Client.open(`${roomd.wsUrl}?room=lobby`);
  await client.next("live");

  /* No more than twenty further ones, from here on. */
  const used = readdirSync(`/proc/${roomd.pid}/fd`).length;
  execFileSync("prlimit", ["--pid", String(roomd.pid), `--nofile=${used + 20}:`]);
  const crowd = [];
  for (let i = 0; i < 60; i++) crowd.push(await Raw.connect(roomd.port));
  await until("it has noticed", () => roomd.logs().includes("accepting pauses"));

  /* One of those that found no descriptor is told so; the others wait in the kernel. */
  const told = await Promise.race(crowd.map((raw) => raw.closed.then(() => raw.rest())));
  assert.match(told, /^HTTP\/1\.1 503 /);

  const cpu = roomd.cpuSeconds();
  const began = Date.now();
  await until("a second", () => Date.now() - began > 1000);
  assert.ok(roomd.cpuSeconds() - cpu < 0.3, "it rests");
  assert.ok(roomd.logs().split("accepting pauses").length < 20, "it doesn't fill the log");

  /* Who is there is served meanwhile. */
  client.send({ op: "publish", room: "lobby", type: "message", data: 1 });
  await client.next("ack");

  for (const raw of crowd) raw.destroy();
  await until("it accepts again", async () => (await fetch(`${roomd.url}/healthz`)).status === 200);
  assert.ok((await metric(roomd, "accept_pauses_total")) >= 1);
  const other = await Client.open(roomd.wsUrl);
  await other.next("welcome");
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
});

test("a descriptor limit that is too low is said, and held to", async () => {
  const roomd = await startRoomd({
    args: ["--max-connections", "100000"],
    env: {},
  });
  const limit = /descriptors=(\d+) allowed=(\d+)/.exec(roomd.logs());
  const hard = Number(
    execFileSync("prlimit", ["--pid", String(roomd.pid), "--nofile", "-o", "HARD", "--noheadings"]),
  );
  if (hard < 100_000 + 256 + 64) {
    assert.ok(limit, roomd.logs());
    assert.equal(Number(limit[1]), hard);
    assert.ok(Number(limit[2]) < hard);
  } else {
    assert.equal(limit, null);
  }
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
});

test("a socket that goes on joining is closed with 4429, and one in many rooms is not", async () => {
  const roomd = await startRoomd({ args: ["--max-rooms-per-session", "50", "--join-rate", "5"] });
  const many = await Client.open(roomd.wsUrl);
  for (let i = 0; i < 50; i++) many.send({ op: "join", room: `r${i}` });
  for (let i = 0; i < 50; i++) await many.next("live");

  const restless = await Client.open(roomd.wsUrl);
  for (let i = 0; i < 200; i++) restless.send({ op: "join", room: "lobby", cursor: "$" });
  assert.equal((await restless.closed).code, 4429);
  assert.equal(await metric(roomd, "joins_limited_total"), 1);

  many.send({ op: "ping" });
  await many.next("pong");
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
});
