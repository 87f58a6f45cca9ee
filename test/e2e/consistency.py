#!/usr/bin/env python3
"""Checks that reads keep their promises while replicas are late on purpose.

A farm of a primary and three replicas: one applies everything a second late (MASTER_DELAY), one has
its SQL thread stopped and started all the time, one is left alone. Meanwhile:

- session: writers change a row and read it back, on the same connection and, with the token, on
  another one at the level session. Every read must have the value.
- client: the same row is read on a second connection, which knows nothing of the write, at the
  default level, and so is a row of another table that a trigger writes.
- monotonic: readers at mixed levels watch a counter; it must never go back.
- eventual: readers with a bound look at a row that is stamped all the time; no read may miss a stamp
  that was committed longer ago than the bound, by one clock.
- strong: readers must see the last stamp that was committed before they asked.

It ends with the counts, and exit code 1 when a promise was broken. `--weaken` makes every promise
weaker on purpose: then violations must be found, or the checker itself is broken.

Flags: --checks 1000000 (of the session level) --workers 8 --engine mariadb --weaken
"""

import argparse
import bisect
import multiprocessing
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

import wire  # noqa: E402
from entry import prepare, run  # noqa: E402
from processes import ROOT, Failed, Farm, address_of, wait_for  # noqa: E402

DELAY_S = 1
BOUND_MS = 300
STAMP_EVERY_S = 0.01
STAMPS_KEPT = 200_000
# Checks of a worker between two additions to the counts.
TELL_EVERY = 200


