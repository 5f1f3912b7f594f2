/* clients.js - WebSocket clients for black-box tests: one that behaves, and one that needn't.
 *
 *   const c = await Client.open(roomd.wsUrl);       // npm's ws, as users have it
 *   c.send({ op: "join", room: "lobby" });
 *   const joined = await c.next("joined");          // skips what comes before
 *   const { code, reason } = await c.closed;
 *
 *   const raw = await Raw.connect(roomd.port);      // a bare socket
 *   const response = await raw.upgrade();           // { status, headers, body }
 *   raw.frame({ text: "{}", mask: false });
 *   const { opcode, payload } = await raw.nextFrame();
 *
 * Whatever is awaited has a deadline.
 */
import { createConnection } from "node:net";
import { randomBytes } from "node:crypto";
import WebSocket from "ws";

const DEADLINE_MS = 10_000;

/* The promise, or an error that says what was awaited. */
export function within(what, promise, deadlineMs = DEADLINE_MS) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`not within ${deadlineMs} ms: ${what()}`)), deadlineMs);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/* Things that come, for somebody who asks for them one by one. */
class Inbox {
  #items = [];
  #wake = () => {};
  #over = null;

  put(item) {
    this.#items.push(item);
    this.#wake();
  }

  /* Nothing more comes. */
  end(error) {
    this.#over ??= error;
    this.#wake();
  }

  async next(what, wanted = () => true) {
    const seen = [];
    const take = async () => {
      for (;;) {
        while (this.#items.length > 0) {
          const item = this.#items.shift();
          if (wanted(item)) return item;
          seen.push(item);
        }
        if (this.#over) throw this.#over;
        await new Promise((done) => (this.#wake = done));
      }
    };
    return within(() => `${what}; seen ${JSON.stringify(seen).slice(0, 500)}`, take());
  }
}

export class Client {
  #inbox = new Inbox();

  /* Resolves when the socket is open; fails, with the HTTP `status`, where it is refused. */
  static async open(url, options = {}) {
    const client = new Client(url, options);
    await within(() => `open ${url}`, client.opened);
    return client;
  }

  constructor(url, { protocols = ["roomd.v1"], ...options } = {}) {
    this.socket = new WebSocket(url, protocols, options);
    this.closed = new Promise((done) => {
      this.socket.on("close", (code, reason) => {
        this.#inbox.end(new Error(`closed with ${code} ${reason}`));
        done({ code, reason: String(reason) });
      });
    });
    this.opened = new Promise((done, fail) => {
      this.socket.on("open", done);
      this.socket.on("error", fail);
      this.socket.on("unexpected-response", (request, response) => {
        request.destroy();
        const { statusCode: status, headers } = response;
        fail(Object.assign(new Error(`HTTP ${status}`), { status, headers }));
      });
    });
    this.opened.catch(() => {});
    this.socket.on("message", (data) => this.#inbox.put(JSON.parse(String(data))));
  }

  /* An object goes as JSON; a string or a Buffer as it is. */
  send(what) {
    const plain = typeof what === "string" || what instanceof Uint8Array;
    this.socket.send(plain ? what : JSON.stringify(what));
  }

  /* The next frame with this op (any, where none is given), and these fields. */
  next(op, fields = {}) {
    const wanted = (frame) =>
      (op === undefined || frame.op === op) &&
      Object.entries(fields).every(([name, value]) => frame[name] === value);
    return this.#inbox.next(`${op ?? "a frame"} ${JSON.stringify(fields)}`, wanted);
  }

  async close(code = 1000) {
    this.socket.close(code);
    return within(() => "the close to be answered", this.closed);
  }
}

export class Raw {
  #inbox = new Inbox();
  #buffer = Buffer.alloc(0);
  #framed = false;

  /* where: a port, or { path } of a unix socket. */
  static async connect(where) {
    const socket = createConnection(
      typeof where === "number" ? { port: where, host: "127.0.0.1" } : where,
    );
    const raw = new Raw(socket);
    await within(
      () => "connect",
      new Promise((done, fail) => socket.once("connect", done).once("error", fail)),
    );
    return raw;
  }

  constructor(socket) {
    this.socket = socket;
    this.closed = new Promise((done) => socket.once("close", done));
    socket.on("error", (error) => this.#inbox.end(error));
    socket.on("end", () => this.#inbox.end(new Error("the server closed the connection")));
    socket.on("data", (data) => {
      this.#buffer = Buffer.concat([this.#buffer, data]);
      if (this.#framed) this.#parse();
    });
  }

  write(bytes) {
    this.socket.write(bytes);
  }

  /* All that came until the server closed. */
  async rest() {
    await within(
      () => `the end, after ${this.#buffer.toString("latin1").slice(0, 200)}`,
      this.closed,
    );
    return this.#buffer.toString("latin1");
  }

  /* One response's head and, where it has a length, its body. */
  async response() {
    const read = async () => {
      for (;;) {
        const text = this.#buffer.toString("latin1");
        const end = text.indexOf("\r\n\r\n");
        if (end >= 0) {
          const [line, ...lines] = text.slice(0, end).split("\r\n");
          const headers = Object.fromEntries(
            lines.map((each) => [
              each.slice(0, each.indexOf(":")).toLowerCase(),
              each.slice(each.indexOf(":") + 1).trim(),
            ]),
          );
          const length = Number(headers["content-length"] ?? 0);
          if (text.length >= end + 4 + length) {
            this.#buffer = this.#buffer.subarray(end + 4 + length);
            const body = text.slice(end + 4, end + 4 + length);
            return { status: Number(line.split(" ")[1]), line, headers, body };
          }
        }
        if (this.socket.readableEnded || this.socket.destroyed) {
          throw new Error(`the connection ended after ${JSON.stringify(text)}`);
        }
        await new Promise((done) => {
          this.socket.once("data", done);
          this.socket.once("close", done);
        });
      }
    };
    return within(() => `a response; there is ${this.#buffer.toString("latin1")}`, read());
  }

  /* Asks for the upgrade; `headers` replaces or (undefined) leaves out some of the request's. */
  async upgrade({ path = "/v1/ws", headers = {}, then = "" } = {}) {
    const all = {
      Host: "127.0.0.1",
      Upgrade: "websocket",
      Connection: "Upgrade",
      "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
      "Sec-WebSocket-Version": "13",
      ...headers,
    };
    const lines = Object.entries(all)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}: ${value}\r\n`);
    this.write(
      Buffer.concat([
        Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`),
        Buffer.from(then),
      ]),
    );
    const response = await this.response();
    if (response.status === 101) {
      this.#framed = true;
      this.#parse();
    }
    return response;
  }

  /* Sends one frame; everything about it can be wrong. */
  frame(options) {
    this.write(frameBytes(options));
  }

  #parse() {
    for (;;) {
      const b = this.#buffer;
      if (b.length < 2) return;
      let length = b[1] & 0x7f;
      let at = 2;
      if (length === 126) {
        if (b.length < 4) return;
        length = b.readUInt16BE(2);
        at = 4;
      } else if (length === 127) {
        if (b.length < 10) return;
        length = Number(b.readBigUInt64BE(2));
        at = 10;
      }
      if (b.length < at + length) return;
      const payload = b.subarray(at, at + length);
      this.#buffer = b.subarray(at + length);
      this.#inbox.put({ opcode: b[0] & 0x0f, masked: (b[1] & 0x80) !== 0, payload });
    }
  }

  nextFrame(opcode) {
    return this.#inbox.next(
      `a frame${opcode === undefined ? "" : ` with opcode ${opcode}`}`,
      (frame) => opcode === undefined || frame.opcode === opcode,
    );
  }

