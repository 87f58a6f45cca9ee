"""How every bench begins and ends: its binary, its signals, its exit code."""

import os
import resource
import sys
import time

import wire
from processes import Failed, die_on_signals


# A ratio of two runs says nothing about the programs while others use the machine.
LOAD_MAX_PER_CPU = 0.5
LOOK_EVERY_S = 5


def quiet_load(wait_s=0):
    """The load average of a minute, and whether it is that of a machine with nothing else to do; waits so long until
    it is, since a build of just now still shows in it."""
    end = time.monotonic() + wait_s
    while True:
        load = os.getloadavg()[0]
        quiet = load <= LOAD_MAX_PER_CPU * os.cpu_count()
        if quiet or time.monotonic() > end:
            return load, quiet
        time.sleep(LOOK_EVERY_S)


def prepare(name, options):
    """Makes `options.heddle` absolute, or ends the bench when it is missing."""
    options.heddle = os.path.abspath(options.heddle)
    if not os.access(options.heddle, os.X_OK):
        sys.exit(f"{name}: {options.heddle} is missing: run `make build` first")
    die_on_signals()


def open_files(name, needed):
    """Lets the bench and its children open so many files, or ends it when the system does not allow it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        # Beyond the hard limit only for root, and for nobody beyond fs.nr_open.
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(needed, hard), max(needed, hard)))
    except (ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if hard < needed:
            sys.exit(f"{name}: only {hard} open files are allowed: ulimit -n {needed}")


def run(name, work, options):
    """What `work` returns; what it cannot do ends the bench with exit code 1, Ctrl-C with 130."""
    try:
        return work(options)
    except (Failed, OSError, wire.ServerError) as error:
        sys.exit(f"{name}: FAILED: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
