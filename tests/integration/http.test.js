/* http.test.js - plain HTTP: pages, health, refused upgrades, and requests that mean harm. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test as nodeTest } from "node:test";
import { Client, Raw } from "../lib/clients.js";
import { runRoomd } from "../lib/program.js";
import { repoRoot, startRoomd, tmpDir, until } from "../lib/servers.js";

const test = (name, run) => nodeTest(name, { timeout: 40_000 }, run);
const HANDSHAKE_MS = 20_000;

const socketPath = join(tmpDir(), "roomd.sock");
let roomd;
let listed; /* with --allow-origin */
let open; /* with --allow-origin '*' */
let half; /* a request that doesn't end, begun before all tests */

before(async () => {
  roomd = await startRoomd({ args: ["--listen", `unix:${socketPath}`] });
  listed = await startRoomd({
    args: ["--allow-origin", "https://one.example", "--allow-origin", "https://two.example:8443"],
  });
  open = await startRoomd({ args: ["--allow-origin", "*"] });
  half = await Raw.connect(roomd.port);
  half.write("GET / HTTP/1.1\r\nHost: half\r\nX-Never: ");
  half.begun = Date.now();
});

after(async () => {
  for (const server of [roomd, listed, open]) {
    assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.logs());
  }
  assert.ok(!existsSync(socketPath), "the unix socket's file is gone");
});

/* Sends the bytes, and gives all that comes until the server closes. */
async function exchange(bytes) {
  const raw = await Raw.connect(roomd.port);
  raw.write(bytes);
  return raw.rest();
}

const statusOf = (text) => Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]);
const responsesIn = (text) => text.split(/HTTP\/1\.\d \d/).length - 1;
const get = (path, headers = "", method = "GET") =>
  `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`;

/* It is not only alive, but at rest. */
async function assertAtRest() {
  assert.equal((await fetch(`${roomd.url}/healthz`)).status, 200);
  const before = roomd.cpuSeconds();
  const began = Date.now();
  await until("half a second", () => Date.now() - began > 500);
  const used = roomd.cpuSeconds() - before;
  assert.ok(used < 0.2, `${used} s of CPU in half a second of nothing`);
}

/* --- pages ------------------------------------------------------------------------------------ */

test("the page, the client's modules and the page's files are there with their types", async () => {
  for (const [path, type, file] of [
    ["/", "text/html; charset=utf-8", "page/index.html"],
    ["/page/index.html", "text/html; charset=utf-8", "page/index.html"],
    ["/page/chat.css", "text/css; charset=utf-8", "page/chat.css"],
    ["/client/roomd.js", "text/javascript; charset=utf-8", "roomd.js"],
  ]) {
    const response = await fetch(roomd.url + path);
    assert.equal(response.status, 200, path);
    assert.equal(response.headers.get("content-type"), type);
    assert.equal(await response.text(), readFileSync(join(repoRoot, "client", file), "utf8"));
  }
});

test("responses carry the headers that protect their page, and close", async () => {
  for (const path of ["/", "/client/roomd.js", "/nothing", "/healthz"]) {
    const { headers } = await fetch(roomd.url + path);
    const policy = headers.get("content-security-policy");
    assert.match(policy, /default-src 'self'/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe/);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    assert.equal(headers.get("connection"), "close");
  }
});

test("an ETag saves the second download", async () => {
  const first = await fetch(`${roomd.url}/client/roomd.js`);
  const etag = first.headers.get("etag");
  assert.equal(first.headers.get("cache-control"), "no-cache");
  for (const value of [etag, `"other", ${etag}`, "*"]) {
    const again = await fetch(`${roomd.url}/client/roomd.js`, {
      headers: { "If-None-Match": value },
    });
    assert.equal(again.status, 304);
    assert.equal(again.headers.get("etag"), etag);
    assert.equal(await again.text(), "");
  }
  const other = await fetch(`${roomd.url}/client/roomd.js`, {
    headers: { "If-None-Match": '"other"' },
  });
  assert.equal(other.status, 200);
});

test("HEAD has the headers of GET and no body", async () => {
  const text = await exchange(get("/", "", "HEAD"));
  const [head, body] = text.split("\r\n\r\n");
  assert.equal(statusOf(head), 200);
  const length = readFileSync(join(repoRoot, "client/page/index.html")).length;
  assert.match(
    head,
    new RegExp(`\r\nContent-Length: ${length}$|\r\nContent-Length: ${length}\r\n`),
  );
  assert.equal(body, "");
});

