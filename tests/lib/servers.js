/* servers.js - starts and stops the real redis-server and roomd for black-box tests.
 *
 *   const dir = tmpDir();                          // removed when the process ends
 *   const redis = await startRedis({ dir });       // answers PING when this returns
 *   const roomd = await startRoomd({ redis });     // answers GET /readyz when this returns
 *   ...
 *   await roomd.stop();                            // { code, signal }, code 0 after a clean drain
 *   await redis.stop();
 *
 * Every child is ours by pid, and is killed by the kernel if this process dies first. Nothing
 * sleeps blindly: what has to become true is polled up to a deadline (`until`).
 *
 * ROOMD_BIN names the server; without it the default is build/server/roomd of this tree.
 * ROOMD_REDIS_SERVER names another program than redis-server, such as Valkey's.
 */
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { whenOver } from "./leftovers.js";

export const repoRoot = resolve(fileURLToPath(import.meta.url), "../../..");

export const redisProgram = process.env.ROOMD_REDIS_SERVER ?? "redis-server";
const defaultBinary = resolve(process.env.ROOMD_BIN ?? join(repoRoot, "build/server/roomd"));

const START_DEADLINE_MS = 15_000;
const STOP_DEADLINE_MS = 15_000;
const POLL_MS = 20;
const CLOCK_TICKS = 100; /* USER_HZ, 100 on every Linux that we run on. */

/* A new empty directory with a short path (a unix socket's may have 107 bytes at most). */
export function tmpDir() {
  if (tmpDirs.length === 0) {
    process.once("exit", () => {
      for (const dir of tmpDirs) rmSync(dir, { recursive: true, force: true });
    });
  }
  const dir = mkdtempSync(join(tmpdir(), "roomd-test-"));
  tmpDirs.push(dir);
  return dir;
}

const tmpDirs = [];

/* Calls `check` until it gives something truthy, and returns that. Throws `what` at the deadline,
 * with the last error that `check` threw as its cause. */
export async function until(what, check, deadlineMs = START_DEADLINE_MS) {
  const deadline = Date.now() + deadlineMs;
  for (let cause; ;) {
    try {
      const value = await check();
      if (value) return value;
    } catch (error) {
      if (error instanceof Fatal) throw error;
      cause = error;
    }
    if (Date.now() > deadline) throw new Error(`not within ${deadlineMs} ms: ${what}`, { cause });
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

/* An error that no amount of waiting mends; `until` passes it on at once. */
class Fatal extends Error {}

/* A port that was free a moment ago. */
export function freePort() {
  return new Promise((done, fail) => {
    const probe = createServer().once("error", fail);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (probe.address());
      probe.close(() => done(port));
    });
  });
}

/* A Redis without persistence on a unix socket in `dir`. Starting a second one in the same `dir`
 * after the first was stopped gives an empty one at the same address. `loaded` false: this returns
 * while it may still be loading its data. `inside`: words before the command that starts it, like
 * those that enter a network namespace; the command's process must become Redis.
 *
 *   cli(...args)      runs redis-cli; its output, or an error if the command failed
 *   pipe(commands)    runs [["XADD", ...], ...] in one go; an error if any of them failed
 *   log(room)         all entries of a room, oldest first: [{ id, type, data, ref, ... }, ...] */
export async function startRedis(options = {}) {
  const { dir = tmpDir(), args = [], loaded = true, inside = [] } = options;
  const socketPath = join(dir, "redis.sock");
  const [binary, ...words] = [
    ...[...inside, redisProgram, "--port", "0", "--unixsocket", socketPath, "--dir", dir],
    ...["--save", "", "--appendonly", "no", "--daemonize", "no", ...args],
  ];
  const child = run(binary, words);
  const cli = (...command) => redisCli(socketPath, ["-e", ...command]);
  await child.ready("answers PING", async () => {
    if (loaded) return (await cli("PING")) === "PONG";
    return /PONG|LOADING/.test(await cli("PING").catch(({ message }) => message));
  });
  return {
    pid: child.pid,
    dir,
    socketPath,
    url: `unix://${socketPath}?db=0`,
    cli,
    pipe: (commands) => redisCli(socketPath, ["--pipe"], commands.map(resp).join("")),
    log: async (room) =>
      JSON.parse(await cli("--json", "XRANGE", `room:${room}`, "-", "+")).map(logEntry),
    stop: child.stop,
    logs: child.logs,
  };
}

