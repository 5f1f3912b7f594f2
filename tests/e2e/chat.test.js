/* chat.test.js - do two browser tabs see one room, whatever happens to the network between? */
import assert from "node:assert/strict";
import { after, before, test as nodeTest } from "node:test";
import { startRedis, startRoomd, tmpDir, until } from "../lib/servers.js";
import { Tab, launch } from "./browser.js";
import { startProxy } from "./proxy.js";

const test = (name, run) => nodeTest(name, { timeout: 90_000 }, run);

let redis;
let roomd;
let browser;

before(async () => {
  redis = await startRedis({ dir: tmpDir() });
  roomd = await startRoomd({ redis });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  const exit = await roomd?.stop();
  await redis?.stop();
  assert.deepEqual(exit, { code: 0, signal: null }, roomd?.logs());
});

const add = (room, data, type = "message") =>
  redis.cli("XADD", `room:${room}`, "*", "type", type, "data", data);

function addMany(room, count, text = (i) => `entry ${i}`) {
  const data = (i) => JSON.stringify({ text: text(i), name: "feed" });
  const command = (_, i) => ["XADD", `room:${room}`, "*", "type", "message", "data", data(i)];
  return redis.pipe(Array.from({ length: count }, command));
}

/* The ids in the room's log, oldest first. */
async function logIds(room) {
  const script = `local ids = {}
    for i, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do ids[i] = entry[1] end
    return ids`;
  return (await redis.cli("EVAL", script, "1", `room:${room}`)).split("\n").filter(Boolean);
}

const length = async (room) => Number(await redis.cli("XLEN", `room:${room}`));

test("the page comes with a strict content security policy", async () => {
  const response = await fetch(`${roomd.url}/`);
  assert.match(response.headers.get("content-type"), /^text\/html/);
  const policy = response.headers.get("content-security-policy");
  assert.match(policy, /default-src 'self'/);
  assert.doesNotMatch(policy, /unsafe-/);
});

test("two tabs chat", async () => {
  const ann = await Tab.open(browser, `${roomd.url}/#two`, { colorScheme: "light" });
  const bob = await Tab.open(browser, `${roomd.url}/#two`, { colorScheme: "dark" });
  for (const [tab, name] of [
    [ann, "Ann"],
    [bob, "Bob"],
  ]) {
    await tab.watchForDoubles();
    await tab.page.fill("#name", name);
  }
  const lines = [
    "Hello Bob!",
    "Hello Ann, did you see <b>this</b>?",
    "As text, as it should be.",
    "😄",
  ];
  for (const [i, line] of lines.entries()) {
    await [ann, bob][i % 2].say(line);
    for (const tab of [ann, bob]) await tab.applied(i + 1);
  }
  for (const tab of [ann, bob]) {
    await tab.assertNoDoubles();
    assert.deepEqual(await tab.texts(), lines);
    assert.deepEqual(await tab.ids(), await logIds("two"));
    assert.equal(await tab.page.textContent("#beginning"), "This is where #two begins.");
    assert.equal(
      await tab.pendingSeen(),
      1,
      "own messages wait for their entry, one at a time here",
    );
  }
  assert.deepEqual(
    await bob.page.$$eval(".author", (authors) => authors.map((author) => author.textContent)),
    ["Ann", "You", "Ann", "You"],
  );
  await ann.screenshot("chat-light");
  await bob.screenshot("chat-dark");
  await ann.close();
  await bob.close();
});

test("what another program puts into Redis appears at once, and as text", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#feed`);
  const data = [
    ['{"text":"hi"}', "hi"],
    ['"<img src=x onerror=alert(1)>"', "<img src=x onerror=alert(1)>"],
    ['{"order":7,"ok":true}', '{"order":7,"ok":true}'],
    ["not JSON", "not JSON"],
    ["null", "null"],
    ['{"text":5,"name":{}}', '{"text":5,"name":{}}'],
  ];
  for (const [i, [json]] of data.entries()) {
    await add("feed", json, i === 2 ? "order" : "message");
    const added = Date.now();
    await tab.applied(i + 1);
    assert.ok(Date.now() - added < 1000, `entry ${i} took ${Date.now() - added} ms`);
  }
  assert.deepEqual(
    await tab.texts(),
    data.map(([, text]) => text),
  );
  await tab.close();
});

test("a tab without a network for 5,000 entries shows every one, in order, once", async () => {
  const proxy = await startProxy(roomd.port);
  const tab = await Tab.open(browser, `${proxy.url}/#away`);
  await tab.watchForDoubles();
  await add("away", '{"text":"before"}');
  await tab.applied(1);
  tab.networkUp = false;
  await tab.context.setOffline(true);
  proxy.cut();
  await tab.state("offline");
  await addMany("away", 5000);
  proxy.restore();
  await tab.context.setOffline(false);
  await tab.applied(5001);
  await tab.state("live");
  assert.deepEqual(await tab.ids(), await logIds("away"));
  await tab.assertNoDoubles();
  await tab.close();
  await proxy.stop();
});

