#!/usr/bin/env python3
"""Connecting: TCP, login with a database, COM_QUIT; and the same with a SELECT 1, which is the way of most
short-lived connections and a trip more through Heddle. Straight to a server and through Heddle.

Contenders take turns within each round; the ratios are taken within a round and the table shows
medians. CPU is the server's and Heddle's own (utime and stime of all threads) per connection. Each
client is a process: threads would share an interpreter, whose lock would be measured, too.

With EARLIER, the path of an earlier build, that one takes its turns as well, on a server of its own.

Environment or flags: ROUNDS=5 SECONDS=3 CLIENTS=1,8 HEDDLE=bin/heddle EARLIER=PATH
"""

import argparse
import contextlib
import multiprocessing
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass

import wire
from entry import prepare, run
from processes import ROOT, Failed, Farm, cpu_s

DATABASE = "connect"
STRAIGHT, HEDDLE, EARLIER = "straight", "Heddle", "earlier build"
# What a connection is for, and whether that takes a statement.
PURPOSES = {"login": False, "login, SELECT 1": True}
PROCESSES = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Sample:
    per_s: float
    median_ms: float
    heddle_us: float
    server_us: float


def connect_once(address, asks=True):
    with wire.Connection(address, database=DATABASE) as connection:
        if asks and connection.value("SELECT 1") != "1":
            raise Failed("SELECT 1 is not 1")
        connection.socket.sendall(b"\x01\0\0\0\x01")


def client(address, asks, deadline, tell):
    """Connects again and again, and tells what each time took, or what went wrong."""
    times_ms = []
    try:
        while (begun := time.monotonic()) < deadline:
            connect_once(address, asks)
            times_ms.append((time.monotonic() - begun) * 1000)
    except (Failed, OSError, wire.ServerError) as error:
        times_ms = f"{type(error).__name__}: {error}"
    tell.send(times_ms)


def measure(farm, who, asks, clients, seconds):
    address = farm.server_addresses()[0] if who == STRAIGHT else farm.address
    pids = farm.servers()[0]["pid"], farm.router.pid
    connect_once(address)
    before = [cpu_s(pid) for pid in pids]
    begun = time.monotonic()
    pipes, processes = [], []
    for _ in range(clients):
        told, tell = PROCESSES.Pipe(duplex=False)
        pipes.append(told)
        job = address, asks, begun + seconds, tell
        processes.append(PROCESSES.Process(target=client, args=job))
        processes[-1].start()
        # Whoever ends without a word has closed the last end of it.
        tell.close()
    times_ms = []
    for told in pipes:
        try:
            of_one = told.recv()
        except EOFError as error:
            raise Failed("a client ended without a word") from error
        if isinstance(of_one, str):
            raise Failed(of_one)
        times_ms += of_one
    elapsed = time.monotonic() - begun
    for process in processes:
        process.join()
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


def compare(options, farms, purpose, asks, clients):
    """Prints the rows of one purpose and number of clients. Gives the ratio of Heddle to straight."""
    samples = {who: [] for who in farms}
    for number in range(options.rounds):
        # Another one begins each time.
        shift = number % len(farms)
        for who in [*farms][shift:] + [*farms][:shift]:
            samples[who].append(measure(farms[who], who, asks, clients, options.seconds))
    for who, own in samples.items():
        median = lambda figure: statistics.median(figure(one) for one in own)
        heddle = "" if who == STRAIGHT else f"{median(lambda s: s.heddle_us):.0f}"
        print(f"| {purpose} | {clients} | {who} | {median(lambda s: s.per_s):,.0f} | "
              f"{median(lambda s: s.median_ms):.2f} | {heddle} | {median(lambda s: s.server_us):.0f} |")
    ratio = median_ratio(samples[HEDDLE], samples[STRAIGHT])
    print(f"| {purpose} | {clients} | ratio to straight | ×{ratio:.2f} | | | |", flush=True)
    if options.earlier:
        earlier = median_ratio(samples[HEDDLE], samples[EARLIER])
        print(f"| {purpose} | {clients} | ratio to the earlier build | ×{earlier:.2f} | | | |", flush=True)
    return ratio


def bench(options):
    """True when logins through Heddle are at least as fast as straight, in the medians."""
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
        print("| | clients | | connections/s | median ms | Heddle's CPU µs | the server's CPU µs |")
        print("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
        for purpose, asks in PURPOSES.items():
            for clients in options.clients:
                met &= compare(options, farms, purpose, asks, clients) >= 1 or asks
    said = "at least" if met else "NOT"
    print(f"\nLogins through Heddle are {said} as fast as straight.")
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
