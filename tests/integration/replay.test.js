/* replay.test.js - a long replay runs at its reader's pace, and never counts against the reader. */
import assert from "node:assert/strict";
import { OPCODE, Raw } from "../lib/clients.js";
import { tidyTest } from "../lib/leftovers.js";
import { startRedis, startRoomd } from "../lib/servers.js";
import { Follower, Publisher, sleep } from "../lib/visitors.js";

const test = tidyTest(120_000);
const CLEAN = { code: 0, signal: null };
const KIB = 1024;
const ENTRIES = 10_000;
const TICK_MS = 10;

/* Reads its socket at `perSecond` bytes and no faster. (Node itself reads 64 KiB ahead.) */
class SlowReader {
  frames = 0;
  over = false; /* the socket has ended */
  #buffer = Buffer.alloc(0);

  constructor(raw, perSecond, take) {
    this.raw = raw;
    this.perSecond = perSecond;
    this.take = take;
    raw.socket.removeAllListeners("data");
    raw.socket.pause();
    raw.socket.on("close", () => (this.over = true));
  }

  /* Until `enough` says so. */
  async run(enough) {
    const began = performance.now();
    for (let bytes = 0; !enough(); ) {
      if (this.over) throw new Error(`the socket ended after ${this.frames} frames`);
      const due = ((performance.now() - began) / 1000) * this.perSecond - bytes;
      const readable = Math.min(Math.floor(due), this.raw.socket.readableLength);
      const piece = this.raw.socket.read(Math.max(readable, 0));
      if (piece === null) {
        await sleep(TICK_MS);
      } else {
        bytes += piece.length;
        this.#parse(piece);
      }
    }
  }

  #parse(piece) {
    this.#buffer = Buffer.concat([this.#buffer, piece]);
    for (;;) {
      const b = this.#buffer;
      if (b.length < 4) return;
      const long = b[1] === 126;
      const end = long ? 4 + b.readUInt16BE(2) : 2 + b[1];
      if (b.length < end) return;
      this.#buffer = b.subarray(end);
      this.frames++;
      const opcode = b[0] & 0x0f;
      assert.notEqual(opcode, OPCODE.close, `close ${b.subarray(2, end).toString("latin1", 2)}`);
      if (opcode === OPCODE.ping) this.raw.frame({ opcode: OPCODE.pong });
      if (opcode === OPCODE.text) this.take(JSON.parse(b.toString("utf8", long ? 4 : 2, end)));
    }
  }
}

/* Some 1 KB as a client gets it. */
const data = (n) => ({ n, pad: "x".repeat(860) });

/* Replays ENTRIES to a reader of `perSecond` bytes, while 50 more come in each second. */
async function replay({ redis, perSecond, t }) {
  /* So little is held of what comes meanwhile that the packets that live are, but for one page,
   * those in the reader's queue; and Redis' own trimming is kept out of this. */
  const [low, page, pending, ring] = [256 * KIB, 256 * KIB, 16 * KIB, 16 * KIB];
  const options = {
    ...{ "low-water": low, "page-bytes": page, "pending-bytes": pending, "ring-bytes": ring },
    ...{ "retention-entries": 50_000 },
  };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  const roomd = await startRoomd({ redis, args });
  const publisher = new Publisher(roomd.wsUrl, "lobby");
  const ids = (await publisher.paced(ENTRIES, 20_000, data)).map((ack) => ack.id);

  const follower = new Follower("lobby");
  const raw = await Raw.connect(roomd.port);
  assert.equal((await raw.upgrade()).status, 101);
  await raw.next("welcome");
  const reader = new SlowReader(raw, perSecond, (frame) => follower.take(frame));
  raw.frame({ text: JSON.stringify(follower.join()) });

  let over = false;
  t.after(() => (over = true));
  const arriving = (async () => {
    const began = performance.now();
    const acks = [];
    while (!over) {
      if (acks.length < ((performance.now() - began) / 1000) * 50) {
        acks.push(publisher.publish({ n: ENTRIES + acks.length }));
      }
      await sleep(TICK_MS);
    }
    return (await Promise.all(acks)).map((ack) => ack.id);
  })();

  let most = 0;
  const sampling = (async () => {
    while (!over) {
      most = Math.max(most, await roomd.metric("packet_bytes"));
      await sleep(TICK_MS);
    }
  })();

  const began = performance.now();
  await reader.run(() => follower.state === "live");
  const seconds = (performance.now() - began) / 1000;
  const replayed = follower.entries.length;
  assert.ok(replayed >= ENTRIES, "all that was there");

  /* It goes on live, for a second. */
  const until = performance.now() + 1000;
  await reader.run(() => performance.now() > until);
  over = true;
  await sampling;
  ids.push(...(await arriving));
  await reader.run(() => follower.cursor === ids.at(-1));
  assert.ok(follower.entries.length >= replayed + 25, "it was live");
  assert.deepEqual(follower.ids, ids);
  assert.deepEqual(
    follower.entries.map((entry) => entry.data.n),
    ids.map((_, n) => n),
  );
  assert.deepEqual(follower.resyncs, []);
  assert.equal(await roomd.metric("slow_consumers_total"), 0);

  /* A page is counted by its entries' texts; on the wire each has its envelope, and in memory a
   * struct, which together is less than a third of it at 1 KB. */
  const bound = low + page + Math.ceil(page / 3) + pending + ring;
  t.diagnostic(`${replayed} replayed in ${seconds.toFixed(1)} s at ${perSecond} bytes/s`);
  t.diagnostic(`${most} bytes of packets at most, ${bound} allowed`);
  assert.ok(most <= bound, `${most} bytes of packets, ${bound} allowed`);
  assert.ok(most > page / 2, `${most} bytes of packets: the reader was no slower than the server`);

  raw.destroy();
  publisher.close();
  assert.deepEqual(await roomd.stop(), CLEAN, roomd.logs());
}

test("10,000 entries of 1 KB to a reader of 200 KB/s, while 50 more come a second", async (t) => {
  await replay({ perSecond: 200_000, t });
});

test("the same from Redis, to a reader of 2 MB/s", async (t) => {
  const redis = await startRedis();
  await replay({ redis, perSecond: 2_000_000, t });
  await redis.stop();
});
