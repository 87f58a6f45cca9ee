#!/usr/bin/env python3
"""TPC-C of go-tpc on a farm that is sharded by warehouse, and its own check of what is left.

Four groups with a shard each; `item` is global, everything else goes by its warehouse. A payment of a
customer of another warehouse is a transaction over two groups, and condition 10 of the check (what a
customer owes is what he ordered less what he paid) compares rows of both.

It loads the warehouses through Heddle, checks, runs the mix with prepared statements, checks, runs it
with texts, checks; after that no server may have a prepared transaction left. Transactions that end
with a deadlock or a lock wait are counted and are no failure; every other error is one.

Flags or environment: --warehouses 4 --threads 8 --seconds 60 (of each run) --groups 4 --engine mariadb
--mysqld PATH --map RANGE_INTEGER
"""

import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench"))

import wire  # noqa: E402
from entry import prepare, run  # noqa: E402
from processes import ROOT, Failed, Farm, address_of, wait_for  # noqa: E402

DATABASE = "tpcc"
CACHE = os.path.join(os.environ.get("HEDDLE_CACHE") or os.path.expanduser("~/.cache/heddle"), "tpcc")
BUILD_TIMEOUT_S = 600
LOAD_TIMEOUT_S = 3600
LEFTOVERS_TIMEOUT_S = 10

KEYS = {"warehouse": "w_id", "district": "d_w_id", "customer": "c_w_id", "history": "h_w_id", "new_order": "no_w_id",
        "orders": "o_w_id", "order_line": "ol_w_id", "stock": "s_w_id"}
GLOBAL = "item"
# The package makes this table without a primary key; rows of sharded tables must be told apart.
HISTORY = """CREATE TABLE history (
  h_id BIGINT NOT NULL AUTO_INCREMENT, h_c_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_w_id INT NOT NULL,
  h_d_id INT NOT NULL, h_w_id INT NOT NULL, h_date DATETIME, h_amount DECIMAL(6, 2), h_data VARCHAR(24),
  PRIMARY KEY (h_id), INDEX idx_h_w_id (h_w_id), INDEX idx_h_c_w_id (h_c_w_id))"""


