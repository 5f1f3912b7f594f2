/* fragile_redis.js - a Redis with a replica, at one address, to which everything happens.
 *
 *   const redis = await FragileRedis.start(diary);
 *   startRoomd({ redis });                 // redis.url stays the same, whoever is the master
 *   await redis.stall(1500);
 *   await redis.failOver(300);             // what was written in these 300 ms is lost
 *
 * The address is a symbolic link to the master's socket. A failover is a real one: the replica is
 * promoted, the old master goes on taking writes for a while and is killed, and then the link
 * points to the new one, which gets a replica of its own. Before the promotion WAIT says that the
 * replica has everything, so what is lost lies in `losses`: [{ from, to }], by the clock of both
 * servers.
 *
 * Everything is appended to a file before it is answered and never synced: a killed process loses
 * nothing (a machine that lost power would).
 */
import { mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { RedisControl } from "../lib/redis_control.js";
import { freePort, startRedis, tmpDir, until } from "../lib/servers.js";
import { sleep } from "../lib/visitors.js";

const DURABLE = [
  ...["--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"],
  ...["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"],
  ...["--notify-keyspace-events", "Kgxet"],
];
const WAIT_MS = 2000;
const CLOCK_SLACK_MS = 20; /* a busy Redis' clock stands still for a turn of its loop */

export class FragileRedis {
  losses = [];
  #diary;
  #dir = tmpDir();
  #master = null; /* { server, control, port, dir, args } */
  #replica = null;
  #servers = 0;
  #links = 0;

  static async start(diary) {
    const redis = new FragileRedis(diary);
    redis.#master = await redis.#open();
    redis.#point();
    redis.#replica = await redis.#open(redis.#master);
    return redis;
  }

  constructor(diary) {
    this.#diary = diary;
    this.socketPath = join(this.#dir, "live.sock");
    this.url = `unix://${this.socketPath}?db=0`;
  }

  /* A connection to the master of now. */
  get control() {
    return this.#master.control;
  }

  async #open(master) {
    const [dir, port] = [join(this.#dir, `${++this.#servers}`), await freePort()];
    mkdirSync(dir);
    const args = ["--port", port, ...DURABLE];
    const server = await startRedis({
      dir,
      args: master ? [...args, "--replicaof", `127.0.0.1 ${master.port}`] : args,
    });
    return { server, dir, port, args, control: await RedisControl.open(server.socketPath) };
  }

  #point() {
    const link = join(this.#dir, `next${++this.#links}`);
    symlinkSync(this.#master.server.socketPath, link);
    renameSync(link, this.socketPath);
  }

  async #info(node, section) {
    const text = await node.control.command("INFO", section);
    return Object.fromEntries(text.split("\r\n").map((line) => line.split(":")));
  }

  /* Its file holds all it has: after a promotion that is being written, for a while. */
  async #isDurable(node) {
    const info = await this.#info(node, "persistence");
    return [info.loading, info.aof_rewrite_in_progress, info.aof_rewrite_scheduled].every(
      (value) => value === "0",
    );
  }

  async #inStep() {
    const info = await this.#info(this.#replica, "replication");
    return info.role === "slave" && info.master_link_status === "up";
  }

  /* --- what can happen ---------------------------------------------------------------------- */

  async stall(ms) {
    this.#diary.note(`redis stalls for ${Math.round(ms)} ms`);
    process.kill(this.#master.server.pid, "SIGSTOP");
    await sleep(ms);
    process.kill(this.#master.server.pid, "SIGCONT");
  }

  async restart(downMs) {
    await until("the master's file is whole", () => this.#isDurable(this.#master));
    this.#diary.note(`redis is killed, and started again ${Math.round(downMs)} ms later`);
    await this.#master.server.stop("SIGKILL");
    await sleep(downMs);
    const { dir, args } = this.#master;
    this.#master.server = await startRedis({ dir, args });
    this.#master.control = await RedisControl.open(this.#master.server.socketPath);
  }

  async failOver(tailMs) {
    const [old, next] = [this.#master, this.#replica];
    await until("the replica is in step", () => this.#inStep());
    const from = Date.now() - CLOCK_SLACK_MS;
    /* WAIT looks at what its own connection wrote last. */
    await old.control.command("SET", "soak:failover", from);
    if ((await old.control.command("WAIT", 1, WAIT_MS)) < 1) {
      this.#diary.note("no failover: the replica is late");
      return;
    }
    await next.control.command("REPLICAOF", "NO", "ONE");
    await sleep(tailMs);
    await old.server.stop("SIGKILL");
    old.control.close();
    rmSync(old.dir, { recursive: true });
    this.losses.push({ from, to: Date.now() });
    this.#diary.note(`redis failed over, and lost the last ${Math.round(tailMs)} ms`);
    this.#master = next;
    this.#point();
    this.#replica = await this.#open(this.#master);
  }

  /* Those that `choose` picks of roomd's connections, [{ id, name }]. */
  async killConnections(choose) {
    const list = await this.control.command("CLIENT", "LIST");
    const all = list
      .split("\n")
      .filter((line) => / name=roomd/.test(line))
      .map((line) => ({ id: /^id=(\d+)/.exec(line)[1], name: / name=(\S+)/.exec(line)[1] }));
    const chosen = choose(all);
    for (const { id } of chosen) {
      /* It may have ended by itself. */
      await this.control.command("CLIENT", "KILL", "ID", id).catch(() => {});
    }
    const names = chosen.map(({ name }) => name).sort();
    this.#diary.note(`connections killed: ${names.join(" ") || "none"}`);
  }

  async forgetTracking(ms) {
    this.#diary.note(`tracking table shrinks for ${Math.round(ms)} ms`);
    await this.control.command("CONFIG", "SET", "tracking-table-max-keys", 10);
    await sleep(ms);
    await this.control.command("CONFIG", "SET", "tracking-table-max-keys", 1000000);
  }

  async stop() {
    this.#diary.note("redis is stopped");
    for (const node of [this.#replica, this.#master]) {
      node.control.close();
      await node.server.stop("SIGKILL");
    }
  }
}
