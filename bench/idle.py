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

IDLE_MB_MAX = 80
SERVER_CONNECTIONS_MAX = 100


def server_connections(primary):
    """Of all clients of the server but the one that asks."""
    with wire.Connection(primary) as connection:
        return int(connection.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1]) - 1


def idle(farm, primary, count):
    """True when the idle clients stay within both limits."""
    pid = farm.router.pid
    clients = []
    try:
        for number in range(count):
            client = wire.Connection(farm.address, timeout_s=120)
            clients.append(client)
            client.query("SELECT 1")
            if number == 0:
                first_mb = memory_kb(pid, "VmRSS") / 1024
        # What is freed a moment after the last statement counts as freed.
        time.sleep(1)
        resident_mb = memory_kb(pid, "VmRSS") / 1024
        connections = server_connections(primary)
        for client in clients[:: max(1, count // 100)]:
            client.query("SELECT 1")
    finally:
        for client in clients:
            client.close()
    print(f"## {count:,} idle clients\n")
    print("| resident with one client, MB | with all, MB (aim "
          f"{IDLE_MB_MAX}) | kB per client | server connections (aim {SERVER_CONNECTIONS_MAX}) |")
    print("| ---: | ---: | ---: | ---: |")
    print(f"| {first_mb:.1f} | {resident_mb:.1f} | {(resident_mb - first_mb) * 1024 / count:.1f} | "
          f"{connections} |\n", flush=True)
    return resident_mb <= IDLE_MB_MAX and connections <= SERVER_CONNECTIONS_MAX


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
