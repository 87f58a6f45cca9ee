#!/usr/bin/env python3
"""Builds the workspace's tests and runs the test binaries, two at a time.

`cargo test` runs one binary after the other. Most of ours wait for database servers most of the time,
so that half of two CPUs were idle. A binary's output is printed whole when it has ended, with what it
took. The exit code is 0 only when everything was built and passed. HEDDLE_TEST_JOBS is how many run at
a time; arguments are passed on to each binary.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import time

CARGO = os.environ.get("CARGO", "cargo")
JOBS = int(os.environ.get("HEDDLE_TEST_JOBS", "2"))

# These take longest: begun last, they would run alone at the end.
FIRST = ("simulate", "diff", "sharded", "farm", "up", "failures", "bank", "connections", "kv", "groups")
FIRST += ("failover", "routing", "program", "meta", "galera", "live", "releases", "accounts", "shards")


def build():
    """The test binaries as (name, path, directory of the package)."""
    command = [CARGO, "test", "--workspace", "--locked", "--no-run"]
    command += ["--message-format", "json-render-diagnostics"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    found = []
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message.get("executable"):
            continue
        if message["profile"]["test"]:
            target = message["target"]["name"]
            kind = "" if "test" in message["target"]["kind"] else " (unit tests)"
            package = os.path.dirname(message["manifest_path"])
            found.append((target + kind, message["executable"], package))
    rank = {name: place for place, name in enumerate(FIRST)}
    return sorted(found, key=lambda one: (rank.get(one[0].split()[0], len(FIRST)), one[0]))


def run(binary):
    name, path, package = binary
    begun = time.monotonic()
    # What cargo sets for the binaries that it runs itself.
    environment = dict(os.environ, CARGO_MANIFEST_DIR=package, CARGO=CARGO)
    done = subprocess.run(
        [path, *sys.argv[1:]],
        cwd=package,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return name, done, time.monotonic() - begun


def main():
    binaries = build()
    failed = []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, one) for one in binaries]):
            name, done, took_s = future.result()
            print(f"     Running {name}, {took_s:.1f} s", flush=True)
            sys.stdout.buffer.write(done.stdout)
            sys.stdout.buffer.flush()
            if done.returncode != 0:
                failed.append(f"{name} (exit {done.returncode})")
    command = [CARGO, "--color", "never", "test", "--workspace", "--locked", "--doc", "--quiet"]
    doc = subprocess.run(command, stderr=subprocess.STDOUT)
    if doc.returncode != 0:
        failed.append("documentation")
    for name in sorted(failed):
        print(f"test binary failed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
