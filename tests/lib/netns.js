/* netns.js - a network namespace, with one wire to this one that can be made to swallow packets.
 *
 *   const why = wireMissing();                // null: it can be made; else why not, to skip with
 *   const wire = new Wire();
 *   startRedis({ inside: wire.inside, args: ["--bind", wire.address] });
 *   wire.drop();                              // both ways, without a word to anybody
 *   wire.restore();
 *   wire.remove();                            // with all that was made
 *
 * Needs root, iproute2 and nftables.
 */
import { execFileSync } from "node:child_process";
import { whenOver } from "./leftovers.js";

let wires = 0;

function run(command, ...args) {
  execFileSync(command, args, { stdio: ["ignore", "ignore", "pipe"] });
}

export function wireMissing() {
  let wire;
  try {
    wire = new Wire();
    wire.drop();
    return null;
  } catch (error) {
    return `no network namespace can be made: ${error.message.trim().replace(/\s+/g, " ")}`;
  } finally {
    wire?.remove();
  }
}

export class Wire {
  #forget;

  constructor() {
    /* Names of at most 15 bytes, and a net of four addresses, for this process alone. */
    const number = wires++;
    this.name = `rd${process.pid}n${number}`;
    const net = `10.${200 + number}.${(process.pid >> 6) & 255}.${(process.pid & 63) * 4}`;
    const [a, b, c, d] = net.split(".").map(Number);
    this.address = [a, b, c, d + 2].join(".");
    this.inside = ["ip", "netns", "exec", this.name];
    run("ip", "netns", "add", this.name);
    this.#forget = whenOver(() => this.remove());
    const [near, far] = [`${this.name}a`, `${this.name}b`];
    run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", this.name);
    run("ip", "addr", "add", `${[a, b, c, d + 1].join(".")}/30`, "dev", near);
    run("ip", "link", "set", near, "up");
    this.#within("ip", "addr", "add", `${this.address}/30`, "dev", far);
    this.#within("ip", "link", "set", far, "up");
    this.#within("ip", "link", "set", "lo", "up");
  }

  drop() {
    this.#within("nft", "add", "table", "inet", "lost");
    for (const hook of ["input", "output"]) {
      const rule = `{ type filter hook ${hook} priority 0; policy drop; }`;
      this.#within("nft", "add", "chain", "inet", "lost", hook, rule);
    }
  }

  restore() {
    this.#within("nft", "delete", "table", "inet", "lost");
  }

  /* What runs inside has to have ended. Harmless where it is gone. */
  remove() {
    this.#forget?.();
    try {
      run("ip", "netns", "del", this.name); /* and the wire with it */
    } catch {
      /* It never was there. */
    }
  }

  #within(...command) {
    run(...this.inside, ...command);
  }
}
