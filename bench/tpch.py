#!/usr/bin/env python3
"""What questions over shards cost: the 22 queries of TPC-H on a farm of three groups and on one server.

Both have the same rows. On the farm orders lie with their lines and parts with their suppliers, customers
by a key of their own, and suppliers, nations and regions are on every group. Contenders take turns within
each round; the table shows medians, their ratio, how many rows the farm gathered or sent to its groups, and how many bytes
of rows its servers sent to the router. Answers are compared.

With CPU_PERCENT each server has so much of one CPU, as if it had a machine of its own; then the farm's servers
have three times what the one server has.

Environment or flags: ROUNDS=3 SCALE=0.1 QUERIES=1,2,… POOL_MB=1024 CPU_PERCENT=30 HEDDLE=bin/heddle
"""

import argparse
import os
import platform
import statistics
import sys
import time

import wire
from capped import capped
from entry import prepare, run
from processes import ROOT, Failed, Farm, address_of
from shard import command
from tpch_rows import KEYS, REVENUE, TABLES, Rows

GROUPS = 3
ONE = "one"
BATCH = 500
TIMEOUT_S = 1800

# What the table allows of the ratio: of the sums, and of one query.
SUM_MAX, QUERY_MAX = 1.0, 3.0
# Where each server has its share of a CPU, three of them are to take half of the time at most.
CAPPED_SUM_MAX = 0.5


class Suite:
    """A benchmark of questions: its tables, what fills them, and its texts in `bench/NAME.sql`."""

    def __init__(self, name, tables, keys, views, fill):
        self.name, self.tables, self.keys, self.views, self.fill = name, tables, keys, views, fill


