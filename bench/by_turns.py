#!/usr/bin/env python3
"""Holds a room server against the bare epoll broadcast server, by turns.

    bench/by_turns.py BUILD [--rounds N] [--sockets N] [--server COMMAND]

BUILD is the build folder. In each round, and for bursts of 1, 10 and 100, first the bare server and
then roomd is started, loaded by `roomd-bench fanout`, and stopped; what is printed are medians of
the server's CPU per delivered message, and their ratio. On two CPUs the server has CPU 0 and the
tool CPU 1. COMMAND starts another server in place of roomd; {port} in it stands for the port.
"""
import argparse
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import time

# Burst: publishes a second. About a third of a core each, as far as the sends go.
CASES = {1: 50, 10: 500, 100: 2000}
START_SECONDS = 10
# roomd wants to know where its pages are, and isn't installed here.
PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "client")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"the server doesn't answer on port {port}: {shlex.join(process.args)}")


def measure(bench, command, burst, sockets):
    port = free_port()
    args = [part.replace("{port}", str(port)) for part in shlex.split(command)]
    pinned = ["taskset", "-c", "0"] if os.cpu_count() > 1 else []
    own_cpu = ["--cpu", "1"] if os.cpu_count() > 1 else []
    server = subprocess.Popen(pinned + args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, server)
        # taskset replaces itself by the server, so the pid is the server's.
        run = subprocess.run(
            [bench, "fanout", "--json", "--url", f"ws://127.0.0.1:{port}/v1/ws",
             "--pid", str(server.pid), "--sockets", str(sockets),
             "--rate", str(CASES[burst]), "--burst", str(burst)] + own_cpu,
            stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"roomd-bench ended with {run.returncode}: {run.stdout}")
        return json.loads(run.stdout)
    finally:
        server.terminate()
        server.wait()


def latency_ms(results, quantile):
    return statistics.median(r["latency_us"][quantile] for r in results) / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sockets", type=int, default=1000)
    parser.add_argument("--server")
    options = parser.parse_args()
    bench = os.path.join(options.build, "bench/roomd-bench")
    servers = {
        "bare": os.path.join(options.build, "bench/roomd-bench-physical") + " {port}",
        "server": options.server
        or os.path.join(options.build, "server/roomd")
        + " --listen 127.0.0.1:{port} --web-root " + shlex.quote(PAGES),
    }

    found = {}
    for _ in range(options.rounds):
        for burst in CASES:
            for name, command in servers.items():
                result = measure(bench, command, burst, options.sockets)
                found.setdefault((burst, name), []).append(result)

    print(f"{'burst':>5} {'bare us':>8} {'server us':>9} {'(user)':>7} {'ratio':>6} "
          f"{'bare p50/p99 ms':>16} {'server p50/p99 ms':>18}  spread of server us")
    for burst in CASES:
        cpu = {n: [r["server_cpu"]["us_per_delivery"] for r in found[burst, n]] for n in servers}
        user = statistics.median(r["server_cpu"]["us_user"] for r in found[burst, "server"])
        late = {n: "/".join(f"{latency_ms(found[burst, n], q):.1f}" for q in ("p50", "p99"))
                for n in servers}
        bare, server = (statistics.median(cpu[n]) for n in ("bare", "server"))
        print(f"{burst:>5} {bare:>8.3f} {server:>9.3f} {user:>7.3f} {server / bare:>6.2f} "
              f"{late['bare']:>16} {late['server']:>18}  "
              f"{min(cpu['server'])}..{max(cpu['server'])}")


if __name__ == "__main__":
    main()
