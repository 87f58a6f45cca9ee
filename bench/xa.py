#!/usr/bin/env python3
"""What a transaction over two groups costs, against the same two updates in two transactions; that a
transaction in one group costs nothing more where tables are sharded; how often the servers flush.

Two farms of groups of one server: one without shard maps, one of two groups with a table whose rows are
on both. Every commit is flushed (sync_binlog=1, innodb_flush_log_at_trx_commit=1). Contenders take turns
within each round; ratios are taken within a round, and the tables show medians. sysbench is the client.

Environment or flags: ROUNDS=3 SECONDS=4 CLIENTS=1,2,4,8,16,32,64 HEDDLE=bin/heddle
"""

import argparse
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass

import wire
from entry import prepare, run
from processes import ROOT, Failed, Farm, address_of, cpu_s, wait_for

DATABASE = "bench"
ROWS = 10_000
BATCH = 1000
# On top of the run's own length.
GRACE_S = 60
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "xa.lua")
COLUMNS = "(id INT PRIMARY KEY, amount INT NOT NULL)"
COUNTED_CLIENTS = 16

# What the table allows: the least throughput and the most latency against two plain transactions at 16
# clients, and what a transaction of one group may cost more.
THROUGHPUT_MIN = 0.6
LATENCY_MAX = 2.0
ONE_GROUP_MAX = 1.01
# The decider of a transaction over two groups flushes as often as for a plain one; half a flush more
# would be one of the decision's own.
DECIDER_FLUSHES_MORE_MAX = 0.5


@dataclass
class Sample:
    transactions: int
    per_s: float
    mean_ms: float
    p99_ms: float
    # Of the router, per transaction.
    cpu_us: float


def sysbench(farm, kind, clients, seconds):
    """One run; Failed when it met an error other than a deadlock or a lock wait."""
    host, port = farm.address.rsplit(":", 1)
    before = cpu_s(farm.router.pid)
    command = ["sysbench", SCRIPT, f"--mysql-host={host}", f"--mysql-port={port}", "--mysql-user=root",
               f"--mysql-db={DATABASE}", "--db-ps-mode=disable", "--mysql-ignore-errors=1213,1205",
               f"--kind={kind}", f"--rows={ROWS}", f"--threads={clients}", f"--time={seconds}", "--events=0",
               "--percentile=99", "--report-interval=0", "run"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"sysbench hung: {kind}, {clients} clients")
    if done.returncode != 0 or "FATAL" in done.stdout:
        lines = [line for line in done.stdout.splitlines() if "FATAL" in line or "error" in line]
        raise Failed(f"sysbench: {lines[0] if lines else done.stdout[-300:]}")

    def figure(pattern):
        found = re.search(pattern, done.stdout)
        if not found:
            raise Failed(f"sysbench's report lacks {pattern}: {done.stdout[-300:]}")
        return found.group(1)

    transactions = int(figure(r"transactions:\s+(\d+)"))
    return Sample(transactions, float(figure(r"transactions:\s+\d+\s+\(([\d.]+) per sec")),
                  float(figure(r"avg:\s+([\d.]+)")), float(figure(r"99th percentile:\s+([\d.]+)")),
                  (cpu_s(farm.router.pid) - before) * 1e6 / max(1, transactions))


