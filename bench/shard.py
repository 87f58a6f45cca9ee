#!/usr/bin/env python3
"""What a sharded table costs: a point statement, the loop that selects a shard and updates, a
statement over all shards, a long result, aggregates.

One farm has the same rows twice: in a table sharded over four groups, and in a plain table on the
first group. Contenders take turns within each round; ratios are taken within a round, and the tables
show medians.

Environment or flags: ROUNDS=5 POINTS=20000 ROWS=200000 HEDDLE=bin/heddle
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import threading
import time

import wire
from entry import prepare, run
from processes import ROOT, Failed, Farm, address_of, cpu_ns, memory_kb, reset_peak

SHARDS = 4
LOOP = 2000
DATABASE = "bench"
PLAIN, SHARDED = f"{DATABASE}.plain", f"{DATABASE}.sharded"
COLUMNS = "(id INT PRIMARY KEY, amount DECIMAL(12,2) NOT NULL, name VARCHAR(60) NOT NULL)"
BATCH = 1000
# So many statements of one contender, then of the next.
SLICE = 100

# What the table allows: the figure's name, the most that it may be.
POINT_US_MAX = 1.0
LOOP_MAX = 1.05
SCATTER_MAX = 1.2
GATHER_MB_MAX = 16.0

SCAN = "SELECT COUNT(*) FROM {} WHERE SHA2(CONCAT(name, id), 512) LIKE 'aa%'"
# The loops leave other amounts in both tables.
AGGREGATES = ("SELECT id % 50 AS part, COUNT(*), SUM(id), AVG(id), MIN(name), MAX(name) "
              "FROM {} GROUP BY part ORDER BY part")
LONG = "SELECT * FROM {} ORDER BY id"


def command(farm, *words):
    """A command of the farm's, over its HTTP door."""
    done = subprocess.run([farm.heddle, *words, "--http", farm.http, "--data", farm.data], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"heddle {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def set_up(farm, rows):
    """Declares the tables and fills both with the same rows."""
    groups = sorted({server["group"] for server in farm.servers()})
    home, shards = groups[0], groups[1:]
    with wire.Connection(farm.address, timeout_s=600) as client:
        client.query(f"CREATE DATABASE {DATABASE}")
        for table in (PLAIN, SHARDED):
            client.query(f"CREATE TABLE {table} {COLUMNS}")
        command(farm, "sharding", "create_definition", "SLOTS", home)
        command(farm, "sharding", "add_shard", "1", ",".join(shards), "ENABLED")
        command(farm, "sharding", "add_table", "1", SHARDED, "id")
        for start in range(0, rows, BATCH):
            values = ", ".join(f"({n}, {n % 9973}.{n % 100:02}, 'the name of row number {n}')"
                               for n in range(start, min(start + BATCH, rows)))
            for table in (PLAIN, SHARDED):
                client.query(f"INSERT INTO {table} VALUES {values}")
        for table in (PLAIN, SHARDED):
            found = int(client.value(f"SELECT COUNT(*) FROM {table}"))
            if found != rows:
                raise Failed(f"{table} has {found} rows of {rows}")
    return {server["group"]: address_of(server) for server in farm.servers()}, shards, home


def timed(work):
    begun_s = time.monotonic()
    work()
    return time.monotonic() - begun_s


def points(farm, rows, count):
    """Router CPU per point SELECT in microseconds: plain; sharded, always the same row; sharded, rows
    of all shards, whose servers are woken in turns. Slices of each take turns."""
    used = [0, 0, 0]
    slices = max(1, count // SLICE)
    with wire.Connection(farm.address) as client:
        for number in range(slices):
            for at, (table, step) in enumerate(((PLAIN, 0), (SHARDED, 0), (SHARDED, 7919))):
                client.query(f"SELECT amount FROM {table} WHERE id = 1")
                before = cpu_ns(farm.router.pid)
                for n in range(number * SLICE, (number + 1) * SLICE):
                    client.query(f"SELECT amount FROM {table} WHERE id = {1 + n * step % (rows - 1)}")
                used[at] += cpu_ns(farm.router.pid) - before
    return [ns / 1000 / slices / SLICE for ns in used]


class Loop:
    """The loop of updates in the ways that are compared: straight to servers and through Heddle, on one
    server and on four in turns, with the key in the statement, with the shard selected by SET, and with
    the shard selected as the PHP functions do it, without an answer."""

    WAYS = ("straight", "straight in turns", "plain", "sharded", "sharded in turns", "selected by SET",
            "selected by SET in turns", "selected", "selected in turns")

    def __init__(self, farm, addresses, shards, home, rows):
        self.client = wire.Connection(farm.address)
        self.selection = self.client.prepare_selection()
        self.straight = {group: wire.Connection(address) for group, address in addresses.items()}
        self.home = home
        self.owner = {}
        for group in shards:
            for (key,) in self.straight[group].query(f"SELECT id FROM {SHARDED}"):
                self.owner[int(key)] = group
        self.turns = [n * 7919 % rows for n in range(LOOP)]
        own = [key for key, group in self.owner.items() if group == shards[0]]
        self.near = [own[n % len(own)] for n in range(LOOP)]

    def close(self):
        for connection in [self.client, *self.straight.values()]:
            connection.close()

    def step(self, way, n):
        key = (self.turns if way.endswith("turns") else self.near)[n]
        table = PLAIN if way in ("straight", "plain") else SHARDED
        connection = self.client
        if way == "straight":
            connection = self.straight[self.home]
        elif way == "straight in turns":
            connection = self.straight[self.owner[key]]
        elif way.startswith("selected by SET"):
            connection.query(f"SET heddle_shard_table = '{SHARDED}', heddle_shard_key = '{key}'")
        elif way.startswith("selected"):
            connection.select(self.selection, SHARDED, key)
        connection.query(f"UPDATE {table} SET amount = amount + 1 WHERE id = {key}")

    def seconds(self):
        """Seconds of each way; slices of each take turns."""
        spent = dict.fromkeys(self.WAYS, 0.0)
        for start in range(0, LOOP, SLICE):
            for way in self.WAYS:
                spent[way] += timed(lambda: [self.step(way, n) for n in range(start, start + SLICE)])
                if way.startswith("selected"):
                    self.client.query("SET heddle_shard_table = '', heddle_shard_key = ''")
        return spent


def loops(farm, addresses, shards, home, rows):
    loop = Loop(farm, addresses, shards, home, rows)
    try:
        return loop.seconds()
    finally:
        loop.close()


def scatter(farm, addresses, shards):
    """Seconds of a scan over all shards through Heddle, and of the slowest of the same scans sent
    straight to all servers at once."""
    with wire.Connection(farm.address, timeout_s=120) as client:
        client.value(SCAN.format(SHARDED))
        through = timed(lambda: client.value(SCAN.format(SHARDED)))
    ready, seconds = threading.Barrier(len(shards)), []

    def straight(address):
        with wire.Connection(address, timeout_s=120) as own:
            ready.wait()
            seconds.append(timed(lambda: own.value(SCAN.format(SHARDED))))

    threads = [threading.Thread(target=straight, args=(addresses[group],)) for group in shards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(seconds) != len(shards):
        raise Failed("a scan that was sent straight to a server failed")
    return through, max(seconds)


def gather(farm, rows):
    """Megabytes by which the router's memory grows while it merges all rows."""
    with wire.Connection(farm.address, timeout_s=120) as client:
        client.stream(LONG.format(SHARDED) + " LIMIT 1000")
        reset_peak(farm.router.pid)
        before = memory_kb(farm.router.pid, "VmRSS")
        found, _ = client.stream(LONG.format(SHARDED))
        if found != rows:
            raise Failed(f"{found} rows came of {rows}")
        return max(0, memory_kb(farm.router.pid, "VmHWM") - before) / 1024


def aggregates(farm):
    """Seconds of grouped aggregates over the plain table and over four shards."""
    seconds, answers = [], []
    with wire.Connection(farm.address, timeout_s=120) as client:
        for table in (PLAIN, SHARDED):
            client.query(AGGREGATES.format(table))
            seconds.append(timed(lambda: answers.append(client.query(AGGREGATES.format(table)))))
    if answers[0] != answers[1]:
        raise Failed("the aggregates of both tables differ")
    return seconds


def median(values):
    return statistics.median(values)


def measure(farm, addresses, shards, home, options):
    samples = {name: [] for name in ("point", "loop", "scatter", "gather", "aggregates")}
    for number in range(options.rounds):
        samples["point"].append(points(farm, options.rows, options.points))
        samples["loop"].append(loops(farm, addresses, shards, home, options.rows))
        samples["scatter"].append(scatter(farm, addresses, shards))
        samples["gather"].append(gather(farm, options.rows))
        samples["aggregates"].append(aggregates(farm))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return samples


def report_loop(samples):
    """Prints the loop's figures; true when they are within their bound."""
    def ratio(way, to):
        return median(s[way] / s[to] for s in samples)

    def line(name, figure, bound=""):
        print(f"| {LOOP:,} UPDATEs {name} | {figure:.2f} | {bound} |")

    # Four servers that take turns are each woken for each statement, whoever sends it: what Heddle adds
    # there is told by the same statements sent straight.
    woken = ratio("straight in turns", "straight")
    in_turns = median((s["sharded in turns"] / s["straight in turns"]) / (s["plain"] / s["straight"]) for s in samples)
    near = ratio("sharded", "plain")
    line("on one shard, key in the statement, against a plain table", near, LOOP_MAX)
    line(f"on {SHARDS} shards in turns against one, sent straight to the servers", woken)
    line(f"on {SHARDS} shards in turns against a plain table", ratio("sharded in turns", "plain"))
    line("the same, less what waking the servers costs when sent straight", in_turns, LOOP_MAX)
    selected = ratio("selected", "plain")
    line("on one shard, selected before each without an answer", selected, LOOP_MAX)
    line(f"on {SHARDS} shards in turns, selected so", ratio("selected in turns", "plain"))
    line("on one shard, selected by SET before each", ratio("selected by SET", "plain"))
    line(f"on {SHARDS} shards in turns, selected by SET before each", ratio("selected by SET in turns", "plain"))
    return max(near, in_turns, selected) <= LOOP_MAX


def report(samples, options):
    """Prints the table; true when everything is within its bounds."""
    plain_us, sharded_us, all_us = (median(s[at] for s in samples["point"]) for at in (0, 1, 2))
    more_us = median(s[1] - s[0] for s in samples["point"])
    scattered = median(s[0] / s[1] for s in samples["scatter"])
    grown_mb = median(samples["gather"])
    share = median(s[1] / s[0] for s in samples["aggregates"])
    print("| | figure | at most |")
    print("| --- | ---: | ---: |")
    print(f"| point SELECT: router CPU, plain / sharded / more | {plain_us:.1f} / {sharded_us:.1f} / "
          f"{more_us:+.2f} µs | {POINT_US_MAX:+.1f} µs |")
    print(f"| the same, rows of all {SHARDS} shards in turns | {all_us:.1f} µs | |")
    looped = report_loop(samples["loop"])
    print(f"| scan of {SHARDS} shards against the slowest sent straight | {scattered:.2f} | "
          f"{SCATTER_MAX} |")
    print(f"| {options.rows:,} rows merged in order: memory | {grown_mb:.1f} MB | {GATHER_MB_MAX} MB |")
    print(f"| aggregates of {SHARDS} shards against one server | {share:.2f} | |")
    print()
    if share >= 1:
        print(f"The aggregates gain nothing here: {SHARDS} servers share {os.cpu_count()} CPUs.")
    met = looped and more_us <= POINT_US_MAX and scattered <= SCATTER_MAX and grown_mb <= GATHER_MB_MAX
    print("All bounds hold." if met else "NOT all bounds hold.")
    return met


def bench(options):
    flags = ["--groups", str(SHARDS + 1)]
    with Farm(options.heddle, 0, flags) as farm:
        addresses, shards, home = set_up(farm, options.rows)
        version = None
        for address in addresses.values():
            with wire.Connection(address) as connection:
                version = connection.value("SELECT VERSION()")
                connection.query("SET GLOBAL sync_binlog = 0")
                connection.query("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        print(f"# bench-shard: {options.rows:,} rows, {SHARDS} shards, {options.rounds} rounds\n")
        print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
              f"{os.getloadavg()[0]:.1f}; all servers and the client are on it")
        print(f"- {SHARDS + 1} groups of one server, {version}, sync_binlog=0, "
              "innodb_flush_log_at_trx_commit=2; one client\n")
        return report(measure(farm, addresses, shards, home, options), options)


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "5")))
    parser.add_argument("--points", type=int, default=int(env("POINTS", "20000")))
    parser.add_argument("--rows", type=int, default=int(env("ROWS", "200000")))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    options = parser.parse_args()
    prepare("bench-shard", options)
    sys.exit(0 if run("bench-shard", bench, options) else 1)


if __name__ == "__main__":
    main()