test("a large file arrives whole at a reader that takes its time", async () => {
  const root = tmpDir();
  mkdirSync(join(root, "page"));
  const large = Buffer.alloc(3_000_000, "0123456789abcdef\n");
  writeFileSync(join(root, "page/index.html"), large);
  const server = await startRoomd({ args: ["--web-root", root] });
  const raw = await Raw.connect(server.port);
  raw.socket.pause();
  raw.write(get("/"));
  await until("it has begun", async () => (await fetch(`${server.url}/healthz`)).ok);
  raw.socket.resume();
  const text = await raw.rest();
  assert.equal(text.slice(text.indexOf("\r\n\r\n") + 4), large.toString());

  /* In development a file that changed is read anew. */
  writeFileSync(join(root, "page/index.html"), "changed");
  assert.equal(await (await fetch(server.url)).text(), "changed");
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
});

test("what isn't served isn't there", async () => {
  for (const path of [
    "/nothing",
    "/client/",
    "/page/",
    "/client/package.json",
    "/client/tsconfig.json",
    "/client/test/codec.test.js",
    "/client/page/chat.js",
    "/client/../../server/main.c",
    "/page/../package.json",
    "/page/..%2fpackage.json",
    "/page/%2e%2e/%2e%2e/meson.build",
    "/..%2f..%2f..%2fetc/passwd",
    "//etc/passwd",
    "/page//etc/passwd",
    "/page/index.html/",
    "/PAGE/INDEX.HTML",
  ]) {
    assert.equal(statusOf(await exchange(get(path))), 404, path);
  }
});

test("other methods are answered with 405 and Allow", async () => {
  for (const method of ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
    const text = await exchange(get("/", "Content-Length: 0\r\n", method));
    assert.equal(statusOf(text), 405, method);
    assert.match(text, /\r\nAllow: GET, HEAD\r\n/);
  }
  const body = "x".repeat(50_000);
  const text = await exchange(get("/", `Content-Length: ${body.length}\r\n`, "POST") + body);
  assert.equal(statusOf(text), 405);
});

/* --- health ----------------------------------------------------------------------------------- */

