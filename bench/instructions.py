#!/usr/bin/env python3
"""Instructions that the router itself needs for a statement, counted by callgrind: a figure that no load moves.

Only the cores count, not the control plane, which works at its own pace. The kernel's part is not in it.

Environment or flags: HEDDLE=bin/heddle EVENTS=1000 WORKLOADS=oltp_point_select,oltp_update_index,oltp_read_write
CONNECTIONS=1,8 IO=epoll SETTINGS=digests=off,flight_recorder=0
"""

import argparse
import glob
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile

import sysbench
from entry import prepare, run
from processes import ROOT, Failed, Farm

# What only the thread of a core does.
CORE = "session::serve::"
# Everything is some fifty times slower than usual.
SECONDS_MAX = 300


def under_callgrind(heddle, folder):
    """A program that is `heddle` under callgrind, which counts nothing yet."""
    path = os.path.join(folder, "heddle")
    out = os.path.join(folder, "counted.%p")
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexec valgrind --quiet --tool=callgrind --instr-atstart=no "
                   f"--separate-threads=yes --callgrind-out-file={out} {heddle} \"$@\"\n")
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def control(*arguments):
    done = subprocess.run(["callgrind_control", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failed(f"callgrind_control: {done.stdout[-300:]}")


def of_thread(path):
    """The instructions in one thread's file, and whether it is a core's."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    found = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0, CORE in text


def counted(folder, pid):
    """The cores' instructions since this was asked before."""
    control("--dump", str(pid))
    paths = glob.glob(os.path.join(folder, "counted.*"))
    found = [of_thread(path) for path in paths]
    for path in paths:
        os.remove(path)
    return sum(instructions for instructions, is_core in found if is_core)


def measure(farm, folder, workload, threads, events):
    """Instructions of the cores per query."""
    pid = farm.router.pid
    more = [f"--events={events}"]
    # What is kept for each shape and connection is there afterwards.
    sysbench.run(farm.address, workload, threads, False, SECONDS_MAX, ["--events=200"])
    control("--instr=on", str(pid))
    counted(folder, pid)
    report = sysbench.run(farm.address, workload, threads, False, SECONDS_MAX, more)
    instructions = counted(folder, pid)
    control("--instr=off", str(pid))
    return instructions / report.queries


def bench(options):
    print(f"# bench-instructions: {options.events} events\n\n"
          f"- Linux {platform.release()}, text protocol, {options.io}, one server {options.settings}\n")
    print("| workload | connections | instructions per query |\n| --- | ---: | ---: |", flush=True)
    folder = tempfile.mkdtemp(prefix="heddle-bench-")
    try:
        program = under_callgrind(options.heddle, folder)
        settings = [f"io={options.io}", *filter(None, options.settings.split(","))]
        with Farm(program, 0, [word for setting in settings for word in ("--set", setting)]) as farm:
            primary = farm.server_addresses()[0]
            sysbench.prepare(primary)
            for workload in options.workloads.split(","):
                for threads in options.connections.split(","):
                    each = measure(farm, folder, workload, int(threads), options.events)
                    print(f"| {workload} | {threads} | {each:,.0f} |", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    parser.add_argument("--events", type=int, default=int(env("EVENTS", "1000")))
    parser.add_argument("--io", default=env("IO", "epoll"))
    parser.add_argument("--settings", default=env("SETTINGS", ""), help="of the router, with commas")
    parser.add_argument("--connections", default=env("CONNECTIONS", "1,8"))
    parser.add_argument("--workloads", default=env(
        "WORKLOADS", "oltp_point_select,oltp_update_index,oltp_read_write"))
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("bench-instructions: valgrind is missing: apt-get install valgrind")
    prepare("bench-instructions", options)
    run("bench-instructions", bench, options)


if __name__ == "__main__":
    main()
