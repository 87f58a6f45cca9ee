"""What the change stream takes where much could pile up: one long transaction, and thousands of consumers of which few
read as fast as rows come."""

import os
import selectors
import socket
import threading
import time

import wire
from processes import Failed, cpu_s, memory_kb, reset_peak, wait_for

WAIT_S = 1800
# Rows of the long transaction.
ROW_BYTES = 100_000
# What a slow consumer takes in each SLOW_S.
SLOW_BYTES = 4096
SLOW_S = 1
# So that a consumer which does not read holds the router up soon.
RECEIVE_BYTES = 16 << 10
ROW = b'"event":"row"'
IDLE_S = 10


def request(farm, bearer, query):
    return (f"GET /v1/changes?{query} HTTP/1.1\r\nHost: {farm.http}\r\n"
            f"Authorization: Bearer {bearer}\r\n\r\n").encode()


def connect(farm, bearer, query):
    host, port = farm.http.rsplit(":", 1)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    client.connect((host, int(port)))
    client.sendall(request(farm, bearer, query))
    return client


class Counted:
    """A consumer that reads all, and counts rows."""

    def __init__(self, client):
        self.client, self.rows, self.rest = client, 0, b""

    def read(self):
        read = self.client.recv(1 << 20)
        if not read:
            raise Failed("a stream has ended")
        data = self.rest + read
        self.rows += data.count(ROW)
        # A row's mark may be cut in two.
        end = data.rfind(ROW)
        self.rest = data[max(end + len(ROW), len(data) - len(ROW) + 1) if end >= 0 else -len(ROW) + 1:]


def long_transaction(farm, primary, bearer, megabytes, metric):
    """Prints what the router takes while one transaction of so many MB is told to one consumer."""
    rows = megabytes * 1_000_000 // ROW_BYTES
    pid = farm.router.pid
    with wire.Connection(primary, timeout_s=WAIT_S) as connection:
        connection.query("CREATE DATABASE IF NOT EXISTS b")
        connection.query("CREATE OR REPLACE TABLE b.long_one (id INT PRIMARY KEY, v LONGTEXT)")
        client = connect(farm, bearer, "table=b.long_one")
        try:
            wait_for(lambda: metric(farm, "heddle_change_streams") == 1, WAIT_S, "the consumer is behind")
            before = memory_kb(pid, "VmRSS")
            reset_peak(pid)
            connection.query("BEGIN")
            for number in range(rows):
                connection.query(f"INSERT INTO b.long_one VALUES ({number}, REPEAT('x', {ROW_BYTES}))")
            begun = time.monotonic(), cpu_s(pid)
            connection.query("COMMIT")
            counted = Counted(client)
            while counted.rows < rows:
                counted.read()
            seconds, cpu = time.monotonic() - begun[0], cpu_s(pid) - begun[1]
        finally:
            client.close()
        connection.query("DROP TABLE b.long_one")
    wait_for(lambda: metric(farm, "heddle_change_streams") == 0, WAIT_S, "the stream is left")
    peak = memory_kb(pid, "VmHWM")
    print(f"One transaction of {megabytes:,} MB in {rows:,} rows: told {seconds:.1f} s after its COMMIT began, "
          f"{cpu:.1f} s of the router's CPU; its memory was {before / 1024:.0f} MiB before and {peak / 1024:.0f} MiB "
          f"at most (VmHWM)\n", flush=True)


class Crowd:
    """Consumers of three kinds, served by a thread of their own."""

    def __init__(self, farm, bearer, counts):
        self.fast, self.slow, self.stuck = ([] for _ in counts)
        self.over = threading.Event()
        for kind, count in zip((self.fast, self.slow, self.stuck), counts):
            for _ in range(count):
                client = connect(farm, bearer, "table=b.t")
                kind.append(Counted(client) if kind is self.fast else client)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with selectors.DefaultSelector() as selector:
            for counted in self.fast:
                selector.register(counted.client, selectors.EVENT_READ, counted)
            for client in self.slow:
                client.setblocking(False)
            due = time.monotonic()
            while not self.over.is_set():
                for key, _ in selector.select(0.1):
                    key.data.read()
                if time.monotonic() >= due:
                    due += SLOW_S
                    for client in self.slow:
                        try:
                            client.recv(SLOW_BYTES)
                        except BlockingIOError:
                            pass

    def least(self):
        return min(counted.rows for counted in self.fast)

    def close(self):
        self.over.set()
        self.thread.join()
        for client in [*(it.client for it in self.fast), *self.slow, *self.stuck]:
            client.close()


