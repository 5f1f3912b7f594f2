/* redis_control.js - a connection to Redis of the test's own, which stays open: where redis-cli
 * would be one connection, and some milliseconds, for each command.
 *
 *   const control = await RedisControl.open(redis.socketPath);
 *   await control.command("CONFIG", "SET", "maxclients", 10);     // an error reply is thrown
 *   const replies = await control.atomically([["DEL", key], ["XADD", key, "5-0", "data", "1"]]);
 *   control.close();
 *
 * Texts are taken for UTF-8, integers come as numbers, a null as null. What is under way when the
 * connection ends fails.
 */
import { createConnection } from "node:net";
import { within } from "./clients.js";
import { whenOver } from "./leftovers.js";
import { resp } from "./servers.js";

/* One reply that begins at `at`: { value, end }, or null where more bytes have to come. An error is
 * an Error as a value. */
function parse(bytes, at) {
  const eol = bytes.indexOf("\r\n", at);
  if (eol < 0) return null;
  const kind = String.fromCharCode(bytes[at]);
  const line = bytes.toString("utf8", at + 1, eol);
  const end = eol + 2;
  if (kind === "+") return { value: line, end };
  if (kind === "-") return { value: new Error(line), end };
  if (kind === ":") return { value: Number(line), end };
  const count = Number(line);
  if (count < 0) return { value: null, end };
  if (kind === "$") {
    if (bytes.length < end + count + 2) return null;
    return { value: bytes.toString("utf8", end, end + count), end: end + count + 2 };
  }
  const value = [];
  let next = end;
  for (let i = 0; i < count; i++) {
    const item = parse(bytes, next);
    if (item === null) return null;
    value.push(item.value);
    next = item.end;
  }
  return { value, end: next };
}

export class RedisControl {
  #socket;
  #waiting = []; /* { done, fail } of each command without an answer, oldest first */
  #bytes = Buffer.alloc(0);

  static async open(path) {
    const control = new RedisControl(path);
    await within(
      () => `a connection to ${path}`,
      new Promise((done, fail) => control.#socket.once("connect", done).once("error", fail)),
    );
    return control;
  }

  constructor(path) {
    this.#socket = createConnection({ path });
    this.#socket.on("data", (data) => this.#take(data));
    this.#socket.on("error", () => {}); /* `close` follows. */
    this.#socket.on("close", () => {
      for (const { fail } of this.#waiting.splice(0)) fail(new Error("the connection has ended"));
    });
    whenOver(() => this.close());
  }

  command(...words) {
    return new Promise((done, fail) => {
      this.#waiting.push({ done, fail });
      if (this.#socket.destroyed) this.#socket.emit("close");
      else this.#socket.write(resp(words));
    });
  }

  /* In one step, as MULTI does it. The replies; the first error among them is thrown. */
  async atomically(commands) {
    const all = [["MULTI"], ...commands, ["EXEC"]].map((words) => this.command(...words));
    const replies = (await Promise.all(all)).at(-1);
    for (const reply of replies) if (reply instanceof Error) throw reply;
    return replies;
  }

  close() {
    this.#socket.destroy();
  }

  #take(data) {
    this.#bytes = Buffer.concat([this.#bytes, data]);
    for (let reply; (reply = parse(this.#bytes, 0)) !== null; ) {
      this.#bytes = this.#bytes.subarray(reply.end);
      const { done, fail } = this.#waiting.shift();
      if (reply.value instanceof Error) fail(reply.value);
      else done(reply.value);
    }
  }
}
