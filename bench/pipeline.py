#!/usr/bin/env python3
"""Single-row INSERTs, one by one and without waiting for answers, straight to a server and through
Heddle.

What a pipeline saves is the trip, not the commit: with a binlog and a redo log that are synced for
each statement the disk sets the pace of both, so the same rows are also written with relaxed
settings and within one transaction. Contenders take turns within each round; ratios are taken
within a round, and the tables show medians.

The same INSERTs into a sharded table, with relaxed settings, on farms of one and of four groups:
keys of one shard behind each other, and keys of all shards as they come, where a statement for
another group waits for those in front.

Environment or flags: ROUNDS=3 ROWS=40000 DURABILITY=relaxed,transaction,durable FARMS=1,4
HEDDLE=bin/heddle; DURABILITY= leaves the first table out, FARMS= the others
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import wire
from entry import prepare, run
from processes import ROOT, Failed, Farm, address_of, cpu_s

DATABASE = "pipeline"
STRAIGHT, HEDDLE = "straight", "Heddle"
ONE_BY_ONE, PIPELINED = "one by one", "pipelined"
WAYS = [(who, how) for how in (ONE_BY_ONE, PIPELINED) for who in (STRAIGHT, HEDDLE)]
# The time that pipelining must save through Heddle where the disk does not set the pace.
SAVED_MIN = 0.5
DURABILITY = {
    "relaxed": "sync_binlog=0, innodb_flush_log_at_trx_commit=0, autocommit",
    "transaction": "sync_binlog=1, innodb_flush_log_at_trx_commit=1, all rows in one transaction",
    "durable": "sync_binlog=1, innodb_flush_log_at_trx_commit=1, autocommit",
}


@dataclass(frozen=True)
class Sample:
    seconds: float
    # CPU per statement; the proxy's is None for the straight connection.
    proxy_us: float | None
    server_us: float


def frame(text):
    payload = bytes([wire.COM_QUERY]) + text.encode()
    return len(payload).to_bytes(3, "little") + b"\0" + payload


def inserts(rows, transaction):
    texts = [f"INSERT INTO {DATABASE}.t VALUES ({n}, 'row {n}')" for n in range(rows)]
    return [frame(text) for text in (["BEGIN"] + texts + ["COMMIT"] if transaction else texts)]


class Answers:
    """Counts OK packets as they come; an error packet ends the run."""

    def __init__(self, connection):
        self.socket, self.pending = connection.socket, b""

    def read(self, count):
        """Waits for so many packets more."""
        while count:
            data = self.pending or self._receive()
            at = 0
            while count and at + 5 <= len(data):
                end = at + 4 + int.from_bytes(data[at:at + 3], "little")
                if end > len(data):
                    break
                if data[at + 4] != 0:
                    raise Failed(f"not an OK: {wire.error_text(data[at + 4:end])}")
                at, count = end, count - 1
            self.pending = data[at:]
            if count:
                self.pending += self._receive()

    def _receive(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise Failed("the connection was closed within the run")
        return piece


def send_one_by_one(connection, frames):
    answers = Answers(connection)
    for one in frames:
        connection.socket.sendall(one)
        answers.read(1)


def send_pipelined(connection, frames):
    """Sends from a thread of its own, so that answers are read while requests still go out."""
    whole = b"".join(frames)
    failed = []

    def send():
        try:
            connection.socket.sendall(whole)
        except OSError as error:
            failed.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        Answers(connection).read(len(frames))
    except BaseException:
        connection.socket.close()
        raise
    finally:
        sender.join()
    if failed:
        raise failed[0]


def measure(farm, primary, who, how, frames, rows):
    with wire.Connection(primary) as control:
        control.query(f"TRUNCATE TABLE {DATABASE}.t")
    server_pid, proxy_pid = farm.servers()[0]["pid"], farm.router.pid
    address = primary if who == STRAIGHT else farm.address
    with wire.Connection(address) as connection:
        # The first statement of a connection pays for what all need.
        connection.query("SELECT 1")
        before = cpu_s(server_pid), cpu_s(proxy_pid)
        begun_s = time.monotonic()
        (send_one_by_one if how == ONE_BY_ONE else send_pipelined)(connection, frames)
        seconds = time.monotonic() - begun_s
        used = [cpu_s(pid) - was for pid, was in zip((server_pid, proxy_pid), before)]
    with wire.Connection(primary) as control:
        found = int(control.value(f"SELECT COUNT(*) FROM {DATABASE}.t"))
    if found != rows:
        raise Failed(f"{who}, {how}: {found} of {rows} rows are there")
    server_us, proxy_us = (s * 1e6 / len(frames) for s in used)
    return Sample(seconds, None if who == STRAIGHT else proxy_us, server_us)


def set_durability(primary, name):
    sync, flush = (0, 0) if name == "relaxed" else (1, 1)
    with wire.Connection(primary) as connection:
        connection.query(f"SET GLOBAL sync_binlog = {sync}")
        connection.query(f"SET GLOBAL innodb_flush_log_at_trx_commit = {flush}")


def run_rounds(farm, primary, name, options):
    set_durability(primary, name)
    frames = inserts(options.rows, name == "transaction")
    samples = {way: [] for way in WAYS}
    for number in range(options.rounds):
        shift = number % len(WAYS)
        for way in WAYS[shift:] + WAYS[:shift]:
            sample = measure(farm, primary, *way, frames, options.rows)
            samples[way].append(sample)
            print(f"{name}, round {number + 1}: {', '.join(way)}: {sample.seconds:.2f} s",
                  file=sys.stderr, flush=True)
    return samples


def median(samples, figure):
    return statistics.median(figure(sample) for sample in samples)


def saved(samples, who):
    """The share of the time that pipelining saves; the median over rounds."""
    pairs = zip(samples[who, ONE_BY_ONE], samples[who, PIPELINED])
    return statistics.median(1 - fast.seconds / slow.seconds for slow, fast in pairs)


def print_table(name, samples, rows):
    print(f"## {name}: {DURABILITY[name]}\n")
    print("| | seconds | statements/s | time saved | Heddle's CPU µs/statement | the server's |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for who, how in WAYS:
        own = samples[who, how]
        seconds = median(own, lambda s: s.seconds)
        gain = f"{saved(samples, who):.0%}" if how == PIPELINED else ""
        proxy = "" if who == STRAIGHT else f"{median(own, lambda s: s.proxy_us):.1f}"
        print(f"| {who}, {how} | {seconds:.2f} | {rows / seconds:,.0f} | {gain} | {proxy} | "
              f"{median(own, lambda s: s.server_us):.1f} |")
    print(flush=True)


def command(farm, *words):
    """A command of the farm's, over its HTTP door."""
    words = [farm.heddle, *words, "--http", farm.http, "--data", farm.data]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"heddle {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def sharded_inserts(keys):
    return [frame(f"INSERT INTO {DATABASE}.s VALUES ({key}, 'row {key}')") for key in keys]


