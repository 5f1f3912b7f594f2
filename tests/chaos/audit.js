/* audit.js - every client's applied entries, and every publish, against the log.
 *
 * A client has applied, since its last fresh start or the last audit, a part of its room's line
 * (room_record.js) without a hole, up to its end: nothing missing, nothing that the log doesn't
 * have. That there is no double and no disorder is held at each entry (visitors.js). A resync must
 * have had a cause: a trim, or a failover that lost something.
 *
 * A publish that was acknowledged is in the log under its id, and a ref is there once, unless its
 * entry was written in the last moments of a master that failed.
 */
import { compareIds } from "../lib/visitors.js";

const timeOf = (id) => Number(id.split("-")[0]);

/* What is wrong with one seat: [{ text, at }]. */
function problemsOf(seat, { line, there }) {
  const applied = seat.ids;
  const problems = [];
  const index = new Map(line.map((entry, i) => [entry.id, i]));
  const foreign = applied.filter((id) => !index.has(id));
  if (foreign.length > 0) {
    problems.push({
      text: `applied ${foreign.length} that the log hasn't (${foreign.slice(0, 5)})`,
      at: timeOf(foreign[0]),
    });
    return problems;
  }
  /* After a fresh start it must have begun with what was there, or before. */
  let from = seat.since === null ? (index.get(applied[0]) ?? line.length) : 0;
  if (seat.since === null) from = Math.min(from, line.length - there);
  else while (from < line.length && compareIds(line[from].id, seat.since) <= 0) from++;
  const have = new Set(applied);
  const lost = line.slice(from).filter(({ id }) => !have.has(id));
  if (lost.length > 0) {
    const ids = lost.slice(0, 5).map(({ id }) => id);
    problems.push({
      text: `lost ${lost.length} without being told (${ids}); ${history(seat)}`,
      at: timeOf(ids[0]),
    });
  }
  if (have.size !== applied.length) problems.push({ text: "applied one twice", at: Date.now() });
  return problems;
}

function history(seat) {
  const told = seat.told.map(({ reason, at }) => `${reason} at ${at}`).join(", ") || "never";
  return `since ${seat.since}, ${seat.entries.length} applied from ${seat.ids[0]}, told: ${told}`;
}

/* Resyncs that nothing explains. */
function unexplained(seat, record, losses) {
  const failed = (at) => losses.some(({ from }) => from <= at);
  return seat.told
    .filter(({ reason, at }) => {
      if (failed(at)) return false;
      return !(["trimmed", "hole"].includes(reason) && record.cuts.some((cut) => cut <= at));
    })
    .map(({ reason, at }) => ({ text: `told "${reason}" for nothing`, at }));
}

/* The publishes of one room's line: what was acknowledged is there, and nothing twice. */
function publishProblems(record, { line }, publishes, losses, report) {
  const fresh = line.filter(({ id }) => compareIds(id, record.before) > 0);
  const byName = new Map();
  const problems = [];
  const lostLegally = (id) => losses.some(({ from, to }) => timeOf(id) >= from && timeOf(id) <= to);
  for (const entry of fresh) {
    const name = entry.ref ?? entry.data;
    if (byName.has(name)) {
      const ids = `${byName.get(name)} and ${entry.id}`;
      problems.push({ text: `${name} is in ${record.room} twice: ${ids}`, at: timeOf(entry.id) });
    }
    byName.set(name, entry.id);
  }
  for (const [name, { id }] of publishes) {
    if (byName.get(name) === id) continue;
    if (lostLegally(id)) report.lost++;
    else
      problems.push({
        text: `${name} was acknowledged as ${id} in ${record.room}, and is ${
          byName.has(name) ? `there as ${byName.get(name)}` : "not there"
        }`,
        at: timeOf(id),
      });
  }
  return problems;
}

/* What was acknowledged in this round: by room, [[name, { id }]]. Forgets it. */
function takePublishes(soak) {
  const byRoom = new Map(soak.records.map(({ room }) => [room, []]));
  for (const { acked } of [...soak.presses, soak.stranger]) {
    for (const [name, publish] of acked) byRoom.get(publish.room).push([String(name), publish]);
    acked.clear();
  }
  return byRoom;
}

/* soak: see soak.js; everybody stands at the end of every room. */
export async function audit(soak) {
  const { records, redis, members, report } = soak;
  const { losses } = redis;
  const lines = new Map();
  for (const record of records) lines.set(record.room, await record.read(redis.control));
  const publishes = takePublishes(soak);
  const problems = [];
  for (const record of records) {
    const line = lines.get(record.room);
    problems.push(...publishProblems(record, line, publishes.get(record.room), losses, report));
  }
  const byRoom = new Map(records.map((record) => [record.room, record]));
  for (const member of members) {
    for (const seat of member.rooms) {
      const found = [
        ...problemsOf(seat, lines.get(seat.room)),
        ...unexplained(seat, byRoom.get(seat.room), losses),
      ];
      const who = `${member.where} in ${seat.room}`;
      problems.push(...found.map(({ text, at }) => ({ text: `${who} ${text}`, at })));
      report.applied += seat.entries.length;
      for (const { reason } of seat.told) {
        report.resyncs[reason] = (report.resyncs[reason] ?? 0) + 1;
      }
    }
  }
  if (problems.length > 0) soak.fail(problems.map(({ text }) => text), problems[0].at);
}
