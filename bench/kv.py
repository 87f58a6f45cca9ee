#!/usr/bin/env python3
"""Keys by every path, in one run: a text SELECT and a prepared one straight to the server, the key-value
door, memcached, Redis; then with the row cache: the key-value door and the SQL door.

The contenders take turns within each round and answer the same load from the same generator, but for the server
alone, who is asked for the keys of all clients by one client in one statement: what no batch can be cheaper than. CPU per
operation is utime + stime of all server processes on the way (router and database, or memcached or Redis
alone) over the operations that the generator counted; the generator's own is left out. The tables show
medians over the rounds. Rows: keys of 100 bytes and values of 400, and small ones with integer keys.
Containers with a row cache are made last, since a router with one reads the binlog of every write. All
keys that are asked for have been read once before: what is measured is hits.

Environment or flags: ROUNDS=3 SECONDS=4 ROWS=25000 SMALL_ROWS=1000000 HOT_ROWS=25000 HEDDLE=bin/heddle
KVLOAD=target/release/examples/kvload PARTS=big,small,cached,small-cached,sql-cached
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

import wire
from entry import prepare, run
from processes import ROOT, Failed, Farm, address_of, cpu_s, end, free_ports, wait_for

TEXT, PREPARED, DOOR, MEMCACHED, REDIS = "text SELECT", "prepared SELECT", "KV door", "memcached", "Redis"
# What the server needs for the same keys at least: those of all clients in one statement, with one commit.
FLOOR = "server alone, one statement"
CACHED, SQL_DOOR, SQL_CACHED = "KV door, cached", "SQL door", "SQL door, cached"
BATCHES = (10, 50, 100)
CONNECTIONS = (1, 8, 64)

# By the contender: at least so many operations per CPU second for each of another one's, who does the same
# (one key a request where it knows no other, an UPDATE of one row for a set).
AIMS = {
    DOOR: (TEXT, {("get", 64, 1): 2.5, ("multi", 8, 50): 5.0, ("set", 64, 1): 5.0}),
    CACHED: (MEMCACHED, {("get", 8, 1): 1.0, ("get", 64, 1): 1.0} | {
        (op, 8, batch): 1.0 for op in ("multi", "pipeline") for batch in BATCHES}),
    SQL_CACHED: (TEXT, {("get", connections, 1): 2.0 for connections in (8, 64)}),
}


def cells():
    """Operation, connections, keys per request."""
    for connections in CONNECTIONS:
        yield "get", connections, 1
    for batch in BATCHES:
        yield "multi", 8, batch
        yield "pipeline", 8, batch
    for connections in (8, 64):
        yield "set", connections, 1


GETS = [cell for cell in cells() if cell[0] != "set"]
SINGLE_GETS = [cell for cell in cells() if cell[0] == "get"]


class Process:
    """memcached or Redis on a port of its own."""

    def __init__(self, words, port):
        self.folder = tempfile.mkdtemp(prefix="heddle-bench-")
        self.address = f"127.0.0.1:{port}"
        if not shutil.which(words[0]):
            raise Failed(f"{words[0]} is missing: scripts/install.sh bench")
        self.process = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        wait_for(self._listens, 10, f"{words[0]} does not listen")

    def _listens(self):
        import socket
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def close(self):
        end(self.process, 5)
        shutil.rmtree(self.folder, ignore_errors=True)


class Contender:
    """Whom a load is put on: where, how, and whose CPU counts."""

    def __init__(self, name, protocol, address, pids, table="", container="", setup=""):
        self.name, self.protocol, self.address, self.pids = name, protocol, address, pids
        self.more = [f"table={table}", f"container={container}", f"setup={setup}"]

    def can(self, op, batch):
        if self.protocol == "batched":
            return op in ("get", "multi", "set")
        sql = self.protocol in ("text", "prepared")
        return not sql or (batch == 1 and (op == "get" or self.protocol == "text"))

    def load(self, options, op, connections, batch, rows, key_bytes, value_bytes):
        if self.protocol == "batched":
            connections, batch = 1, batch if op == "multi" else connections
        words = [options.kvload, f"protocol={self.protocol}", f"address={self.address}", f"op={op}",
                 f"connections={connections}", f"batch={batch}", f"seconds={options.seconds}",
                 f"keys={rows}", f"key_bytes={key_bytes}", f"value_bytes={value_bytes}", *self.more]
        before = sum(cpu_s(pid) for pid in self.pids)
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{self.name}, {op}: {done.stderr.strip()}")
        told = json.loads(done.stdout)
        told["cpu_us"] = (sum(cpu_s(pid) for pid in self.pids) - before) * 1e6 / max(1, told["ops"])
        if told["misses"]:
            raise Failed(f"{self.name}, {op}: {told['misses']} of {told['ops']} keys had no value")
        return told


def measure(contenders, options, rows, key_bytes, value_bytes, chosen):
    samples = {}
    for number in range(options.rounds):
        for op, connections, batch in chosen:
            for contender in contenders:
                if contender.can(op, batch):
                    told = contender.load(options, op, connections, batch, rows, key_bytes, value_bytes)
                    samples.setdefault((contender.name, op, connections, batch), []).append(told)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return samples


def report(samples, contenders, chosen):
    """Prints a table; what was aimed at and missed."""
    missed = []
    print("| operation | contender | ops/s | server CPU µs/op | p50 µs | p99 µs | ops per CPU s against "
          "text SQL | against memcached |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for op, connections, batch in chosen:
        same = lambda name: samples.get((name, op, connections, batch)) or samples.get(
            (name, "set" if op == "set" else "get", connections, 1))
        for contender in contenders:
            told = samples.get((contender.name, op, connections, batch))
            if not told:
                continue
            middle = lambda name: statistics.median(one[name] for one in told)
            rate = statistics.median(one["ops"] / one["seconds"] for one in told)
            against = {base: statistics.median(a["cpu_us"] / max(b["cpu_us"], 0.01) for a, b in zip(same(base), told))
                       for base in (TEXT, MEMCACHED) if same(base)}
            shown = lambda base: f"{against[base]:.2f}" if base in against else ""
            what = f"{op}, {connections} clients" + (f", {batch} keys" if batch > 1 else "")
            print(f"| {what} | {contender.name} | {rate:,.0f} | {middle('cpu_us'):.1f} | {middle('p50_us'):.0f} | "
                  f"{middle('p99_us'):.0f} | {shown(TEXT)} | {shown(MEMCACHED)} |")
            base, aims = AIMS.get(contender.name, (TEXT, {}))
            aim = aims.get((op, connections, batch))
            if aim and base in against and against[base] < aim:
                missed.append(f"{contender.name}, {what}: {against[base]:.2f} times {base}, aim {aim}")
    print(flush=True)
    return missed


def sql_tables(farm, options):
    """Containers' tables, as the load wants them: the seed's rows, and many small ones."""
    with wire.Connection(farm.address, timeout_s=600) as client:
        client.query("CREATE DATABASE bench")
        client.query("CREATE TABLE bench.big (k VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, "
                     "v VARCHAR(400) CHARACTER SET ascii NOT NULL)")
        client.query("CREATE TABLE bench.small (k INT PRIMARY KEY, v VARCHAR(50) CHARACTER SET ascii NOT NULL)")
        for start in range(0, options.rows, 500):
            rows = ",".join(f"('{n:0100}','{'v' * 400}')" for n in range(start, min(start + 500, options.rows)))
            client.query(f"INSERT INTO bench.big VALUES {rows}")
        for start in range(1, options.small_rows + 1, 5000):
            rows = ",".join(f"({n},'{'v' * 50}')" for n in range(start, min(start + 5000, options.small_rows + 1)))
            client.query(f"INSERT INTO bench.small VALUES {rows}")


def kv(farm, *words):
    words = [farm.heddle, "kv", *words, "--http", farm.http, "--data", farm.data]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def container(farm, name, table, *more):
    kv(farm, "create", name, f"--table=bench.{table}", "--key=k", "--values=v", *more)


def with_cache(farm, name, table, bytes_max):
    """Makes a container with a row cache, and waits until its reader is there."""
    container(farm, name, table, f"--cache_bytes={bytes_max}")
    wait_for(lambda: any(name in line and "open" in line for line in kv(farm, "cache").splitlines()), 30,
             f"the row cache of {name} does not open")


def warm(contender, options, table, connections=1):
    """Has each key read once by so many clients, twice: the first rows may be too fresh to be kept."""
    for _ in range(2):
        contender.load(options, "walk", connections, 1, *table)


def bench(options):
    ports = free_ports(2)
    others = []
    try:
        with Farm(options.heddle, 0, ["--set", "result_cache_bytes=256000000"]) as farm:
            sql_tables(farm, options)
            server = farm.servers()[0]
            with wire.Connection(address_of(server)) as connection:
                version = connection.value("SELECT VERSION()")
            others.append(Process(["memcached", "-u", "root", "-p", str(ports[0]), "-m", "1024", "-c", "2000"], ports[0]))
            others.append(Process(["redis-server", "--port", str(ports[1]), "--save", ""], ports[1]))
            database, both = [server["pid"]], [server["pid"], farm.router.pid]
            print(f"# bench-kv: {options.rounds} rounds of {options.seconds} s\n")
            print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
                  f"{os.getloadavg()[0]:.1f}; everything is on it")
            print(f"- {version}, one server, sync_binlog=1, innodb_flush_log_at_trx_commit=1; memcached and "
                  "Redis keep nothing on disk\n")
            missed = []
            sql = lambda name, protocol, table: Contender(
                name, protocol, address_of(server), database, f"bench.{table}")
            straight = lambda table: [sql(TEXT, "text", table), sql(PREPARED, "prepared", table)]
            floor = lambda table: sql(FLOOR, "batched", table)
            stores = [Contender(MEMCACHED, "memcached", others[0].address, [others[0].process.pid]),
                      Contender(REDIS, "redis", others[1].address, [others[1].process.pid])]
            shapes = {"big": (options.rows, 100, 400), "small": (options.small_rows, 0, 50)}

            def part(name, contenders, shape, chosen):
                print(f"## {shape[0]:,} rows, {name}\n", flush=True)
                samples = measure(contenders, options, *shape, chosen)
                missed.extend(report(samples, contenders, chosen))

            def has(name, shape):
                if name not in options.parts.split(","):
                    return False
                for store in stores:
                    store.load(options, "fill", 1, 1, *shape)
                return True

            some = [("get", 8, 1), ("get", 64, 1), ("multi", 8, 50)]
            for table, chosen in (("big", list(cells())), ("small", some)):
                if has(table, shapes[table]):
                    container(farm, f"plain-{table}", table)
                    door = Contender(DOOR, "memcached", farm.kv, both, container=f"plain-{table}")
                    part(table, [*straight(table), floor(table), door, *stores], shapes[table], chosen)
            for name, table, chosen in (("cached", "big", GETS), ("small-cached", "small", some)):
                if has(name, shapes[table]):
                    with_cache(farm, f"cached-{table}", table, 1 << 30)
                    door = Contender(CACHED, "memcached", farm.kv, both, container=f"cached-{table}")
                    warm(door, options, shapes[table])
                    part(name, [sql(TEXT, "text", table), door, *stores], shapes[table], chosen)
            hot = (min(options.hot_rows, options.small_rows), 0, 50)
            if has("sql-cached", hot):
                with_cache(farm, "by-sql", "small", 1 << 30)
                through = lambda name, setup: Contender(
                    name, "text", farm.address, both, "bench.small", setup=setup)
                cached = through(SQL_CACHED, "SET heddle_row_cache = on")
                # Replies are kept by each core.
                warm(cached, options, hot, 2 * os.cpu_count())
                part("sql-cached", [*straight("small"), through(SQL_DOOR, ""), cached, *stores], hot, SINGLE_GETS)
            print("All aims are met." if not missed else "Missed: " + "; ".join(missed))
            return not missed
    finally:
        for other in others:
            other.close()


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "3")))
    parser.add_argument("--seconds", type=int, default=int(env("SECONDS", "4")))
    parser.add_argument("--rows", type=int, default=int(env("ROWS", "25000")))
    parser.add_argument("--small-rows", type=int, default=int(env("SMALL_ROWS", "1000000")))
    parser.add_argument("--hot-rows", type=int, default=int(env("HOT_ROWS", "25000")))
    parser.add_argument("--parts", default=env("PARTS", "big,small,cached,small-cached,sql-cached"))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    parser.add_argument("--kvload", default=env("KVLOAD", os.path.join(ROOT, "target", "release", "examples", "kvload")))
    options = parser.parse_args()
    prepare("bench-kv", options)
    sys.exit(0 if run("bench-kv", bench, options) else 1)


if __name__ == "__main__":
    main()