def used(farm, primary, metric, work):
    """Seconds, the router's CPU and peak, the most readings and connections of the server while something is done."""
    pid = farm.router.pid
    reset_peak(pid)
    most = {"readings": 0, "connections": 0}
    over = threading.Event()

    def watch():
        with wire.Connection(primary) as connection:
            while not over.wait(0.2):
                most["readings"] = max(most["readings"], metric(farm, "heddle_change_stream_readings"))
                threads = int(connection.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1])
                most["connections"] = max(most["connections"], threads)

    watcher = threading.Thread(target=watch, daemon=True)
    begun = time.monotonic(), cpu_s(pid)
    watcher.start()
    try:
        work()
    finally:
        over.set()
        watcher.join()
    seconds, cpu = time.monotonic() - begun[0], cpu_s(pid) - begun[1]
    return seconds, cpu, memory_kb(pid, "VmHWM") / 1024, int(most["readings"]), most["connections"]


def crowd(farm, primary, bearer, count, metric, write):
    """Prints what the router takes with so many consumers, of which a twentieth reads all, and half reads nothing."""
    fast = max(1, count // 20)
    stuck = count // 2
    counts = fast, count - fast - stuck, stuck
    with wire.Connection(primary) as connection:
        connection.query("CREATE DATABASE IF NOT EXISTS b")
        connection.query("CREATE OR REPLACE TABLE b.t (id INT PRIMARY KEY, name VARCHAR(80), price DECIMAL(10,2))")
    before = memory_kb(farm.router.pid, "VmRSS") / 1024
    print(f"{count:,} consumers: {counts[0]:,} read all, {counts[1]:,} read {SLOW_BYTES / SLOW_S / 1024:.0f} KiB/s, "
          f"{counts[2]:,} read nothing; the router's memory was {before:.0f} MiB before\n")
    print("| what | s | the router's CPU, s | VmHWM, MiB | readings, most | server's connections, most |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    made = []

    def come():
        made.append(Crowd(farm, bearer, counts))
        wait_for(lambda: metric(farm, "heddle_change_streams") == count
                 and metric(farm, "heddle_change_stream_readings") == 1, WAIT_S, "consumers are behind")

    def idle():
        time.sleep(IDLE_S)

    def many(rows):
        def work():
            target = made[0].least() + rows
            write(primary, rows)
            wait_for(lambda: made[0].least() >= target, WAIT_S, "rows are missing")
        return work

    def single(rows):
        def work():
            target = made[0].least() + rows
            with wire.Connection(primary) as connection:
                for number in range(rows):
                    connection.query(f"REPLACE INTO b.t VALUES ({10_000_000 + number},'{'name' * 15}',1)")
            wait_for(lambda: made[0].least() >= target, WAIT_S, "rows are missing")
        return work

    try:
        for what, work in (("they come", come), (f"nothing happens for {IDLE_S} s", idle),
                           ("40,000 rows, 100 in a transaction", many(40_000)),
                           ("30,000 rows, each a transaction", single(30_000)),
                           (f"nothing is written for {IDLE_S} s", idle)):
            seconds, cpu, peak, readings, connections = used(farm, primary, metric, work)
            print(f"| {what} | {seconds:.1f} | {cpu:.1f} | {peak:.0f} | {readings} | {connections} |", flush=True)
    finally:
        if made:
            made[0].close()
    wait_for(lambda: metric(farm, "heddle_change_streams") == 0, WAIT_S, "streams are left")
    print(flush=True)


def flags(count):
    """Settings of the farm for so many consumers from one address, which may stand still."""
    return ["--set", f"change_streams_max={count + 8}", "--set", f"http_address_connections_max={count + 64}",
            "--set", f"http_connections_max={count + 512}", "--set", "http_write_timeout_s=3600"]


def files(count):
    """Open files that bench and router need for so many."""
    return 2 * count + 1024


if __name__ == "__main__":
    raise SystemExit(f"{os.path.basename(__file__)} is a part of bench/changes.py: see its --transaction-mb and --slow")
