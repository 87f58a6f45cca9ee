"""Clients that behave as clients do on a bad day: they connect and go, vanish in the middle of a
packet or of a result, change users, and leave prepared statements behind. What they leave in the
proxy is watched: its memory and its descriptors must not grow."""

import os
import random
import socket
import statistics
import struct
import threading
import time

import wire
from processes import Failed, memory_kb

COM_STMT_PREPARE, COM_CHANGE_USER = 0x16, 0x11
# Between the second quarter of the run and its last one.
GROWTH_MAX = 1.15
GROWTH_MB_MIN = 4
DESCRIPTORS_MORE_MAX = 64
PAUSE_S = 0.01


def vanish(connection):
    """Closes as a killed process does: what was not read is answered by a reset."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def come_and_go(address, _random):
    with wire.Connection(address) as connection:
        connection.query("SELECT 1")


def vanish_in_a_transaction(address, _random):
    connection = wire.Connection(address)
    connection.query("BEGIN")
    connection.query("SELECT COUNT(*) FROM information_schema.schemata FOR UPDATE")
    vanish(connection)


def vanish_in_a_packet(address, random):
    connection = wire.Connection(address)
    whole = (1000).to_bytes(3, "little") + b"\0" + b"\x03SELECT 1"
    connection.socket.sendall(whole[:random.randrange(1, len(whole))])
    vanish(connection)


def vanish_in_a_result(address, _random):
    connection = wire.Connection(address)
    connection._send(bytes([wire.COM_QUERY]) + b"SELECT REPEAT('x', 4000000)", 0)
    connection.socket.recv(100)
    vanish(connection)


def vanish_at_login(address, random):
    host, port = address.rsplit(":", 1)
    probe = socket.create_connection((host, int(port)))
    probe.sendall(random.randbytes(random.randrange(40)))
    probe.close()


def change_user(address, _random):
    with wire.Connection(address) as connection:
        connection.query("SELECT 1")
        payload = bytes([COM_CHANGE_USER]) + b"root\0" + b"\0" + b"\0"
        payload += struct.pack("<H", wire.UTF8MB4_GENERAL_CI) + b"mysql_native_password\0"
        connection._send(payload, 0)
        reply = connection._packet()
        if reply[:1] == b"\xfe":
            connection._send(b"", connection.sequence)
            reply = connection._packet()
        if reply[:1] != b"\0":
            raise wire.ServerError(f"COM_CHANGE_USER: {reply!r}")
        connection.query("SELECT 1")


def leave_statements(address, random):
    connection = wire.Connection(address)
    for _ in range(20):
        text = f"SELECT {random.randrange(1_000_000_000)} + ?".encode()
        connection._send(bytes([COM_STMT_PREPARE]) + text, 0)
        first = connection._packet()
        if first[0] != 0:
            raise wire.ServerError(wire.error_text(first))
        columns, params = struct.unpack_from("<HH", first, 5)
        for count in (params, columns):
            for _ in range(count + 1 if count else 0):
                connection._packet()
    vanish(connection)


WAYS = [come_and_go, vanish_in_a_transaction, vanish_in_a_packet, vanish_in_a_result,
        vanish_at_login, change_user, leave_statements]


class Churn:
    """Runs such clients until the end of the `with`, and samples the proxy meanwhile."""

    def __init__(self, address, pid, seed=1):
        self.address, self.pid = address, pid
        self.random = random.Random(seed)
        self.over = threading.Event()
        self.counts = {way.__name__: 0 for way in WAYS}
        self.samples, self.failures = [], []

    def __enter__(self):
        self.threads = [threading.Thread(target=target) for target in (self._churn, self._watch)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _churn(self):
        while not self.over.wait(PAUSE_S):
            way = self.random.choice(WAYS)
            try:
                way(self.address, self.random)
                self.counts[way.__name__] += 1
            except (OSError, wire.ServerError) as error:
                self.failures.append(f"{way.__name__}: {error}")
                if len(self.failures) > 20:
                    return

    def _watch(self):
        while not self.over.wait(1):
            try:
                descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))
                self.samples.append((memory_kb(self.pid, "VmRSS") / 1024, descriptors))
            except (OSError, Failed):
                return

    def judge(self):
        """Failed when a client was treated badly, or the proxy grew."""
        done = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        print(f"clients beside the load: {done}")
        if self.failures:
            raise Failed(f"{len(self.failures)} of these clients failed, first {self.failures[0]}")
        quarter = len(self.samples) // 4
        if quarter < 5:
            print("the run was too short to judge memory and descriptors")
            return
        early, late = self.samples[quarter:2 * quarter], self.samples[-quarter:]
        for name, at, limit in (("resident MB", 0, lambda e: max(e * GROWTH_MAX, e + GROWTH_MB_MIN)),
                                ("descriptors", 1, lambda e: e + DESCRIPTORS_MORE_MAX)):
            before = statistics.median(sample[at] for sample in early)
            after = statistics.median(sample[at] for sample in late)
            print(f"{name}: {before:,.1f} in the second quarter, {after:,.1f} in the last")
            if after > limit(before):
                raise Failed(f"{name} grew from {before:,.1f} to {after:,.1f}")
