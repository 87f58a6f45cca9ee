"""Runs sysbench against one address and reads its report."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

import wire
from processes import Failed

TABLES = 4
TABLE_ROWS = 50_000
DATABASE = "sbtest"
# On top of the run's own length: connecting, preparing statements, ending the threads.
GRACE_S = 60


@dataclass
class Report:
    queries: int
    queries_per_s: float
    # Per event: one query of point_select, one transaction of the others.
    p99_ms: float
    # Statements that sysbench ran again: deadlocks (1213), by its rules and ours.
    ignored_errors: int
    reconnects: int


def options(address, prepared):
    """`address` is HOST:PORT, or the path of a Unix socket."""
    if address.startswith("/"):
        place = ["--mysql-host=localhost", f"--mysql-socket={address}"]
    else:
        host, port = address.rsplit(":", 1)
        place = [f"--mysql-host={host}", f"--mysql-port={port}"]
    return place + [
        "--mysql-user=root", f"--mysql-db={DATABASE}",
        f"--tables={TABLES}", f"--table-size={TABLE_ROWS}",
        f"--db-ps-mode={'auto' if prepared else 'disable'}",
        # A deadlock is the server's ordinary answer; anything else ends the run.
        "--mysql-ignore-errors=1213",
    ]


def _run(arguments, timeout_s, folder=None):
    try:
        done = subprocess.run(["sysbench"] + arguments, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout_s, cwd=folder)
    except subprocess.TimeoutExpired:
        raise Failed(f"sysbench hung for {timeout_s} s: {' '.join(arguments)}")
    if done.returncode != 0 or "FATAL" in done.stdout:
        lines = [line for line in done.stdout.splitlines() if "FATAL" in line or "error" in line]
        raise Failed(f"sysbench: {lines[0] if lines else done.stdout[-300:]}")
    return done.stdout


def prepare(address):
    """Creates the database where it is missing, and the tables, filled."""
    with wire.Connection(address) as connection:
        connection.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    _run(["oltp_common"] + options(address, False) + ["prepare"], 300)


def certificates(folder, authority):
    """The files that sysbench looks for in its directory when it is to use TLS."""
    shutil.copy(authority, os.path.join(folder, "cacert.pem"))
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
               "-subj", "/CN=bench", "-keyout", "client-key.pem", "-out", "client-cert.pem"]
    made = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if made.returncode != 0:
        raise Failed("openssl made no certificate for the client")


def run(address, workload, threads, prepared, seconds, extra=(), folder=None):
    """One run, in a directory; Failed when sysbench met an error that it does not repeat."""
    arguments = [workload] + options(address, prepared) + [
        f"--threads={threads}", f"--time={seconds}", "--events=0", "--percentile=99",
        "--report-interval=0",
    ] + list(extra) + ["run"]
    return read(_run(arguments, seconds + GRACE_S, folder))


def read(text):
    """Takes the figures out of sysbench's report."""
    def figure(pattern):
        found = re.search(pattern, text)
        if not found:
            raise Failed(f"sysbench's report lacks {pattern}: {text[-300:]}")
        return found.groups()

    queries, queries_per_s = figure(r"queries:\s+(\d+)\s+\(([\d.]+) per sec")
    return Report(
        queries=int(queries),
        queries_per_s=float(queries_per_s),
        p99_ms=float(figure(r"99th percentile:\s+([\d.]+)")[0]),
        ignored_errors=int(figure(r"ignored errors:\s+(\d+)")[0]),
        reconnects=int(figure(r"reconnects:\s+(\d+)")[0]),
    )
