/* message.js - one row of the chat, from whatever an entry holds. Text stays text: never HTML. */

/**
 * @typedef {{ id?: string, ref?: string, type: string, data: any, from?: string }} Message
 */

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const calendar = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

/**
 * Author and text of a chat message; of anything else, the data as text.
 * @param {Message} message
 */
export function describe({ type, data, from }) {
  const chat = typeof data?.text === "string";
  const name = typeof data?.name === "string" ? data.name.trim().slice(0, 64) : "";
  const text = chat ? data.text : typeof data === "string" ? data : json(data);
  return {
    author: from || name || "someone",
    text,
    raw: !chat && typeof data !== "string",
    kind: type === "message" ? "" : type,
  };
}

/**
 * @param {Message} message
 * @param {boolean} mine
 * @returns {HTMLLIElement}
 */
export function messageRow(message, mine) {
  const { author, text, raw, kind } = describe(message);
  const row = document.createElement("li");
  row.className = mine ? "message mine" : "message";
  if (message.id) row.dataset.id = message.id;
  if (message.ref) row.dataset.ref = message.ref;
  const avatar = element("span", "avatar", [...author][0]?.toUpperCase() ?? "?");
  avatar.setAttribute("aria-hidden", "true");
  avatar.style.setProperty("--hue", String(hue(author)));
  const byline = element("div", "byline");
  byline.append(prose("span", "author", mine ? "You" : author));
  if (kind) byline.append(prose("span", "kind", kind));
  byline.append(message.id ? timeOf(message.id) : element("span", "sending", "sending…"));
  row.append(avatar, byline, prose("div", raw ? "body raw" : "body", text));
  return row;
}

/**
 * A pending row becomes an entry's row; to any other row this changes nothing.
 * @param {HTMLElement} row
 * @param {string} id
 */
export function confirmRow(row, id) {
  row.classList.remove("pending", "acked");
  row.dataset.id = id;
  row.querySelector(".sending")?.replaceWith(timeOf(id));
}

/**
 * An id begins with the time at which the log took the entry; unless somebody chose it by hand.
 * @param {string} id
 */
function timeOf(id) {
  const time = document.createElement("time");
  const date = new Date(Number(id.split("-")[0]));
  if (Number.isNaN(date.getTime())) return time;
  time.dateTime = date.toISOString();
  time.textContent = clock.format(date);
  time.title = calendar.format(date);
  return time;
}

/**
 * @param {string} tag
 * @param {string} className
 * @param {string} [text]
 */
function element(tag, className, text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

/**
 * What people wrote runs in the direction of its own script.
 * @param {string} tag
 * @param {string} className
 * @param {string} text
 */
function prose(tag, className, text) {
  const node = element(tag, className, text);
  node.dir = "auto";
  return node;
}

/**
 * In one line where it fits.
 * @param {any} data
 */
function json(data) {
  const line = JSON.stringify(data);
  return line.length <= 80 ? line : JSON.stringify(data, null, 2);
}

/**
 * FNV-1a: names that are alike get colours that aren't.
 * @param {string} name
 */
function hue(name) {
  let hash = 2166136261;
  for (const char of name) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16777619);
  return (hash >>> 0) % 360;
}