def program():
    """The path of the program, built into the cache."""
    target = os.path.join(CACHE, "program")
    try:
        done = subprocess.run(["go", "build", "-o", target, "."], cwd=os.path.join(HERE, "tpcc"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BUILD_TIMEOUT_S)
    except FileNotFoundError:
        raise Failed("go is not here: apt-get install golang")
    if done.returncode != 0:
        raise Failed(f"go build: {done.stdout.strip()}")
    return target


class Load:
    """The program, called for one action after the other; what it says on the way goes to a log."""

    def __init__(self, options, address, folder):
        self.command = [program(), "-address", address, "-database", DATABASE,
                        "-warehouses", str(options.warehouses), "-threads", str(options.threads)]
        self.log = os.path.join(folder, "tpcc.log")

    def act(self, action, *flags):
        with open(self.log, "ab") as log:
            done = subprocess.run([*self.command, *flags, action], stdout=subprocess.PIPE, stderr=log,
                                  timeout=LOAD_TIMEOUT_S)
        if done.returncode != 0:
            raise Failed(f"{action}: {self.last_words()}")
        outcome = json.loads(done.stdout)
        if outcome["failures"]:
            text, times = max(outcome["failures"].items(), key=lambda pair: pair[1])
            raise Failed(f"{action}: {sum(outcome['failures'].values())} failures, {times} of them: {text}")
        return outcome

    def last_words(self):
        with open(self.log, errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        telling = [line for line in lines if line.startswith(("panic", "tpcc:"))] or lines
        return telling[-1] if telling else "no message"


def command(farm, *words):
    done = subprocess.run([farm.heddle, *words, "--http", farm.http, "--data", farm.data], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"heddle {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def declare(farm, options):
    """Makes the map and the tables; the first warehouse of each shard is its lower bound."""
    groups = sorted({server["group"] for server in farm.servers()})
    each = -(-options.warehouses // len(groups))
    ranged = options.map == "RANGE_INTEGER"
    shards = [f"{group}/{1 + number * each}" if ranged else group for number, group in enumerate(groups)]
    command(farm, "sharding", "create_definition", options.map, groups[0], "warehouses")
    command(farm, "sharding", "add_shard", "warehouses", ",".join(shards), "ENABLED")
    for table, key in KEYS.items():
        command(farm, "sharding", "add_table", "warehouses", f"{DATABASE}.{table}", key)
    command(farm, "sharding", "add_global_table", "warehouses", f"{DATABASE}.{GLOBAL}")


def create(farm, load):
    """The tables as the package makes them, but for `history`; they are there before they are declared."""
    with wire.Connection(farm.address, timeout_s=60) as client:
        client.query(f"CREATE DATABASE {DATABASE}")
        client.query(f"USE {DATABASE}")
        client.query(HISTORY)
        load.act("prepare", "-warehouses", "0", "-threads", "1")
        client.query(f"TRUNCATE TABLE {GLOBAL}")


def analyze(farm):
    """Without statistics the engines compare each customer with all order lines of a district."""
    with wire.Connection(farm.address, timeout_s=600) as client:
        client.query(f"USE {DATABASE}")
        client.query("ANALYZE TABLE " + ", ".join(KEYS))


def nothing_prepared(addresses):
    for address in addresses:
        with wire.Connection(address) as connection:
            if connection.query("XA RECOVER"):
                return False
    return True


def crossings(farm):
    """Transactions that were committed on more than one group since the farm began."""
    with wire.Connection(farm.address) as client:
        return {name: int(value) for name, value in client.query("HEDDLE STATUS LIKE 'xa_%'")}


def tell(name, outcome):
    print(f"| {name} | {outcome['done']:,} | {outcome['retryable']:,} | {outcome['seconds']:.0f} |", flush=True)


def check(options):
    with Farm(options.heddle, 0, flags(options)) as farm:
        load = Load(options, farm.address, farm.folder)
        create(farm, load)
        declare(farm, options)
        print(f"# TPC-C: {options.engine}, {options.warehouses} warehouses on {options.groups} groups by "
              f"{options.map}, {options.threads} connections\n")
        print("| step | done | deadlocks, lock waits | seconds |")
        print("| --- | ---: | ---: | ---: |")
        # The checks that end each step read with joins and subqueries over all groups.
        tell("load", load.act("prepare"))
        analyze(farm)
        tell("check", load.act("check-loaded"))
        for name, way in (("prepared", []), ("as texts", ["-text"])):
            outcome = load.act("run", "-seconds", str(options.seconds), *way)
            tell(f"mix, {name}", outcome)
            if outcome["done"] == 0:
                raise Failed(f"not one transaction was done, {outcome['retryable']} were to be tried again")
            tell(f"check, {name}", load.act("check", *way))
        wait_for(lambda: nothing_prepared(farm.server_addresses()), LEFTOVERS_TIMEOUT_S, "prepared transactions are left")
        command(farm, "sharding", "verify")
        counted = crossings(farm)
    print("\n" + "; ".join(f"{name} {value}" for name, value in counted.items() if value))
    return 0


def flags(options):
    given = ["--groups", str(options.groups), "--engine", options.engine]
    # All cores are busy: a server that is slow to answer a probe is not dead.
    given += ["--set", "probe_timeout_ms=20000"]
    return given + (["--mysqld", options.mysqld] if options.mysqld else []) + [
        word for setting in options.set for word in ("--set", setting)]


def arguments():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warehouses", type=int, default=int(env("WAREHOUSES", "4")))
    parser.add_argument("--groups", type=int, default=int(env("GROUPS_OF_FARM", "4")))
    parser.add_argument("--threads", type=int, default=int(env("THREADS", "8")))
    parser.add_argument("--seconds", type=int, default=int(env("SECONDS", "60")))
    parser.add_argument("--map", choices=["RANGE_INTEGER", "SLOTS", "HASH"], default=env("MAP", "RANGE_INTEGER"))
    parser.add_argument("--engine", choices=["mariadb", "mysql"], default=env("ENGINE", "mariadb"))
    parser.add_argument("--mysqld", default=env("MYSQLD", ""))
    parser.add_argument("--set", action="append", default=[], help="a setting of Heddle's, as NAME=VALUE")
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    prepare("tpcc", given)
    sys.exit(run("tpcc", check, given))
