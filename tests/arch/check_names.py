#!/usr/bin/env python3
"""check_names.py - a global name begins with its file's name: outq_push is in outq.c.

Reads the sources as text: they are laid out by clang-format, so a small reader of what stands at
the top level is enough, and it needs no build. Checked are functions and objects that other files
can see, and the types and inline functions of headers. A type may be named after its family, the
first word of its file's name, for types are what a family shares: struct redis_command in
redis_conn.h. A module too long for one file has an x_more.c without a header of its own, and
perhaps an x_impl.h for what its files share: their names begin with x. Before the tree it checks
itself: planted wrong names must be caught.

Usage: check_names.py [ROOT]
"""

import os
import re
import sys
import tempfile

FOLDERS = ["protocol", "server", "bench", "tests/lib"]

# Lists: their file is named after all, the type after one. File's name: the type's.
SINGULARS = {"codes": "code", "metrics": "metric"}

COMMENT = r"/\*.*?\*/"
TEXT = r'"(?:\\.|[^"\\])*"'
CHARACTER = r"'(?:\\.|[^'\\])*'"
DIRECTIVE = r"^[ \t]*#(?:\\\n|/\*.*?\*/|[^\n])*"
NOISE = re.compile("|".join([COMMENT, TEXT, CHARACTER, DIRECTIVE]), re.DOTALL | re.MULTILINE)
ATTRIBUTE = re.compile(r"(__attribute__|\b[A-Z][A-Z0-9_]*|\b_Static_assert)\s*(?=\()")
TYPE_ALONE = re.compile(r"(?:const\s+)?(struct|union|enum)\s*(\w*)\s*(\{\})?$")


def skip_brackets(text, start, opening, closing):
    """The place behind the bracket that closes the one at start."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == opening) - (text[i] == closing)
        if depth == 0:
            return i + 1
    raise ValueError("brackets don't match")


def without_attributes(text):
    """Macros with arguments and __attribute__((...)) go: they aren't the name."""
    match = ATTRIBUTE.search(text)
    while match:
        text = text[: match.start()] + text[skip_brackets(text, match.end(), "(", ")") :]
        match = ATTRIBUTE.search(text)
    return text


def top_level(text):
    """Each declaration at the top level as (text, is it a function's body that follows)."""
    text = without_attributes(NOISE.sub(" ", text))
    item = ""
    i = 0
    while i < len(text):
        c = text[i]
        if c == "{":
            i = skip_brackets(text, i, "{", "}")
            if "(" in item and "=" not in item:
                yield " ".join(item.split()), True
                item = ""
            else:
                item += "{}"
            continue
        if c == ";":
            if item.strip():
                yield " ".join(item.split()), False
            item = ""
        else:
            item += c
        i += 1


def names_of(item, is_body, is_header):
    """The names in one declaration that other files can see, each with "is it a type's?"."""
    words = item.split()
    type_alone = TYPE_ALONE.fullmatch(item)
    if type_alone:
        defined = is_header and type_alone[3] and type_alone[2]
        return [(type_alone[2], True)] if defined else []
    if words[0] == "typedef":
        pointer = re.match(r"[^()]*\(\s*\*\s*(\w+)", item)
        found = pointer or re.match(r"[^()]*?(\w+)\s*(?:[([]|$)", item)
        return [(found[1], True)] if is_header else []
    if "static" in words and not (is_header and "inline" in words):
        return []
    declarator = item.split("=")[0]
    call = re.search(r"(\w+)\s*\(", declarator)
    if call:
        # A .c file's bare prototype is of a function that is somebody else's to define.
        return [(call[1], False)] if is_body or is_header else []
    if "extern" in words and not is_header:
        return []
    found = re.search(r"(\w+)\s*(?:\[.*\])*\s*$", declarator)
    return [(found[1], False)] if found else []


def begins_with(name, prefix):
    return name == prefix or name.startswith(prefix + "_")


def stem_of(path, headers):
    """What a file's names begin with. headers: those of its folder, without their ending."""
    stem = re.sub(r"(_impl)?\.[ch]$", "", os.path.basename(path))
    owner = stem
    while path.endswith(".c") and "_" in owner and owner not in headers:
        owner = owner.rpartition("_")[0]
    return owner if owner in headers else stem


def check_file(path, text, headers=()):
    """Yields each name, and whether it is right."""
    stem = stem_of(path, headers)
    for item, is_body in top_level(text):
        for name, is_type in names_of(item, is_body, path.endswith(".h")):
            right = begins_with(name, stem) or (name == "main" and is_body)
            if is_type and not right:
                family = stem.split("_")[0]
                right = begins_with(name, family) or begins_with(name, SINGULARS.get(stem, stem))
            yield name, right


