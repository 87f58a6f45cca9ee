#!/usr/bin/env python3
"""What clients cost that are only there: thousands of idle ones, in memory of the router and in
connections of its server; and hundreds that ask for a large result and never read it, while they are there and
a minute after they have gone.

Environment or flags: CLIENTS=10000 SILENT=200 HEDDLE=bin/heddle
"""

import argparse
import os
import platform
import sys
import time

import wire
from entry import open_files, prepare, run
from processes import ROOT, Farm, memory_kb

IDLE_MB_MAX = 40
SERVER_CONNECTIONS_MAX = 100
# Cores take back what idle clients do not need by and by.
IDLE_S = 15
# What clients that never read have left in memory is given back by then.
GIVEN_BACK_S = 60
GIVEN_BACK_MB_MAX = 4
# Each of them asks for so many bytes.
RESULT_BYTES = 64 << 20
# Their memory has reached its top when it has not grown for so long.
STEADY_S = 3


def server_connections(primary):
    """Of all clients of the server but the one that asks."""
    with wire.Connection(primary) as connection:
        return int(connection.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1]) - 1


def resident(pid):
    """What the process has in memory, and the part of it that is pages of files: its program, mostly."""
    return memory_kb(pid, "VmRSS") / 1024, memory_kb(pid, "RssFile") / 1024


def own_mb(pid):
    """Without pages of files."""
    all_mb, file_mb = resident(pid)
    return all_mb - file_mb


def idle(farm, primary, count):
    """True when the idle clients stay within both limits. Pages of the program's own file do not count: the kernel
    drops them when memory is short."""
    pid = farm.router.pid
    clients = []
    try:
        for number in range(count):
            client = wire.Connection(farm.address, timeout_s=120)
            clients.append(client)
            client.query("SELECT 1")
            if number == 0:
                first_mb, first_file_mb = resident(pid)
        time.sleep(IDLE_S)
        all_mb, all_file_mb = resident(pid)
        connections = server_connections(primary)
        for client in clients[:: max(1, count // 100)]:
            client.query("SELECT 1")
    finally:
        for client in clients:
            client.close()
    print(f"## {count:,} idle clients\n")
    print("| resident with one client, MB (pages of files) | with all (pages of files) | without pages of files "
          f"(aim {IDLE_MB_MAX}) | kB per client | server connections (aim {SERVER_CONNECTIONS_MAX}) |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    idle_mb = all_mb - all_file_mb
    grown_kb = (idle_mb - (first_mb - first_file_mb)) * 1024
    print(f"| {first_mb:.1f} ({first_file_mb:.1f}) | {all_mb:.1f} ({all_file_mb:.1f}) | {idle_mb:.1f} | "
          f"{grown_kb / count:.1f} | {connections} |\n", flush=True)
    return idle_mb <= IDLE_MB_MAX and connections <= SERVER_CONNECTIONS_MAX


def steady_mb(pid):
    """The process's own memory, once it grows no more."""
    most_mb, since = 0, time.monotonic()
    while time.monotonic() - since < STEADY_S:
        time.sleep(0.2)
        now_mb = own_mb(pid)
        if now_mb > most_mb * 1.01:
            most_mb, since = now_mb, time.monotonic()
    return most_mb


def never_read(farm, count):
    """True when the clients' memory is given back in time."""
    pid = farm.router.pid
    with wire.Connection(farm.address) as client:
        client.query("SELECT 1")
    before_mb = own_mb(pid)
    clients = []
    try:
        for _ in range(count):
            clients.append(wire.Connection(farm.address, timeout_s=120, receive_buffer_bytes=64 << 10))
            clients[-1].query("SELECT 1")
            clients[-1].ask(f"SELECT REPEAT('x', {RESULT_BYTES >> 10}) FROM mysql.seq_1_to_1024")
        most_mb = steady_mb(pid)
    finally:
        for client in clients:
            client.close()
    end, after_mb = time.monotonic() + GIVEN_BACK_S, own_mb(pid)
    while time.monotonic() < end and after_mb > before_mb + GIVEN_BACK_MB_MAX:
        time.sleep(1)
        after_mb = own_mb(pid)
    took_s = GIVEN_BACK_S - (end - time.monotonic())
    print(f"## {count:,} clients that never read {RESULT_BYTES >> 20} MB\n")
    print("| before, MB without pages of files | at the top | kB per client | after they have gone | within s "
          f"(aim {GIVEN_BACK_MB_MAX} MB more than before within {GIVEN_BACK_S}) |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    print(f"| {before_mb:.1f} | {most_mb:.1f} | {(most_mb - before_mb) * 1024 / count:.0f} | {after_mb:.1f} | "
          f"{took_s:.0f} |\n", flush=True)
    return after_mb <= before_mb + GIVEN_BACK_MB_MAX


def bench(options):
    print(f"# bench-idle\n\n- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load "
          f"average before {os.getloadavg()[0]:.1f}\n")
    more = ["--set", f"clients_max={options.clients + 100}"]
    with Farm(options.heddle, 0, more) as farm:
        small = idle(farm, farm.server_addresses()[0], options.clients)
    # A fresh router: what the idle ones have left must not hide what these leave.
    with Farm(options.heddle, 0, ["--set", f"pool_connections_max={options.silent + 20}"]) as farm:
        small = never_read(farm, options.silent) and small
    print(f"{'Within' if small else 'NOT within'} the aims.")
    return small


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=int(env("CLIENTS", "10000")))
    parser.add_argument("--silent", type=int, default=int(env("SILENT", "200")))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    options = parser.parse_args()
    prepare("bench-idle", options)
    open_files("bench-idle", options.clients + 200)
    met = run("bench-idle", bench, options)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
