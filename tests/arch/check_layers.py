#!/usr/bin/env python3
"""check_layers.py - arrows point down: who may include whom.

Reads every #include of the C sources and holds it against the tables below. Adding an arrow means
editing a table, which somebody reviews. Before the tree it checks itself: planted wrong includes
must be caught.

Usage: check_layers.py [ROOT]
"""

import os
import re
import sys
import tempfile

FLOORS = [
    "protocol",
    "server/base",
    "server/roomlog",
    "server/room",
    "server/session",
    "server/edge",
]

# Above its own folder, only this header says what a log is: nobody else depends on a backend.
ROOMLOG = "server/roomlog/roomlog.h"
CORE = ["protocol/", "server/base/", ROOMLOG, "server/room/", "server/session/"]
BELOW_EDGE = FLOORS[:-1]


def prefixes(folders):
    return [folder + "/" for folder in folders]


# The first row whose pattern matches a file's whole path decides: (file, what it may include).
ARROWS = [
    (r"protocol/.*", ["protocol/"]),
    (r"server/base/.*", ["protocol/", "server/base/"]),
    (r"server/roomlog/.*", ["protocol/", "server/base/", "server/roomlog/"]),
    (r"server/room/.*", ["protocol/", "server/base/", ROOMLOG, "server/room/"]),
    (r"server/session/.*", CORE),
    (r"server/edge/.*", CORE + ["server/edge/"]),
    (r"server/config(_\w+)?\.[ch]", ["protocol/", "server/base/", "server/config"]),
    (r"server/main\.c", ["protocol/", "server/"]),
    (r"tests/(integration|e2e)/.*", ["protocol/", "tests/lib/"]),
    (r"tests/lib/.*", prefixes(BELOW_EDGE) + ["tests/lib/"]),
    (r"tests/(contract|fault|model|fuzz)/.*", prefixes(BELOW_EDGE) + ["tests/"]),
    # What a unit test may see depends on its module's floor: see allowed().
    (r"tests/unit/.*", None),
    # Measures the server's log alone, so it links that log, the loop it runs on in roomd, and what
    # makes an entry a packet; nothing else of the server.
    (
        r"bench/bench_log(_\w+)?\.[ch]",
        ["protocol/", "server/base/", "server/roomlog/", "bench/"]
        + ["server/edge/loop_uv.h", "server/room/entry_packet.h"],
    ),
    # Goes to Redis by itself, and reads the URL as the server does.
    (r"bench/redis_link\.[ch]", ["protocol/", "server/roomlog/redis_url.h", "bench/"]),
    # The load generator is a client: it knows the contract and nothing of the server.
    (r"bench/bench_.*", CORE + ["server/roomlog/roomlog_mem.h", "bench/", "tests/lib/"]),
    (r"bench/.*", ["protocol/", "bench/"]),
]

# Header: where it may be included. Replacing a library touches its home alone.
THIRD_PARTY = [
    (r"cjson/.*|cJSON\.h", r"protocol/frame\.c|server/edge/http\.c|tests/.*"),
    (r"hiredis/.*|hiredis\.h", r"server/roomlog/(redis_.*|roomlog_redis)\.[ch]|bench/redis_link\.c|tests/.*"),
    (r"libwebsockets\.h", r"server/edge/.*"),
    (r"uv\.h", r"server/edge/.*|server/main\.c|tests/.*"),
    (
        r"openssl/.*",
        r"server/roomlog/redis_tls\.c|server/session/auth\.c|server/edge/.*|tests/lib/certs\.c",
    ),
    (r"ini\.h", r"server/config(_\w+)?\.c"),
    (r"check\.h", r"tests/.*"),
]

