"""A small MySQL client: just enough to log in, ask one question and read a result at a chosen pace.

The benchmarks need raw sockets, because a client library would buffer results and hide what the
proxy holds. Only an empty password is spoken, which is what a farm of `heddle up` has.
"""

import socket
import struct
import time

CLIENT_LONG_PASSWORD = 1
CLIENT_CONNECT_WITH_DB = 8
CLIENT_LOCAL_FILES = 0x80
CLIENT_PROTOCOL_41 = 0x200
CLIENT_TRANSACTIONS = 0x2000
CLIENT_SECURE_CONNECTION = 0x8000
CLIENT_MULTI_RESULTS = 0x20000
CLIENT_PLUGIN_AUTH = 0x80000
CAPABILITIES = (
    CLIENT_LONG_PASSWORD | CLIENT_LOCAL_FILES | CLIENT_PROTOCOL_41 | CLIENT_TRANSACTIONS | CLIENT_SECURE_CONNECTION
    | CLIENT_MULTI_RESULTS | CLIENT_PLUGIN_AUTH
)
COM_QUERY = 3
COM_STMT_PREPARE = 0x16
COM_STMT_SEND_LONG_DATA = 0x18
UTF8MB4_GENERAL_CI = 45
PACKET_BYTES_MAX = 1 << 24


# Of <linux/in.h>; the module socket does not name it.
IP_BIND_ADDRESS_NO_PORT = 24


class ServerError(Exception):
    """An ERR packet: number and text as the server sent them."""


