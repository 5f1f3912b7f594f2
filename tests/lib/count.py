#!/usr/bin/env python3
"""Adds up what one suite's output says: prints "NAME: P passed, F failed, S skipped".

usage: count.py PARSER NAME EXIT_STATUS LOG

PARSER says where the numbers are:
  meson  the test log of the build that `meson test` ran: Check's totals of each program, or one
         test for a program that prints none
  tap    node --test --test-reporter=tap, once or several times: the closing lines
  mutants  tests/model/mutants.py: a line "caught  NAME" for each, its last line says how many
  exit   the command as a whole is one test; status 77 says that it can't be run here, and its
         last line why

A command that failed without a failed test counts as one, so that no crash is lost in the sum.
What failed is shown on standard error.
"""
import json
import pathlib
import re
import sys

SKIPPED = 77


def of_meson(text):
    passed = failed = skipped = 0
    found = re.search(r"^Full log written to (.*)testlog\.txt$", text, re.M)
    if not found:
        return 0, 0, 0
    for line in pathlib.Path(found.group(1), "testlog.json").read_text().splitlines():
        test = json.loads(line)
        totals = re.findall(r"Checks: (\d+), Failures: (\d+), Errors: (\d+)", test.get("stdout", ""))
        bad = sum(int(f) + int(e) for _, f, e in totals)
        if test["result"] == "SKIP":
            skipped += 1
        elif totals:
            passed += sum(int(n) for n, _, _ in totals) - bad
            failed += bad or int(test["result"] not in ("OK", "EXPECTEDFAIL"))
        elif test["result"] == "OK":
            passed += 1
        else:
            failed += 1
    return passed, failed, skipped


def of_tap(text):
    def total(word):
        return sum(map(int, re.findall(rf"^# {word} (\d+)$", text, re.M)))

    return total("pass"), total("fail") + total("cancelled"), total("skipped") + total("todo")


def of_mutants(text):
    total = re.findall(r"^(\d+) mutants, (\d+) not caught$", text, re.M)
    if not total:
        return 0, 0, 0
    every, survived = map(int, total[-1])
    return every - survived, survived, 0


def count(parser, status, text):
    if parser == "exit":
        return {0: (1, 0, 0), SKIPPED: (0, 0, 1)}.get(status, (0, 1, 0))
    passed, failed, skipped = {"meson": of_meson, "tap": of_tap, "mutants": of_mutants}[parser](text)
    if failed == 0 and (status != 0 or passed + skipped == 0):
        failed = 1
    return passed, failed, skipped


def excerpt(parser, text):
    if parser == "tap":
        blocks = re.findall(r"^ *not ok .*?^ *\.\.\.$", text, re.M | re.S)
        if blocks:
            return "\n".join(blocks)[-6000:]
    return text[-6000:]


def main():
    parser, name, status, log = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    text = pathlib.Path(log).read_text(errors="replace")
    passed, failed, skipped = count(parser, status, text)
    if failed:
        print(excerpt(parser, text), file=sys.stderr)
    if parser == "exit" and status == SKIPPED:
        print(text.strip().splitlines()[-1], file=sys.stderr)
    print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")


main()
