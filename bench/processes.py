"""Processes that a benchmark starts: a farm of `heddle up`, HAProxy; what they use; their end.

Everything started here is ended here, also on Ctrl-C, SIGTERM and failure.
"""

import json
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 60


class Failed(Exception):
    """What went wrong, in one line for the person who ran the benchmark."""


def die_on_signals():
    """Turns SIGTERM and SIGHUP into an exception, so that `finally` runs as it does on Ctrl-C."""
    def stop(number, _frame):
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def free_ports(count):
    """Ports that nobody listens on, below the range that outgoing connections take."""
    found = []
    while len(found) < count:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def cpu_s(pid):
    """CPU seconds that a process has used, all its threads, user and kernel."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        # The name in parentheses may hold spaces; utime and stime are fields 14 and 15.
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def cpu_ns(pid):
    """The same in nanoseconds, of the threads that live now; finer than the clock's ticks."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


def memory_kb(pid, field):
    """VmRSS (now) or VmHWM (the peak since the last reset), in kB."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    raise Failed(f"{field} of process {pid} is unknown")


def reset_peak(pid):
    """Makes VmHWM start again from what is resident now."""
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition, timeout_s, what):
    """Polls until the condition holds; Failed with `what` when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what} (waited {timeout_s} s)")
        time.sleep(0.02)


def end(process, timeout_s=STOP_TIMEOUT_S):
    """SIGTERM, then SIGKILL; returns the exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode


class Farm:
    """`heddle up` over a directory of its own; the router may be killed and started again over
    servers that run on."""

    def __init__(self, heddle, replicas, flags=(), has_socket=False):
        self.heddle = heddle
        self.replicas = replicas
        self.flags = list(flags)
        self.folder = tempfile.mkdtemp(prefix="heddle-bench-")
        self.data = os.path.join(self.folder, "farm")
        sql, kv, http, fabric = free_ports(4)
        self.address, self.http = f"127.0.0.1:{sql}", f"127.0.0.1:{http}"
        self.kv = f"127.0.0.1:{kv}"
        # Beside the address; earlier builds have none.
        self.socket = os.path.join(self.folder, "sql.sock") if has_socket else None
        places = f"{self.address},{self.socket}" if has_socket else self.address
        self.doors = ["--sql", places, "--http", self.http,
                      "--kv", self.kv, "--fabric", f"127.0.0.1:{fabric}",
                      "--set", "fabric_mysql_listen="]
        self.router = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception):
        self.close()

    def start(self, io=None, flags=()):
        """Starts the router, and servers that do not run yet; returns when it is ready. `flags` are for this
        start alone."""
        command = [self.heddle, "up", "--data", self.data, "--replicas", str(self.replicas)]
        command += self.doors + self.flags + list(flags) + (["--io", io] if io else [])
        log = open(os.path.join(self.folder, "router.log"), "ab")
        # A session of its own: Ctrl-C reaches this script, which then ends things in order.
        self.router = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log,
                                       start_new_session=True, cwd=self.folder)
        log.close()
        lines = queue.Queue()
        threading.Thread(target=self._read_lines, args=(self.router, lines), daemon=True).start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                line = lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise Failed(f"heddle up is not ready after {START_TIMEOUT_S} s: {self.last_words()}")
            if line is None:
                raise Failed(f"heddle up ended: {self.last_words()}")
            if line.startswith("heddle: ready"):
                return

    @staticmethod
    def _read_lines(process, lines):
        """Hands on what the router says, and keeps its pipe empty as long as it lives."""
        for line in process.stdout:
            lines.put(line.decode(errors="replace").rstrip())
        lines.put(None)

    def last_words(self):
        with open(os.path.join(self.folder, "router.log"), errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return lines[-1] if lines else "no message on stderr"

    def kill_router(self):
        """kill -9 of the router; its servers run on, and the next start adopts them."""
        if self.router is not None:
            self.router.kill()
            self.router.wait()
            self.router = None

    def servers(self):
        """The rows of farm.json; none before the first start came that far."""
        try:
            with open(os.path.join(self.data, "farm.json"), encoding="utf-8") as file:
                return json.load(file)["servers"]
        except (FileNotFoundError, ValueError):
            return []

    def server_addresses(self):
        return [address_of(server) for server in self.servers()]

    def close(self):
        """Ends the router and every server, whatever state they are in."""
        servers = self.servers()
        if self.router is not None:
            end(self.router)
        pids = [server["pid"] for server in servers if self._is_ours(server["pid"])]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        try:
            wait_for(lambda: not any(map(is_alive, pids)), STOP_TIMEOUT_S, "servers still run")
        except Failed:
            for pid in filter(is_alive, pids):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_ours(self, pid):
        """A pid in a file may have been given to another process meanwhile."""
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return self.folder.encode() in file.read()
        except (FileNotFoundError, ProcessLookupError):
            return False


def address_of(server):
    """`address` may come with or without its port."""
    address = server["address"]
    return address if ":" in address else f"{address}:{server['port']}"


HAPROXY_CONFIG = """\
global
    nbthread 2
    maxconn 5000
defaults
    mode tcp
    timeout connect 5s
    timeout client 10m
    timeout server 10m
listen sql
    bind {own}
    server primary {primary}
"""


PROXYSQL_CONFIG = """\
datadir="{folder}"
admin_variables={{ admin_credentials="admin:admin" mysql_ifaces="127.0.0.1:{admin}" }}
mysql_variables={{ threads=2 interfaces="{own}" monitor_enabled=false max_connections=5000 }}
mysql_servers=({{ address="{host}" port={port} hostgroup=0 max_connections=1000 }})
mysql_users=({{ username="root" password="" default_hostgroup=0 }})
"""


class Proxy:
    """Another proxy with two threads in front of one server, as a process with a configuration in a folder."""

    def __init__(self, primary):
        self.folder = tempfile.mkdtemp(prefix="heddle-bench-")
        own, admin = free_ports(2)
        self.address = f"127.0.0.1:{own}"
        host, port = primary.split(":")
        config = os.path.join(self.folder, "proxy.cfg")
        with open(config, "w", encoding="ascii") as file:
            file.write(self.config.format(own=self.address, primary=primary, host=host, port=port,
                                          admin=admin, folder=self.folder))
        self.process = subprocess.Popen(self.command(config), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_for(self._listens, 10, f"{self.name} does not listen")
        except BaseException:
            self.close()
            raise

    def _listens(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.name} ended with code {self.process.returncode}")
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        end(self.process, 5)
        shutil.rmtree(self.folder, ignore_errors=True)


class HaProxy(Proxy):
    """HAProxy in tcp mode."""
    name = "HAProxy"
    config = HAPROXY_CONFIG
    path = shutil.which("haproxy") or "/usr/sbin/haproxy"

    def command(self, config):
        return [self.path, "-db", "-f", config]


class ProxySql(Proxy):
    """ProxySQL without monitoring, for an account that has no password."""
    name = "ProxySQL"
    config = PROXYSQL_CONFIG

    def __init__(self, path, primary):
        self.path = path
        super().__init__(primary)

    def command(self, config):
        return [self.path, "--foreground", "--no-monitor", "--config", config, "--datadir", self.folder]
