#!/usr/bin/env python3
"""Runs the tour of README.md and docs/TOUR.md as printed: every block marked `sh tour`, in order,
against a farm.

Usage: scripts/tour.py [HEDDLE]. Only the ports are replaced (others may be in use), and `bin/heddle`
by the program given. A block that fails or answers with an error ends the run with exit 1.
"""

import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from processes import ROOT, Failed, Farm, die_on_signals  # noqa: E402

# A replica may be a moment behind what the block before has written.
REPLICA_PATIENCE_S = 10


# The second page goes on with the tables that the first one has made.
PAGES = ["README.md", "docs/TOUR.md"]


def blocks():
    found = []
    for page in PAGES:
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            of_page = re.findall(r"^```sh tour\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
        if not of_page:
            raise Failed(f"{page} has no block of the tour")
        found += of_page
    return found


def run(block, farm):
    """The block's output; tries again for a while, since replicas follow."""
    script = block.replace("6306", farm.address.rsplit(":", 1)[1])
    script = script.replace("127.0.0.1:6211", farm.kv)
    script = script.replace("127.0.0.1:6080", farm.http).replace("bin/heddle", farm.heddle)
    deadline = time.monotonic() + REPLICA_PATIENCE_S
    while True:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=farm.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "HEDDLE_HTTP": farm.http, "HEDDLE_TOKEN": token(farm)})
        if done.returncode == 0:
            return done.stdout
        if time.monotonic() > deadline or "ms=slave" not in block:
            raise Failed(f"{block}\nended with code {done.returncode}:\n{done.stdout}")
        time.sleep(0.2)


def token(farm):
    """What changes something needs it; the command line finds that of `heddle-data` by itself."""
    with open(os.path.join(farm.data, "token"), encoding="utf-8") as file:
        return file.read()


def check_who_answered(found, outputs):
    """The first block reads what it wrote, on the primary; the block with a hint reads a replica."""
    ports = [set(re.findall(r"^\| +(\d+) \|", output, re.MULTILINE)) for output in outputs[:2]]
    if len(found) < 2 or "ms=slave" not in found[1] or not all(ports):
        raise Failed("README.md: the tour does not begin with a write and a read from a replica")
    if ports[0] & ports[1]:
        raise Failed(f"server {ports[0]} answered both the writer and the read with ms=slave")


def main():
    heddle = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "bin/heddle"))
    die_on_signals()
    try:
        begin = time.monotonic()
        with Farm(heddle, 2) as farm:
            print(f"ready after {time.monotonic() - begin:.1f} s")
            found = blocks()
            outputs = []
            for block in found:
                outputs.append(run(block, farm))
                print(f"{block}{outputs[-1]}", flush=True)
            check_who_answered(found, outputs)
    except (Failed, OSError) as error:
        sys.exit(f"tour: FAILED: {error}")
    print(f"tour: all {len(found)} blocks ran as printed")


if __name__ == "__main__":
    main()
