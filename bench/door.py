#!/usr/bin/env python3
"""What the SQL door costs: the same load straight to a server, through HAProxy, and through Heddle; through ProxySQL,
too, where PROXYSQL names its program.

All contenders take turns within each round, on the same servers, so that the drift of a busy
machine hits them alike; every ratio is taken within a round, and the tables show medians over the
rounds. The main figure is CPU per query: (utime + stime) of the proxy's process over the queries
that sysbench counted.

Protocols: text, prepared, tls (text, with TLS between the client and Heddle; HAProxy in tcp mode cannot
end MySQL's TLS, so it and the direct connection stay plain), compressed (text with zlib: Heddle packs what
otherwise the server would).

With WAYS, Heddle takes a turn for each way: of its client and of its server, each tcp or socket (a Unix socket).

On a machine that others use, figures are shown without ratios and nothing is judged: BUSY=1 shows them all the same.
The load may take QUIET_WAIT_S (300) to fall.

System calls per query are those of the warm-up, where perf may count them; on io_uring one call carries many
operations.

With EARLIER, the path of an earlier build, that one takes its turns as well, on servers of its own, and
each figure of Heddle is shown against it. With WITHOUT, settings such as digests=off,flight_recorder=0, the same
build takes turns with these on the same servers, and the rest is shown against that: what they cost.

Environment or flags: ROUNDS=3 SECONDS=5 WORKLOADS=… CONNECTIONS=1,8,64 PROTOCOLS=text,prepared
REPLICAS=0,2 WAYS=tcp/tcp,socket/tcp,tcp/socket,socket/socket HEDDLE=bin/heddle EARLIER=PATH WITHOUT=NAME=VALUE,…
PROXYSQL=PATH
A look: ROUNDS=1 SECONDS=3 make bench-door
"""

import argparse
import contextlib
import os
import platform
import resource
import statistics
import subprocess
import sys
from dataclasses import dataclass

import calls
import memory
import sysbench
import wire
from entry import prepare, quiet_load
from processes import ROOT, Failed, Farm, HaProxy, ProxySql, cpu_s

WARM_UP_S = 1
DIRECT, HAPROXY, PROXYSQL = "direct", HaProxy.name, ProxySql.name
IO_URING, EPOLL = "Heddle io_uring", "Heddle epoll"
# What an earlier build is called, by what the one at hand is called.
EARLIER = {IO_URING: "earlier io_uring", EPOLL: "earlier epoll"}
# What the same build is called that runs without something.
BARE = {IO_URING: "bare io_uring", EPOLL: "bare epoll"}
IO_OF = {IO_URING: "io_uring", EPOLL: "epoll",
         EARLIER[IO_URING]: "io_uring", EARLIER[EPOLL]: "epoll",
         BARE[IO_URING]: "io_uring", BARE[EPOLL]: "epoll"}
TCP, SOCKET = "tcp", "socket"
PLAIN = f"{TCP}/{TCP}"
WAYS = [f"{client}/{server}" for client in (TCP, SOCKET) for server in (TCP, SOCKET)]
# From so many connections up, they are many.
MANY_CONNECTIONS = 8
WRITES = {"oltp_read_write", "oltp_update_index", "oltp_update_non_index", "oltp_write_only", "oltp_insert"}
# In the state directory of the router: what it shows to clients.
OWN_CERTIFICATE = "tls-certificate.pem"


@dataclass(frozen=True)
class Cell:
    """One load: a workload, its number of connections and its protocol."""
    workload: str
    connections: int
    protocol: str

    def __str__(self):
        return f"{self.workload.removeprefix('oltp_')}, {self.connections}, {self.protocol}"


@dataclass(frozen=True)
class Sample:
    """What one contender did with a cell in one round."""
    queries_per_s: float
    p99_ms: float
    # None for the direct connection, which has no proxy.
    cpu_us: float | None
    # None where they could not be counted, too.
    calls: float | None


class Contenders:
    """Who takes part, on one farm. Other proxies stand all the time (idle, they cost nothing); a router
    of Heddle runs only while its turn lasts, so that its probes burden nobody else's."""

    def __init__(self, farm, proxies, primary, earlier=None, without=()):
        self.farm, self.primary, self.earlier = farm, primary, earlier
        self.proxies = {proxy.name: proxy for proxy in proxies}
        self.without = without

    def farm_of(self, name):
        """The farm that this contender's router belongs to."""
        return self.earlier if name in EARLIER.values() else self.farm

    @contextlib.contextmanager
    def turn(self, name):
        """Yields the address to load and the process to charge."""
        if name == DIRECT:
            yield self.primary, None
        elif name in self.proxies:
            yield self.proxies[name].address, self.proxies[name].process.pid
        else:
            farm = self.farm_of(name)
            client, server = way_of(name).split("/")
            by_sockets = "on" if server == SOCKET else "off"
            flags = ["--set", f"server_sockets={by_sockets}"] if farm is self.farm else []
            if name in BARE.values():
                flags += [word for setting in self.without for word in ("--set", setting)]
            farm.start(IO_OF[name], flags)
            try:
                yield farm.socket if client == SOCKET else farm.address, farm.router.pid
            finally:
                farm.kill_router()