SYSTEM = re.compile(
    r"(arpa|linux|net|netinet|sys)/\w+\.h|"
    r"(assert|ctype|dirent|errno|fcntl|float|getopt|grp|inttypes|limits|locale|malloc|math|netdb|"
    r"poll|pthread|pwd|sched|setjmp|signal|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|"
    r"stdlib|stdnoreturn|string|strings|syslog|termios|time|unistd|wchar)\.h"
)

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]*)"|<([^>]*)>|(\S.*))', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def c_files(root):
    for top in ("protocol", "server", "bench", "tests"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [f for f in folders if f != "node_modules"]
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def find_floor(root, module):
    """The floor whose folder holds module.h, or None."""
    for i, folder in enumerate(FLOORS):
        if os.path.exists(os.path.join(root, folder, module + ".h")):
            return i
    return None


def allowed(root, path):
    """What a file may include, as prefixes of paths; None where no row knows it."""
    if path.startswith("tests/unit/"):
        module = re.sub(r"^check_|\.c$", "", os.path.basename(path))
        if module.startswith("config"):
            return ["protocol/", "server/base/", "server/config", "tests/lib/"]
        if os.path.exists(os.path.join(root, "bench", module + ".h")):
            return ["protocol/", "bench/", "tests/lib/"]
        floor = find_floor(root, module)
        return None if floor is None else prefixes(FLOORS[: floor + 1]) + ["tests/lib/"]
    for pattern, targets in ARROWS:
        if re.fullmatch(pattern, path):
            return targets
    return None


def resolve(root, header):
    for base in ("", "server/"):
        if os.path.exists(os.path.join(root, base + header)):
            return base + header
    return None


def check_ours(root, path, header):
    if ".." in header.split("/"):
        return "never with .."
    target = resolve(root, header)
    if target is None:
        return "not found from the root or from server/"
    targets = allowed(root, path)
    if targets is None:
        return "no rule says what this file may include"
    if not target.startswith(tuple(targets)):
        return "the arrow points the wrong way"
    if target.endswith("_impl.h") and os.path.dirname(target) != os.path.dirname(path):
        return "is shared by the files of its own folder only"
    return None


def check_theirs(path, header):
    for pattern, home in THIRD_PARTY:
        if re.fullmatch(pattern, header):
            return None if re.fullmatch(home, path) else "has its home elsewhere"
    return None if SYSTEM.fullmatch(header) else "is neither a system header nor one with a home"


def find_ring(arrows):
    """A list of files that include each other in a ring, or None."""
    done = set()

    def visit(path, trail):
        if path in trail:
            return trail[trail.index(path) :] + [path]
        if path not in done:
            for target in arrows.get(path, []):
                ring = visit(target, trail + [path])
                if ring:
                    return ring
            done.add(path)
        return None

    for start in sorted(arrows):
        ring = visit(start, [])
        if ring:
            return ring
    return None


def check_tree(root):
    """Returns how many includes were seen, and what is wrong with them."""
    count = 0
    wrong = []
    arrows = {}
    for path in c_files(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = COMMENT.sub("", file.read())
        for ours, theirs, computed in INCLUDE.findall(text):
            count += 1
            if computed:
                problem = "write the header's name"
            elif theirs:
                problem = check_theirs(path, theirs)
            else:
                problem = check_ours(root, path, ours)
                arrows.setdefault(path, []).append(resolve(root, ours))
            if problem:
                wrong.append(f"{path}: {ours or theirs or computed}: {problem}")
    ring = find_ring(arrows)
    if ring:
        wrong.append("a ring: " + " -> ".join(ring))
    return count, wrong


GOOD = {
    "protocol/str.h": "#include <stddef.h>\n",
    "protocol/frame.h": '#include "protocol/str.h"\n',
    "protocol/frame.c": '#include "protocol/frame.h"\n#include <cjson/cJSON.h>\n',
    "server/base/loop.h": '#include "protocol/str.h" /* "../x.h" in a comment is fine */\n',
    "server/roomlog/roomlog.h": '#include "base/loop.h"\n',
    "server/roomlog/redis_conn.h": '#include "roomlog/roomlog.h"\n#include <hiredis/async.h>\n',
    "server/room/room.h": '#include "roomlog/roomlog.h"\n',
    "server/session/session.h": '#include "room/room.h"\n',
    "server/session/session_impl.h": '#include "session/session.h"\n',
    "server/session/session.c": '#include "session/session_impl.h"\n',
    "server/edge/ws.c": '#include "session/session.h"\n#include <libwebsockets.h>\n',
    "server/config.h": '#include "base/loop.h"\n',
    "server/main.c": '#include "config.h"\n#include "roomlog/redis_conn.h"\n#include <uv.h>\n',
    "tests/lib/suite.h": "#include <check.h>\n",
    "tests/unit/check_room.c": '#include "room/room.h"\n#include "tests/lib/suite.h"\n',
    "bench/audit.h": '#include "protocol/str.h"\n',
    "bench/audit.c": '#include "bench/audit.h"\n',
    "tests/unit/check_audit.c": '#include "bench/audit.h"\n#include "tests/lib/suite.h"\n',
}

# (file, a line added to it): each is caught, and nothing that doesn't concern the file.
PLANTED = [
    ("protocol/frame.h", '#include "base/loop.h"'),
    ("protocol/frame.h", '#include "frame.h"'),
    ("protocol/frame.h", '#include "../protocol/str.h"'),
    ("protocol/str.h", "#include <cjson/cJSON.h>"),
    ("protocol/str.h", '#include "protocol/frame.h"'),
    ("protocol/str.h", "  #  include <zlib.h>"),
    ("protocol/str.h", "#include HEADER"),
    ("server/base/loop.h", '#include "roomlog/roomlog.h"'),
    ("server/roomlog/roomlog.h", '#include "room/room.h"'),
    ("server/roomlog/roomlog.h", "#include <hiredis/hiredis.h>"),
    ("server/room/room.h", '#include "roomlog/redis_conn.h"'),
    ("server/room/room.h", '#include "server/session/session.h"'),
    ("server/session/session.h", "#include <uv.h>"),
    ("server/session/session.h", "#include <libwebsockets.h>"),
    ("server/edge/ws.c", '#include "roomlog/redis_conn.h"'),
    ("server/edge/ws.c", '#include "config.h"'),
    ("server/edge/ws.c", '#include "session/session_impl.h"'),
    ("server/config.h", '#include "room/room.h"'),
    ("tests/unit/check_room.c", '#include "session/session.h"'),
    ("tests/unit/check_nobody.c", '#include "room/room.h"'),
    ("tests/integration/check_it.c", '#include "room/room.h"'),
    ("bench/audit.c", '#include "room/room.h"'),
    ("tests/unit/check_audit.c", '#include "room/room.h"'),
]


def plant(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def self_test():
    with tempfile.TemporaryDirectory() as root:
        plant(root, GOOD)
        _, wrong = check_tree(root)
        assert not wrong, f"refused a good tree: {wrong}"
    for path, line in PLANTED:
        with tempfile.TemporaryDirectory() as root:
            plant(root, GOOD)
            plant(root, {path: GOOD.get(path, "") + line + "\n"})
            _, wrong = check_tree(root)
            # An upward arrow may close a ring as well; both messages name the file.
            assert wrong and all(path in w for w in wrong), f"{path}: {line}: {wrong}"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../..")
    self_test()
    count, wrong = check_tree(root)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{count} includes, {len(wrong)} wrong; {len(PLANTED)} planted ones were caught")
    return 0 if count > 0 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
