#!/usr/bin/env python3
"""What the promise «you see what you wrote» costs: reads at the levels session and client against
eventual ones, and how many of them the primary has to answer.

Every session has written once, so each of its reads asks whether a replica has that. A second table
has sessions that go on writing, where replicas must be waited for. The levels take turns within each
round; ratios are taken within a round, and the tables show medians.

Environment or flags: ROUNDS=5 SECONDS=5 CONNECTIONS=16 HEDDLE=bin/heddle
"""

import argparse
import os
import platform
import statistics
import sys
from dataclasses import dataclass

import sysbench
import wire
from entry import prepare, run
from processes import ROOT, Farm, cpu_s

LEVELS = ["eventual", "session", "client"]
# CPU per read that the promise may cost where replicas are current.
COST_MAX = 0.03
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reads.lua")


@dataclass(frozen=True)
class Sample:
    queries_per_s: float
    cpu_us: float
    p99_ms: float
    # Of all queries, in percent.
    replicas: float
    waited: float


def measure(farm, level, writes, options):
    before, counted = cpu_s(farm.router.pid), status(farm)
    report = sysbench.run(farm.address, SCRIPT, options.connections, False, options.seconds,
                          [f"--level={level}", f"--writes={writes}"])
    used_us = (cpu_s(farm.router.pid) - before) * 1e6
    later = status(farm)
    share = lambda name: 100 * (later[name] - counted[name]) / report.queries
    return Sample(report.queries_per_s, used_us / report.queries, report.p99_ms,
                  share("reads_to_replicas"), share("reads_waited"))


def status(farm):
    with wire.Connection(farm.address) as connection:
        return {name: int(value) for name, value in connection.query("HEDDLE STATUS LIKE 'reads%'")}


def rounds(farm, writes, options):
    samples = {level: [] for level in LEVELS}
    for number in range(options.rounds):
        for level in LEVELS if number % 2 == 0 else reversed(LEVELS):
            sample = measure(farm, level, writes, options)
            samples[level].append(sample)
            print(f"{writes} writes, round {number + 1}: {level}: {sample.cpu_us:.2f} µs",
                  file=sys.stderr, flush=True)
    return samples


def table(title, samples):
    """Prints the medians; returns what the promise costs."""
    print(f"## {title}\n")
    print("| level | queries/s | Heddle's CPU µs/query | p99 ms | on replicas | waited "
          "| CPU against eventual | against session |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    def ratio(level, to):
        pairs = zip(samples[level], samples[to])
        return statistics.median(own.cpu_us / other.cpu_us for own, other in pairs)
    for level in LEVELS:
        middle = lambda figure: statistics.median(figure(sample) for sample in samples[level])
        against = f"x{ratio(level, 'eventual'):.3f}" if level != "eventual" else ""
        session = f"x{ratio(level, 'session'):.3f}" if level == "client" else ""
        print(f"| {level} | {middle(lambda s: s.queries_per_s):,.0f} | "
              f"{middle(lambda s: s.cpu_us):.2f} | {middle(lambda s: s.p99_ms):.1f} | "
              f"{middle(lambda s: s.replicas):.1f} % | {middle(lambda s: s.waited):.1f} % | "
              f"{against} | {session} |")
    print(flush=True)
    return ratio("client", "eventual") - 1


def bench(options):
    with Farm(options.heddle, 2) as farm:
        with wire.Connection(farm.address) as connection:
            connection.query(f"CREATE DATABASE {sysbench.DATABASE}")
            version = connection.value("SELECT VERSION()")
        sysbench.prepare(farm.address)
        print(f"# bench-consistency: {options.connections} connections, {options.rounds} rounds of "
              f"{options.seconds} s\n")
        print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
              f"{os.getloadavg()[0]:.1f}")
        print(f"- {version}, a primary and two replicas with semi-sync, sync_binlog=1, "
              "innodb_flush_log_at_trx_commit=1\n")
        cost = table("Replicas are current", rounds(farm, 0, options))
        table("One update in 20 statements", rounds(farm, 50, options))
        with wire.Connection(farm.address) as connection:
            for name, value in connection.query("HEDDLE STATUS LIKE 'reads_waited%'"):
                print(f"{name}: {value}")
    met = cost <= COST_MAX
    print(f"The promise costs {cost:+.1%} of CPU per read; at most {COST_MAX:.0%} is the aim: "
          f"{'met' if met else 'missed'}.")
    return 0 if met else 1


def arguments():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "5")))
    parser.add_argument("--seconds", type=int, default=int(env("SECONDS", "5")))
    parser.add_argument("--connections", type=int, default=int(env("CONNECTIONS", "16")))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    prepare("bench-consistency", given)
    sys.exit(run("bench-consistency", bench, given))