/* roomd on a free port, serving the pages of this tree; `redis` is what startRedis gave, a URL, or
 * absent for the memory log. `ready` is the path that has to answer 200 before this returns: with a
 * Redis that is down on purpose, pass "/healthz". `port` is for a restart at the same address,
 * `binary` for another build than ROOMD_BIN's. `metric` asks for one number of /metrics. */
export async function startRoomd(options = {}) {
  const { redis, args = [], env = {}, ready = "/readyz" } = options;
  const { port = await freePort(), binary = defaultBinary } = options;
  const url = `http://127.0.0.1:${port}`;
  const log = redis === undefined ? [] : ["--redis", redis.url ?? redis];
  const webRoot = join(repoRoot, "client");
  const child = run(
    binary,
    ["--listen", `127.0.0.1:${port}`, "--web-root", webRoot, ...log, ...args],
    env,
  );
  await child.ready(`answers ${ready}`, async () => (await fetch(url + ready)).status === 200);
  return {
    pid: child.pid,
    port,
    url,
    wsUrl: `ws://127.0.0.1:${port}/v1/ws`,
    stop: child.stop,
    logs: child.logs,
    get exited() {
      return child.exited;
    },
    metric: async (name) => {
      const text = await (await fetch(`${url}/metrics`)).text();
      return Number(new RegExp(`^roomd_${name} (\\d+)$`, "m").exec(text)[1]);
    },
    rssBytes: () => Number(/VmRSS:\s+(\d+) kB/.exec(proc(child.pid, "status"))[1]) * 1024,
    cpuSeconds: () => cpuSeconds(proc(child.pid, "stat")),
  };
}

/* setpriv becomes the program it starts, so the pid is the program's own; the kernel kills it when
 * the test's process is gone, however that ended. */
function run(binary, args, env = {}) {
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", binary, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => (output += text));
  }
  const exited = new Promise((done, fail) => {
    child.once("error", fail);
    child.once("close", (code, signal) => done({ code, signal }));
  });
  exited.catch(() => {}).finally(whenOver(() => child.kill("SIGKILL")));
  /* A child that a failed test left behind doesn't keep the process from ending, which ends it. Who waits
   * for the child's end says so. */
  const parts = [child, child.stdout, child.stderr];
  for (const part of parts) part.unref();
  const ended = () => {
    for (const part of parts) part.ref();
    return exited;
  };
  const running = () => child.exitCode === null && child.signalCode === null;
  /* Asks politely, then doesn't ask: `signal` null and code 0 mean that asking was enough. */
  const stop = async (signal = "SIGTERM") => {
    if (running()) child.kill(signal);
    const force = setTimeout(() => child.kill("SIGKILL"), STOP_DEADLINE_MS);
    return ended().finally(() => clearTimeout(force));
  };
  return {
    pid: child.pid,
    get exited() {
      return ended();
    },
    logs: () => output,
    stop,
    async ready(what, check) {
      try {
        await until(`${binary} ${what}`, () => {
          if (!running()) throw new Fatal(`${binary} ended before it was ready`);
          return check();
        });
      } catch (error) {
        await stop();
        throw new Error(`${error.message}\n${output}`, { cause: error });
      }
    },
  };
}

function redisCli(socketPath, args, input = "") {
  return new Promise((done, fail) => {
    const options = { maxBuffer: 1 << 28 };
    const child = execFile("redis-cli", ["-s", socketPath, ...args], options, (error, out, err) => {
      if (error || /errors: [1-9]/.test(out)) fail(error ?? new Error(`redis-cli: ${out}${err}`));
      else done(out.trimEnd());
    });
    child.stdin.on("error", () => {}); /* It may end without reading; its exit code says so. */
    child.stdin.end(input);
  });
}

/* ["1-0", ["type", "message", ...]] as { id: "1-0", type: "message", ... }. */
function logEntry([id, words]) {
  const entry = { id };
  for (let i = 0; i < words.length; i += 2) entry[words[i]] = words[i + 1];
  return entry;
}

/* A command in the protocol of Redis. */
export function resp(words) {
  const parts = words.map(String).map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
  return `*${words.length}\r\n${parts.join("")}`;
}

const proc = (pid, file) => readFileSync(`/proc/${pid}/${file}`, "utf8");

/* The second field of /proc/<pid>/stat is a name in parentheses that may hold spaces. */
function cpuSeconds(stat) {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS;
}
