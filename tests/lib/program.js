/* program.js - roomd as a command that ends by itself: its output and its exit code. */
import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import { repoRoot } from "./servers.js";

const DEADLINE_MS = 10_000;

export const roomdBinary = resolve(process.env.ROOMD_BIN ?? join(repoRoot, "build/server/roomd"));

/* Only `env` is in its environment. */
export function runRoomd(args, env = {}) {
  return new Promise((done) => {
    execFile(roomdBinary, args, { env, timeout: DEADLINE_MS }, (error, stdout, stderr) => {
      done({ code: error ? error.code : 0, stdout, stderr });
    });
  });
}
