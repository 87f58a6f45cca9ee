#!/usr/bin/env python3
"""What clients cost that are only there: thousands of idle ones, in memory of the router and in
connections of its server.

Environment or flags: CLIENTS=10000 HEDDLE=bin/heddle
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


def server_connections(primary):
    """Of all clients of the server but the one that asks."""
    with wire.Connection(primary) as connection:
        return int(connection.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1]) - 1


def resident(pid):
    """What the process has in memory, and the part of it that is pages of files: its program, mostly."""
    return memory_kb(pid, "VmRSS") / 1024, memory_kb(pid, "RssFile") / 1024


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
    own_mb = all_mb - all_file_mb
    grown_kb = (own_mb - (first_mb - first_file_mb)) * 1024
    print(f"| {first_mb:.1f} ({first_file_mb:.1f}) | {all_mb:.1f} ({all_file_mb:.1f}) | {own_mb:.1f} | "
          f"{grown_kb / count:.1f} | {connections} |\n", flush=True)
    return own_mb <= IDLE_MB_MAX and connections <= SERVER_CONNECTIONS_MAX


def bench(options):
    print(f"# bench-idle\n\n- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load "
          f"average before {os.getloadavg()[0]:.1f}\n")
    more = ["--set", f"clients_max={options.clients + 100}"]
    with Farm(options.heddle, 0, more) as farm:
        small = idle(farm, farm.server_addresses()[0], options.clients)
    print(f"{'Within' if small else 'NOT within'} the aims.")
    return small


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=int(env("CLIENTS", "10000")))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    options = parser.parse_args()
    prepare("bench-idle", options)
    open_files("bench-idle", options.clients + 200)
    met = run("bench-idle", bench, options)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
