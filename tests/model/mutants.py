#!/usr/bin/env python3
"""mutants.py - would the model tests notice?

A model that passes shows that nothing is wrong only if it fails where something is. This keeps the
mistakes that it must catch: each is made in a copy of the tree, the test is built and run, and must
be red. The copy as it is must be green.

A mutant replaces texts that must be there exactly once, so one that the code has moved away from
fails loudly. Several defences often stand behind one another. Where one alone may go and no promise
is broken, for the next makes up for it, the mutant takes both, or a unit test must catch it.

Usage: mutants.py [--quick] [--only TEXT] [ROOT]

Prints a line for each. Exits with 1 where a mutant survives, doesn't apply or doesn't compile.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

HISTORIES = 20000
QUICK = 4000
TIMEOUT_S = 900

MODEL = "ordering"
FUZZ = "verdict_fuzz"
BY_TEXT = """
static int by_text(struct stream_id a, struct stream_id b)
{
    char x[STREAM_ID_TEXT_MAX + 1] = {0}, y[STREAM_ID_TEXT_MAX + 1] = {0};
    (void)stream_id_format(a, x);
    (void)stream_id_format(b, y);
    return strcmp(x, y);
}
#define stream_id_cmp by_text
"""

FETCH = "server/room/fetch.c"
FETCH_H = "server/room/fetch.h"
PENDING = "server/room/pending.c"
REPLAY = "server/room/replay.c"
RING = "server/room/ring.c"
SNAPSHOT = "server/room/snapshot.c"
ROOM = "server/room/room.c"
MEM_ROOM = "server/roomlog/mem_room.c"
VERDICT = "server/roomlog/verdict.c"
FEED = "server/roomlog/redis_feed.c"
READS = "server/roomlog/redis_reads.c"

XALLOC = '#include "base/xalloc.h"\n'
ASSERT = "#include <assert.h>\n"
HOLD = """    if (member->state == ROOM_MEMBER_REPLAYING) {
        hold(member, p);
        return;
    }
"""
FILTER = """    if (stream_id_cmp(p->id, member->last) <= 0)
        return; /* the replay has sent it already */
"""
CHAIN = """    if (!stream_id_eq(p->prev, member->last)) {
        /* Its log has more than the feed showed it, or less: either way the log itself knows. */
        metrics_inc(member->room->metrics, M_CHAIN_BREAKS);
        fall_behind(member, p);
        return;
    }