test("a page that was closed for 5,000 entries goes on where its screen ended", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#closed`);
  await addMany("closed", 20, (i) => `before ${i}`);
  await tab.applied(20);
  await tab.page.goto("about:blank");
  await addMany("closed", 5000);
  await tab.page.goto(`${roomd.url}/#closed`);
  await tab.applied(5000);
  await tab.state("live");
  assert.equal(await tab.page.getAttribute("#log", "data-kept"), "20");
  assert.equal(await tab.page.getAttribute("#log", "data-applied"), "5000");
  assert.deepEqual(await tab.ids(), await logIds("closed"));
  await tab.close();
});

test("a tab loses its network in mid-conversation: nothing missing, nothing double", async () => {
  const proxy = await startProxy(roomd.port);
  const ann = await Tab.open(browser, `${proxy.url}/#lossy`);
  const bob = await Tab.open(browser, `${roomd.url}/#lossy`);
  for (const tab of [ann, bob]) await tab.watchForDoubles();
  await bob.say("one");
  await ann.applied(1);

  /* The log has Ann's message, but she can't know: neither the entry nor the ack gets through. */
  proxy.deafen();
  await ann.say("two");
  await bob.applied(2);
  assert.equal(await ann.page.locator("#outbox .pending").count(), 1);
  ann.networkUp = false;
  proxy.cut();
  await ann.state("offline");
  await bob.say("three");
  await ann.say("four");
  await ann.say("five");
  assert.equal(await ann.page.locator("#outbox .pending").count(), 3);
  await ann.screenshot("chat-offline");
  await bob.applied(3);
  proxy.restore();

  for (const tab of [ann, bob]) {
    await tab.applied(5);
    assert.deepEqual(await tab.texts(), ["one", "two", "three", "four", "five"]);
    assert.deepEqual(await tab.ids(), await logIds("lossy"));
    assert.equal(await tab.page.locator("#outbox > li").count(), 0);
    await tab.assertNoDoubles();
  }
  assert.equal(await length("lossy"), 5);
  await ann.close();
  await bob.close();
  await proxy.stop();
});

test("a rejected message is taken off the screen, and the reason is shown", async (t) => {
  const tab = await Tab.open(browser, `${roomd.url}/#full`);
  const setMemory = (bytes) => redis.cli("CONFIG", "SET", "maxmemory", bytes);
  t.after(() => setMemory("0"));
  await setMemory("1");
  await tab.say("no room for this");
  await tab.page.getByText("Not sent:").waitFor();
  await setMemory("0");
  assert.equal(await tab.page.locator("#outbox > li").count(), 0);
  assert.equal(await tab.page.inputValue("#text"), "no room for this");
  await tab.page.press("#text", "Enter");
  await tab.applied(1);
  assert.deepEqual(await tab.texts(), ["no room for this"]);
  await tab.close();
});

test("another room is another log, and coming back shows the first as it was", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#here`);
  await tab.say("in here");
  await tab.applied(1);
  await tab.page.fill("#room", "there");
  await tab.page.press("#room", "Enter");
  await tab.page.waitForURL(/#there$/);
  await tab.state("live");
  assert.deepEqual(await tab.texts(), []);
  await add("here", '{"text":"meanwhile"}');
  await tab.page.goBack();
  await tab.applied(1);
  await tab.state("live");
  assert.deepEqual(await tab.texts(), ["in here", "meanwhile"]);
  await tab.close();
});

test("Enter in the room's box goes to the message box, and leaves nothing in it", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#enter`);
  await tab.page.press("#room", "Enter");
  assert.equal(await tab.page.evaluate(() => document.activeElement.id), "text");
  assert.equal(await tab.page.inputValue("#text"), "");
  await tab.page.fill("#room", "");
  await tab.page.press("#room", "Enter");
  assert.equal(await tab.page.inputValue("#room"), "enter");
  await tab.page.fill("#text", "by mouse");
  await tab.page.click("#composer button");
  await tab.applied(1);
  assert.equal(await tab.page.evaluate(() => document.activeElement.id), "text");
  await tab.close();
});

