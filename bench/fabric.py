#!/usr/bin/env python3
"""What a look-up by XML-RPC costs when many clients of MySQL Fabric are there at once, beside an empty reply
of the same door in the same run. Each client asks once in PERIOD_MS, as connectors do: the door's answers
are good for one second. Without that pause the queue would be measured, not the look-up.

Environment or flags: CLIENTS=1000 CALLS=10 PERIOD_MS=1000 HEDDLE=bin/heddle
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import time

from entry import open_files, prepare, run
from processes import ROOT, Failed, Farm

MORE_MS_MAX = 1.0
LOOK_UP = (b'<?xml version="1.0"?><methodCall><methodName>group.lookup_servers</methodName><params><param>'
           b'<value><string>g1</string></value></param></params></methodCall>')


def request(address, path, body=None):
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {address}\r\n"
    if body is None:
        return f"{head}\r\n".encode()
    return f"{head}Content-Type: text/xml\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def answer(reader):
    """Reads one reply; its status and body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next((int(line.split(":")[1]) for line in head.split("\r\n")
                   if line.startswith("content-length:")), None)
    if length is None:
        raise Failed(f"a reply without its length: {head}")
    return int(head.split()[1]), await reader.readexactly(length)


async def client(address, way, options, number, times):
    payload, status, wanted = way
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    # All are connected by then, and they ask one after the other within each period.
    period_s = options.period_ms / 1000
    turn = options.start + (number / options.clients) * period_s
    for call in range(options.calls):
        await asyncio.sleep(max(0.0, turn + call * period_s - time.perf_counter()))
        began = time.perf_counter()
        writer.write(payload)
        found, body = await answer(reader)
        times.append(time.perf_counter() - began)
        if found != status or wanted not in body:
            raise Failed(f"status {found}: {body[:200]!r}")
    writer.close()


async def measure(address, way, options):
    """The time of every call, in ms, ascending."""
    times = []
    options.start = time.perf_counter() + 2 + options.clients / 1000
    await asyncio.gather(*(client(address, way, options, number, times)
                           for number in range(options.clients)))
    return sorted(1000 * seconds for seconds in times)


def quantile(times, part):
    return times[min(len(times) - 1, int(len(times) * part))]


def bench(options):
    print(f"# bench-fabric\n\n- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average "
          f"before {os.getloadavg()[0]:.1f}\n- {options.clients} clients, {options.calls} calls each, one in "
          f"{options.period_ms} ms; the clients are one process of Python and share the machine with the router\n")
    with Farm(options.heddle, 0) as farm:
        with open(os.path.join(farm.data, "farm.json"), encoding="utf-8") as file:
            door = json.load(file)["fabric"]
        # The door answers a GET with nothing but a status: what HTTP itself costs there.
        ways = {
            "empty reply (GET /RPC2: 405)": (request(door, "/RPC2"), 405, b""),
            "group.lookup_servers": (request(door, "/RPC2", LOOK_UP), 200, b"<string>PRIMARY</string>"),
        }
        medians = {}
        print("| call | p50, ms | p99, ms |\n| --- | ---: | ---: |")
        for name, way in ways.items():
            times = asyncio.run(measure(door, way, options))
            medians[name] = quantile(times, 0.5)
            print(f"| {name} | {medians[name]:.2f} | {quantile(times, 0.99):.2f} |", flush=True)
    empty, look_up = medians.values()
    more = look_up - empty
    print(f"\nA look-up takes {more:+.2f} ms against the empty reply, {look_up / empty:.2f} times as long "
          f"(aim: less than {MORE_MS_MAX} ms more).")
    return more < MORE_MS_MAX


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=int(env("CLIENTS", "1000")))
    parser.add_argument("--calls", type=int, default=int(env("CALLS", "10")))
    parser.add_argument("--period-ms", type=int, default=int(env("PERIOD_MS", "1000")))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    options = parser.parse_args()
    prepare("bench-fabric", options)
    open_files("bench-fabric", options.clients + 200)
    met = run("bench-fabric", bench, options)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