def now_us():
    """One clock for all processes of this machine."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


class Counts:
    """Checks and violations of each kind, shared by all processes."""

    def __init__(self):
        kinds = ["session", "token", "client", "monotonic", "eventual", "strong"]
        self.checks = {kind: multiprocessing.Value("q", 0) for kind in kinds}
        self.violations = {kind: multiprocessing.Value("q", 0) for kind in kinds}
        # By how much an eventual read was too old at worst, in microseconds; negative is in time.
        self.worst_us = multiprocessing.Value("q", -10**12)

    def add(self, kind, checks, violations):
        for counter, number in ((self.checks[kind], checks), (self.violations[kind], violations)):
            with counter.get_lock():
                counter.value += number

    def broken(self):
        return sum(counter.value for counter in self.violations.values())


def weakest(connection):
    connection.query("SET heddle_consistency = 'eventual', heddle_max_lag_ms = 4294967295, "
                     "heddle_monotonic = OFF")


def session_worker(address, number, checks, weaken, counts):
    """Reads what it wrote; now and then on another connection that has taken the token up."""
    rng = random.Random(number)
    own, other, kin = (wire.Connection(address) for _ in range(3))
    if weaken:
        for connection in (own, other, kin):
            weakest(connection)
    else:
        other.query("SET heddle_consistency = 'session'")
    broken = handed = handed_broken = kin_broken = kin_checks = 0
    for value in range(1, checks + 1):
        row = number * 16 + rng.randrange(16)
        own.query(f"UPDATE e2e.t SET v = {value} WHERE id = {row}")
        read = f"SELECT v FROM e2e.t WHERE id = {row}"
        if value % 8 == 0:
            if not weaken:
                other.query(f"SET heddle_token = '{own.value('SELECT @@heddle_token')}'")
            handed += 1
            handed_broken += other.value(read) != str(value)
        # Views and triggers: what is read is not what the text of the write names.
        shown = f"SELECT v FROM e2e.{rng.choice(['t', 'seen', 'copy'])} WHERE id = {row}"
        kin_checks += 1
        kin_broken += kin.value(shown) != str(value)
        broken += own.value(read) != str(value)
        if value % TELL_EVERY == 0 or value == checks:
            counts.add("session", value % TELL_EVERY or TELL_EVERY, broken)
            counts.add("token", handed, handed_broken)
            counts.add("client", kin_checks, kin_broken)
            broken = handed = handed_broken = kin_broken = kin_checks = 0


def monotonic_worker(address, seed, weaken, stop, counts):
    rng = random.Random(seed)
    connection = wire.Connection(address)
    if weaken:
        weakest(connection)
    hints = [""] if weaken else ["", "/*ms=eventual*/ ", "/*ms=session*/ ", "/*ms=strong*/ "]
    last = checks = broken = 0
    while not stop.is_set():
        hint = rng.choice(hints)
        seen = int(connection.value(f"{hint}SELECT at_us FROM e2e.stamp WHERE id = 1"))
        checks += 1
        broken += seen < last
        last = max(last, seen)
    counts.add("monotonic", checks, broken)


def stamper(address, stop, stamps, filled):
    """Writes the time, and keeps when each stamp was surely committed."""
    connection = wire.Connection(address)
    while not stop.is_set():
        at_us = now_us()
        connection.query(f"UPDATE e2e.stamp SET at_us = {at_us} WHERE id = 1")
        if filled.value < STAMPS_KEPT:
            place = filled.value * 2
            stamps[place], stamps[place + 1] = at_us, now_us()
            filled.value += 1
        time.sleep(STAMP_EVERY_S)


def stamped_after(stamps, filled, seen):
    """When the first stamp after the one that was seen was committed; None if there is none."""
    count = filled.value
    at = bisect.bisect_right(range(count), seen, key=lambda i: stamps[i * 2])
    return stamps[at * 2 + 1] if at < count else None


def age_worker(address, kind, weaken, stop, stamps, filled, counts):
    connection = wire.Connection(address)
    level = "strong" if kind == "strong" else "eventual"
    connection.query(f"SET heddle_consistency = '{level}', heddle_max_lag_ms = {BOUND_MS}, "
                     "heddle_monotonic = OFF")
    if weaken:
        weakest(connection)
    bound_us = 0 if kind == "strong" else BOUND_MS * 1000
    checks = broken = 0
    worst_us = -10**12
    while not stop.is_set():
        asked_us = now_us()
        seen = int(connection.value("SELECT at_us FROM e2e.stamp WHERE id = 1"))
        next_us = stamped_after(stamps, filled, seen)
        checks += 1
        if next_us is not None:
            late_us = asked_us - next_us - bound_us
            worst_us = max(worst_us, late_us)
            broken += late_us > 0
    counts.add(kind, checks, broken)
    if kind == "eventual":
        with counts.worst_us.get_lock():
            counts.worst_us.value = max(counts.worst_us.value, worst_us)


def nemesis(address, stop):
    """A replica that falls behind and catches up, again and again."""
    connection = wire.Connection(address)
    while not stop.is_set():
        connection.query("STOP SLAVE SQL_THREAD")
        stop.wait(random.uniform(0.05, 1.5))
        connection.query("START SLAVE SQL_THREAD")
        stop.wait(random.uniform(0.05, 0.5))


def tables(address, workers):
    with wire.Connection(address) as connection:
        connection.query("CREATE DATABASE e2e")
        for table in ("t", "copy"):
            connection.query(f"CREATE TABLE e2e.{table} (id INT PRIMARY KEY, v BIGINT NOT NULL)")
        connection.query("CREATE VIEW e2e.seen AS SELECT id, v FROM e2e.t")
        connection.query("CREATE TRIGGER e2e.copies AFTER UPDATE ON e2e.t FOR EACH ROW "
                         "REPLACE INTO e2e.copy VALUES (NEW.id, NEW.v)")
        for row in range(workers * 16):
            connection.query(f"INSERT INTO e2e.t VALUES ({row}, 0)")
        connection.query("CREATE TABLE e2e.stamp (id INT PRIMARY KEY, at_us BIGINT NOT NULL)")
        connection.query(f"INSERT INTO e2e.stamp VALUES (1, {now_us()})")


def is_there(address):
    """True when a server has the last row that `tables` made."""
    try:
        with wire.Connection(address) as connection:
            return connection.value("SELECT COUNT(*) FROM e2e.stamp") == "1"
    except wire.ServerError:
        return False


def make_late(address):
    with wire.Connection(address) as connection:
        connection.query("STOP SLAVE")
        connection.query(f"CHANGE MASTER TO MASTER_DELAY = {DELAY_S}")
        connection.query("START SLAVE")


def check(options):
    counts = Counts()
    stop = multiprocessing.Event()
    stamps = multiprocessing.Array("q", STAMPS_KEPT * 2, lock=False)
    filled = multiprocessing.Value("q", 0)
    # All cores are busy: a server that is slow to answer a probe is not dead.
    flags = ["--set", "probe_timeout_ms=20000", "--engine", options.engine] + (["--mysqld", options.mysqld] if options.mysqld else [])
    with Farm(options.heddle, 3, flags) as farm:
        servers = {server["name"]: address_of(server) for server in farm.servers()}
        tables(farm.address, options.workers)
        for address in servers.values():
            wait_for(lambda: is_there(address), 60, f"{address} does not replicate")
        make_late(servers["g1-2"])
        each = -(-options.checks // options.workers)
        start = lambda target, *given: multiprocessing.Process(target=target, args=given, daemon=True)
        others = [
            start(stamper, farm.address, stop, stamps, filled),
            start(nemesis, servers["g1-3"], stop),
            start(monotonic_worker, farm.address, 1, options.weaken, stop, counts),
            start(age_worker, farm.address, "eventual", options.weaken, stop, stamps, filled, counts),
            start(age_worker, farm.address, "strong", options.weaken, stop, stamps, filled, counts),
        ]
        workers = [start(session_worker, farm.address, n, each, options.weaken, counts)
                   for n in range(options.workers)]
        begun_s = time.monotonic()
        for process in others + workers:
            process.start()
        try:
            for process in workers:
                process.join()
        except KeyboardInterrupt:
            # What was checked until now counts.
            report(counts, options, time.monotonic() - begun_s, [])
            raise
        stop.set()
        for process in others:
            process.join(60)
        died = [p for p in others + workers if p.exitcode != 0]
        with wire.Connection(farm.address) as connection:
            rows = connection.query("HEDDLE STATUS LIKE 'reads%'")
        report(counts, options, time.monotonic() - begun_s, rows)
    if died:
        raise Failed(f"{len(died)} of the checkers ended before their time")
    if options.weaken:
        if counts.broken() == 0 or counts.violations["client"].value == 0:
            raise Failed("the promises were weakened, and no violation was found: the check is blind")
        return 0
    return 1 if counts.broken() else 0


def report(counts, options, seconds, status):
    weak = ", every promise weakened on purpose" if options.weaken else ""
    print(f"# Promises of reads: {options.engine}, {options.workers} writers, {seconds:.0f} s{weak}\n")
    print("| promise | checks | violations |")
    print("| --- | ---: | ---: |")
    for kind, checks in counts.checks.items():
        print(f"| {kind} | {checks.value:,} | {counts.violations[kind].value:,} |")
    worst_ms = counts.worst_us.value / 1000
    print(f"\nThe oldest eventual read was {-worst_ms:.0f} ms inside its bound of {BOUND_MS} ms."
          if worst_ms <= 0 else f"\nThe oldest eventual read was {worst_ms:.0f} ms past its bound.")
    print("; ".join(f"{name} {value}" for name, value in status), flush=True)


def arguments():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=int(env("CHECKS", "1000000")))
    parser.add_argument("--workers", type=int, default=int(env("WORKERS", "8")))
    parser.add_argument("--engine", default=env("ENGINE", "mariadb"))
    parser.add_argument("--mysqld", default=env("MYSQLD", ""))
    parser.add_argument("--weaken", action="store_true")
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    prepare("consistency", given)
    sys.exit(run("consistency", check, given))