test("what was on its way to a room arrives, though another is on screen by then", async () => {
  const proxy = await startProxy(roomd.port);
  const tab = await Tab.open(browser, `${proxy.url}/#first`);
  const enter = async (room) => {
    await tab.page.fill("#room", room);
    await tab.page.press("#room", "Enter");
    await tab.page.waitForURL(new RegExp(`#${room}$`));
  };
  await tab.watchForDoubles();
  tab.networkUp = false;
  proxy.cut();
  await tab.state("offline");
  await tab.say("one");
  await enter("second");
  await tab.say("for the second");
  await until("only this room's is shown", async () => (await tab.pending()).join() === "for the second");
  await enter("first");
  await until("the first room's is shown", async () => (await tab.pending()).join() === "one");
  await enter("second");
  proxy.restore();
  await tab.applied(1);
  await until("both are in their logs", async () => (await length("first")) === 1);
  assert.deepEqual(await tab.texts(), ["for the second"]);
  assert.equal(await tab.page.inputValue("#text"), "");
  assert.equal(await tab.page.locator("#notice").isVisible(), false);
  await enter("first");
  await tab.state("live");
  await tab.page.getByText("one", { exact: true }).waitFor();
  assert.deepEqual(await tab.texts(), ["one"]);
  assert.equal(await tab.page.textContent(".author"), "You");
  await tab.assertNoDoubles();
  await tab.close();
  await proxy.stop();
});

test("a fresh start in a live room is told, and an empty one doesn't look broken", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#afresh`);
  await tab.say("gone soon");
  await tab.applied(1);
  await redis.cli("DEL", "room:afresh");
  await tab.page.getByText("(reset)").waitFor();
  await tab.page.getByText("Nothing here yet").waitFor();
  assert.deepEqual(await tab.texts(), []);
  await tab.say("anew");
  await tab.applied(1);
  assert.deepEqual(await tab.texts(), ["anew"]);
  await tab.close();
});

test("a log that can't be read any more ends the visit, and what is typed isn't lost", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#broken`);
  await tab.say("before");
  await tab.applied(1);
  await redis.cli("SET", "room:broken", "no stream");
  await tab.state("stopped");
  await tab.say("too late");
  await tab.page.getByText("Not sent:").waitFor();
  assert.equal(await tab.page.inputValue("#text"), "too late");
  await tab.close();
});

test("after a close that means stop, nothing typed is lost and no room entered", async () => {
  const context = await browser.newContext();
  const tab = new Tab(context, await context.newPage());
  let socket;
  await tab.page.routeWebSocket(/\/v1\/ws/, (route) => {
    socket = route;
    route.connectToServer();
  });
  await tab.page.goto(`${roomd.url}/#over`);
  await tab.state("live");
  await socket.close({ code: 4403, reason: "forbidden" });
  await tab.state("stopped");
  await tab.say("too late");
  await tab.page.getByText("Not sent:").waitFor();
  assert.equal(await tab.page.inputValue("#text"), "too late");
  await tab.page.fill("#room", "elsewhere");
  await tab.page.press("#room", "Enter");
  await tab.page.getByText("reload the page").waitFor();
  await tab.page.waitForURL(/#over$/);
  assert.equal(await tab.page.inputValue("#room"), "over");
  await tab.close();
});

test("what is written from right to left is shown from right to left", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#scripts`);
  await tab.page.fill("#name", "דנה");
  await tab.say("שלום עולם!");
  await tab.say("hello");
  await tab.applied(2);
  const direction = (nodes) => nodes.map((node) => getComputedStyle(node).direction);
  assert.deepEqual(await tab.page.$$eval("#log .body", direction), ["rtl", "ltr"]);
  assert.deepEqual(await tab.page.$$eval("#name", direction), ["rtl"]);
  await tab.close();
});

test("a long room name stays in its place, on a desk and on a phone", async () => {
  const name = "a_long_room_name".repeat(8);
  for (const [device, viewport] of [
    ["desk", { width: 900, height: 720 }],
    ["phone", { width: 360, height: 640 }],
  ]) {
    const tab = await Tab.open(browser, `${roomd.url}/#${name}`, { viewport });
    await tab.say(`from a ${device}`);
    await tab.page.getByText(`from a ${device}`).waitFor();
    for (const id of ["room", "status", "text"]) {
      const { x, width } = await tab.page.locator(`#${id}`).boundingBox();
      assert.ok(x >= 0 && x + width <= viewport.width, `${id} is off the ${device}'s screen`);
    }
    const overflow = (scroller) => scroller.scrollWidth - scroller.clientWidth;
    assert.equal(await tab.page.$eval("#scroller", overflow), 0, device);
    await tab.screenshot(`chat-long-name-${device}`);
    await tab.close();
  }
});

test("only what this tab published is its own, whatever others call theirs", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#own`);
  await tab.say("mine");
  await tab.applied(1);
  const [{ ref }] = await redis.log("own");
  await redis.cli("XADD", "room:own", "*", "ref", ref, "data", '{"text":"theirs","name":"Eve"}');
  await tab.applied(2);
  await tab.page.reload();
  await tab.state("live");
  const authors = (spans) => spans.map((span) => span.textContent);
  assert.deepEqual(await tab.page.$$eval(".author", authors), ["You", "Eve"]);
  await tab.close();
});

