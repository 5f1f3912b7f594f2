/* browser.js - Debian's Chromium under playwright-core, and what a test does with the chat page. */
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const DEADLINE_MS = 15_000;

/* The switches after the first keep Chromium from talking to the rest of the world. */
const ARGS = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
];

export function launch() {
  return chromium.launch({ executablePath: "/usr/bin/chromium", headless: true, args: ARGS });
}

 /* The chat page in a browser profile of its own, as one person's tab. Console errors, uncaught
  * errors and unhandled rejections gather in `errors`; a socket that fails is one only while
  * `networkUp`. */
export class Tab {
  errors = [];
  networkUp = true;

  static async open(browser, url, options = {}) {
    const context = await browser.newContext({ viewport: { width: 900, height: 720 }, ...options });
    const tab = new Tab(context, await context.newPage());
    await tab.page.goto(url);
    await tab.state("live");
    return tab;
  }

  constructor(context, page) {
    this.context = context;
    this.page = page;
    page.setDefaultTimeout(DEADLINE_MS);
    page.on("pageerror", (error) => this.errors.push(error.stack));
    page.on("console", (message) => {
      const failed = /^WebSocket connection to .* failed|net::ERR_/.test(message.text());
      if (message.type() === "error" && (this.networkUp || !failed))
        this.errors.push(message.text());
    });
  }

  async close() {
    await this.context.close();
    assert.deepEqual(this.errors, []);
  }

  state(state) {
    return this.page.locator(`#status[data-state="${state}"]`).waitFor();
  }

  async say(text) {
    await this.page.fill("#text", text);
    await this.page.press("#text", "Enter");
  }

  /* Waits until the log has shown this many entries since the room was entered. */
  applied(count) {
    const reached = (n) => Number(document.getElementById("log").dataset.applied) >= n;
    return this.page.waitForFunction(reached, count, { timeout: 60_000 });
  }

  /* The ids of all rows in the log, top to bottom. */
  ids() {
    return this.page.$$eval("#log > li", (rows) => rows.map((row) => row.dataset.id));
  }

  texts() {
    return this.page.$$eval("#log .body", (bodies) => bodies.map((body) => body.textContent));
  }

  /* What is still on its way, in order. */
  pending() {
    return this.page.$$eval("#outbox .body", (bodies) => bodies.map((body) => body.textContent));
  }

  /* From now on, looks at the rows after every change of the page, before it can be painted: is any
   * message there twice? */
  watchForDoubles() {
    return this.page.evaluate(() => {
      window.doubles = [];
      window.pendingSeen = 0;
      const look = () => {
        const rows = [...document.querySelectorAll("#log > li, #outbox > li")];
        for (const name of ["id", "ref"]) {
          const names = rows.map((row) => row.dataset[name]).filter(Boolean);
          if (new Set(names).size < names.length) window.doubles.push(`${name}: ${names}`);
        }
        window.pendingSeen = Math.max(
          window.pendingSeen,
          document.querySelectorAll(".pending").length,
        );
      };
      const what = { childList: true, subtree: true, attributes: true };
      new MutationObserver(look).observe(document.getElementById("messages"), what);
    });
  }

  async assertNoDoubles() {
    assert.deepEqual(await this.page.evaluate(() => window.doubles), []);
  }

  pendingSeen() {
    return this.page.evaluate(() => window.pendingSeen);
  }

  async screenshot(name) {
    const directory = process.env.ROOMD_TEST_ARTIFACTS ?? tmpdir();
    mkdirSync(directory, { recursive: true });
    await this.page.screenshot({ path: join(directory, `${name}.png`) });
  }
}
