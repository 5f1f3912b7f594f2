#!/usr/bin/env python3
"""Holds the log of two builds against each other, by turns.

    bench/log_by_turns.py [--rounds N] BUILD_A BUILD_B COMMAND [OPTION...]

In each round, roomd-bench-log of the first build and then that of the second runs COMMAND with the
OPTIONs, against a Redis of this script's own (on CPU 0; the tool has CPU 1). Printed are the median
and the least of each number, and the ratio of the medians, second to first. What else the machine
does meanwhile weighs on both alike, which is why a ratio can be believed where a number can't.

Exit status 1 if a run's audit found faults.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

START_SECONDS = 10


def start_redis(folder):
    sock = os.path.join(folder, "redis.sock")
    pinned = ["taskset", "-c", "0"] if os.cpu_count() > 1 else []
    server = subprocess.Popen(
        pinned + ["redis-server", "--port", "0", "--unixsocket", sock, "--dir", folder,
                  "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS
    while not os.path.exists(sock):
        if server.poll() is not None or time.monotonic() > deadline:
            sys.exit("redis-server doesn't start")
        time.sleep(0.02)
    return server, f"unix://{sock}"


def measure(build, url, command):
    pinned = ["--cpu", "1", "--publisher-cpu", "1"] if os.cpu_count() > 1 else []
    run = subprocess.run(
        [os.path.join(build, "bench/roomd-bench-log"), command[0], "--redis", url, "--json"]
        + pinned + command[1:], stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode not in (0, 1):
        sys.exit(f"{build}: roomd-bench-log ended with {run.returncode}")
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.command:
        parser.error("which command?")

    rounds = {build: [] for build in args.build}
    clean = True
    with tempfile.TemporaryDirectory() as folder:
        server, url = start_redis(folder)
        try:
            for _ in range(args.rounds):
                for build in args.build:
                    report = measure(build, url, args.command)
                    rounds[build].append(report["median"])
                    if report["verdict"] != "ok":
                        clean = False
                        print(f"{build}: {report['verdict']}: {report['audit']}")
        finally:
            server.terminate()
            server.wait()

    first, second = (rounds[build] for build in args.build)
    print(f"{'medians (least) of ' + str(args.rounds):32}{'first':>22}{'second':>22}{'ratio':>8}")
    for name in first[0]:
        if name not in second[0]:
            continue
        a, b = ([one[name] for one in some] for some in (first, second))
        ratio = statistics.median(b) / statistics.median(a) if statistics.median(a) else 0
        print(f"{name:32}{statistics.median(a):13.2f} ({min(a):.2f})".ljust(54)
              + f"{statistics.median(b):13.2f} ({min(b):.2f})".ljust(22) + f"{ratio:8.2f}")
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
