"""Debezium's embedded engine beside the change stream: the same rows of the same server, read and thrown away."""

import os
import queue
import shutil
import subprocess
import threading
import time

import wire
from processes import ROOT, Failed, cpu_s

SOURCE = os.path.join(ROOT, "bench", "debezium")
BUILT = os.path.join(ROOT, "target", "debezium")
FIRST, ROWS = "b.first", "b.t"
WAIT_S = 60


def built():
    """The class path of the engine with all that it needs, or None where Maven or its repository is not to be had."""
    if not (shutil.which("mvn") and shutil.which("java")):
        return None
    paths = os.path.join(BUILT, "classpath")
    made = subprocess.run(["mvn", "-q", "-B", "-f", os.path.join(SOURCE, "pom.xml"), f"-DbuildDirectory={BUILT}",
                           "package", "dependency:build-classpath", f"-Dmdep.outputFile={paths}"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if made.returncode:
        return None
    with open(paths, encoding="utf-8") as file:
        return f"{BUILT}/classes:{file.read().strip()}"


def streamed(class_path, primary, rows, write):
    """Seconds, and CPU seconds of the engine, of `rows` rows that `write` makes, after as many to warm it up."""
    host, port = primary.rsplit(":", 1)
    with wire.Connection(primary) as connection:
        connection.query("CREATE DATABASE IF NOT EXISTS b")
        connection.query(f"CREATE OR REPLACE TABLE {FIRST} (id INT AUTO_INCREMENT PRIMARY KEY)")
    engine = subprocess.Popen(["java", "-cp", class_path, "Stream", host, port, "root", FIRST, ROWS, str(rows)],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lines = queue.Queue()
    reader = threading.Thread(target=lambda: [lines.put(line.strip()) for line in engine.stdout], daemon=True)
    reader.start()
    try:
        until_it_streams(primary, lines)
        for _ in range(2):
            before = time.monotonic(), cpu_s(engine.pid)
            write(primary, rows)
            if not expect(lines, "done", WAIT_S):
                raise Failed("Debezium's engine does not tell all rows")
            after = time.monotonic(), cpu_s(engine.pid)
        return [b - a for a, b in zip(before, after)]
    finally:
        engine.kill()
        engine.wait()
        reader.join()


def until_it_streams(primary, lines):
    deadline = time.monotonic() + WAIT_S
    with wire.Connection(primary) as connection:
        while time.monotonic() < deadline:
            connection.query(f"INSERT INTO {FIRST} VALUES ()")
            if expect(lines, "streams", 0.2):
                return
    raise Failed("Debezium's engine does not stream")


def expect(lines, wanted, timeout_s):
    """Waits for the line; false when there is none in time. Lines of the first table that come late are passed over."""
    try:
        while (line := lines.get(timeout=timeout_s)) != wanted:
            if line != "streams":
                raise Failed(f"Debezium's engine says: {line}")
    except queue.Empty:
        return False
    return True
