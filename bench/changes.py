#!/usr/bin/env python3
"""What the change stream costs: row events per second, and CPU per row event, of the router with one consumer
and with many, of mariadb-binlog that reads the same binlog of the same server into nothing, and of Debezium's embedded
engine, where Maven can fetch it.

Consumers are there and have caught up before the rows are written: they share one reading. The server's own CPU is
shown beside; with the stream it holds the writing, too. CPU of the consumers, which are `curl`, is not counted.

With --transaction-mb or --slow nothing but this is measured: what the router takes while one transaction of so many MB
is told, and with so many consumers of which most read slowly or not at all.

Environment or flags: ROWS=200000 CONSUMERS=1,100 COMMITS=2000 TRANSACTION_MB=0 SLOW=0 HEDDLE=bin/heddle
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
import urllib.request

import changes_bounds
import debezium
import wire
from entry import open_files, prepare, run
from processes import ROOT, Failed, Farm, cpu_s, wait_for

# Rows of one statement.
BATCH = 100
# Commits whose latency is not counted.
WARM_UP = 100
WAIT_S = 600


def metric(farm, name):
    request = urllib.request.Request(f"http://{farm.http}/metrics",
                                     headers={"Authorization": f"Bearer {token(farm)}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    raise Failed(f"no metric {name}")


def token(farm):
    with open(os.path.join(farm.data, "token"), encoding="utf-8") as file:
        return file.read().strip()


def write(primary, rows):
    """Rows of some 100 bytes, in transactions of BATCH, in a table that is made anew."""
    with wire.Connection(primary) as connection:
        connection.query("CREATE DATABASE IF NOT EXISTS b")
        connection.query("CREATE OR REPLACE TABLE b.t (id INT PRIMARY KEY, name VARCHAR(80), price DECIMAL(10,2))")
        for first in range(0, rows, BATCH):
            values = ",".join(f"({n},'{'name' * 15} {n}',{n}.50)" for n in range(first, first + BATCH))
            connection.query(f"INSERT INTO b.t VALUES {values}")


def streamed(farm, primary, server_pid, rows, count):
    """Seconds, and CPU seconds of router and server, of so many consumers."""
    url = f"http://{farm.http}/v1/changes?table=b.t"
    bearer = f"Authorization: Bearer {token(farm)}"
    consumers = []
    try:
        for _ in range(count):
            consumers.append(subprocess.Popen(["curl", "-sN", "-H", bearer, url],
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_for(lambda: metric(farm, "heddle_change_streams") == count
                 and metric(farm, "heddle_change_stream_readings") == 1, WAIT_S, "consumers are behind")
        lines = metric(farm, "heddle_change_stream_lines_total")
        before = time.monotonic(), cpu_s(farm.router.pid), cpu_s(server_pid)
        write(primary, rows)
        wait_for(lambda: metric(farm, "heddle_change_stream_lines_total") >= lines + count * rows,
                 WAIT_S, "rows are missing")
        after = time.monotonic(), cpu_s(farm.router.pid), cpu_s(server_pid)
        return [b - a for a, b in zip(before, after)]
    finally:
        for consumer in consumers:
            consumer.kill()
        for consumer in consumers:
            consumer.wait()
        wait_for(lambda: metric(farm, "heddle_change_streams") == 0, WAIT_S, "streams are left")


def latencies(farm, primary, commits):
    """Milliseconds from the server's OK of a commit to its row's line, of one commit after the other, sorted."""
    request = urllib.request.Request(f"http://{farm.http}/v1/changes?table=b.late",
                                     headers={"Authorization": f"Bearer {token(farm)}"})
    taken = []
    with wire.Connection(primary) as connection:
        connection.query("CREATE OR REPLACE TABLE b.late (id INT PRIMARY KEY)")
        with urllib.request.urlopen(request, timeout=WAIT_S) as lines:
            wait_for(lambda: metric(farm, "heddle_change_streams") == 1, WAIT_S, "the consumer is behind")
            for number in range(commits + WARM_UP):
                connection.query(f"INSERT INTO b.late VALUES ({number})")
                begun = time.monotonic()
                while json.loads(lines.readline()).get("event") != "commit":
                    pass
                if number >= WARM_UP:
                    taken.append((time.monotonic() - begun) * 1000)
    return sorted(taken)


def dumped(primary, server_pid, tool):
    """The same of mariadb-binlog, over the last binlog."""
    host, port = primary.rsplit(":", 1)
    with wire.Connection(primary) as connection:
        last = connection.query("SHOW BINARY LOGS")[-1][0]
    before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN), cpu_s(server_pid)
    subprocess.run([tool, "--read-from-remote-server", "-h", host, "-P", port, "-u", "root",
                    "--base64-output=decode-rows", "--verbose", last],
                   check=True, stdout=subprocess.DEVNULL)
    after = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN), cpu_s(server_pid)
    own = sum(getattr(after[1], name) - getattr(before[1], name) for name in ("ru_utime", "ru_stime"))
    return after[0] - before[0], own, after[2] - before[2]


def bounds(options):
    """What could pile up, and does not."""
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}\n")
    with Farm(options.heddle, 0, changes_bounds.flags(options.slow)) as farm:
        primary, bearer = farm.server_addresses()[0], token(farm)
        if options.transaction_mb:
            changes_bounds.long_transaction(farm, primary, bearer, options.transaction_mb, metric)
        if options.slow:
            changes_bounds.crowd(farm, primary, bearer, options.slow, metric, write)
    print(f"load average at the end {os.getloadavg()[0]:.1f}")
    return True


def bench(options):
    tool = shutil.which("mariadb-binlog") or shutil.which("mysqlbinlog")
    if not tool:
        raise Failed("mariadb-binlog is missing: install mariadb-client")
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}; "
          f"{options.rows:,} rows\n")
    print("| who | row events/s | CPU per row event, us | the server's CPU per row, us |")
    print("| --- | ---: | ---: | ---: |")
    most = max(options.consumers) + 8
    # All consumers come from one address.
    flags = ["--set", f"change_streams_max={most}", "--set", f"http_address_connections_max={most + 56}",
             "--set", f"http_connections_max={most + 512}"]
    with Farm(options.heddle, 0, flags) as farm:
        primary, pid = farm.server_addresses()[0], farm.servers()[0]["pid"]
        for count in options.consumers:
            with wire.Connection(primary) as connection:
                connection.query("FLUSH BINARY LOGS")
            seconds, own, server = streamed(farm, primary, pid, options.rows, count)
            told = options.rows * count
            print(f"| {count} consumers | {told / seconds:,.0f} | {own / told * 1e6:.2f} | "
                  f"{server / options.rows * 1e6:.2f} (with the writing) |", flush=True)
        seconds, own, server = dumped(primary, pid, tool)
        print(f"| mariadb-binlog into nothing | {options.rows / seconds:,.0f} | "
              f"{own / options.rows * 1e6:.2f} | {server / options.rows * 1e6:.2f} |")
        taken = latencies(farm, primary, options.commits)
        class_path = debezium.built()
        try:
            if not class_path:
                raise Failed("Maven or its repository is not to be had here")
            seconds, own = debezium.streamed(class_path, primary, options.rows, write)
            print(f"| Debezium's embedded engine | {options.rows / seconds:,.0f} | {own / options.rows * 1e6:.2f} | |")
        except Failed as reason:
            print(f"| Debezium's embedded engine: {reason} | | | |")
    p50_ms, p99_ms = (taken[len(taken) * part // 100] for part in (50, 99))
    print(f"\nFrom a commit's OK to its line, {len(taken):,} commits one after the other: p50 {p50_ms:.2f} ms, p99 {p99_ms:.2f} ms")
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}")
    return True


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=int(env("ROWS", "200000")))
    parser.add_argument("--consumers", default=env("CONSUMERS", "1,100"))
    parser.add_argument("--commits", type=int, default=int(env("COMMITS", "2000")), help="to take latencies of")
    parser.add_argument("--transaction-mb", type=int, default=int(env("TRANSACTION_MB", "0")),
                        help="MB of one transaction")
    parser.add_argument("--slow", type=int, default=int(env("SLOW", "0")),
                        help="consumers of which a twentieth reads all, and half reads nothing")
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin/heddle")))
    options = parser.parse_args()
    options.consumers = [int(count) for count in options.consumers.split(",")]
    options.rows -= options.rows % BATCH
    prepare("bench-changes", options)
    open_files("bench-changes", max(4096, changes_bounds.files(options.slow)))
    work = bounds if options.transaction_mb or options.slow else bench
    sys.exit(0 if run("bench-changes", work, options) else 1)


if __name__ == "__main__":
    main()