class Connection:
    """One logged-in session of `root` without a password; it comes from the address `source` where that is given."""

    def __init__(self, address, database=None, timeout_s=30, receive_buffer_bytes=None, source=None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            # Before connect(), so that the window which the peer sees is small from the start.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        if source:
            # The port is chosen when the other end is known, so that each source has all of them.
            self.socket.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            self.socket.bind((source, 0))
        self.socket.settimeout(timeout_s)
        self.socket.connect((host, int(port)))
        self.received = b""
        # Packets that have no answer, for the next write.
        self.before = b""
        try:
            self._log_in(database)
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        self.socket.close()

    def _exactly(self, count):
        while len(self.received) < count:
            piece = self.socket.recv(65536)
            if not piece:
                raise ConnectionError("the server closed the connection")
            self.received += piece
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def _packet(self):
        header = self._exactly(4)
        self.sequence = (header[3] + 1) & 0xFF
        return self._exactly(int.from_bytes(header[:3], "little"))

    def _send(self, payload, sequence):
        before, self.before = self.before, b""
        self.socket.sendall(before + packet_of(payload, sequence))

    def _log_in(self, database):
        greeting = self._packet()
        if greeting[0] == 0xFF:
            raise ServerError(error_text(greeting))
        capabilities = CAPABILITIES | (CLIENT_CONNECT_WITH_DB if database else 0)
        login = struct.pack("<IIB23x", capabilities, PACKET_BYTES_MAX, UTF8MB4_GENERAL_CI)
        login += b"root\0" + b"\0"
        if database:
            login += database.encode() + b"\0"
        self._send(login + b"mysql_native_password\0", 1)
        reply = self._packet()
        if reply[0] == 0xFE:
            # Another plugin: an empty password is answered by nothing (native) or one zero byte.
            plugin = reply[1:].split(b"\0", 1)[0]
            self._send(b"" if plugin == b"mysql_native_password" else b"\0", self.sequence)
            reply = self._packet()
        if reply[0] != 0x00:
            raise ServerError(error_text(reply) if reply[0] == 0xFF else f"login: {reply[:1]!r}")

    def query(self, text):
        """Runs one statement; the rows as lists of strings (None for NULL)."""
        self._send(bytes([COM_QUERY]) + text.encode(), 0)
        first = self._packet()
        if first[0] == 0xFF:
            raise ServerError(f"{text}: {error_text(first)}")
        if first[0] == 0x00:
            return []
        while not is_eof(self._packet()):
            pass
        rows = []
        while not is_eof(packet := self._packet()):
            if packet[:1] == b"\xff":
                raise ServerError(f"{text}: {error_text(packet)}")
            rows.append(text_row(packet))
        return rows

    def ask(self, text):
        """Sends a statement and reads nothing of its reply."""
        self._send(b"\x03" + text.encode(), 0)

    def load(self, text, pieces):
        """Runs a LOAD DATA LOCAL and sends these pieces as its file, each in one packet."""
        self._send(bytes([COM_QUERY]) + text.encode(), 0)
        asked = self._packet()
        if asked[0] != 0xFB:
            raise ServerError(f"{text}: {error_text(asked) if asked[0] == 0xFF else 'no file is asked for'}")
        sequence = self.sequence
        for piece in pieces:
            self._send(piece, sequence)
            sequence = (sequence + 1) & 0xFF
        self._send(b"", sequence)
        told = self._packet()
        if told[0] == 0xFF:
            raise ServerError(f"{text}: {error_text(told)}")

    def prepare_selection(self):
        """Prepares the statement that takes shards as long data; returns its id."""
        self._send(bytes([COM_STMT_PREPARE]) + b"HEDDLE SELECT ?", 0)
        packet = self._packet()
        if packet[0] == 0xFF:
            raise ServerError(error_text(packet))
        # The definition of its parameter, and what ends the list.
        while not is_eof(self._packet()):
            pass
        return packet[1:5]

    def select(self, statement, table, key):
        """Selects the shard of a key; goes out in one write with what is sent next, for no answer comes."""
        data = f"HEDDLE SELECT SHARD\0{table}\0{key}".encode()
        self.before = packet_of(bytes([COM_STMT_SEND_LONG_DATA]) + statement + b"\0\0" + data, 0)

    def value(self, text):
        """The first column of the first row, or None without rows."""
        rows = self.query(text)
        return rows[0][0] if rows else None

    def stream(self, text, bytes_per_s=None):
        """Reads a result without keeping it; (rows, bytes). With a rate it reads no faster."""
        self._send(bytes([COM_QUERY]) + text.encode(), 0)
        first = self._packet()
        if first[0] == 0xFF:
            raise ServerError(f"{text}: {error_text(first)}")
        reader = Skimmer(self.received)
        self.received = b""
        # Packets that have no answer, for the next write.
        self.before = b""
        start = time.monotonic()
        while not reader.finished():
            if bytes_per_s:
                ahead_s = reader.bytes / bytes_per_s - (time.monotonic() - start)
                if ahead_s > 0:
                    time.sleep(ahead_s)
            piece = self.socket.recv(65536)
            if not piece:
                raise ConnectionError("the server closed the connection within a result")
            reader.feed(piece)
        return reader.rows, reader.bytes


class Skimmer:
    """Counts the rows of a result whose first packet was read: definitions, EOF, rows, EOF."""

    def __init__(self, first_bytes):
        self.bytes = 0
        self.rows = 0
        self.eofs = 0
        self.pending = b""
        self.feed(first_bytes)

    def finished(self):
        return self.eofs == 2

    def feed(self, piece):
        self.bytes += len(piece)
        data = self.pending + piece
        at = 0
        while at + 5 <= len(data):
            length = int.from_bytes(data[at:at + 3], "little")
            # Only packets short enough to be EOF or ERR are looked at.
            if at + 4 + length > len(data):
                break
            mark = data[at + 4]
            if mark == 0xFE and length < 9:
                self.eofs += 1
            elif mark == 0xFF:
                raise ServerError(error_text(data[at + 4:at + 4 + length]))
            elif self.eofs == 1:
                self.rows += 1
            at += 4 + length
        self.pending = data[at:]


def packet_of(payload, sequence):
    return len(payload).to_bytes(3, "little") + bytes([sequence]) + payload


def is_eof(packet):
    return packet[:1] == b"\xfe" and len(packet) < 9


def error_text(packet):
    number = int.from_bytes(packet[1:3], "little")
    return f"{number}: {packet[3:].decode(errors='replace')}"


def text_row(packet):
    row, at = [], 0
    while at < len(packet):
        length = packet[at]
        at += 1
        if length == 0xFB:
            row.append(None)
            continue
        if length >= 0xFC:
            width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[length]
            length = int.from_bytes(packet[at:at + width], "little")
            at += width
        row.append(packet[at:at + length].decode(errors="replace"))
        at += length
    return row
