/* redis_proxy.js - a way between roomd and Redis that a test can spoil, connection by connection.
 *
 *   const proxy = await RedisProxy.open(redis.socketPath, join(dir, "proxy.sock"));
 *   await startRoomd({ redis: proxy.url });
 *   proxy.mute("bell");               // what Redis says to roomd-bell doesn't arrive any more
 *   proxy.unmute();
 *   proxy.stutter(random);            // bytes come late, in other pieces, in both directions
 *   await proxy.cutAfter("append", "up", 17);   // ends it once so many more bytes went up
 *
 * Connections are known by the names that they give themselves, without "roomd-". "up" is to Redis,
 * "down" from it.
 */
import { createConnection, createServer } from "node:net";
import { whenOver } from "./leftovers.js";

const LATE_MS = 15; /* at most, for each piece */

/* One direction of one connection. */
class Pipe {
  #from;
  #to;
  #take; /* what came: gives what goes on */
  #stutters;
  #waiting = Buffer.alloc(0);
  #going = false;
  #over = false;

  constructor(from, to, take, stutters) {
    this.#from = from;
    this.#to = to;
    this.#take = take;
    this.#stutters = stutters;
    from.on("data", (data) => this.#put(this.#take(data)));
    from.on("end", () => {
      this.#over = true;
      if (!this.#going) to.end();
    });
  }

  #put(data) {
    this.#waiting = Buffer.concat([this.#waiting, data]);
    if (!this.#going) this.#go();
  }

  async #go() {
    this.#going = true;
    while (this.#waiting.length > 0) {
      const random = this.#stutters();
      let count = this.#waiting.length;
      if (random !== null) {
        await new Promise((done) => setTimeout(done, random() * LATE_MS));
        /* Often a few bytes, sometimes all that has come meanwhile. */
        count = Math.ceil(Math.min(this.#waiting.length, 4 ** (random() * 8)));
      }
      if (this.#to.destroyed) return;
      const piece = this.#waiting.subarray(0, count);
      this.#waiting = this.#waiting.subarray(count);
      this.#to.write(piece);
    }
    this.#going = false;
    if (this.#over) this.#to.end();
  }
}

export class RedisProxy {
  #connections = new Set(); /* { name, client, target } */
  #muted = new Set();
  #garbled = new Set();
  #cut = null; /* { name, way, left, done } */
  #random = null;
  #server;
  /* Bytes that went, by name and way: passed.append.up */
  passed = {};

  static async open(target, path) {
    const proxy = new RedisProxy(target);
    await new Promise((done) => proxy.#server.listen(path, done));
    proxy.url = `unix://${path}`;
    return proxy;
  }

  constructor(target) {
    this.#server = createServer((client) => this.#connect(client, target));
    whenOver(() => this.close());
  }

  mute(name) {
    this.#muted.add(name);
  }

  unmute() {
    this.#muted.clear();
  }

  /* random: numbers from 0 to below 1; null: no more. */
  stutter(random) {
    this.#random = random;
  }

  /* The next that Redis says there begins with a byte that begins no reply. */
  garble(name) {
    this.#garbled.add(name);
  }

  /* Resolves once it is cut. */
  cutAfter(name, way, bytes) {
    return new Promise((done) => (this.#cut = { name, way, left: bytes, done }));
  }

  close() {
    this.#server.close();
    for (const connection of this.#connections) this.#end(connection);
  }

  #end({ client, target }) {
    client.destroy();
    target.destroy();
  }

  #connect(client, path) {
    const target = createConnection({ path });
    const connection = { name: "", client, target };
    this.#connections.add(connection);
    for (const socket of [client, target]) {
      socket.on("error", () => {}); /* `close` follows. */
      socket.on("close", () => {
        this.#end(connection);
        this.#connections.delete(connection);
      });
    }
    const stutters = () => this.#random;
    new Pipe(client, target, (data) => this.#take(connection, "up", data), stutters);
    new Pipe(target, client, (data) => this.#take(connection, "down", data), stutters);
  }

  #take(connection, way, data) {
    const named = connection.name === "" && /SETNAME\r\n\$\d+\r\nroomd-([a-z]+)\r\n/.exec(data);
    if (named) connection.name = named[1];
    const { name } = connection;
    this.passed[name] ??= { up: 0, down: 0 };
    this.passed[name][way] += data.length;
    if (way === "down" && this.#muted.has(name)) return Buffer.alloc(0);
    if (way === "down" && this.#garbled.delete(name)) data[0] = 0;
    return this.#cutIn(connection, way, data);
  }

  /* Where the connection has to end within these bytes, it is ended behind what still goes. */
  #cutIn(connection, way, data) {
    const cut = this.#cut;
    if (cut?.name !== connection.name || cut.way !== way) return data;
    if (cut.left > data.length) {
      cut.left -= data.length;
      return data;
    }
    this.#cut = null;
    const { client, target } = connection;
    const [near, far] = way === "up" ? [client, target] : [target, client];
    near.destroy();
    far.end(data.subarray(0, cut.left), () => {
      this.#end(connection);
      cut.done();
    });
    return Buffer.alloc(0);
  }
}