def queries(suite):
    """The texts, in order."""
    with open(os.path.join(ROOT, "bench", f"{suite.name}.sql"), encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    texts = "".join(lines).split(";\n")
    return [text.strip() for text in texts if text.strip()]


class Filler:
    """Sends the same rows to the farm and to the one server, many at once."""

    def __init__(self, clients):
        self.clients = clients
        self.waiting = {}

    def add(self, table, row):
        rows = self.waiting.setdefault(table, [])
        rows.append(row)
        if len(rows) >= BATCH:
            self.flush(table)

    def flush(self, table):
        rows = self.waiting.pop(table, [])
        if rows:
            for client in self.clients:
                client.query(f"INSERT INTO {table} VALUES {', '.join(rows)}")

    def finish(self):
        for table in list(self.waiting):
            self.flush(table)


def fill(filler, scale):
    rows = Rows(scale)
    for table in ("region", "nation", "supplier", "part", "partsupp", "customer"):
        for row in getattr(rows, table)():
            filler.add(table, row)
    for order, lines in rows.orders_and_lines():
        filler.add("orders", order)
        for line in lines:
            filler.add("lineitem", line)


def set_up(suite, farm, one_address, home, shards, scale):
    """Makes the tables on both and fills them."""
    command(farm, "sharding", "create_definition", "SLOTS", home, suite.name)
    command(farm, "sharding", "add_shard", suite.name, ",".join(shards), "ENABLED")
    with (wire.Connection(farm.address, timeout_s=TIMEOUT_S) as client,
          wire.Connection(one_address, timeout_s=TIMEOUT_S) as one):
        client.query(f"CREATE DATABASE {suite.name}")
        client.query(f"USE {suite.name}")
        # The one server's tables are no part of the farm's maps.
        client.query(f"CREATE DATABASE {ONE}")
        one.query(f"USE {ONE}")
        for table, columns in suite.tables.items():
            one.query(f"CREATE TABLE {table} ({columns})")
            client.query(f"CREATE TABLE {table} ({columns})")
            full = f"{suite.name}.{table}"
            if table in suite.keys:
                command(farm, "sharding", "add_table", suite.name, full, suite.keys[table])
            else:
                command(farm, "sharding", "add_global_table", suite.name, full)
        for view in suite.views:
            one.query(view)
            client.query(view)
        filler = Filler([one, client])
        suite.fill(filler, scale)
        filler.finish()
        for table in suite.tables:
            one.query(f"ANALYZE TABLE {table}")
            found = [int(it.value(f"SELECT COUNT(*) FROM {table}")) for it in (one, client)]
            if found[0] != found[1]:
                raise Failed(f"{table} has {found[0]} rows on one server and {found[1]} on the farm")
    for server in farm.servers():
        with wire.Connection(address_of(server), timeout_s=TIMEOUT_S) as straight:
            for table in suite.tables:
                straight.query(f"ANALYZE TABLE {suite.name}.{table}")


def moved(client):
    """The rows that the farm has gathered or sent to groups so far, and the bytes of rows that servers have sent to it."""
    counted = {row[0]: int(row[1]) for row in client.query("HEDDLE STATUS") if row[0] in ("gathered_rows", "broadcast_rows")}
    # The last columns are `bytes_read` and the router.
    read = sum(int(row[-2]) for row in client.query("HEDDLE digest list --limit=0"))
    return sum(counted.values()), read


def ask(connection, text):
    begun_s = time.monotonic()
    rows = connection.query(text)
    return time.monotonic() - begun_s, rows


def measure(suite, farm, one_address, chosen, rounds):
    """Of each query the seconds on one server and on the farm, and the rows and bytes that were moved."""
    samples = {number: [] for number, _ in chosen}
    with (wire.Connection(farm.address, suite.name, timeout_s=TIMEOUT_S) as client,
          wire.Connection(one_address, ONE, timeout_s=TIMEOUT_S) as one):
        for _ in range(rounds):
            for number, text in chosen:
                one_s, expected = ask(one, text)
                before = moved(client)
                farm_s, found = ask(client, text)
                if found != expected:
                    raise Failed(f"query {number} is answered otherwise over shards")
                rows, size = (now - then for now, then in zip(moved(client), before))
                samples[number].append((one_s, farm_s, rows, size))
    return samples


def report(samples, sum_max):
    """Prints the table; true when everything is within its bounds."""
    print("| query | one server | farm | ratio | rows moved | bytes read |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    sums, worst = [0.0, 0.0], 0.0
    for number, taken in samples.items():
        one_s, farm_s, rows, size = (statistics.median(it[at] for it in taken) for at in range(4))
        sums = [sums[0] + one_s, sums[1] + farm_s]
        worst = max(worst, farm_s / one_s)
        print(f"| {number} | {one_s * 1000:.0f} ms | {farm_s * 1000:.0f} ms | ×{farm_s / one_s:.2f} | {rows:,.0f} | {size:,.0f} |")
    ratio = sums[1] / sums[0]
    print(f"| sum | {sums[0]:.2f} s | {sums[1]:.2f} s | ×{ratio:.2f}, at most ×{sum_max} | | |")
    print()
    met = ratio <= sum_max and worst <= QUERY_MAX
    print("All bounds hold." if met else f"NOT all bounds hold: one query takes ×{worst:.2f}, at most ×{QUERY_MAX}.")
    return met


def bench(suite, options):
    asked = {int(number) for number in options.queries.split(",") if number}
    chosen = [(number, text) for number, text in enumerate(queries(suite), 1) if not asked or number in asked]
    with Farm(options.heddle, 0, ["--groups", str(GROUPS)]) as farm:
        # The one server is the first group's, with tables of its own.
        servers = {server["group"]: address_of(server) for server in farm.servers()}
        groups = sorted(servers)
        home = groups[0]
        for address in servers.values():
            with wire.Connection(address) as connection:
                version = connection.value("SELECT VERSION()")
                connection.query("SET GLOBAL sync_binlog = 0")
                connection.query("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
                # So much that the one server keeps all of its rows in memory, too: three servers have three pools.
                connection.query(f"SET GLOBAL innodb_buffer_pool_size = {options.pool_mb << 20}")
        pids = [server["pid"] for server in farm.servers()]
        cap = f", each with {options.cpu_percent} % of a CPU" if options.cpu_percent else ""
        print(f"# bench-{suite.name}: scale factor {options.scale}, {GROUPS} groups, {options.rounds} rounds\n")
        print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
              f"{os.getloadavg()[0]:.1f}; all servers and the client are on it")
        print(f"- {GROUPS} groups of one server, {version}; the one server is the first group's, asked straight; "
              f"innodb_buffer_pool_size {options.pool_mb} MB on each{cap}\n")
        set_up(suite, farm, servers[home], home, groups, options.scale)
        with capped(pids, options.cpu_percent):
            samples = measure(suite, farm, servers[home], chosen, options.rounds)
        return report(samples, CAPPED_SUM_MAX if options.cpu_percent else SUM_MAX)


def main(suite):
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "3")))
    parser.add_argument("--scale", type=float, default=float(env("SCALE", "0.1")))
    parser.add_argument("--pool-mb", type=int, default=int(env("POOL_MB", "1024")), help="buffer pool of each server")
    parser.add_argument("--cpu-percent", type=int, default=int(env("CPU_PERCENT", "0")), help="of each server; 0: all")
    parser.add_argument("--queries", default=env("QUERIES", ""), help="numbers with commas; all without")
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    options = parser.parse_args()
    name = f"bench-{suite.name}"
    prepare(name, options)
    sys.exit(0 if run(name, lambda chosen: bench(suite, chosen), options) else 1)


if __name__ == "__main__":
    main(Suite("tpch", TABLES, KEYS, [REVENUE], fill))
