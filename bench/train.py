#!/usr/bin/env python3
"""The loads that `make dist` learns from which of the router's code is hot: an instrumented build serves them, and
writes down how often each branch was taken.

Every part of the router that serves statements or keys has a load here, since the compiler takes code that was never
run for code that need not be fast. Nothing is measured: an instrumented build is several times slower than another.

Environment or flags: HEDDLE=PATH of the instrumented build, KVLOAD=PATH, PROFILES=FOLDER of what it writes, SECONDS=1
"""

import argparse
import os
import subprocess
import sys

import door
import sysbench
from entry import prepare, run
from processes import ROOT, Failed, Farm, end

# Benches whose loads reach what sysbench does not, and how to keep them short.
OTHERS = {
    "connect.py": {"ROUNDS": "1", "CLIENTS": "1,8"},
    "kv.py": {"ROUNDS": "1", "SMALL_ROWS": "20000", "ROWS": "20000", "HOT_ROWS": "20000"},
    "shard.py": {"ROUNDS": "1", "ROWS": "20000", "POINTS": "5000"},
    "load.py": {"ROUNDS": "1", "ROWS": "100000"},
    "xa.py": {"ROUNDS": "1", "CLIENTS": "1,16"},
    "changes.py": {"ROWS": "20000", "CONSUMERS": "1,10", "COMMITS": "500"},
    "tpch.py": {"ROUNDS": "1", "SCALE": "0.01"},
}
IOS = ("io_uring", "epoll")
WORKLOADS = ("oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_update_index", "oltp_insert")


def statements(options):
    """sysbench's workloads, with few and many connections, by every way into the router. Each router ends by itself,
    which is when it writes."""
    for replicas in (0, 1):
        with Farm(options.heddle, replicas, has_socket=True) as farm:
            sysbench.prepare(door.primary_of(farm))
            end(farm.router)
            for io in IOS:
                farm.start(io)
                loads(farm, options.seconds)
                end(farm.router)


def loads(farm, seconds):
    authority = os.path.join(farm.data, "state", door.OWN_CERTIFICATE)
    sysbench.certificates(farm.folder, authority)
    for workload in WORKLOADS:
        for connections, prepared in ((1, False), (8, False), (64, False), (8, True)):
            sysbench.run(farm.address, workload, connections, prepared, seconds, (), farm.folder)
        for more in (["--mysql-ssl=on"], ["--mysql-compression=on"]):
            sysbench.run(farm.address, workload, 8, False, seconds, more, farm.folder)
        sysbench.run(farm.socket, workload, 8, False, seconds, (), farm.folder)


def train(options):
    os.environ["LLVM_PROFILE_FILE"] = os.path.join(options.profiles, "%p-%m.profraw")
    statements(options)
    for name, settings in OTHERS.items():
        words = [sys.executable, os.path.join(ROOT, "bench", name)]
        environment = {**os.environ, **settings, "SECONDS": str(options.seconds), "HEDDLE": options.heddle,
                       "KVLOAD": options.kvload}
        # A bench that misses its aims ends with 1, and this build misses all of them.
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if "FAILED" in done.stdout or "Traceback" in done.stdout:
            raise Failed(f"{name}: {done.stdout.strip().splitlines()[-1]}")
        print(f"train: {name} has run", file=sys.stderr, flush=True)
    return True


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default=env("HEDDLE"), required="HEDDLE" not in os.environ)
    parser.add_argument("--kvload", default=env("KVLOAD"), required="KVLOAD" not in os.environ)
    parser.add_argument("--profiles", default=env("PROFILES"), required="PROFILES" not in os.environ)
    parser.add_argument("--seconds", type=int, default=int(env("SECONDS", "1")))
    options = parser.parse_args()
    prepare("train", options)
    options.profiles, options.kvload = os.path.abspath(options.profiles), os.path.abspath(options.kvload)
    run("train", train, options)


if __name__ == "__main__":
    main()