test("a page whose site storage is blocked works, and forgets on reload", async () => {
  const context = await browser.newContext();
  await context.addInitScript(() => {
    const get = () => {
      throw new DOMException("blocked", "SecurityError");
    };
    Object.defineProperty(window, "sessionStorage", { get });
  });
  const tab = new Tab(context, await context.newPage());
  await tab.page.goto(`${roomd.url}/#blocked`);
  await tab.state("live");
  await tab.say("still here");
  await tab.applied(1);
  await tab.page.reload();
  await tab.applied(1);
  assert.deepEqual(await tab.texts(), ["still here"]);
  await tab.close();
});

test("rows of a replay come while the log is busy, and later ones while it isn't", async () => {
  await addMany("busy", 50);
  const context = await browser.newContext();
  await context.addInitScript(() => {
    window.rowsWhile = { true: 0, false: 0 };
    const look = (changes) => {
      for (const { target, addedNodes } of changes) {
        if (target.id !== "log") continue;
        window.rowsWhile[target.parentElement.ariaBusy] += addedNodes.length;
      }
    };
    new MutationObserver(look).observe(document, { childList: true, subtree: true });
  });
  const tab = new Tab(context, await context.newPage());
  await tab.page.goto(`${roomd.url}/#busy`);
  await tab.applied(50);
  await tab.page.locator('#live[aria-busy="false"]').waitFor();
  await add("busy", '{"text":"a new one"}');
  await tab.applied(51);
  assert.deepEqual(await tab.page.evaluate(() => window.rowsWhile), { true: 50, false: 1 });
  await tab.close();
});

test("a tab that doesn't read is told 4000 slow consumer", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#stalled`);
  const close = tab.page.evaluate(async (url) => {
    const socket = new WebSocket(url, "roomd.v1");
    const closed = new Promise((done) => socket.addEventListener("close", done));
    await new Promise((done) => {
      socket.onmessage = ({ data }) => JSON.parse(data).op === "live" && done();
    });
    /* The test finds this in Redis. From here on nothing in this tab runs for 4 seconds. */
    socket.send('{"op":"publish","room":"flood","type":"stuck","data":null}');
    const until = performance.now() + 4000;
    while (performance.now() < until);
    const { code, reason, wasClean } = await closed;
    return { code, reason, wasClean };
  }, `${roomd.wsUrl}?room=flood`);
  await until("the tab is stuck", async () => (await length("flood")) === 1);
  /* Not all at once: a burst is left to the log, and closes nobody who reads on soon. */
  for (let i = 0; i < 60; i++) {
    await addMany("flood", 100, () => "x".repeat(1000));
    await new Promise((done) => setTimeout(done, 30));
  }
  assert.deepEqual(await close, { code: 4000, reason: "slow consumer", wasClean: true });
  await tab.state("live");
  await tab.close();
});

test("a message whose answer was lost with Redis is sent again on the same socket", async () => {
  const dir = tmpDir();
  let frail = await startRedis({ dir });
  const args = ["--redis-command-timeout", "500ms", "--redis-connect-timeout", "500ms"];
  const impatient = await startRoomd({ redis: frail, args });
  const tab = await Tab.open(browser, `${impatient.url}/#doubt`);
  await tab.watchForDoubles();
  process.kill(frail.pid, "SIGSTOP");
  await tab.say("once");
  await until("the answer is given up", async () => {
    return (await fetch(`${impatient.url}/readyz`)).status === 503;
  });
  await frail.stop("SIGKILL");
  frail = await startRedis({ dir });
  await tab.applied(1);
  assert.deepEqual(await tab.texts(), ["once"]);
  assert.deepEqual(await tab.pending(), []);
  assert.equal((await frail.log("doubt")).length, 1);
  await tab.assertNoDoubles();
  await tab.close();
  assert.deepEqual(await impatient.stop(), { code: 0, signal: null }, impatient.logs());
  await frail.stop();
});

test("a restart of the server is a short pause", async () => {
  const tab = await Tab.open(browser, `${roomd.url}/#restart`);
  await tab.watchForDoubles();
  await tab.say("before");
  await tab.applied(1);
  tab.networkUp = false;
  const { code, signal } = await roomd.stop();
  assert.deepEqual({ code, signal }, { code: 0, signal: null }, roomd.logs());
  await tab.state("offline");
  await tab.say("meanwhile");
  await add("restart", '{"text":"from elsewhere"}');
  roomd = await startRoomd({ redis, port: roomd.port });
  await tab.applied(3);
  await tab.state("live");
  assert.deepEqual(await tab.texts(), ["before", "from elsewhere", "meanwhile"]);
  assert.deepEqual(await tab.ids(), await logIds("restart"));
  await tab.assertNoDoubles();
  await tab.close();
});
