"""What the tests of packaging have in common: the tree, the program under test, text files of it."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGING = os.path.dirname(HERE)
ROOT = os.path.dirname(PACKAGING)
sys.path.insert(0, PACKAGING)
sys.path.insert(0, os.path.join(ROOT, "bench"))

# The program under test: HEDDLE_BIN, else what `make build` has left.
HEDDLE = os.path.abspath(os.environ.get("HEDDLE_BIN") or os.path.join(ROOT, "bin/heddle"))


def text(*path):
    """A file of the tree."""
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def done(*command, **options):
    """A finished process, with both outputs in one text."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
