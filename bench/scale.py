#!/usr/bin/env python3
"""What a large farm costs one router, and what many cores and many clients would: publishing a snapshot of
thousands of servers, finding a server and a shard in it, readers on 1 to 16 threads while it is replaced,
cache lines that cores share, and thousands of clients.

Whatever the machine cannot give is printed as «not measured», with the reason.

Environment or flags: SERVERS=10000 GROUPS=1000 SHARDS=100000 THREADS=1,2,4,8,16 SECONDS=2 CLIENTS=10000
HEDDLE=bin/heddle SCALE=target/release/examples/scale
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import wire
from entry import open_files, prepare, quiet_load, run
from processes import ROOT, Failed, Farm, memory_kb

# Threads that connect at the same time.
CONNECTING = 8
NOT_MEASURED = "not measured"


def measured(options, threads, cpus=None):
    """What the example prints, by its kind, with its threads on these CPUs."""
    command = [options.scale, str(options.servers), str(options.groups), str(options.shards),
               str(threads), str(options.seconds)]
    if cpus:
        command = ["taskset", "--cpu-list", cpus] + command
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{options.scale}: {done.stderr.strip() or done.returncode}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {}
    for line in lines:
        found.setdefault(line["what"], []).append(line)
    return found


def publication(found):
    publish, find, shards = (found[kind][0] for kind in ("publish", "find", "shards"))
    print("## A farm as a value\n")
    print("| what | time | memory |")
    print("| --- | ---: | ---: |")
    print(f"| a picture of the whole farm, published | {publish['whole_us'] / 1000:.2f} ms | "
          f"{publish['whole_kb']:,} kB |")
    print(f"| one group's change, published | {publish['group_us']:.1f} µs | "
          f"{publish['group_kb']:.1f} kB |")
    print(f"| a server found by its id | {find['placed_ns']:.0f} ns | |")
    print(f"| the same without places: a look at all | {find['scanned_ns'] / 1000:.1f} µs | |")
    print(f"| shards put together, on {shards['maps']} maps | {shards['together_ms']:.1f} ms | "
          f"{shards['kb']:,} kB |")
    print(f"| the shard of a key | {shards['locate_ns']:.0f} ns | |\n", flush=True)


def readers(options, quiet):
    print("## Threads that read the snapshot\n")
    print("Lookups per second of all threads, in millions, and the longest pause of one of them. A pause holds "
          "what the system's scheduler adds, so compare the two columns of pauses.\n")
    print("| threads | CPUs | nobody publishes | longest pause | a group each ms | longest pause |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for threads in options.threads:
        cpus = min(threads, os.cpu_count())
        alone, busy = measured(options, threads, f"0-{cpus - 1}")["read"]
        print(f"| {threads} | {cpus} | {alone['million_per_s']:.1f} | {alone['longest_us']:,.0f} µs | "
              f"{busy['million_per_s']:.1f} | {busy['longest_us']:,.0f} µs |", flush=True)
    print()
    if os.cpu_count() < max(options.threads):
        print(f"More threads than {os.cpu_count()} CPUs share these: the rows above that say nothing about more "
              "cores.\n")
    if not quiet:
        print("The machine was busy: the rates are no measurement.\n")


def shared_lines(options):
    """What `perf c2c` says of cache lines that one CPU changes and another one reads."""
    print("## Shared cache lines\n")
    why = c2c(options)
    print(f"`perf c2c`: {why}\n", flush=True)


def c2c(options):
    if not shutil.which("perf"):
        return f"{NOT_MEASURED}: there is no perf on this machine."
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "perf.data")
        command = ["perf", "c2c", "record", "-o", data, "--", options.scale, str(options.servers),
                   str(options.groups), "1000", str(os.cpu_count()), "1"]
        recorded = subprocess.run(command, capture_output=True, text=True, check=False)
        if recorded.returncode != 0:
            reason = (recorded.stderr.strip().splitlines() or ["it failed"])[0]
            return f"{NOT_MEASURED}: {reason}"
        report = subprocess.run(["perf", "c2c", "report", "-i", data, "--stats", "--stdio"],
                                capture_output=True, text=True, check=False)
        lines = [line.strip() for line in report.stdout.splitlines()]
        wanted = [line for line in lines if "HITM" in line]
        return "; ".join(wanted) or f"{NOT_MEASURED}: the report names no HITM."


def connect(farm, count, source, clients, failed):
    """Connects so many clients, each with one query."""
    for _ in range(count):
        try:
            client = wire.Connection(farm.address, timeout_s=120, source=source)
            client.query("SELECT 1")
            clients.append(client)
        except (OSError, wire.ServerError) as error:
            failed.append(error)
            return


def many_clients(options):
    print("## Clients\n")
    with Farm(options.heddle, 0, ["--set", f"clients_max={options.clients + 100}"]) as farm:
        with wire.Connection(farm.address) as first:
            first.query("SELECT 1")
        time.sleep(1)
        before_kb = memory_kb(farm.router.pid, "VmRSS")
        clients, failed = [], []
        share = options.clients // CONNECTING
        # An address of their own for each thread's: one address has ports for some 28,000 clients.
        threads = [threading.Thread(target=connect, args=(farm, share, f"127.0.0.{number + 1}", clients, failed))
                   for number in range(CONNECTING)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = time.monotonic() - begun
        time.sleep(1)
        resident_kb = memory_kb(farm.router.pid, "VmRSS")
        begun = time.monotonic()
        for client in clients[:: max(1, len(clients) // 1000)]:
            client.query("SELECT 1")
        asked_s = time.monotonic() - begun
        count = len(clients)
        for client in clients:
            client.close()
        if failed:
            raise Failed(f"after {count} clients: {failed[0]}")
    print("| clients | logged in with a query, per second | memory per client | a query of one of them, of 1,000 in turn |")
    print("| ---: | ---: | ---: | ---: |")
    print(f"| {count:,} | {count / elapsed:,.0f} | {(resident_kb - before_kb) / count:.1f} kB | "
          f"{asked_s * 1000 / min(count, 1000):.2f} ms |\n")
    print(f"The rate is at most that of this script's {CONNECTING} threads, which share the machine.\n", flush=True)


def bench(options):
    load, quiet = quiet_load()
    print(f"# bench-scale\n\n- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
          f"{load:.1f}{'' if quiet else ': busy, so times and rates are no measurement'}")
    print(f"- {options.servers:,} servers in {options.groups:,} groups, {options.shards:,} shards\n", flush=True)
    publication(measured(options, 1))
    readers(options, quiet)
    shared_lines(options)
    many_clients(options)


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("servers", "10000"), ("groups", "1000"), ("shards", "100000"),
                          ("seconds", "2"), ("clients", "10000")):
        parser.add_argument(f"--{name}", type=int, default=int(env(name.upper(), default)))
    parser.add_argument("--threads", default=env("THREADS", "1,2,4,8,16"))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    example = os.path.join(ROOT, "target", "release", "examples", "scale")
    parser.add_argument("--scale", default=env("SCALE", example))
    options = parser.parse_args()
    options.threads = [int(count) for count in options.threads.replace(",", " ").split()]
    prepare("bench-scale", options)
    if not os.access(options.scale, os.X_OK):
        sys.exit(f"bench-scale: {options.scale} is missing: run `make bench-scale`")
    open_files("bench-scale", options.clients + 200)
    run("bench-scale", bench, options)


if __name__ == "__main__":
    main()
