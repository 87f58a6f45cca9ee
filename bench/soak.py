#!/usr/bin/env python3
"""Sysbench's oltp_read_write through Heddle, on text and on prepared statements, without an error,
beside clients that come and go, vanish and change users; the same rows on every server afterwards,
and a router whose memory and descriptors did not grow.

Environment or flags: SOAK_SECONDS=300 (per protocol; an hour's soak is 1800) CONNECTIONS=64
REPLICAS=2 HEDDLE=bin/heddle
"""

import argparse
import os
import resource
import sys
import time

import churn
import sysbench
import wire
from entry import prepare, run
from processes import ROOT, Failed, Farm, memory_kb, wait_for

# Replicas that share two cores with the load fall behind; they may take their time, but not stand.
CATCH_UP_TIMEOUT_S = 1800
STALL_TIMEOUT_S = 60


def fingerprint(address):
    """Per table: its checksum, rows, and sums of the columns that the load changes."""
    with wire.Connection(address, timeout_s=300) as connection:
        found = {}
        for number in range(1, sysbench.TABLES + 1):
            table = f"{sysbench.DATABASE}.sbtest{number}"
            checksum = connection.query(f"CHECKSUM TABLE {table}")[0][1]
            sums = f"SELECT COUNT(*), SUM(id), SUM(k), SUM(CRC32(c)), SUM(CRC32(pad)) FROM {table}"
            found[table] = (checksum, *connection.query(sums)[0])
        return found


def deadlocks(addresses):
    """What the servers counted, or None where they do not count."""
    total = 0
    for address in addresses:
        with wire.Connection(address) as connection:
            rows = connection.query("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
            if not rows:
                return None
            total += int(rows[0][1])
    return total


def load(farm, prepared, options):
    """One protocol's run; Failed on any error that is not a deadlock of the server itself."""
    protocol = "prepared statements" if prepared else "text"
    before = deadlocks(farm.server_addresses())
    report = sysbench.run(farm.address, "oltp_read_write", options.connections, prepared,
                          options.seconds)
    after = deadlocks(farm.server_addresses())
    print(f"{protocol}: {report.queries:,} queries in {options.seconds} s with {options.connections} "
          f"connections, {report.queries_per_s:,.0f} q/s, p99 {report.p99_ms:.1f} ms per transaction, "
          f"0 errors, {report.reconnects} reconnects, {report.ignored_errors} deadlocks that sysbench "
          f"ran again (the servers counted {'unknown' if after is None else after - before})",
          flush=True)
    if report.reconnects:
        raise Failed(f"{protocol}: {report.reconnects} connections were lost")
    if after is not None and report.ignored_errors > after - before:
        raise Failed(f"{protocol}: more clients than the servers' deadlocks were told 1213")


def catch_up(farm):
    """Waits until every server has applied what the primary has; Failed when one stands still."""
    last, since_s, begun_s = None, time.monotonic(), time.monotonic()

    def all_there():
        nonlocal last, since_s
        positions = {}
        for address in farm.server_addresses():
            with wire.Connection(address) as connection:
                positions[address] = connection.query("SELECT @@gtid_binlog_pos")[0][0]
        if positions != last:
            last, since_s = positions, time.monotonic()
        if time.monotonic() - since_s > STALL_TIMEOUT_S and len(set(positions.values())) > 1:
            raise Failed(f"a replica stands still: {positions}")
        return len(set(positions.values())) == 1

    wait_for(all_there, CATCH_UP_TIMEOUT_S, "the replicas are still behind")
    print(f"replicas: all positions equal {time.monotonic() - begun_s:.0f} s after the load", flush=True)


def compare(farm):
    """Compares every server's rows once all have applied everything."""
    catch_up(farm)
    seen = {address: fingerprint(address) for address in farm.server_addresses()}
    if len({tuple(sorted(found.items())) for found in seen.values()}) != 1:
        for address, found in seen.items():
            print(f"{address}: {found}")
        raise Failed("the servers' rows differ")
    for table, (checksum, rows, *_) in next(iter(seen.values())).items():
        print(f"{table}: {rows} rows, checksum {checksum}, equal on {len(seen)} servers")


def soak(options):
    with Farm(options.heddle, options.replicas) as farm:
        if len(farm.server_addresses()) != options.replicas + 1:
            raise Failed(f"the farm has {len(farm.server_addresses())} servers")
        with wire.Connection(farm.address) as connection:
            connection.query(f"CREATE DATABASE {sysbench.DATABASE}")
        sysbench.prepare(farm.address)
        pid = farm.router.pid
        before_kb = memory_kb(pid, "VmRSS")
        with churn.Churn(farm.address, pid) as others:
            for prepared in (False, True):
                load(farm, prepared, options)
        if farm.router.poll() is not None:
            raise Failed(f"heddle ended: {farm.last_words()}")
        print(f"heddle: resident {before_kb / 1024:.1f} MB before, "
              f"{memory_kb(pid, 'VmRSS') / 1024:.1f} MB after, "
              f"peak {memory_kb(pid, 'VmHWM') / 1024:.1f} MB")
        others.judge()
        compare(farm)


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=int(env("SOAK_SECONDS", "300")))
    parser.add_argument("--connections", type=int, default=int(env("CONNECTIONS", "64")))
    parser.add_argument("--replicas", type=int, default=int(env("REPLICAS", "2")))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    options = parser.parse_args()
    prepare("soak", options)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    run("soak", soak, options)
    print("soak: passed")


if __name__ == "__main__":
    main()
