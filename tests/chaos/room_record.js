/* room_record.js - what was ever in a room's log, as far as it wasn't lost with a master.
 *
 * Entries leave a log only where somebody trims it, and here only `cut` does, which reads and trims
 * in one step. So what was cut and what is there now, one behind the other, is the log's line:
 * every client must have applied a part of it without a hole.
 */
import { compareIds } from "../lib/visitors.js";

/* ["1-0", ["type", "message", ...]] as { id: "1-0", type: "message", ... }. */
function entryOf([id, words]) {
  const entry = { id };
  for (let i = 0; i < words.length; i += 2) entry[words[i]] = words[i + 1];
  return entry;
}

export class RoomRecord {
  #cut = [];
  cuts = []; /* when something was trimmed */
  before = "0-0"; /* up to here all is settled and forgotten */

  constructor(room) {
    this.room = room;
  }

  /* Trims to `keep` entries. Returns how many went. */
  async cut(control, keep) {
    const key = `room:${this.room}`;
    const [entries] = await control.atomically([
      ["XRANGE", key, "-", "+"],
      ["XTRIM", key, "MAXLEN", "=", keep],
    ]);
    const gone = entries.slice(0, Math.max(0, entries.length - keep)).map(entryOf);
    /* A failover may have brought back what was cut from the log that is lost. */
    if (gone.length > 0) this.#forgetFrom(gone[0].id);
    this.#cut.push(...gone);
    if (gone.length > 0) this.cuts.push(Date.now());
    return gone.length;
  }

  #forgetFrom(id) {
    while (this.#cut.length > 0 && compareIds(this.#cut.at(-1).id, id) >= 0) this.#cut.pop();
  }

  /* { line, there }: all, and how many of them are in the log now. */
  async read(control) {
    const entries = (await control.command("XRANGE", `room:${this.room}`, "-", "+")).map(entryOf);
    if (entries.length > 0) this.#forgetFrom(entries[0].id);
    return { line: [...this.#cut, ...entries], there: entries.length };
  }

  /* All that was added up to now is settled. */
  settle(id) {
    this.before = id;
    this.#cut = [];
    this.cuts = [];
  }
}
