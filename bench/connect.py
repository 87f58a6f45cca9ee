#!/usr/bin/env python3
"""Connecting: TCP, login with a database, SELECT 1, COM_QUIT; straight to a server and through Heddle.

Contenders take turns within each round; the ratios are taken within a round and the table shows
medians. CPU is the server's and Heddle's own (utime and stime of all threads) per connection.

With EARLIER, the path of an earlier build, that one takes its turns as well, on a server of its own.

Environment or flags: ROUNDS=5 SECONDS=3 CLIENTS=1,8 HEDDLE=bin/heddle EARLIER=PATH
"""

import argparse
import contextlib
import os
import platform
import statistics
import sys
import threading
import time
from dataclasses import dataclass

import wire
from entry import prepare, run
from processes import ROOT, Failed, Farm, cpu_s

DATABASE = "connect"
STRAIGHT, HEDDLE, EARLIER = "straight", "Heddle", "earlier build"


@dataclass(frozen=True)
class Sample:
    per_s: float
    median_ms: float
    heddle_us: float
    server_us: float


def connect_once(address):
    with wire.Connection(address, database=DATABASE) as connection:
        if connection.value("SELECT 1") != "1":
            raise Failed("SELECT 1 is not 1")
        connection.socket.sendall(b"\x01\0\0\0\x01")


def measure(farm, who, clients, seconds):
    address = farm.server_addresses()[0] if who == STRAIGHT else farm.address
    pids = farm.servers()[0]["pid"], farm.router.pid
    times_ms, failed = [], []
    connect_once(address)
    deadline = time.monotonic() + seconds

    def client():
        try:
            while (begun := time.monotonic()) < deadline:
                connect_once(address)
                times_ms.append((time.monotonic() - begun) * 1000)
        except (Failed, OSError, wire.ServerError) as error:
            failed.append(error)

    before = [cpu_s(pid) for pid in pids]
    begun = time.monotonic()
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.monotonic() - begun
    if failed:
        raise failed[0]
    server_us, heddle_us = (
        (cpu_s(pid) - was) * 1e6 / len(times_ms) for pid, was in zip(pids, before))
    return Sample(len(times_ms) / elapsed, statistics.median(times_ms), heddle_us, server_us)


def filled(farm):
    """Makes the database that clients name. Gives the server's version."""
    with wire.Connection(farm.server_addresses()[0]) as connection:
        connection.query(f"CREATE DATABASE {DATABASE}")
        return connection.value("SELECT VERSION()")


def median_ratio(own, other):
    """Of connections per second, both of the same round."""
    return statistics.median(a.per_s / b.per_s for a, b in zip(own, other))


def bench(options):
    """True when connecting through Heddle is at least as fast as straight, in the medians."""
    met = True
    with contextlib.ExitStack() as stack:
        farm = stack.enter_context(Farm(options.heddle, 0))
        version = filled(farm)
        farms = {STRAIGHT: farm, HEDDLE: farm}
        if options.earlier:
            farms[EARLIER] = stack.enter_context(Farm(options.earlier, 0))
            filled(farms[EARLIER])
        print(f"# bench-connect: {options.rounds} rounds of {options.seconds} s\n")
        print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
              f"{os.getloadavg()[0]:.1f}")
        print(f"- One server, {version}; each connection names a database\n")
        print("| clients | | connections/s | median ms | Heddle's CPU µs | the server's CPU µs |")
        print("| ---: | --- | ---: | ---: | ---: | ---: |")
        for clients in options.clients:
            samples = {who: [] for who in farms}
            for number in range(options.rounds):
                # Another one begins each time.
                shift = number % len(farms)
                for who in [*farms][shift:] + [*farms][:shift]:
                    samples[who].append(measure(farms[who], who, clients, options.seconds))
            for who, own in samples.items():
                median = lambda figure: statistics.median(figure(one) for one in own)
                heddle = "" if who == STRAIGHT else f"{median(lambda s: s.heddle_us):.0f}"
                print(f"| {clients} | {who} | {median(lambda s: s.per_s):,.0f} | "
                      f"{median(lambda s: s.median_ms):.2f} | {heddle} | "
                      f"{median(lambda s: s.server_us):.0f} |")
            ratio = median_ratio(samples[HEDDLE], samples[STRAIGHT])
            met &= ratio >= 1
            print(f"| {clients} | ratio to straight | ×{ratio:.2f} | | | |", flush=True)
            if options.earlier:
                ratio = median_ratio(samples[HEDDLE], samples[EARLIER])
                print(f"| {clients} | ratio to the earlier build | ×{ratio:.2f} | | | |", flush=True)
    said = "at least" if met else "NOT"
    print(f"\nConnecting through Heddle is {said} as fast as straight.")
    return met


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "5")))
    parser.add_argument("--seconds", type=float, default=float(env("SECONDS", "3")))
    parser.add_argument("--clients", default=env("CLIENTS", "1,8"))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    parser.add_argument("--earlier", default=env("EARLIER"))
    options = parser.parse_args()
    options.clients = [int(count) for count in options.clients.replace(",", " ").split()]
    prepare("bench-connect", options)
    met = run("bench-connect", bench, options)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
