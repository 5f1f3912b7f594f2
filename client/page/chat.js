/* chat.js - the chat page: rooms in the URL (/#lobby), one connection, one room on screen.
 *
 * The room's events fill a queue; once a frame the queue becomes rows. In that one step a confirmed
 * entry takes the place of its pending row, so the two are never on screen together, and a replay
 * of thousands costs a few layouts.
 *
 * For tests and the curious: data-applied on #log counts the entries applied and shown since the
 * room was entered, or started afresh; data-kept those that a reload brought back from before.
 */
import { connect } from "/client/roomd.js";
import { confirmRow, messageRow } from "./message.js";
import { OwnEntries } from "./own.js";
import { Screens } from "./screen.js";
import { recall, remember } from "./storage.js";

const FIRST_ENTRIES = 200; /* what a newcomer sees */
const MAX_ROWS = 10_000; /* as many as a room retains by default */
const HIDDEN_FRAME_MS = 250; /* a hidden page has no animation frames */
const NOTICE_MS = 8_000;
const NEAR_BOTTOM_PX = 60;
const NAME = /^[A-Za-z0-9_.:-]{1,128}$/;
const SPOKEN = new Map([
  ["connecting", "Connecting"],
  ["offline", "Offline, trying again"],
  ["joining", "Entering the room"],
  ["replaying", "Catching up"],
  ["live", "Connected"],
  ["stopped", "Disconnected"],
]);

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const live = element("live");
const log = element("log");
const outbox = element("outbox");
const scroller = element("scroller");
const beginning = element("beginning");
const newest = element("newest");
const notice = element("notice");
const status = element("status");
const statusText = element("status-text");
const nameInput = /** @type {HTMLInputElement} */ (element("name"));
const roomInput = /** @type {HTMLInputElement} */ (element("room"));
const textInput = /** @type {HTMLTextAreaElement} */ (element("text"));

const own = new OwnEntries();
const screens = new Screens();
const client = connect(undefined, { cursors: screens });

/** @type {import("/client/room.js").Room} the one on screen */
let room;
/** @type {WeakSet<import("/client/room.js").Room>} */
const watched = new WeakSet();
/** @type {{ row: HTMLElement, entry: import("/client/room.js").Entry, kept: boolean }[]} */
const queue = [];
let frame = 0;
let frameTimer = 0;
/** Entries applied since the room was last joined. */
let replayed = 0;
let retryAt = 0;
/** @type {{ oldest: string | null, complete: boolean } | null} of the last fresh start */
let origin = null;
let noticeTimer = 0;

/* --- the room --------------------------------------------------------------------------------- */

function enterRoom() {
  const name = location.hash.slice(1) || "lobby";
  if (name !== room?.name) {
    const refusal = whyNot(name);
    if (refusal) {
      showNotice(refusal);
      location.replace(`#${room?.name ?? "lobby"}`);
      return;
    }
    switchTo(name);
  }
  roomInput.value = name;
  roomInput.size = Math.max(4, name.length);
}

/** @param {string} name of a room that can't be entered */
function whyNot(name) {
  if (!NAME.test(name)) return "A room's name has letters, digits and _ . : - only";
  if (client.state === "closed") return "Disconnected: reload the page to go on";
  return "";
}

/** @param {string} name */
function switchTo(name) {
  const before = room;
  clearRows();
  setBusy(true);
  document.title = `#${name} · roomd`;
  room = client.join(name, { last: FIRST_ENTRIES });
  for (const entry of screens.entries(name)) show(entry, null, true);
  if (!watched.has(room)) watch(room);
  for (const pending of room.pending) showPending(pending);
  if (before) leaveWhenDone(before);
  showStatus();
}

/**
 * A room that is no longer on screen is left once nothing of ours is on its way to it.
 * @param {import("/client/room.js").Room} its
 */
function leaveWhenDone(its) {
  if (its !== room && its.pending.length === 0) its.leave();
}

