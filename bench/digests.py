#!/usr/bin/env python3
"""What digests do to a router that sees ever new texts, and to its clients while somebody looks at them.

First the memory: a million texts that were never seen before, and what the router takes then. Then the speed: point
SELECTs, alone and while `digest list` reads all rows ten times a second and `digest reset` begins anew once a second, with
further new texts so that there is always something to read. Both take turns in each round; the ratios are those of one
round, the figures medians.

Environment or flags: TEXTS=1000000 ROUNDS=5 SECONDS=5 CONNECTIONS=8 HEDDLE=bin/heddle
"""

import argparse
import os
import platform
import statistics
import sys
import threading
import time

import sysbench
import wire
from entry import prepare, run
from processes import ROOT, Failed, Farm, cpu_s

# Texts in one write.
BATCH = 500
# What a result of one row and one column has: the number of columns, a column, its end, a row, its end.
PACKETS = 5
ALONE, LOOKED_AT = "alone", "looked at"
LISTS_PER_S = 10
# Beside each list, so that the rows of the next one are not those of this one.
TEXTS_PER_LIST = 50


def frame(text):
    payload = bytes([wire.COM_QUERY]) + text.encode()
    return len(payload).to_bytes(3, "little") + b"\0" + payload


def send_new(connection, numbers):
    """A text for each number, whose answers are read behind the last one."""
    connection.socket.sendall(b"".join(frame(f"SELECT 1 AS c{number}") for number in numbers))
    left, pending = PACKETS * len(numbers), b""
    while left:
        pending += connection.socket.recv(1 << 16)
        at = 0
        while left and at + 5 <= len(pending):
            end = at + 4 + int.from_bytes(pending[at:at + 3], "little")
            if end > len(pending):
                break
            if pending[at + 4] == 0xFF:
                raise Failed(wire.error_text(pending[at + 4:end]))
            at, left = end, left - 1
        pending = pending[at:]


def resident_mb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        line = next(line for line in file if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def counter(connection, name):
    return int(connection.query(f"HEDDLE STATUS LIKE '{name}'")[0][1])


def bench_memory(farm, options):
    """The router's memory before and behind the texts."""
    pid = farm.router.pid
    with wire.Connection(farm.address) as connection:
        send_new(connection, range(BATCH))
        connection.query("HEDDLE DIGEST RESET")
        before_mb, cpu_before_s = resident_mb(pid), cpu_s(pid)
        for first in range(0, options.texts, BATCH):
            send_new(connection, range(first, min(first + BATCH, options.texts)))
        cpu_us = (cpu_s(pid) - cpu_before_s) * 1e6 / options.texts
        after_mb = resident_mb(pid)
        # They are published once a second.
        time.sleep(1.5)
        rows, kept = counter(connection, "digests_now"), counter(connection, "digest_bytes_now")
        gone = counter(connection, "digests_evicted")
        allowed = int(connection.query("SELECT value FROM heddle.settings WHERE name = 'digest_bytes_max'")[0][0])
    print("## Memory\n")
    print("| texts | digest_bytes_max, MB | rows kept | their bytes, MB | rows that went | resident before, MB | more behind, MB | CPU µs/text |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print(f"| {options.texts:,} | {allowed / 2**20:.1f} | {rows:,} | {kept / 2**20:.1f} | {gone:,} | {before_mb:.1f} "
          f"| {after_mb - before_mb:.1f} | {cpu_us:.1f} |\n", flush=True)
    if kept > allowed:
        raise Failed(f"the rows take {kept} bytes; {allowed} are allowed")


class Looker(threading.Thread):
    """Somebody who reads all rows, and begins anew once a second."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.ends, self.lists, self.error = address, threading.Event(), 0, None

    def run(self):
        try:
            with wire.Connection(self.address) as connection:
                while not self.ends.wait(1 / LISTS_PER_S):
                    first = self.lists * TEXTS_PER_LIST
                    send_new(connection, range(first, first + TEXTS_PER_LIST))
                    connection.query("HEDDLE DIGEST LIST --limit=0")
                    self.lists += 1
                    if self.lists % LISTS_PER_S == 0:
                        connection.query("HEDDLE DIGEST RESET")
        except (OSError, wire.ServerError, Failed) as error:
            self.error = error

    def stop(self):
        self.ends.set()
        self.join()
        if self.error:
            raise Failed(f"looking failed: {self.error}")


def measure(farm, case, options):
    looker = Looker(farm.address) if case == LOOKED_AT else None
    if looker:
        looker.start()
    try:
        return sysbench.run(farm.address, "oltp_point_select", options.connections, False, options.seconds)
    finally:
        if looker:
            looker.stop()


def bench_speed(farm, options):
    with wire.Connection(farm.address) as connection:
        connection.query(f"CREATE DATABASE IF NOT EXISTS {sysbench.DATABASE}")
    sysbench.prepare(farm.address)
    reports = {ALONE: [], LOOKED_AT: []}
    for number in range(options.rounds):
        order = list(reports)
        for case in order if number % 2 == 0 else reversed(order):
            report = measure(farm, case, options)
            reports[case].append(report)
            print(f"round {number + 1}: {case}: {report.queries_per_s:,.0f} q/s, p99 {report.p99_ms:.2f} ms",
                  file=sys.stderr, flush=True)
    print(f"## Point SELECTs of {options.connections} connections\n")
    print("| | q/s | p99 ms |\n| --- | ---: | ---: |")
    for case, all_of_it in reports.items():
        rate = statistics.median(report.queries_per_s for report in all_of_it)
        p99 = statistics.median(report.p99_ms for report in all_of_it)
        print(f"| {case} | {rate:,.0f} | {p99:.2f} |")
    pairs = list(zip(reports[LOOKED_AT], reports[ALONE]))
    rate = statistics.median(own.queries_per_s / other.queries_per_s for own, other in pairs)
    p99 = statistics.median(own.p99_ms / other.p99_ms for own, other in pairs)
    print(f"\nLooked at, against alone: q/s ×{rate:.2f}, p99 ×{p99:.2f}.")


def bench(options):
    print(f"# bench-digests: {options.rounds} rounds of {options.seconds} s\n")
    print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before {os.getloadavg()[0]:.1f}\n")
    with Farm(options.heddle, 0) as farm:
        bench_memory(farm, options)
        bench_speed(farm, options)


def read_options():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=int(env("TEXTS", "1000000")))
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "5")))
    parser.add_argument("--seconds", type=int, default=int(env("SECONDS", "5")))
    parser.add_argument("--connections", type=int, default=int(env("CONNECTIONS", "8")))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    return parser.parse_args()


if __name__ == "__main__":
    chosen = read_options()
    prepare("bench-digests", chosen)
    run("bench-digests", bench, chosen)
