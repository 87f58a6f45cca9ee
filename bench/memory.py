"""What a proxy holds in memory: for idle clients, and while a large result passes through it."""

import time

import sysbench
import wire
from processes import Failed, memory_kb, reset_peak

IDLE_CLIENTS = 1000
IDLE_MB_MAX = 8
RESULT_MB_MAX = 2
SLOW_SECONDS = 8
SLOW_RECEIVE_BUFFER_BYTES = 64 << 10
# All tables of sysbench one after the other: 200,000 rows.
RESULT = " UNION ALL ".join(
    f"SELECT id, k, c, pad FROM {sysbench.DATABASE}.sbtest{table}"
    for table in range(1, sysbench.TABLES + 1)
)
RESULT_ROWS = sysbench.TABLES * sysbench.TABLE_ROWS


def bench(contenders, names, primary, failures, say):
    """Prints a row per contender. The limits are those of Heddle."""
    rows = []
    with wire.Connection(primary) as control:
        # HAProxy opens a server connection per client, so the server must admit that many.
        before = control.value("SELECT @@global.max_connections")
        control.query(f"SET GLOBAL max_connections = {IDLE_CLIENTS + 200}")
        for name in names:
            try:
                rows.append((name, *measure(contenders, name)))
            except (Failed, OSError, wire.ServerError) as error:
                failures.append(f"{name}: memory: {error}")
                rows.append((name, None, None, None, None))
            say(f"memory: {name} done")
        control.query(f"SET GLOBAL max_connections = {before}")
    print(f"| proxy | resident with one client, MB | {IDLE_CLIENTS:,} idle clients, MB more "
          f"(aim {IDLE_MB_MAX}) | {RESULT_ROWS:,} rows at full speed, peak MB more "
          f"(aim {RESULT_MB_MAX}) | the same read slowly |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, *figures in rows:
        shown = ["failed" if value is None else f"{value / 1024:.1f}" for value in figures]
        print(f"| {name} | " + " | ".join(shown) + " |")


def measure(contenders, name):
    """(resident, more for idle clients, more at the peak of a fast, of a slow result), in kB."""
    with contenders.turn(name) as (address, pid):
        with one_client(address):
            resident_kb = memory_kb(pid, "VmRSS")
            fast_kb = result_kb(address, pid, None)
            slow_kb = result_kb(address, pid, SLOW_SECONDS)
    # A fresh start: what a large result left behind must not hide what idle clients take.
    with contenders.turn(name) as (address, pid):
        with one_client(address):
            before_kb = memory_kb(pid, "VmRSS")
            idle_kb = idle_clients_kb(address, pid) - before_kb
    return resident_kb, idle_kb, fast_kb, slow_kb


def one_client(address):
    """A client that asked something, so that what is made once has been made."""
    connection = wire.Connection(address)
    connection.query("SELECT 1")
    return connection


def idle_clients_kb(address, pid):
    clients = []
    try:
        for _ in range(IDLE_CLIENTS):
            client = wire.Connection(address)
            clients.append(client)
            client.query("SELECT 1")
        # What a proxy frees a moment after the last statement counts as freed.
        time.sleep(1)
        return memory_kb(pid, "VmRSS")
    finally:
        for client in clients:
            client.close()


def result_kb(address, pid, seconds):
    """How far the peak rises over what was resident; with `seconds` the client reads that slowly."""
    buffer_bytes = SLOW_RECEIVE_BUFFER_BYTES if seconds else None
    with wire.Connection(address, receive_buffer_bytes=buffer_bytes) as client:
        client.query("SELECT 1")
        rate = None
        if seconds:
            row_bytes = 200
            rate = RESULT_ROWS * row_bytes / seconds
        before_kb = memory_kb(pid, "VmRSS")
        reset_peak(pid)
        rows, _ = client.stream(RESULT, rate)
        if rows != RESULT_ROWS:
            raise Failed(f"{rows:,} rows came instead of {RESULT_ROWS:,}")
        return memory_kb(pid, "VmHWM") - before_kb