/** @param {import("/client/room.js").Room} its */
function watch(its) {
  watched.add(its);
  its.on("state", ({ state, joined, error }) => {
    if (its !== room) return;
    if (state === "joining") replayed = 0;
    if (joined?.from === null) origin = joined;
    if (error && state !== "left") showNotice(error.message);
    if (isCatchingUp()) setBusy(true);
    schedule();
  });
  its.on("entry", (entry, pending) => {
    screens.add(its.name, entry);
    if (pending) own.add(its.name, entry.id);
    if (its !== room) return leaveWhenDone(its);
    replayed += 1;
    show(entry, pending);
  });
  its.on("resync", ({ reason }) => {
    screens.clear(its.name);
    if (its !== room) return;
    clearRows();
    for (const pending of its.pending) showPending(pending);
    showNotice(`What was shown can't be continued (${reason}); this is a fresh start`);
  });
  its.on("pending", (pending) => its === room && showPending(pending));
  its.on("ack", ({ ref, id }) => {
    if (id) own.add(its.name, id);
    pendingRow(ref)?.classList.add("acked");
  });
  its.on("withdrawn", ({ ref }) => {
    pendingRow(ref)?.remove();
    leaveWhenDone(its);
  });
}

function isCatchingUp() {
  return room.state === "joining" || room.state === "replaying";
}

/**
 * A log that is busy isn't read out.
 * @param {boolean} busy
 */
function setBusy(busy) {
  live.setAttribute("aria-busy", String(busy));
}

/* --- rows ------------------------------------------------------------------------------------- */

/**
 * @param {import("/client/room.js").Entry} entry
 * @param {import("/client/room.js").Pending | null} pending whose row becomes the entry's
 * @param {boolean} [kept]
 */
function show(entry, pending, kept = false) {
  const mine = own.has(room.name, entry.id);
  const row = (pending && pendingRow(pending.ref)) ?? messageRow(entry, mine);
  queue.push({ row, entry, kept });
  schedule();
}

/** @param {import("/client/room.js").Pending} pending */
function showPending(pending) {
  const row = messageRow(pending, true);
  row.classList.add("pending");
  if (pending.id) row.classList.add("acked");
  outbox.append(row);
}

/** @param {string} ref */
function pendingRow(ref) {
  return /** @type {HTMLElement | null} */ (
    outbox.querySelector(`[data-ref="${CSS.escape(ref)}"]`)
  );
}

function clearRows() {
  queue.length = 0;
  origin = null;
  log.replaceChildren();
  outbox.replaceChildren();
  log.dataset.applied = "0";
  log.dataset.kept = "0";
}

function schedule() {
  if (frameTimer) return;
  frame = requestAnimationFrame(draw);
  frameTimer = setTimeout(draw, HIDDEN_FRAME_MS);
}

function draw() {
  cancelAnimationFrame(frame);
  clearTimeout(frameTimer);
  frameTimer = 0;
  const reading = scroller.scrollTop < -NEAR_BOTTOM_PX;
  const rows = document.createDocumentFragment();
  for (const { row, entry, kept } of queue) {
    confirmRow(row, entry.id);
    rows.append(row);
    count(kept ? "kept" : "applied");
  }
  if (reading && queue.length > 0) newest.hidden = false;
  queue.length = 0;
  log.append(rows);
  while (log.childElementCount > MAX_ROWS) log.firstElementChild?.remove();
  showBeginning();
  showStatus();
  /* Later, so that the rows of this step still count as busy. */
  if (!isCatchingUp()) setTimeout(() => isCatchingUp() || setBusy(false));
}

/** @param {"kept" | "applied"} what */
function count(what) {
  log.dataset[what] = String(Number(log.dataset[what]) + 1);
}

