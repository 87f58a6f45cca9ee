#!/usr/bin/env python3
"""Connecting: TCP, login with a database, SELECT 1, COM_QUIT; straight to a server and through Heddle.

Contenders take turns within each round; the ratios are taken within a round and the table shows
medians. CPU is the server's and Heddle's own (utime and stime of all threads) per connection.

Environment or flags: ROUNDS=5 SECONDS=3 CLIENTS=1,8 HEDDLE=bin/heddle
"""

import argparse
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
STRAIGHT, HEDDLE = "straight", "Heddle"


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


def measure(farm, primary, who, clients, seconds):
    address = primary if who == STRAIGHT else farm.address
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


def bench(options):
    """True when connecting through Heddle is at least as fast as straight, in the medians."""
    met = True
    with Farm(options.heddle, 0) as farm:
        primary = farm.server_addresses()[0]
        with wire.Connection(primary) as connection:
            version = connection.value("SELECT VERSION()")
            connection.query(f"CREATE DATABASE {DATABASE}")
        print(f"# bench-connect: {options.rounds} rounds of {options.seconds} s\n")
        print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
              f"{os.getloadavg()[0]:.1f}")
        print(f"- One server, {version}; each connection names a database\n")
        print("| clients | | connections/s | median ms | Heddle's CPU µs | the server's CPU µs |")
        print("| ---: | --- | ---: | ---: | ---: | ---: |")
        for clients in options.clients:
            samples = {STRAIGHT: [], HEDDLE: []}
            for number in range(options.rounds):
                order = [STRAIGHT, HEDDLE] if number % 2 == 0 else [HEDDLE, STRAIGHT]
                for who in order:
                    sample = measure(farm, primary, who, clients, options.seconds)
                    samples[who].append(sample)
            for who, own in samples.items():
                median = lambda figure: statistics.median(figure(one) for one in own)
                heddle = "" if who == STRAIGHT else f"{median(lambda s: s.heddle_us):.0f}"
                print(f"| {clients} | {who} | {median(lambda s: s.per_s):,.0f} | "
                      f"{median(lambda s: s.median_ms):.2f} | {heddle} | "
                      f"{median(lambda s: s.server_us):.0f} |")
            pairs = zip(samples[STRAIGHT], samples[HEDDLE])
            ratio = statistics.median(h.per_s / s.per_s for s, h in pairs)
            met &= ratio >= 1
            print(f"| {clients} | ratio | ×{ratio:.2f} | | | |", flush=True)
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
    options = parser.parse_args()
    options.clients = [int(count) for count in options.clients.replace(",", " ").split()]
    prepare("bench-connect", options)
    met = run("bench-connect", bench, options)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
