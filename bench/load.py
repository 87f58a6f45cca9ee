#!/usr/bin/env python3
"""What LOAD DATA LOCAL costs through the door: into a table of one group, and into one that is sharded over three, against
the same file sent straight to the first group's server.

Contenders take turns within each round; ratios are taken within a round, and the table shows medians. Rows are counted
after each load. The router's CPU is told beside the time.

Environment or flags: ROUNDS=5 ROWS=500000 HEDDLE=bin/heddle
"""

import argparse
import os
import platform
import statistics
import sys
import time

import wire
from entry import prepare, run
from processes import ROOT, Failed, Farm, address_of, cpu_s
from shard import command

GROUPS = 3
DATABASE = "bench"
PLAIN, SHARDED = f"{DATABASE}.plain", f"{DATABASE}.sharded"
COLUMNS = "(id INT PRIMARY KEY, owner INT NOT NULL, amount DECIMAL(12,2) NOT NULL, name VARCHAR(60) NOT NULL)"
# The mariadb client sends files in pieces of this size.
PIECE_BYTES = 16 * 1024 - 8
TIMEOUT_S = 600

# What the table allows: of the throughput of the straight load, so much is left at least.
THROUGHPUT_MIN = 0.9

WAYS = ("straight", "one group", "sharded")


def pieces(rows):
    """The file of the rows, as a client sends it."""
    text = "".join(f"{n}\t{n * 7919 % 100_003}\t{n % 9973}.{n % 100:02}\tthe name of row number {n}\n" for n in range(rows))
    data = text.encode()
    return [data[at:at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]


def load(connection, table, file, rows):
    """Seconds of one load into the table, which is emptied first."""
    connection.query(f"TRUNCATE TABLE {table}")
    begun_s = time.monotonic()
    connection.load(f"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {table}", file)
    seconds = time.monotonic() - begun_s
    found = int(connection.value(f"SELECT COUNT(*) FROM {table}"))
    if found != rows:
        raise Failed(f"{table} has {found} rows of {rows}")
    return seconds


def measure(farm, straight, options):
    """Of each round the seconds of each way, and the router's CPU seconds meanwhile."""
    file = pieces(options.rows)
    samples = []
    with (wire.Connection(farm.address, timeout_s=TIMEOUT_S) as client,
          wire.Connection(straight, timeout_s=TIMEOUT_S) as own):
        for number in range(options.rounds):
            round_s, used_s = [], []
            for way in WAYS:
                connection = own if way == "straight" else client
                before = cpu_s(farm.router.pid)
                round_s.append(load(connection, SHARDED if way == "sharded" else PLAIN, file, options.rows))
                used_s.append(cpu_s(farm.router.pid) - before)
            samples.append((round_s, used_s))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return samples, sum(map(len, file))


def report(samples, file_bytes):
    """Prints the table; true when everything is within its bounds."""
    print("| into | time | MB a second | throughput against straight | router's CPU |")
    print("| --- | ---: | ---: | ---: | ---: |")
    met = True
    for at, way in enumerate(WAYS):
        seconds = statistics.median(round_s[at] for round_s, _ in samples)
        ratio = statistics.median(round_s[0] / round_s[at] for round_s, _ in samples)
        used_s = statistics.median(used_s[at] for _, used_s in samples)
        bound = "" if at == 0 else f", at least ×{THROUGHPUT_MIN}"
        met &= at == 0 or ratio >= THROUGHPUT_MIN
        print(f"| {way} | {seconds:.2f} s | {file_bytes / seconds / 1e6:.1f} | ×{ratio:.2f}{bound} | {used_s:.2f} s |")
    print()
    print("All bounds hold." if met else "NOT all bounds hold.")
    return met


def bench(options):
    with Farm(options.heddle, 0, ["--groups", str(GROUPS)]) as farm:
        servers = {server["group"]: address_of(server) for server in farm.servers()}
        groups = sorted(servers)
        for address in servers.values():
            with wire.Connection(address) as connection:
                version = connection.value("SELECT VERSION()")
                connection.query("SET GLOBAL local_infile = ON")
                connection.query("SET GLOBAL sync_binlog = 0")
                connection.query("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        print(f"# bench-load: {options.rows:,} rows, {options.rounds} rounds\n")
        print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
              f"{os.getloadavg()[0]:.1f}; all servers and the client are on it")
        print(f"- {GROUPS} groups of one server, {version}\n")
        command(farm, "sharding", "create_definition", "SLOTS", groups[0], "bench")
        command(farm, "sharding", "add_shard", "bench", ",".join(groups), "ENABLED")
        with wire.Connection(farm.address) as client:
            client.query(f"CREATE DATABASE {DATABASE}")
            for table in (PLAIN, SHARDED):
                client.query(f"CREATE TABLE {table} {COLUMNS}")
            command(farm, "sharding", "add_table", "bench", SHARDED, "id")
        return report(*measure(farm, servers[groups[0]], options))


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "5")))
    parser.add_argument("--rows", type=int, default=int(env("ROWS", "500000")))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    options = parser.parse_args()
    prepare("bench-load", options)
    sys.exit(0 if run("bench-load", bench, options) else 1)


if __name__ == "__main__":
    main()