/* What lies before the first row. */
function showBeginning() {
  const first = /** @type {HTMLElement | null} */ (log.firstElementChild)?.dataset.id;
  beginning.hidden = room.state !== "live" || (origin === null && first !== undefined);
  if (!first) beginning.textContent = "Nothing here yet. Say hello!";
  else if (origin?.oldest && origin.oldest !== first)
    beginning.textContent = "Older messages are not shown.";
  else if (!origin?.complete) beginning.textContent = "Older messages are no longer kept.";
  else beginning.textContent = `This is where #${room.name} begins.`;
}

/* --- status and notices ----------------------------------------------------------------------- */

function showStatus() {
  const [state, text] = describeStatus();
  statusText.textContent = text;
  const hint = state === "offline" ? "Try again now" : "";
  status.setAttribute("aria-label", `Connection: ${text}${hint && `. ${hint}`}`);
  if (status.dataset.state === state) return;
  status.dataset.state = state;
  status.title = hint;
  element("spoken").textContent = SPOKEN.get(state) ?? "";
}

/** @returns {[string, string]} */
function describeStatus() {
  switch (client.state) {
    case "connecting":
      return ["connecting", "connecting"];
    case "waiting":
      return [
        "offline",
        `offline, retrying in ${Math.ceil(Math.max(0, retryAt - Date.now()) / 1000)} s`,
      ];
    case "closed":
      return ["stopped", "disconnected"];
  }
  switch (room.state) {
    case "replaying":
      return ["replaying", `replaying ${replayed}`];
    case "live":
      return ["live", "live"];
    case "refused":
      return ["stopped", "can't enter"];
    default:
      return ["joining", "joining"];
  }
}

/* A second on the clock lasts as long as there is something to count down to. */
function countDown() {
  showStatus();
  if (client.state === "waiting") setTimeout(countDown, 200);
}

/** @param {string} text */
function showNotice(text) {
  clearTimeout(noticeTimer);
  notice.textContent = text;
  notice.hidden = false;
  noticeTimer = setTimeout(() => (notice.hidden = true), NOTICE_MS);
}

/* --- what people do --------------------------------------------------------------------------- */

/** @param {Event} event */
function send(event) {
  event.preventDefault();
  const text = textInput.value.trim();
  if (!text) return;
  textInput.value = "";
  textInput.focus();
  scroller.scrollTop = 0;
  const name = nameInput.value.trim() || undefined;
  const its = room;
  its.publish("message", { text, name }).catch((error) => {
    const where = its === room ? "" : ` to #${its.name}`;
    showNotice(`${error.unsure ? "May not have been sent" : "Not sent"}${where}: ${error.message}`);
    if (its === room && !textInput.value) textInput.value = text;
  });
}

function guestName() {
  const [number = 0] = crypto.getRandomValues(new Uint16Array(1));
  return `Guest ${number.toString(36)}`;
}

function changeRoom() {
  const name = roomInput.value.trim();
  if (name) location.hash = name;
  else roomInput.value = room.name;
}

client.on("state", ({ state, code, reason, retryInMs = 0 }) => {
  retryAt = Date.now() + retryInMs;
  if (state === "closed") showNotice(`Disconnected: ${reason || code}`);
  if (state === "waiting") countDown();
  else showStatus();
});
client.on("error", (error) => showNotice(error.message));

nameInput.value = recall("author") ?? guestName();
remember("author", nameInput.value);
nameInput.addEventListener("change", () => remember("author", nameInput.value));
element("composer").addEventListener("submit", send);
textInput.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
});
roomInput.addEventListener("change", changeRoom);
roomInput.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault(); /* The key is meant for this box, and not for the one that it leads to. */
  textInput.focus();
});
status.addEventListener("click", () => client.check());
newest.addEventListener("click", () => {
  scroller.scrollTop = 0;
  textInput.focus();
});
scroller.addEventListener("scroll", () => {
  if (scroller.scrollTop >= -NEAR_BOTTOM_PX) newest.hidden = true;
});
addEventListener("hashchange", enterRoom);
enterRoom();
