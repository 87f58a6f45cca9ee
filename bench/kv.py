#!/usr/bin/env python3
"""Keys by every path, in one run: a text SELECT and a prepared one straight to the server, the key-value
door, memcached, Redis.

The contenders take turns within each round and answer the same load from the same generator. CPU per
operation is utime + stime of all server processes on the way (router and database, or memcached or Redis
alone) over the operations that the generator counted; the generator's own is left out. The tables show
medians over the rounds. Rows: keys of 100 bytes and values of 400, and small ones with integer keys.

Environment or flags: ROUNDS=3 SECONDS=4 ROWS=25000 SMALL_ROWS=1000000 HEDDLE=bin/heddle
KVLOAD=target/release/examples/kvload
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
BATCHES = (10, 50, 100)
CONNECTIONS = (1, 8, 64)

# Operations per CPU second against a text SELECT, or against a single-row UPDATE for sets.
AIMS = {("get", 64, 1): 2.5, ("multi", 8, 50): 5.0, ("set", 64, 1): 5.0}


def cells():
    """Operation, connections, keys per request."""
    for connections in CONNECTIONS:
        yield "get", connections, 1
    for batch in BATCHES:
        yield "multi", 8, batch
        yield "pipeline", 8, batch
    for connections in (8, 64):
        yield "set", connections, 1


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

    def __init__(self, name, protocol, address, pids, table=""):
        self.name, self.protocol, self.address = name, protocol, address
        self.pids, self.table = pids, table

    def can(self, op, batch):
        sql = self.protocol in ("text", "prepared")
        return not sql or (batch == 1 and (op == "get" or self.protocol == "text"))

    def load(self, options, op, connections, batch, rows, key_bytes, value_bytes):
        words = [options.kvload, f"protocol={self.protocol}", f"address={self.address}", f"op={op}",
                 f"connections={connections}", f"batch={batch}", f"seconds={options.seconds}",
                 f"keys={rows}", f"key_bytes={key_bytes}", f"value_bytes={value_bytes}",
                 f"table={self.table}"]
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
    print("| operation | contender | ops/s | server CPU µs/op | p50 µs | p99 µs | ops per CPU s against SQL |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for op, connections, batch in chosen:
        base = samples.get((TEXT, "set" if op == "set" else "get", connections, 1))
        for contender in contenders:
            told = samples.get((contender.name, op, connections, batch))
            if not told:
                continue
            middle = lambda name: statistics.median(one[name] for one in told)
            rate = statistics.median(one["ops"] / one["seconds"] for one in told)
            ratio = "" if not base else statistics.median(
                a["cpu_us"] / max(b["cpu_us"], 0.01) for a, b in zip(base, told))
            shown = f"{ratio:.1f}" if base else ""
            what = f"{op}, {connections} clients" + (f", {batch} keys" if batch > 1 else "")
            print(f"| {what} | {contender.name} | {rate:,.0f} | {middle('cpu_us'):.1f} | "
                  f"{middle('p50_us'):.0f} | {middle('p99_us'):.0f} | {shown} |")
            aim = AIMS.get((op, connections, batch))
            if contender.name == DOOR and aim and base and ratio < aim:
                missed.append(f"{what}: {ratio:.1f} times, aim {aim}")
    print()
    return missed


def sql_tables(farm, options):
    """Containers' tables, as the load wants them: the seed's rows, and many small ones."""
    heddle = lambda *words: subprocess.run(
        [farm.heddle, *words, "--http", farm.http, "--data", farm.data], check=True, capture_output=True)
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
    for name in ("big", "small"):
        heddle("kv", "create", name, f"--table=bench.{name}", "--key=k", "--values=v")


def bench(options):
    ports = free_ports(2)
    others = []
    try:
        with Farm(options.heddle, 0) as farm:
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
            for table, rows, key_bytes, value_bytes, chosen in (
                    ("big", options.rows, 100, 400, list(cells())),
                    ("small", options.small_rows, 0, 50, [("get", 64, 1), ("multi", 8, 50)])):
                contenders = [
                    Contender(TEXT, "text", address_of(server), database, f"bench.{table}"),
                    Contender(PREPARED, "prepared", address_of(server), database, f"bench.{table}"),
                    Contender(DOOR, "memcached", farm.kv, both),
                    Contender(MEMCACHED, "memcached", others[0].address, [others[0].process.pid]),
                    Contender(REDIS, "redis", others[1].address, [others[1].process.pid])]
                for contender in contenders[3:]:
                    contender.load(options, "fill", 1, 1, rows, key_bytes, value_bytes)
                print(f"## {rows:,} rows, {table}\n")
                with_container(farm, table)
                samples = measure(contenders, options, rows, key_bytes, value_bytes, chosen)
                missed += report(samples, contenders, chosen)
            print("All aims are met." if not missed else "Missed: " + "; ".join(missed))
            return not missed
    finally:
        for other in others:
            other.close()


def with_container(farm, name):
    """Makes the container of this name the default one, since the load names none."""
    words = [farm.heddle, "kv", "drop", "default", "--http", farm.http, "--data", farm.data]
    subprocess.run(words, check=True, capture_output=True)
    words = [farm.heddle, "kv", "create", "default", f"--table=bench.{name}", "--key=k", "--values=v",
             "--http", farm.http, "--data", farm.data]
    subprocess.run(words, check=True, capture_output=True)


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "3")))
    parser.add_argument("--seconds", type=int, default=int(env("SECONDS", "4")))
    parser.add_argument("--rows", type=int, default=int(env("ROWS", "25000")))
    parser.add_argument("--small-rows", type=int, default=int(env("SMALL_ROWS", "1000000")))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    parser.add_argument("--kvload", default=env("KVLOAD", os.path.join(ROOT, "target", "release", "examples", "kvload")))
    options = parser.parse_args()
    prepare("bench-kv", options)
    sys.exit(0 if run("bench-kv", bench, options) else 1)


if __name__ == "__main__":
    main()