"""
FEED_IS_COVERED = " && stream_id_cmp(member->room->position, covered) <= 0"
PAGE_LOOP = """    for (size_t i = 0; i < page->count; i++)
        bytes += send_entry("""
CLEAR = "        pending_clear(pending, budget);\n"
OWN_ENTRY = "stream_id_eq(*first_read, cursor) ? place + 1 : place;"
PROOF = "if (first_read != NULL && stream_id_eq(*first_read, cursor))"
FROM_THE_BEGINNING = "    if (stream_id_is_zero(cursor))\n        return verdict_complete(info) ? VERDICT_OK : VERDICT_TRIMMED;\n"
PAGE_SETTLES = "settle(replay, member, page->at_end, fetch->position)"
RING_CHAINS = "    assert(p->prev_known && stream_id_eq(p->prev, last_id(ring)));\n"
RING_RESET = "    room->epoch++;\n    ring_reset(&room->ring, head);\n"


class Mutant(NamedTuple):
    name: str
    edits: list  # of (file, text that must be there once, text in its place)
    test: str = MODEL  # that must catch it


MUTANTS = [
    Mutant(
        "replay, then join: what comes before the first page is not held, nor missed by the seam",
        [
            (ROOM, HOLD, HOLD.replace("hold(", "if (member->replay.answered)\n    hold(")),
            (REPLAY, FEED_IS_COVERED, ""),
        ],
    ),
    Mutant(
        "the cursor's own entry is sent again",
        [(MEM_ROOM, OWN_ENTRY, OWN_ENTRY.replace(" + 1", ""))],
    ),
    Mutant(
        "the entry that a page ended with stays in the pending list",
        [(PENDING, "pending_front(pending)->id, id) <= 0", "pending_front(pending)->id, id) < 0")],
    ),
    Mutant(
        "the pending list is sent before the page",
        [(REPLAY, PAGE_LOOP, "    send_pending(member);\n" + PAGE_LOOP)],
    ),
    Mutant("a spill forgets: the seam doesn't see what it lacks", [(REPLAY, FEED_IS_COVERED, "")]),
    Mutant(
        "a spill leaves a list with a hole",
        [(PENDING, CLEAR + "        return false;", "        return false;")],
    ),
    Mutant("pending lists compare ids as text", [(PENDING, XALLOC, XALLOC + BY_TEXT)]),
    Mutant("replays compare ids as text", [(REPLAY, ASSERT, ASSERT + BY_TEXT)]),
    Mutant("rooms compare ids as text", [(ROOM, XALLOC, XALLOC + BY_TEXT)]),
    # Alone this costs a read of the log and no more, so the model can't see it.
    Mutant("the monotonic filter is dropped", [(ROOM, FILTER, "")], test="room"),
    Mutant(
        "the monotonic filter and the chain check are dropped",
        [(ROOM, FILTER, ""), (ROOM, CHAIN, "")],
    ),
    Mutant("the chain check of live entries is dropped", [(ROOM, CHAIN, "")]),
    Mutant(
        "an entry that the session left to the log counts as sent",
        [
            (
                ROOM,
                "    if (member->ops->entry(member, p, false))\n        member->last = p->id;\n    else\n        fall_behind(member, p);\n",
                "    (void)member->ops->entry(member, p, false);\n    member->last = p->id;\n",
            )
        ],
    ),
    Mutant(
        "the chain check of the pending list is dropped",
        [(REPLAY, "front != NULL && stream_id_eq(front->prev, member->last)", "front != NULL")],
    ),
    # Whoever got such a page is told all the same, with the room's next entry, which doesn't chain.
    # The model forgives that, for a page may have shown what the log lost a moment later.
    Mutant(
        "the epoch is ignored: a page of before the feed broke counts",
        [(FETCH_H, "return fetch->epoch != fetch->room->epoch;", "return false;")],
        test="replay",
    ),
    Mutant(
        "a broken feed leaves live members live",
        [(ROOM, "        if (member->state == ROOM_MEMBER_LIVE) {", "        if (false) {")],
    ),
    Mutant(
        "the verdict is ignored: a trimmed cursor is honoured",
        [
            (
                VERDICT,
                "stream_id_cmp(cursor, info->first) < 0)\n        return VERDICT_TRIMMED;",
                "stream_id_cmp(cursor, info->first) < 0)\n        return VERDICT_OK;",
            )
        ],
    ),
    # As with the epoch: told, but late.
    Mutant(
        "the verdict is ignored: a cursor beyond the log is honoured",
        [(VERDICT, "        return VERDICT_AHEAD;", "        return VERDICT_OK;")],
        test="verdict",
    ),
    Mutant(
        "the verdict is ignored: a cursor into deleted entries is honoured",
        [(VERDICT, "? VERDICT_HOLE : VERDICT_DIVERGED", "? VERDICT_OK : VERDICT_DIVERGED")],
    ),
    Mutant(
        "the verdict is ignored: a cursor that never was in this log is honoured",
        [(VERDICT, "? VERDICT_HOLE : VERDICT_DIVERGED", "? VERDICT_HOLE : VERDICT_OK")],
    ),
    Mutant(
        "the position is taken when the page arrives",
        [(REPLAY, PAGE_SETTLES, PAGE_SETTLES.replace("fetch->", "fetch->room->"))],
    ),
    Mutant(
        "a fresh start that finds nothing stands at 0-0",
        [(REPLAY, "member->last = page->info.last;", "member->last = STREAM_ID_ZERO;")],
    ),
    Mutant(
        "a read is shared by members that stand elsewhere",
        [(FETCH, "want, sizeof(*want)}", "want, offsetof(struct fetch_want, after)}")],
    ),
    Mutant(
        "a member that must read again is called live before it has",
        [(REPLAY, "    if (member->replay.announced)\n        return;\n", "")],
    ),
    Mutant(
        "whatever comes first is taken for the cursor's own entry",
        [(VERDICT, PROOF, "if (first_read != NULL)")],
        test=FUZZ,
    ),
    Mutant(
        "the counters vouch for every cursor",
        [
            (
                VERDICT,
                FROM_THE_BEGINNING,
                "    if (verdict_complete(info))\n        return VERDICT_OK;\n" + FROM_THE_BEGINNING,
            )
        ],
        test=FUZZ,
    ),
    Mutant(
        "0-0 is honoured where something was removed",
        [(VERDICT, "verdict_complete(info) ? VERDICT_OK : VERDICT_TRIMMED", "VERDICT_OK")],
        test=FUZZ,
    ),
    Mutant(
        "a cursor beyond the log is honoured",
        [(VERDICT, "        return VERDICT_AHEAD;", "        return VERDICT_OK;")],
        test=FUZZ,
    ),
    Mutant(
        "a cursor below a deleted entry is honoured",
        [(VERDICT, "against_deleted == 0", "against_deleted <= 0")],
        test=FUZZ,
    ),
    Mutant(
        "whoever has everything must start anew, for the last entry was removed",
        [(VERDICT, "    if (against_last == 0)\n        return VERDICT_OK;\n", "")],
        test=FUZZ,
    ),
    Mutant(
        "a page is taken without its proof",
        [(READS, "!stream_id_eq(scratch->p[0].id, request->read->after)", "false")],
        test=FUZZ,
    ),
    Mutant(
        "the feed reads on without its proof",
        [(FEED, "!stream_id_eq(scratch->p[0].id, room->cursor)", "false")],
        test=FUZZ,
    ),
    Mutant(
        "a member goes on from the start, and not from where its snapshot stands",
        [(REPLAY, "        member->last = snapshot->position;\n", "")],
    ),
    Mutant(
        "a snapshot stands where the log was cut after it",
        [(SNAPSHOT, "    snapshot->stands = false;\n", "")],
    ),
    Mutant(
        "a state goes out without the log's word for it",
        [(FETCH, "with_state && page->verdict != VERDICT_OK", "false")],
    ),
    Mutant(
        "what is published between a state without a place and the page is in neither",
        [
            (
                FETCH,
                "    } else {\n        page_goes_first(fetch);",
                "    } else if (fetch->has_page) {\n        page_goes_first(fetch);",
            )
        ],
    ),
    Mutant(
        "what is published between a state and the newest is in neither",
        [
            (FETCH, "with_state && fetch->page_first && !fetch_stale(fetch)", "false"),
            (FETCH, "fetch->snapshot == NULL && !fetch->page_first;", "fetch->snapshot == NULL;"),
            (
                FETCH,
                "    if (fetch->has_page && !began) {",
                "    if (fetch->page_first) {\n"
                "        snapshot_fall(fetch->snapshot);\n"
                "        ask_again(fetch);\n"
                "        return;\n"
                "    }\n"
                "    if (fetch->has_page && !began) {",
            ),
        ],
    ),
    Mutant(
        "a resync of whoever wants the state is not followed by it",
        [
            (
                REPLAY,
                "member->replay.state && is_fresh(member->replay.from)",
                "member->replay.state && !member->replay.answered && is_fresh(member->replay.from)",
            )
        ],
    ),
    # That only finds less in it than it has.
    Mutant("rings compare ids as text", [(RING, XALLOC, XALLOC + BY_TEXT)], test="ring"),
    # What doesn't follow is asserted where it comes in: without that, clients must see it.
    Mutant(
        "a broken feed leaves the ring as it was",
        [(ROOM, RING_RESET, "    room->epoch++;\n"), (RING, RING_CHAINS, "")],
    ),
    Mutant(
        "the ring begins one entry too early",
        [
            (
                RING,
                "    ring->base = p->id;\n    ring->first++;",
                "    ring->base = p->prev;\n    ring->first++;",
            )
        ],
    ),
    Mutant(
        "the ring is lengthened by a page that doesn't reach it",
        [
            (
                RING,
                "    if (n == 0 || !stream_id_eq(packets[n - 1]->id, ring->base))\n        return;\n",
                "",
            )
        ],
    ),
    Mutant(
        "the ring serves cursors that it has never seen",
        [
            (
                RING,
                "stream_id_eq(n == 0 ? ring->base : (*slot(ring, n - 1))->id, id)",
                "stream_id_cmp(ring->base, id) <= 0",
            )
        ],
    ),
    Mutant(
        "whoever was sent a part of the ring is called live",
        [
            (
                REPLAY,
                "settle(replay, member, stream_id_eq(member->last, position), position)",
                "settle(replay, member, true, position)",
            )
        ],
    ),
    Mutant(
        "what was taken from the ring is not taken from the pending list",
        [(REPLAY, "    pending_drop_to(&member->pending, member->budget, covered);\n", "")],
    ),
    # Told with the feed's break, a moment later.
    Mutant(
        "the ring of a log that lost its tail is believed",
        [(REPLAY, "if (stream_id_cmp(fetch->page.info.last, fetch->position) < 0)", "if (false)")],
        test="replay",
    ),
    # The promise allows it, for a member that was live saw the entry too.
    Mutant(
        "the ring shows what was deleted to whoever joins",
        [(REPLAY, "    if (fetch->want.info)\n        ring_drop_to", "    if (false)\n        ring_drop_to")],
        test="replay",
    ),
]


def ignored(folder, names):
    """What is no source: histories, packages, and build directories wherever they are."""
    built = [n for n in names if os.path.isdir(os.path.join(folder, n, "meson-private"))]
    return built + [n for n in names if n in (".git", "build-tests", "node_modules", "__pycache__")]


def run(command, **options):
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )


class Tree:
    """A copy of the tree with its build directory."""

    def __init__(self, root, scratch):
        self.source = os.path.join(scratch, "source")
        self.build = os.path.join(scratch, "build")
        shutil.copytree(root, self.source, symlinks=True, ignore=ignored)
        # What a mutant leaves unused is no error.
        made = run(["meson", "setup", "-Dtests=true", "-Dwerror=false", self.build, self.source])
        if made.returncode != 0:
            sys.exit(made.stdout)

    def edit(self, edits):
        """Makes the edits. Returns what was there before, by path, and what is wrong, or None."""
        before = {}
        for file, old, new in edits:
            path = os.path.join(self.source, file)
            with open(path, encoding="utf-8") as f:
                text = f.read()
            before.setdefault(path, text)
            if text.count(old) != 1:
                return before, f"{file} has this {text.count(old)} times, not once: {old.strip()!r}"
            with open(path, "w", encoding="utf-8") as f:
                f.write(text.replace(old, new))
        return before, None

    def restore(self, before):
        for path, text in before.items():
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)

    def test(self, name, histories):
        """Builds and runs a test. Returns whether it passed (None: it can't be built), and what it
        said."""
        program = "tests/check_" + name
        made = run(["ninja", "-C", self.build, program])
        if made.returncode != 0:
            return None, made.stdout
        env = dict(os.environ, ROOMD_MODEL_HISTORIES=str(histories), ROOMD_MODEL_SEED="1")
        try:
            ran = run([os.path.join(self.build, program)], env=env, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return False, "it never ended"
        return ran.returncode == 0, ran.stdout


def how(said):
    """How a red test noticed, or None where it only missed what it wants to have met."""
    seed = re.search(r"seed (\d+): ([^\n]*)", said)
    if seed:
        return f"in history {seed[1]}: {seed[2][:60]}"
    if re.search(r"sum\.v\[|tally->", said):
        return None
    reason = re.search(r"Assertion [^\n]*|what must hold does not|it never ended", said)
    return reason[0][:80] if reason else "it failed"


def judge(tree, mutant, histories):
    """Returns whether the mutant was caught, and a line that says how."""
    before, wrong = tree.edit(mutant.edits)
    passed, said = (None, wrong) if wrong else tree.test(mutant.test, histories)
    tree.restore(before)
    if wrong:
        return False, f"DOESN'T APPLY  {mutant.name}: {wrong}"
    if passed is None:
        return False, f"DOESN'T COMPILE  {mutant.name}\n{said}"
    noticed = None if passed else how(said)
    if noticed is None:
        return False, f"SURVIVES  {mutant.name}"
    return True, f"caught  {mutant.name} ({mutant.test}: {noticed})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} histories, not {HISTORIES}")
    parser.add_argument("--only", default="", help="only mutants with this text in their name")
    parser.add_argument("root", nargs="?", default=os.path.join(os.path.dirname(__file__), "../.."))
    args = parser.parse_args()
    histories = QUICK if args.quick else HISTORIES
    mutants = [mutant for mutant in MUTANTS if args.only in mutant.name]
    if not mutants:
        sys.exit("no such mutant")

    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = Tree(args.root, scratch)
        for test in sorted({mutant.test for mutant in mutants}):
            passed, said = tree.test(test, histories)
            if not passed:
                sys.exit(f"{test} is red before anything was changed:\n{said}")
        print(f"green as it is, over {histories} histories", flush=True)
        for mutant in mutants:
            caught, line = judge(tree, mutant, histories)
            missed += not caught
            print(line, flush=True)
    print(f"{len(mutants)} mutants, {missed} not caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