def command(farm, *words):
    """A command of the farm's, over its HTTP door."""
    done = subprocess.run([farm.heddle, *words, "--http", farm.http, "--data", farm.data], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"heddle {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def fill(client, table, rows):
    for start in range(0, rows, BATCH):
        client.query(f"INSERT INTO {table} VALUES " + ", ".join(f"({n}, 0)" for n in range(start, start + BATCH)))


def set_up(farm, sharded):
    with wire.Connection(farm.address, timeout_s=120) as client:
        client.query(f"CREATE DATABASE {DATABASE}")
        client.query(f"USE {DATABASE}")
        client.query(f"CREATE TABLE near {COLUMNS}")
        if sharded:
            client.query(f"CREATE TABLE wide {COLUMNS}")
            command(farm, "sharding", "create_definition", "RANGE_INTEGER", "g1", "halves")
            command(farm, "sharding", "add_shard", "halves", f"g1/0,g2/{ROWS}", "ENABLED")
            command(farm, "sharding", "add_table", "halves", f"{DATABASE}.wide", "id")
            command(farm, "sharding", "add_table", "halves", f"{DATABASE}.near", "id")
            fill(client, "wide", 2 * ROWS)
        fill(client, "near", ROWS)


class Flushes:
    """Counts the flushes that a server asks the kernel for, by strace, which slows it down."""

    def __init__(self, server):
        self.group = server["group"]
        self.summary = tempfile.NamedTemporaryFile(mode="r", prefix="heddle-bench-", suffix=".strace")
        command = ["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", self.summary.name, "-p", str(server["pid"])]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        # It says so for each thread that it watches from now on.
        if "attached" not in (first := self.process.stderr.readline()):
            self.process.wait()
            raise Failed(f"strace: {first.strip() or 'no word'}")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(GRACE_S)
        calls = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?f(?:data)?sync$", self.summary.read(), re.MULTILINE)
        self.summary.close()
        return sum(map(int, calls))


def flushes_per_transaction(farm, kind, seconds):
    """By group, of one client: nothing is flushed together."""
    watches = []
    try:
        watches.extend(map(Flushes, farm.servers()))
        sample = sysbench(farm, kind, 1, seconds)
    finally:
        counts = {watch.group: watch.end() for watch in watches}
    if not all(counts.values()):
        raise Failed(f"strace saw a server that never flushes: {counts}")
    return {group: count / sample.transactions for group, count in counts.items()}


def measure(plain, sharded, options):
    """The samples of all rounds: one-group transactions of both farms, and the curve."""
    ones, curve = [], {clients: [] for clients in options.clients}
    for number in range(options.rounds):
        turns = [(plain, "plain"), (sharded, "sharded")]
        ones.append({name: sysbench(farm, "one", COUNTED_CLIENTS, options.seconds)
                     for farm, name in (turns if number % 2 == 0 else turns[::-1])})
        for clients in options.clients:
            kinds = ["cross", "apart"] if number % 2 == 0 else ["apart", "cross"]
            curve[clients].append({kind: sysbench(sharded, kind, clients, options.seconds) for kind in kinds})
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return ones, curve


def median(values):
    return statistics.median(values)


def report_curve(curve):
    """Prints the curve; throughput and latency against two plain transactions at 16 clients, or at the
    most clients there were."""
    print("| clients | over two groups | two transactions | throughput | mean latency | 99 % | router CPU |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    ratios = {}
    for clients, samples in curve.items():
        cross, apart = ([sample[kind] for sample in samples] for kind in ("cross", "apart"))
        ratios[clients] = (median([a.per_s / b.per_s for a, b in zip(cross, apart)]),
                           median([a.mean_ms / b.mean_ms for a, b in zip(cross, apart)]))
        print(f"| {clients} | {median([s.per_s for s in cross]):,.0f}/s | {median([s.per_s for s in apart]):,.0f}/s | "
              f"{ratios[clients][0]:.2f} | {median([s.mean_ms for s in cross]):.2f} / {median([s.mean_ms for s in apart]):.2f} ms "
              f"= {ratios[clients][1]:.2f} | {median([s.p99_ms for s in cross]):.1f} / {median([s.p99_ms for s in apart]):.1f} ms | "
              f"{median([s.cpu_us for s in cross]):.0f} / {median([s.cpu_us for s in apart]):.0f} µs |")
    return ratios.get(COUNTED_CLIENTS) or ratios[max(ratios)]


def report(ones, curve, counted, options):
    """Prints the tables; true when everything is within its bounds."""
    throughput, latency = report_curve(curve)
    one_s = median([1 / (s["sharded"].per_s / s["plain"].per_s) for s in ones])
    one_us = median([s["sharded"].cpu_us - s["plain"].cpu_us for s in ones])
    plain_us = median([s["plain"].cpu_us for s in ones])
    decider = counted["cross"]["g1"] - counted["apart"]["g1"]
    print("\n| | figure | bound |")
    print("| --- | ---: | ---: |")
    print(f"| throughput against two transactions, {COUNTED_CLIENTS} clients | {throughput:.2f} | at least {THROUGHPUT_MIN} |")
    print(f"| mean latency against two transactions, {COUNTED_CLIENTS} clients | {latency:.2f} | at most {LATENCY_MAX} |")
    print(f"| time of a transaction in one group against a farm without shard maps | {one_s:.3f} | at most {ONE_GROUP_MAX} |")
    print(f"| the same, router CPU: {plain_us:.0f} µs and | {one_us:+.1f} µs | |")
    for kind, name in (("apart", "two transactions"), ("cross", "over two groups")):
        print(f"| flushes of one client's, {name}: first group / second | {counted[kind]['g1']:.2f} / {counted[kind]['g2']:.2f} | |")
    print(f"| the decision's own flushes | {decider:+.2f} | at most {DECIDER_FLUSHES_MORE_MAX:+} |")
    met = (throughput >= THROUGHPUT_MIN and latency <= LATENCY_MAX and one_s <= ONE_GROUP_MAX
           and decider <= DECIDER_FLUSHES_MORE_MAX)
    print("\nAll bounds hold." if met else "\nNOT all bounds hold.")
    return met


def nothing_prepared(farm):
    for address in farm.server_addresses():
        with wire.Connection(address) as connection:
            if connection.query("XA RECOVER"):
                return False
    return True


def bench(options):
    with Farm(options.heddle, 0, ["--groups", "1"]) as plain, Farm(options.heddle, 0, ["--groups", "2"]) as sharded:
        set_up(plain, False)
        set_up(sharded, True)
        with wire.Connection(sharded.address) as client:
            version = client.value("SELECT VERSION()")
        print(f"# bench-xa: transactions of two updates, {options.rounds} rounds of {options.seconds} s\n")
        print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
              f"{os.getloadavg()[0]:.1f}; all servers and the client are on it")
        print(f"- {version}, sync_binlog=1, innodb_flush_log_at_trx_commit=1; groups of one server\n")
        for farm in (plain, sharded):
            sysbench(farm, "one", 4, 1)
        counted = {kind: flushes_per_transaction(sharded, kind, options.seconds) for kind in ("apart", "cross")}
        ones, curve = measure(plain, sharded, options)
        wait_for(lambda: nothing_prepared(sharded), 10, "prepared transactions are left")
        return report(ones, curve, counted, options)


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "3")))
    parser.add_argument("--seconds", type=int, default=int(env("SECONDS", "4")))
    parser.add_argument("--clients", type=lambda text: [int(it) for it in text.split(",")],
                        default=[int(it) for it in env("CLIENTS", "1,2,4,8,16,32,64").split(",")])
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    options = parser.parse_args()
    prepare("bench-xa", options)
    sys.exit(0 if run("bench-xa", bench, options) else 1)


if __name__ == "__main__":
    main()