def way_of(name):
    """How a contender is reached, and how it reaches servers."""
    last = name.rsplit(" ", 1)[-1]
    return last if last in WAYS else PLAIN


def heddles(ways):
    """Heddle's contenders by these ways; the plain one has no word for it in its name."""
    names = []
    for base in (IO_URING, EPOLL):
        for way in ways:
            name = base if way == PLAIN else f"{base} {way}"
            IO_OF[name] = IO_OF[base]
            names.append(name)
    return names


def measure(contenders, name, cell, seconds):
    with contenders.turn(name) as (address, pid):
        load = (cell.workload, cell.connections, cell.protocol == "prepared")
        extra = workload_options(cell.workload, contenders.farm.replicas)
        extra += protocol_options(cell.protocol, name)
        farm = contenders.farm_of(name)
        folder = farm.folder
        if cell.protocol == "tls" and name in IO_OF:
            sysbench.certificates(folder, os.path.join(farm.data, "state", OWN_CERTIFICATE))
        with calls.counted(pid) as counted:
            warm = sysbench.run(address, *load, WARM_UP_S, extra, folder)
        before_s = cpu_s(pid) if pid else 0
        report = sysbench.run(address, *load, seconds, extra, folder)
        used_s = cpu_s(pid) - before_s if pid else None
    cpu_us = None if used_s is None else used_s * 1e6 / max(1, report.queries)
    per_query = None if counted.calls is None else counted.calls / max(1, warm.queries)
    return Sample(report.queries_per_s, report.p99_ms, cpu_us, per_query)


def workload_options(workload, replicas):
    """With replicas the reads run outside transactions, else none of them could leave the primary."""
    return ["--skip-trx=on"] if replicas and workload == "oltp_read_only" else []


def protocol_options(protocol, name):
    """What sysbench is told beside the kind of statements."""
    if protocol == "tls" and name in IO_OF:
        return ["--mysql-ssl=on"]
    return ["--mysql-compression=on"] if protocol == "compressed" else []


def run_rounds(contenders, names, cells, options, failures):
    """samples[cell][name]: one per round, or None where the contender failed."""
    samples = {cell: {name: [] for name in names} for cell in cells}
    for number in range(options.rounds):
        for index, cell in enumerate(cells):
            # Another one begins each time: nobody is always the first on a cold cache.
            shift = (number + index) % len(names)
            for name in names[shift:] + names[:shift]:
                try:
                    sample = measure(contenders, name, cell, options.seconds)
                    cpu = f", {sample.cpu_us:.1f} us/query" if sample.cpu_us is not None else ""
                    if sample.calls is not None:
                        cpu += f", {sample.calls:.2f} calls/query"
                    say(f"round {number + 1}: {cell}: {name}: {sample.queries_per_s:,.0f} q/s{cpu}")
                except Failed as error:
                    sample = None
                    failures.append(f"{name}: {cell}: {error}")
                    say(f"round {number + 1}: {cell}: {name}: FAILED: {error}")
                samples[cell][name].append(sample)
    return samples


def say(text):
    print(text, file=sys.stderr, flush=True)


def median_of(samples, figure):
    values = [figure(sample) for sample in samples if sample is not None]
    return statistics.median(values) if values else None


def ratio(own, other, figure):
    """The median over rounds of own/other, both of the same round."""
    pairs = [(figure(a), figure(b)) for a, b in zip(own, other) if a is not None and b is not None]
    ratios = [a / b for a, b in pairs if b]
    return statistics.median(ratios) if ratios else None


def queries(sample):
    return sample.queries_per_s


def p99(sample):
    return sample.p99_ms


def cpu(sample):
    return sample.cpu_us


def calls_of(sample):
    return sample.calls


def shown(value, form):
    return "failed" if value is None else format(value, form)


def print_table(samples, names, judged):
    head = ["workload, connections, protocol"]
    for name in names:
        head += [f"{name}: q/s", "p99 ms"] + ([] if name == DIRECT else ["CPU µs/query", "calls/query"])
    print_row(head)
    print_row(["---"] + ["---:"] * (len(head) - 1))
    for cell, by_name in samples.items():
        row = [str(cell)]
        for name in names:
            own, base = by_name[name], by_name[HAPROXY]
            row += figures(name, own, base if judged else None)
        print_row(row)


