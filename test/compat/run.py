#!/usr/bin/env python3
"""Runs programs of real drivers straight against a server and through Heddle, and compares.

Usage: test/compat/run.py [--heddle PATH] [--engine mariadb|mysql] [--mysqld PATH] [--tls] [--set NAME=VALUE] [--quick]
[--suites] [--sharded] [--only NAME,…] [--list] [--keep DIR]. A farm of one primary and one replica is started with `heddle up`; straight means its
primary. A program prints steps (`== name`) and lines; a step whose lines differ is a difference, unless the
program's entry knows it with a reason. The exit code is 0 when nothing else differs and nothing failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from processes import Failed, Farm, address_of, die_on_signals  # noqa: E402

from programs import NODE, PROGRAMS  # noqa: E402
from suites import SHARDED_SUITES, SUITES  # noqa: E402
from tools import Missing, program  # noqa: E402

PROGRAM_TIMEOUT_S = 300
SHARDS = 3
LOGIN_PATIENCE_S = 15
LOCK_WAIT_S = 20
USER, PASSWORD = "compat", "compat_pass"
SETUP = f"""
CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;
CREATE DATABASE compat_numbers;
"""
# What MariaDB's sequence engine has in every database, and a server that lets clients load their files.
SETUP_MYSQL = """
SET GLOBAL local_infile = ON;
SET cte_max_recursion_depth = 100000;
""" + "".join(f"""
CREATE TABLE compat_numbers.seq_1_to_{last} (seq BIGINT UNSIGNED NOT NULL PRIMARY KEY);
INSERT INTO compat_numbers.seq_1_to_{last}
  WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < {last}) SELECT seq FROM n;