def shard(farm, rows):
    """Has a sharded table on all groups. Returns keys of all shards, and as many of the first shard's."""
    groups = sorted({server["group"] for server in farm.servers()})
    with wire.Connection(farm.address) as client:
        client.query(f"CREATE DATABASE {DATABASE}")
        client.query(f"CREATE TABLE {DATABASE}.s (a INT PRIMARY KEY, b VARCHAR(40))")
        command(farm, "sharding", "create_definition", "SLOTS", groups[0])
        command(farm, "sharding", "add_shard", "1", ",".join(groups), "ENABLED")
        command(farm, "sharding", "add_table", "1", f"{DATABASE}.s", "a")
    # Which keys are whose, the farm's own routing tells: slots are even, so a tenth more than needed will do.
    keys = list(range(rows * len(groups) * 11 // 10 + 1000))
    print(f"{len(groups)} groups: {len(keys):,} keys find their shards", file=sys.stderr, flush=True)
    with wire.Connection(farm.address) as client:
        for start in range(0, len(keys), 1000):
            values = ", ".join(f"({key}, '')" for key in keys[start:start + 1000])
            client.query(f"INSERT INTO {DATABASE}.s VALUES {values}")
    with wire.Connection(address_of(first_of(farm, groups[0]))) as server:
        own = [int(row[0]) for row in server.query(f"SELECT a FROM {DATABASE}.s ORDER BY a LIMIT {rows}")]
    if len(own) != rows:
        raise Failed(f"group {groups[0]} has {len(own)} of {rows} keys")
    return keys[:rows], own


def first_of(farm, group):
    return next(server for server in farm.servers() if server["group"] == group)


def time_inserts(address, how, frames, clear):
    # At the servers themselves: through Heddle it would be one transaction over all groups.
    for server in clear:
        with wire.Connection(server) as control:
            control.query(f"TRUNCATE TABLE {DATABASE}.s")
    with wire.Connection(address) as connection:
        connection.query("SELECT 1")
        begun_s = time.monotonic()
        (send_one_by_one if how == ONE_BY_ONE else send_pipelined)(connection, frames)
        seconds = time.monotonic() - begun_s
    found = 0
    for server in clear:
        with wire.Connection(server) as control:
            found += int(control.value(f"SELECT COUNT(*) FROM {DATABASE}.s"))
    if found != len(frames):
        raise Failed(f"{found} of {len(frames)} rows are there")
    return seconds


def run_sharded(groups, options):
    """One table of a farm of so many groups. Straight means to the first group's server."""
    with Farm(options.heddle, 0, ["--groups", str(groups)]) as farm:
        for address in farm.server_addresses():
            set_durability(address, "relaxed")
        spread, own = shard(farm, options.rows)
        straight = address_of(first_of(farm, "g1"))
        ways = [("straight, one shard", straight, own), ("Heddle, one shard", farm.address, own),
                ("Heddle, keys as they come", farm.address, spread)]
        turns = [(name, how, address, sharded_inserts(keys))
                 for how in (ONE_BY_ONE, PIPELINED) for name, address, keys in ways]
        spent = {(name, how): [] for name, how, _, _ in turns}
        for number in range(options.rounds):
            shift = number % len(turns)
            for name, how, address, frames in turns[shift:] + turns[:shift]:
                spent[name, how].append(time_inserts(address, how, frames, farm.server_addresses()))
                print(f"{groups} groups, round {number + 1}: {name}, {how}: "
                      f"{spent[name, how][-1]:.2f} s", file=sys.stderr, flush=True)
    print_sharded(groups, [name for name, _, _ in ways], spent, options.rows)
    # Keys as they come wait for each other's groups; those of one shard flow as in a table that is not sharded.
    return saved_in(spent, "Heddle, one shard") >= SAVED_MIN


def saved_in(spent, name):
    pairs = zip(spent[name, ONE_BY_ONE], spent[name, PIPELINED])
    return statistics.median(1 - fast / slow for slow, fast in pairs)


def print_sharded(groups, names, spent, rows):
    def ratio(name, other):
        pairs = zip(spent[name, PIPELINED], spent[other])
        return statistics.median(mine / its for mine, its in pairs)

    print(f"## A table sharded over {groups} group{'s' if groups > 1 else ''}\n")
    print("| | one by one, s | pipelined, s | statements/s | time saved | to straight pipelined |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in names:
        slow, fast = (statistics.median(spent[name, how]) for how in (ONE_BY_ONE, PIPELINED))
        print(f"| {name} | {slow:.2f} | {fast:.2f} | {rows / fast:,.0f} | "
              f"{saved_in(spent, name):.0%} | ×{ratio(name, (names[0], PIPELINED)):.2f} |")
    print(flush=True)


def bench(options):
    """True when pipelining saves what it must."""
    met = True
    with Farm(options.heddle, 0) as farm:
        primary = farm.server_addresses()[0]
        with wire.Connection(primary) as connection:
            version = connection.value("SELECT VERSION()")
            connection.query(f"CREATE DATABASE {DATABASE}")
            connection.query(f"CREATE TABLE {DATABASE}.t (a INT PRIMARY KEY, b VARCHAR(40))")
        print(f"# bench-pipeline: {options.rows:,} INSERTs of one row, {options.rounds} rounds\n")
        print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
              f"{os.getloadavg()[0]:.1f}")
        print(f"- One server, {version}, with a binlog; one client on one connection\n")
        for name in options.durability:
            samples = run_rounds(farm, primary, name, options)
            print_table(name, samples, options.rows)
            if name != "durable":
                met &= saved(samples, HEDDLE) >= SAVED_MIN
    for groups in options.groups:
        met &= run_sharded(groups, options)
    if options.durability or options.groups:
        said = "at least" if met else "NOT"
        print(f"Pipelined through Heddle saves {said} {SAVED_MIN:.0%} of the time where the disk does "
              "not set the pace.")
    return met


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "3")))
    parser.add_argument("--rows", type=int, default=int(env("ROWS", "40000")))
    parser.add_argument("--durability", default=env("DURABILITY", ",".join(DURABILITY)))
    parser.add_argument("--groups", default=env("FARMS", "1,4"))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    options = parser.parse_args()
    options.durability = options.durability.replace(",", " ").split()
    options.groups = [int(word) for word in options.groups.replace(",", " ").split()]
    unknown = set(options.durability) - set(DURABILITY)
    if unknown:
        sys.exit(f"bench-pipeline: DURABILITY knows {', '.join(DURABILITY)}, not {unknown.pop()}")
    prepare("bench-pipeline", options)
    met = run("bench-pipeline", bench, options)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