def figures(name, own, base):
    """The columns of one contender in one row, with ratios to HAProxy for Heddle unless `base` is None."""
    columns = [shown(median_of(own, queries), ",.0f"), shown(median_of(own, p99), ".2f")]
    if name == DIRECT:
        return columns
    columns.append(shown(median_of(own, cpu), ".1f"))
    if name in IO_OF and base is not None:
        columns[0] += f" (×{shown(ratio(own, base, queries), '.2f')})"
        columns[2] += f" (**×{shown(ratio(own, base, cpu), '.2f')}**)"
    counted = median_of(own, calls_of)
    columns.append("–" if counted is None else f"{counted:.2f}")
    return columns


def print_row(columns):
    print("| " + " | ".join(columns) + " |")


def cpu_aim(name, cell):
    """The CPU per query, as a part of HAProxy's, that this contender is to stay at or below; None: there is no aim."""
    many = cell.connections >= MANY_CONNECTIONS
    if way_of(name) == f"{SOCKET}/{SOCKET}":
        return 0.5
    if way_of(name) != PLAIN or cell.protocol not in ("text", "prepared"):
        return None
    if IO_OF[name] == "epoll":
        return 0.9 if many else None
    if not many:
        return 0.95
    return 0.8 if cell.workload in WRITES else 0.7


def print_aims(samples, names):
    """What each contender of Heddle misses, cell by cell."""
    print()
    others = {*EARLIER.values(), *BARE.values()}
    for name in (name for name in names if name in IO_OF and name not in others):
        print(f"{name} against {HAPROXY}:")
        aims = {cell: cpu_aim(name, cell) for cell in samples}
        for what, figure, limit_of, is_missed in (
                ("CPU per query", cpu, aims.get, lambda value, limit: value > limit),
                ("throughput", queries, lambda cell: 1.0, lambda value, limit: value < limit),
                ("p99", p99, lambda cell: 1.0, lambda value, limit: value > limit)):
            ratios = {cell: ratio(samples[cell][name], samples[cell][HAPROXY], figure) for cell in samples}
            judged = {cell: value for cell, value in ratios.items()
                      if value is not None and limit_of(cell) is not None}
            missed = [f"{cell} ×{value:.2f} (aim ×{limit_of(cell)})" for cell, value in judged.items()
                      if is_missed(value, limit_of(cell))]
            print(f"- {what}: {len(judged) - len(missed)} of {len(judged)} cells meet their aim"
                  + (f"; missed: {'; '.join(missed)}" if missed else ""))
        print()


def print_progress(samples, names):
    """Heddle against its earlier build, and against itself without what it was told to leave out."""
    others = [(name, other, "the earlier build") for name, other in EARLIER.items()]
    others += [(name, other, "the bare one") for name, other in BARE.items()]
    for name, other, word in others:
        if other not in names:
            continue
        for what, figure in (("CPU per query", cpu), ("q/s", queries)):
            by_cell = {cell: ratio(samples[cell][name], samples[cell][other], figure) for cell in samples}
            known = {cell: value for cell, value in by_cell.items() if value is not None}
            if not known:
                continue
            worst = (max if figure is cpu else min)(known, key=known.get)
            print(f"{name}, {what} against {word}: median ×{statistics.median(known.values()):.3f}, "
                  f"worst ×{known[worst]:.3f} ({worst}).")