test("health, readiness, metrics and the icon nobody has", async () => {
  assert.equal(await (await fetch(`${roomd.url}/healthz`)).text(), "ok\n");
  assert.equal(await (await fetch(`${roomd.url}/readyz`)).text(), "ok\n");
  assert.equal((await fetch(`${roomd.url}/favicon.ico`)).status, 204);
  const metrics = await (await fetch(`${roomd.url}/metrics`)).text();
  assert.match(metrics, /^# TYPE roomd_connections gauge$/m);
  assert.match(metrics, /^roomd_http_requests_total [1-9]/m);
});

test("without its Redis roomd is alive and not ready", async () => {
  const server = await startRoomd({ redis: "redis://127.0.0.1:1", ready: "/healthz" });
  const response = await fetch(`${server.url}/readyz`);
  assert.equal(response.status, 503);
  assert.match(await response.text(), /log/);
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
});

test("a unix socket serves the same", async () => {
  const raw = await Raw.connect({ path: socketPath });
  raw.write(get("/healthz"));
  assert.equal(statusOf(await raw.rest()), 200);
  const client = await Client.open(`ws+unix://${socketPath}:/v1/ws`);
  await client.next("welcome");
  await client.close();
});

/* --- upgrades --------------------------------------------------------------------------------- */

async function upgradeStatus(options, server = roomd) {
  const raw = await Raw.connect(server.port);
  const response = await raw.upgrade(options);
  if (response.status === 101) raw.destroy();
  else await raw.rest(); /* it closes */
  return response;
}

test("an upgrade that is malformed is answered with the status that says so", async () => {
  const cases = [
    [404, { path: "/" }],
    [404, { path: "/v1/ws/" }],
    [404, { path: "/v2/ws" }],
    [426, { headers: { "Sec-WebSocket-Version": "8" } }],
    [426, { headers: { "Sec-WebSocket-Version": "14" } }],
    [426, { headers: { "Sec-WebSocket-Version": undefined } }],
    [400, { headers: { "Sec-WebSocket-Key": undefined } }],
    [400, { headers: { "Sec-WebSocket-Key": "short" } }],
    [400, { headers: { "Sec-WebSocket-Key": "x".repeat(200) } }],
    [400, { headers: { Host: undefined } }],
    [400, { headers: { Connection: "keep-alive" } }],
    [400, { headers: { Connection: undefined } }],
    [400, { headers: { "Sec-WebSocket-Protocol": "chat" } }],
    [400, { headers: { "Sec-WebSocket-Protocol": "chat, roomd.v2" } }],
    [400, { headers: { "Sec-WebSocket-Protocol": `roomd.v1, ${"x".repeat(70)}` } }],
    [400, { headers: { "Sec-WebSocket-Protocol": `roomd.v1, ${"x, ".repeat(100)}` } }],
  ];
  for (const [status, options] of cases) {
    assert.equal((await upgradeStatus(options)).status, status, JSON.stringify(options));
  }
  const { headers } = await upgradeStatus({ headers: { "Sec-WebSocket-Version": "8" } });
  assert.equal(headers["sec-websocket-version"], "13");
});

test("the subprotocol is selected where it is offered, and not where none is", async () => {
  const offer = (value) => upgradeStatus({ headers: { "Sec-WebSocket-Protocol": value } });
  for (const value of ["roomd.v1", "chat, roomd.v1", "roomd.v1,chat"]) {
    const response = await offer(value);
    assert.equal(response.status, 101, value);
    assert.equal(response.headers["sec-websocket-protocol"], "roomd.v1");
  }
  const response = await offer(undefined);
  assert.equal(response.status, 101);
  assert.equal(response.headers["sec-websocket-protocol"], undefined);
});

test("no extension is agreed to", async () => {
  const { headers } = await upgradeStatus({
    headers: { "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits" },
  });
  assert.equal(headers["sec-websocket-extensions"], undefined);
});

test("only the page's own origin may connect, and what the list allows", async () => {
  const ask = async (server, origin, host = "chat.example:8080") =>
    (await upgradeStatus({ headers: { Origin: origin, Host: host } }, server)).status;
  assert.equal(await ask(roomd, undefined), 101);
  assert.equal(await ask(roomd, "http://chat.example:8080"), 101);
  assert.equal(await ask(roomd, "https://CHAT.example:8080"), 101);
  assert.equal(await ask(roomd, "https://chat.example", "chat.example:443"), 101);
  assert.equal(await ask(roomd, "http://chat.example:80", "chat.example"), 101);
  assert.equal(await ask(roomd, "http://chat.example"), 403);
  assert.equal(await ask(roomd, "http://chat.example:8081"), 403);
  assert.equal(await ask(roomd, "http://evil.example:8080"), 403);
  assert.equal(await ask(roomd, "http://chat.example:8080.evil.example"), 403);
  assert.equal(await ask(roomd, "null"), 403);
  assert.equal(await ask(roomd, "file://"), 403);

  assert.equal(await ask(listed, "https://one.example"), 101);
  assert.equal(await ask(listed, "https://two.example:8443"), 101);
  assert.equal(await ask(listed, "https://two.example"), 403);
  assert.equal(await ask(listed, "http://one.example"), 403);
  assert.equal(await ask(listed, "http://chat.example:8080"), 101);

  assert.equal(await ask(open, "https://anything.example"), 101);
  assert.equal(await ask(open, "null"), 101);

  const metrics = await (await fetch(`${roomd.url}/metrics`)).text();
  assert.match(metrics, /^roomd_refused_origin_total 6$/m);
});

test("the query's escapes are decoded", async () => {
  const client = await Client.open(`${roomd.wsUrl}?x=1&room=a%3Ab&last=1&room=other`);
  assert.equal((await client.next("joined")).room, "a:b");
  await client.close();
});

/* --- requests that mean harm ------------------------------------------------------------------ */

test("of pipelined requests the first is answered and the connection closed", async () => {
  const post = get("/healthz", "Content-Length: 4\r\n", "POST");
  for (const bytes of [
    get("/healthz") + get("/"),
    `${get("/healthz")}${post}body`,
    `${post}body${get("/healthz")}`,
    `${get("/healthz", "Upgrade: foo\r\nConnection: Upgrade\r\n")}${post}body`,
    get("/healthz", "Connection: keep-alive\r\n").repeat(50),
  ]) {
    assert.equal(responsesIn(await exchange(bytes)), 1, bytes);
  }
  await assertAtRest();
});

test("an upgrade to anything else is refused or ignored", async () => {
  const upgrade = (to) => `Upgrade: ${to}\r\nConnection: Upgrade\r\n`;
  assert.match(await exchange(get("/", upgrade("foo"))), /^HTTP\/1\.\d 403/);
  const h2c = `${upgrade("h2c")}HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n`;
  assert.equal(statusOf(await exchange(get("/healthz", h2c))), 200);
  assert.equal(statusOf(await exchange(get("/", `${h2c}Content-Length: 0\r\n`, "POST"))), 405);
});

test("CONNECT and HTTP/2's preface are hung up on", async () => {
  assert.equal(responsesIn(await exchange("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n")), 0);
  await exchange("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  await exchange("\r\n\r\n");
});

test("headers that are too large end the connection", async () => {
  for (const bytes of [
    get("/", `X-Large: ${"x".repeat(100_000)}\r\n`),
    get("/", "X-Many: y\r\n".repeat(10_000)),
    get(`/${"x".repeat(100_000)}`),
    get(`/?${"a=b&".repeat(5_000)}`),
  ]) {
    const raw = await Raw.connect(roomd.port);
    raw.write(bytes);
    await raw.rest();
  }
  await assertAtRest();
});

test("random requests, whole and in pieces, don't stop it", async () => {
  /* A linear congruential generator, so that a failure can be run again. */
  let seed = 12345;
  const random = (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed % below;
  };
  const parts = [
    "GET / HTTP/1.1\r\n",
    "POST /healthz HTTP/1.1\r\n",
    "HEAD /client/roomd.js HTTP/1.0\r\n",
    "GET /v1/ws?room=a&cursor=%00 HTTP/1.1\r\n",
    "PUT /%2e%2e/ HTTP/1.1\r\n",
    "BREW / HTTP/1.1\r\n",
    "CONNECT a HTTP/1.1\r\n",
    "Host: a\r\n",
    "Upgrade: websocket\r\nConnection: Upgrade\r\n",
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    "Upgrade: h2c\r\n",
    "Upgrade: foo\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Connection: keep-alive\r\n",
    "\r\n",
    "\r\n",
    "\n",
    "\0\xff\x81",
    "body",
  ];
  for (let round = 0; round < 300; round++) {
    const raw = await Raw.connect(roomd.port);
    for (let n = 1 + random(12); n > 0 && !raw.socket.destroyed; n--) {
      raw.write(Buffer.from(parts[random(parts.length)], "latin1"));
      if (random(3) === 0) await new Promise(setImmediate);
    }
    raw.destroy();
  }
  await assertAtRest();
});

test("connections that are cut at once leave nothing behind", async () => {
  for (let i = 0; i < 200; i++) {
    const raw = await Raw.connect(roomd.port);
    raw.write(i % 2 ? get("/") : "GET ");
    raw.socket.resetAndDestroy();
  }
  await assertAtRest();
});

test("a request that doesn't end is dropped after a while", async () => {
  const left = HANDSHAKE_MS + 5_000 - (Date.now() - half.begun);
  let late;
  const deadline = new Promise((_, fail) => {
    late = setTimeout(() => fail(new Error("still open")), left);
  });
  await Promise.race([half.closed, deadline]).finally(() => clearTimeout(late));
  assert.ok(Date.now() - half.begun > HANDSHAKE_MS / 2, "it had time");
});

/* --- starting --------------------------------------------------------------------------------- */

test("a port that is taken is an error that names it", async () => {
  const { code, stderr } = await runRoomd(["--listen", `127.0.0.1:${roomd.port}`]);
  assert.equal(code, 1);
  assert.match(stderr, new RegExp(`can't listen on 127\\.0\\.0\\.1:${roomd.port}.*in use`));
});

test("a socket's file that a killed server left is replaced, one in use is not", async () => {
  const path = join(tmpDir(), "left.sock");
  const args = ["--listen", `unix:${path}`];
  const killed = await startRoomd({ args });
  await killed.stop("SIGKILL");
  assert.ok(existsSync(path));
  const second = await startRoomd({ args });
  const third = await runRoomd(["--listen", `unix:${path}`]);
  assert.equal(third.code, 1);
  assert.match(third.stderr, /in use/);
  const raw = await Raw.connect({ path });
  raw.write(get("/healthz"));
  assert.equal(statusOf(await raw.rest()), 200);
  assert.deepEqual(await second.stop(), { code: 0, signal: null });
  assert.ok(!existsSync(path));
});