  /* The next text frame with this op. */
  async next(op) {
    for (;;) {
      const { payload } = await this.nextFrame(OPCODE.text);
      const frame = JSON.parse(payload.toString());
      if (frame.op === op) return frame;
    }
  }

  /* The code and reason of the server's close frame. */
  async nextClose() {
    const { payload } = await this.nextFrame(OPCODE.close);
    return { code: payload.readUInt16BE(0), reason: payload.subarray(2).toString() };
  }

  destroy() {
    this.socket.destroy();
  }
}

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 };

/* length: what the header says, where it isn't the payload's. */
export function frameBytes({
  text,
  payload = Buffer.from(text ?? ""),
  opcode = OPCODE.text,
  fin = true,
  rsv = 0,
  mask = true,
  length = payload.length,
}) {
  const head = [(fin ? 0x80 : 0) | (rsv << 4) | opcode];
  const maskBit = mask ? 0x80 : 0;
  if (length < 126) head.push(maskBit | length);
  else if (length < 65536) head.push(maskBit | 126, length >> 8, length & 0xff);
  else {
    const long = Buffer.alloc(8);
    long.writeBigUInt64BE(BigInt(length));
    head.push(maskBit | 127, ...long);
  }
  if (!mask) return Buffer.concat([Buffer.from(head), payload]);
  const key = randomBytes(4);
  const masked = Buffer.from(payload.map((byte, i) => byte ^ key[i & 3]));
  return Buffer.concat([Buffer.from(head), key, masked]);
}