def first_line(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return (done.stdout.splitlines() or ["unknown"])[0].strip()
    except OSError:
        return "unknown"


def print_machine(options):
    load, quiet = quiet_load(options.quiet_wait)
    options.judged = quiet or options.busy
    print(f"# bench-door: {options.rounds} rounds of {options.seconds} s per cell\n")
    print(f"- Machine: {os.cpu_count()} CPUs, Linux {platform.release()}, load average before "
          f"{load:.1f}{'' if quiet else ': BUSY, so these figures are no measurement'}")
    print(f"- {first_line(['sysbench', '--version'])}, {sysbench.TABLES} tables of "
          f"{sysbench.TABLE_ROWS:,} rows; p99 per event (a transaction, except point_select)")
    print(f"- {first_line([HaProxy.path, '-v'])}, tcp mode, nbthread 2")
    if options.proxysql:
        print(f"- {first_line([options.proxysql, '--version'])}, 2 threads")
    commit = first_line(["git", "-C", ROOT, "describe", "--always", "--dirty"])
    print(f"- {first_line([options.heddle, '--version'])}, commit {commit}")
    if options.earlier:
        print(f"- earlier: {options.earlier}, {first_line([options.earlier, '--version'])}")
    if options.without:
        print(f"- bare: {', '.join(options.without)}")


SETTINGS = ("version", "sync_binlog", "innodb_flush_log_at_trx_commit", "log_bin", "binlog_format",
            "rpl_semi_sync_master_enabled", "rpl_semi_sync_master_wait_point", "gtid_strict_mode",
            "innodb_buffer_pool_size")


def print_durability(primary):
    """What the primary itself says, because speed without durability compares nothing."""
    with wire.Connection(primary) as connection:
        names = ", ".join(f"'{name}'" for name in SETTINGS)
        rows = connection.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    print("- The primary's settings: " + ", ".join(f"{name}={value}" for name, value in rows) + "\n")


def primary_of(farm):
    """The server that takes writes."""
    for address in farm.server_addresses():
        with wire.Connection(address) as connection:
            if connection.value("SELECT @@global.read_only") == "0":
                return address
    raise Failed("no server of the farm takes writes")


def filled(farm):
    """Fills the tables and ends the router, which runs in its turns only. Gives the primary."""
    primary = primary_of(farm)
    sysbench.prepare(primary)
    farm.kill_router()
    return primary


def bench_farm(replicas, options, failures):
    """One farm, one table; with the farm of one server also the rows on memory."""
    names = [DIRECT, HAPROXY] + ([PROXYSQL] if options.proxysql else []) + heddles(options.ways)
    names += list(EARLIER.values()) if options.earlier else []
    names += list(BARE.values()) if options.without else []
    cells = [Cell(workload, count, protocol) for workload in options.workloads
             for count in options.connections for protocol in options.protocols]
    if replicas:
        title = f"A farm with {replicas} replicas: HAProxy and direct use the primary alone"
    else:
        title = "A farm of one server: all send everything to the same server"
    say(f"starting a farm with --replicas {replicas}")
    with contextlib.ExitStack() as stack:
        farm = stack.enter_context(Farm(options.heddle, replicas, has_socket=True))
        primary = filled(farm)
        earlier = stack.enter_context(Farm(options.earlier, replicas)) if options.earlier else None
        if earlier:
            filled(earlier)
        print(f"## {title}\n")
        print_durability(primary)
        proxies = [stack.enter_context(HaProxy(primary))]
        if options.proxysql:
            proxies.append(stack.enter_context(ProxySql(options.proxysql, primary)))
        contenders = Contenders(farm, proxies, primary, earlier, options.without)
        samples = run_rounds(contenders, names, cells, options, failures)
        print_table(samples, names, options.judged)
        if options.judged:
            print_aims(samples, names)
            print_progress(samples, names)
        if not replicas and options.memory:
            print("\n## Memory\n")
            # No direct row: there is no proxy to weigh.
            memory.bench(contenders, [HAPROXY, IO_URING, EPOLL], primary, failures, say)
    print(flush=True)


def numbers(text):
    return [int(word) for word in text.replace(",", " ").split()]


def words(text):
    return text.replace(",", " ").split()


def read_options():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=int(env("ROUNDS", "3")))
    parser.add_argument("--seconds", type=int, default=int(env("SECONDS", "5")))
    workloads = "oltp_point_select oltp_read_only oltp_read_write oltp_update_index"
    parser.add_argument("--workloads", type=words, default=env("WORKLOADS", workloads))
    parser.add_argument("--connections", type=numbers, default=env("CONNECTIONS", "1,8,64"))
    parser.add_argument("--protocols", type=words, default=env("PROTOCOLS", "text,prepared"))
    parser.add_argument("--replicas", type=numbers, default=env("REPLICAS", "0,2"))
    parser.add_argument("--ways", type=words, default=env("WAYS", PLAIN))
    parser.add_argument("--heddle", default=env("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    parser.add_argument("--earlier", default=env("EARLIER"))
    parser.add_argument("--without", type=words, default=env("WITHOUT", ""))
    parser.add_argument("--proxysql", default=env("PROXYSQL"))
    parser.add_argument("--busy", action="store_true", default=bool(env("BUSY")))
    parser.add_argument("--quiet-wait", type=int, default=int(env("QUIET_WAIT_S", "300")))
    parser.add_argument("--no-memory", dest="memory", action="store_false")
    options = parser.parse_args()
    unknown = set(options.protocols) - {"text", "prepared", "tls", "compressed"}
    if unknown:
        parser.error(f"unknown protocols: {', '.join(sorted(unknown))}")
    unknown = set(options.ways) - set(WAYS)
    if unknown:
        parser.error(f"unknown ways: {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    return options


def main():
    options = read_options()
    prepare("bench-door", options)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    failures = []
    print_machine(options)
    try:
        for replicas in options.replicas:
            bench_farm(replicas, options, failures)
    except (Failed, OSError, wire.ServerError) as error:
        failures.append(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    if failures:
        print("failed:\n" + "\n".join(f"- {failure}" for failure in failures))
        sys.exit(1)


if __name__ == "__main__":
    main()