""" for last in (50, 100, 1000, 5000, 20000, 50000))


class Target:
    """Where programs connect: the primary itself, or Heddle in front of it."""

    def __init__(self, name, address, folder, tls=False):
        self.name = name
        self.tls = tls
        self.host, self.port = address.rsplit(":", 1)
        self.folder = folder

    def client(self, user, password, *statements):
        command = [program("mariadb", "mariadb-client"), "--host", self.host, "--port", self.port, "--user", user,
                   f"--password={password}", "--batch", "--skip-column-names", *(["--ssl"] if self.tls else []), "--execute", ";".join(statements)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{self.name}: {done.stderr.strip()}")
        return done.stdout

    def fresh(self, database):
        """Drops and creates a database, through this target, as a user would."""
        self.client(USER, PASSWORD, f"DROP DATABASE IF EXISTS {database}",
                    f"CREATE DATABASE {database} CHARACTER SET utf8mb4")

    def environment(self, database):
        return {**os.environ, "COMPAT_HOST": self.host, "COMPAT_PORT": self.port, "COMPAT_USER": USER,
                "COMPAT_PASSWORD": PASSWORD, "COMPAT_DATABASE": database, "COMPAT_TLS": "1" if self.tls else "", "COMPAT_FOLDER": self.folder,
                "NODE_PATH": NODE.modules, "TZ": "UTC", "LC_ALL": "C.UTF-8"}


def steps_of(output):
    """The lines of each step, in order; what comes before the first step has the name ''."""
    steps = {"": []}
    name = ""
    for line in output.splitlines():
        if line.startswith("== "):
            name = line[3:]
            steps.setdefault(name, [])
        else:
            steps[name].append(line)
    return steps


def run_program(entry, command, target, keep):
    """(exit code, output) of one program at one target, in a database of its own."""
    database = "compat_" + entry.name.replace("-", "_")
    target.fresh(database)
    try:
        done = subprocess.run(command, env=target.environment(database), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PROGRAM_TIMEOUT_S, text=True, errors="backslashreplace", cwd=target.folder, stdin=subprocess.DEVNULL)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as hung:
        code, output = "hangs", (hung.stdout or b"").decode(errors="backslashreplace")
    with open(os.path.join(keep, f"{entry.name}.{target.name}"), "w", encoding="utf-8") as file:
        file.write(output)
    return code, output


def compare(entry, straight, heddle, all_expected):
    """The verdict on one program: (word, list of lines that tell what differs). The programs are written
    for MariaDB: on MySQL `all_expected` is false, and an error is one more thing that must be the same."""
    code, output = straight
    if code != 0 or (all_expected and "\nunexpected:" in output):
        bad = [line for line in output.splitlines() if line.startswith("unexpected:")]
        return "broken straight", [f"exit {code}", *(line[:300] for line in [*bad[:5], *output.splitlines()[-3:]])]
    known = entry.known if all_expected else {**entry.known, **entry.known_mysql}
    one, other = steps_of(output), steps_of(heddle[1])
    lines, unknown = [], 0
    for name in list(dict.fromkeys([*one, *other])):
        if one.get(name) == other.get(name):
            lines += [f"{name}: listed as different, but is the same"] if name in entry.known else []
            continue
        reason = known.get(name)
        if reason:
            lines.append(f"{name}: known: {reason}")
            continue
        unknown += 1
        lines.append(f"{name}:")
        mine, theirs = other.get(name, ["(step missing)"]), one.get(name, ["(step missing)"])
        lines += [f"  straight: {line[:300]}" for line in theirs if line not in mine][:6]
        lines += [f"  heddle:   {line[:300]}" for line in mine if line not in theirs][:6]
    if heddle[0] != 0:
        unknown += 1
        lines.append(f"exit code through Heddle: {heddle[0]}")
    if unknown:
        return "DIFFERS", lines
    return ("known differences" if any(": known: " in line for line in lines) else "same"), lines


def table(rows):
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())


def run_programs(entries, targets, keep, all_expected):
    rows, failed, details = [("program", "driver", "version", "seconds", "through Heddle")], 0, []
    for entry in entries:
        begin = time.monotonic()
        try:
            if targets[1].tls and not entry.tls:
                raise Missing("built without TLS")
            command, version = entry.prepare()
        except Missing as missing:
            rows.append((entry.name, entry.driver, "-", "-", f"skipped: {missing}"))
            continue
        outputs = [run_program(entry, command, target, keep) for target in targets]
        verdict, lines = compare(entry, *outputs, all_expected)
        seconds = f"{time.monotonic() - begin:.1f}"
        rows.append((entry.name, entry.driver, version, seconds, verdict))
        print(f"{entry.name}: {verdict}", flush=True)
        failed += verdict not in ("same", "known differences")
        details += [f"-- {entry.name}", *lines] if lines else []
    print("\n".join(["", *details, ""]))
    table(rows)
    return failed, len(rows) - 1 - failed


def run_suites(entries, targets, keep):
    rows, failed, details = [("suite", "version", "straight", "through Heddle", "only through Heddle")], 0, []
    for entry in entries:
        try:
            version, results = entry.run(targets, keep)
        except Missing as missing:
            rows.append((entry.name, "-", "-", "-", f"skipped: {missing}"))
            continue
        straight, heddle = results
        only = sorted(name for name, word in heddle.items() if word == "fail" and straight.get(name) != "fail")
        only += sorted(f"{name} (did not run)" for name, word in straight.items()
                       if word == "pass" and name not in heddle)
        unknown = [name for name in only if not entry.reason(name)]
        failed += bool(unknown) or not straight
        rows.append((entry.name, version, entry.count(straight), entry.count(heddle),
                     f"{len(unknown)}, and {len(only) - len(unknown)} known"))
        print(f"{entry.name}: {rows[-1][2:]}", flush=True)
        details += [f"-- {entry.name}: {name}: {entry.reason(name) or 'FAILS ONLY THROUGH HEDDLE'}" for name in only]
    print("\n".join(["", *details, ""]))
    table(rows)
    return failed, len(rows) - 1 - failed


def wait_for_login(target):
    """Heddle learns of accounts that were made straight at a server with its next look."""
    deadline = time.monotonic() + LOGIN_PATIENCE_S
    while True:
        try:
            return target.client(USER, PASSWORD, "SELECT VERSION()").strip()
        except Failed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def targets_of(farm, options):
    """The primary and Heddle, with the account that the programs use."""
    primary = next(server for server in farm.servers() if server["name"].endswith("-1"))
    targets = [Target("straight", address_of(primary), farm.folder),
               Target("heddle", farm.address, farm.folder, options.tls)]
    targets[0].client("root", "", SETUP, SETUP_MYSQL if options.engine == "mysql" else "")
    print(f"servers: {wait_for_login(targets[1])}", flush=True)
    return targets


def sharded_targets(farm, options):
    """A server that has no shards, and Heddle, where the map `suite` is over all other groups."""
    def command(*words):
        done = subprocess.run([farm.heddle, *words, "--http", farm.http, "--data", farm.data], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"heddle {' '.join(words)}: {done.stderr.strip()}")

    for server in farm.servers():
        # Who waits for somebody that waits for him fails instead of standing until the suite's end.
        Target(server["name"], address_of(server), farm.folder).client("root", "", f"SET GLOBAL lock_wait_timeout = {LOCK_WAIT_S}")
    groups = sorted({server["group"] for server in farm.servers()})
    alone = next(server for server in farm.servers() if server["group"] == groups[-1])
    targets = [Target("straight", address_of(alone), farm.folder), Target("heddle", farm.address, farm.folder, options.tls)]
    command("sharding", "create_definition", "SLOTS", groups[0], "suite")
    command("sharding", "add_shard", "suite", ",".join(groups[:-1]), "ENABLED")
    for target in targets:
        target.client("root", "", f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'",
                      f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION")
    print(f"servers: {wait_for_login(targets[1])}, {SHARDS} shards", flush=True)
    return targets


def choose(entries, only):
    if not only:
        return entries
    return [entry for entry in entries if entry.name in only]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default=os.path.join(ROOT, "bin/heddle"), help="the program under test")
    parser.add_argument("--engine", choices=["mariadb", "mysql"], default="mariadb")
    parser.add_argument("--mysqld", help="the server program, for `heddle up --mysqld`")
    parser.add_argument("--tls", action="store_true", help="connections to Heddle are by TLS, as it then requires")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of `heddle up`")
    parser.add_argument("--quick", action="store_true", help="a few programs whose drivers the distribution has")
    parser.add_argument("--suites", action="store_true", help="the drivers' own test suites, too")
    parser.add_argument("--sharded", action="store_true", help="nothing but suites whose tables are declared on a farm of several groups")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of programs and suites")
    parser.add_argument("--list", action="store_true", help="the names, and nothing else")
    parser.add_argument("--keep", metavar="DIR", help="where the outputs are kept; default: nowhere")
    return parser.parse_args()


def main():
    options = arguments()
    programs = [entry for entry in choose(PROGRAMS, options.only) if entry.quick or not options.quick]
    suites = choose(SUITES, options.only) if options.suites or options.only else []
    suites = [entry for entry in suites if options.only or not entry.long]
    sharded = choose(SHARDED_SUITES, options.only) if options.sharded else []
    if options.sharded:
        programs, suites = [], []
    if options.list:
        for entry in [*PROGRAMS, *SUITES, *SHARDED_SUITES]:
            print(entry.name)
        return 0
    die_on_signals()
    keep = os.path.abspath(options.keep) if options.keep else tempfile.mkdtemp(prefix="heddle-compat-")
    os.makedirs(keep, exist_ok=True)
    extra = ["--engine", options.engine] + (["--mysqld", options.mysqld] if options.mysqld else [])
    extra += ["--set", "tls_clients=required"] if options.tls else []
    extra += [word for setting in options.set for word in ("--set", setting)]
    failed = passed = 0
    try:
        if programs:
            with Farm(os.path.abspath(options.heddle), 1, extra) as farm:
                targets = targets_of(farm, options)
                failed, passed = run_programs(programs, targets, keep, options.engine == "mariadb")
        if suites:
            print(flush=True)
            # They read on one connection what another has just written, and know of no levels.
            with Farm(os.path.abspath(options.heddle), 1, [*extra, "--set", "consistency=strong"]) as farm:
                more = run_suites(suites, targets_of(farm, options), keep)
                failed, passed = failed + more[0], passed + more[1]
        if sharded:
            with Farm(os.path.abspath(options.heddle), 0, [*extra, "--groups", str(SHARDS + 1)]) as farm:
                more = run_suites(sharded, sharded_targets(farm, options), keep)
                failed, passed = failed + more[0], passed + more[1]
    except (Failed, OSError) as error:
        sys.exit(f"compat: FAILED: {error}")
    finally:
        if not options.keep:
            shutil.rmtree(keep, ignore_errors=True)
    print(f"\ncompat: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