def check_tree(root):
    count = 0
    wrong = []
    for top in FOLDERS:
        for folder, _, files in os.walk(os.path.join(root, top)):
            headers = {name[:-2] for name in files if name.endswith(".h")}
            for file_name in sorted(f for f in files if f.endswith((".c", ".h"))):
                path = os.path.relpath(os.path.join(folder, file_name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    text = file.read()
                for name, right in check_file(path, text, headers):
                    count += 1
                    if not right:
                        wrong.append(f"{path}: {name} doesn't begin with the file's name")
    return count, wrong


# (file, text, the names seen, those that are wrong)
SAMPLES = [
    ("a/outq.c", "int outq_push(struct outq *q)\n{\n    if (x) {\n    }\n}\n", 1, []),
    ("a/outq.c", "int push(struct outq *q)\n{\n}\n", 1, ["push"]),
    ("a/outq.c", "int outqueue(void)\n{\n}\n", 1, ["outqueue"]),
    ("a/outq.c", "static int push(void)\n{\n}\n/* int f(void)\n{\n} */\n", 0, []),
    ("a/outq.c", "__attribute__((format(printf, 1, 2))) void say(void)\n{\n}\n", 1, ["say"]),
    ("a/outq.c", "#define F(x) \\\n    int x(void) {}\n", 0, []),
    ("a/outq.c", "RD_PRINTF(1, 2)\nint outq(void)\n{\n}\n", 1, []),
    ("a/outq.c", "const char *names[] = {\"a;{\", \"b\"};\n", 1, ["names"]),
    ("a/outq.c", "int outq_level = 3;\nstatic int n;\nextern int m;\nint other(int);\n", 1, []),
    ("a/outq.c", "struct thing {\n    int (*push)(void);\n};\nenum { A, B };\n", 0, []),
    ("a/outq.c", "struct thing *thing_make(void)\n{\n}\n", 1, ["thing_make"]),
    ("a/outq.c", "int main(void)\n{\n    return '}';\n}\n", 1, []),
    ("a/outq.h", "struct packet;\nstruct outq {\n    int n;\n};\n", 1, []),
    ("a/outq.h", "enum outq_verdict { OUTQ_OK };\n", 1, []),
    ("a/outq.h", "struct queue {\n    int n;\n};\n", 1, ["queue"]),
    ("a/redis_conn.h", "struct redis_command {\n};\nint redis_send(void);\n", 2, ["redis_send"]),
    ("a/outq_impl.h", "int outq_grow(void);\nint grow(void);\n", 2, ["grow"]),
    ("a/codes.h", "enum code_close { A };\nint code_reason(void);\n", 2, ["code_reason"]),
    ("a/outq.h", "RD_MUST_USE enum outq_verdict push(struct outq *q);\n", 1, ["push"]),
    ("a/outq.h", "typedef void (*outq_done_fn)(void *ctx);\n", 1, []),
    ("a/outq.h", "typedef int done_fn(void);\n", 1, ["done_fn"]),
    ("a/outq.h", "static inline int len(struct outq *q)\n{\n    return 1;\n}\n", 1, ["len"]),
    ("a/outq.h", "extern int level;\nextern const int outq_sizes[4];\n", 2, ["level"]),
]


def self_test():
    for path, text, seen, wrong in SAMPLES:
        found = list(check_file(path, text))
        assert len(found) == seen, f"{path}: {text!r}: saw {found}"
        bad = [name for name, right in found if not right]
        assert bad == wrong, f"{path}: {text!r}: {bad} instead of {wrong}"
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "server/base"))
        with open(os.path.join(root, "server/base/buf.c"), "w", encoding="utf-8") as file:
            file.write("void grow(void)\n{\n}\n")
        assert check_tree(root) == (
            1,
            ["server/base/buf.c: grow doesn't begin with the file's name"],
        )
    assert stem_of("a/frame_put.c", {"frame", "json"}) == "frame"
    assert stem_of("a/frame_put.c", {"frame", "frame_put"}) == "frame_put"
    assert stem_of("a/frame_put.c", {"json"}) == "frame_put"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../..")
    self_test()
    count, wrong = check_tree(root)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{count} names, {len(wrong)} wrong; {len(SAMPLES)} samples were judged rightly")
    return 0 if count > 0 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
