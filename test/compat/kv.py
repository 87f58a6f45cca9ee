#!/usr/bin/env python3
"""Runs programs of real memcached clients against memcached itself and against the key-value door of a
farm, and compares what they print. Where a MySQL with the InnoDB memcached plugin is at hand, they run
against that, too: how many steps differ there is told, and with --plugin which; they fail nothing.

Usage: test/compat/kv.py [--heddle PATH] [--only NAME,…] [--list] [--strict] [--suite DIR]. A program prints steps
(`== name`) and lines; a step whose lines differ is a difference. What cannot be had here is skipped with
the reason, or fails with --strict. `--suite DIR` (or MEMCACHED_SOURCE) runs memcached's own tests, too,
from a checkout of its sources. The exit code is 0 when nothing differs and nothing failed.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from processes import Failed, Farm, die_on_signals, end, free_ports, wait_for  # noqa: E402

from kv_plugin import Plugin  # noqa: E402
from kv_suite import run_suite  # noqa: E402
from run import steps_of, table  # noqa: E402
from tools import CACHE, Missing, Node, Python, _run, program  # noqa: E402

PROGRAM_TIMEOUT_S = 180
SOURCES = os.path.join(HERE, "kv")


class Memcached:
    """memcached on a port of its own."""

    def __enter__(self):
        path = program("memcached", "memcached")
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        words = [path, "-l", "127.0.0.1", "-p", str(port), "-U", "0", *(["-u", "root"] if os.getuid() == 0 else [])]
        self.process = subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL)
        wait_for(self._listens, 10, "memcached does not listen")
        return self

    def _listens(self):
        import socket
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def __exit__(self, *exception):
        end(self.process, 5)


def python(script, package, module):
    """The distribution's package does as well as the registry's."""
    def prepare():
        path = os.path.join(SOURCES, script)
        for interpreter in ("python3", "/usr/bin/python3"):
            asked = [interpreter, "-c", f"import {module} as m; print(m.__version__)"]
            found = subprocess.run(asked, capture_output=True, text=True) if shutil.which(interpreter) else None
            if found and found.returncode == 0:
                return [interpreter, path], found.stdout.strip()
        pythons = Python()
        return [pythons.need(package), path], pythons.version(package)
    return prepare


def php():
    interpreter = program("php", "php-cli")
    modules = subprocess.run([interpreter, "-m"], capture_output=True, text=True).stdout.split()
    if "memcached" not in modules:
        raise Missing("PHP has no memcached: apt-get install php-memcached")
    version = subprocess.run([interpreter, "-r", "echo phpversion('memcached');"], capture_output=True, text=True).stdout
    return [interpreter, os.path.join(SOURCES, "memcached.php")], version


def go():
    compiler = program("go", "golang")
    source, target = os.path.join(SOURCES, "go"), os.path.join(CACHE, "go", "kv")
    _run([compiler, "build", "-o", target, "."], "go build", cwd=source)
    module = "github.com/bradfitz/gomemcache"
    return [target], _run([compiler, "list", "-m", "-f", "{{.Version}}", module], "go list", cwd=source).strip()


def java(main, artifact):
    def prepare():
        runtime, maven = program("java", "default-jdk-headless"), program("mvn", "maven")
        source, folder = os.path.join(SOURCES, "java"), os.path.join(CACHE, "java-kv")
        listing = os.path.join(folder, "classpath")
        os.makedirs(folder, exist_ok=True)
        _run([maven, "--batch-mode", "--quiet", "--file", os.path.join(source, "pom.xml"), f"-Dcompat.target={folder}",
              "compile", "dependency:build-classpath", f"-Dmdep.outputFile={listing}"], "mvn compile")
        with open(listing, encoding="utf-8") as file:
            jars = file.read().strip()
        names = [os.path.basename(jar) for jar in jars.split(":")]
        version = next((n[len(artifact) + 1:-4] for n in names if n.startswith(artifact + "-")), "?")
        return [runtime, "-cp", os.path.join(folder, "classes") + ":" + jars, main], version
    return prepare


def node(script, package):
    def prepare():
        modules = Node()
        command = [modules.need(package), os.path.join(SOURCES, "node", script)]
        return command, modules.version(package)
    return prepare


def libmemcached(name):
    """The tool of this name: memNAME, or memcNAME since version 1.1."""
    package = "libmemcached-tools"
    return shutil.which("mem" + name) or program("memc" + name, package)


def memcapable():
    """It says for itself what passes."""
    path = libmemcached("capable")
    return ["sh", "-c", f"echo '== memcapable'; {path} -a -h $KV_HOST -p $KV_PORT 2>&1"], "-"


def tools():
    prefix = libmemcached("cp")[:-2]
    return ["sh", os.path.join(SOURCES, "tools.sh"), prefix], "-"


PROGRAMS = {
    "memcapable": ("libmemcached's memcapable", memcapable),
    "libmemcached-tools": ("its tools cp, cat, exist, rm, touch, flush", tools),
    "pymemcache": ("pymemcache", python("pymemcache_program.py", "pymemcache", "pymemcache")),
    "python-memcached": ("python-memcached", python("memcache_program.py", "python-memcached", "memcache")),
    "php": ("PHP Memcached", php),
    "gomemcache": ("Go gomemcache", go),
    "spymemcached": ("Java spymemcached", java("kv.Spy", "spymemcached")),
    "xmemcached": ("Java xmemcached", java("kv.X", "xmemcached")),
    "node-memcached": ("Node memcached", node("memcached.js", "memcached")),
}


def run_program(command, address, folder):
    host, port = address.split(":")
    environment = {**os.environ, "KV_HOST": host, "KV_PORT": port, "KV_FOLDER": folder, "LC_ALL": "C.UTF-8",
                   "NODE_PATH": Node().modules}
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
                              timeout=PROGRAM_TIMEOUT_S, text=True, errors="backslashreplace", stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as hung:
        return "hangs", (hung.stdout or b"").decode(errors="backslashreplace")


def compare(memcached, door, name_of="heddle"):
    """The verdict on one program, and what it is founded on."""
    if memcached[0] != 0:
        return "broken", [f"exit {memcached[0]} against memcached itself", *memcached[1].splitlines()[-3:]]
    one, other = steps_of(memcached[1]), steps_of(door[1])
    lines = [] if door[0] == 0 else [f"exit {door[0]}", *door[1].splitlines()[-3:]]
    for name in dict.fromkeys([*one, *other]):
        if one.get(name) != other.get(name):
            mine, theirs = other.get(name, ["(step missing)"]), one.get(name, ["(step missing)"])
            lines.append(f"{name}:")
            lines += [f"  memcached: {line[:200]}" for line in theirs if line not in mine][:6]
            lines += [f"  {name_of + ':':10} {line[:200]}" for line in mine if line not in theirs][:6]
    return ("DIFFERS" if lines else "same"), lines


@contextlib.contextmanager
def plugin_at_hand():
    """The plugin, or nothing where no server has it."""
    try:
        server = Plugin().__enter__()
    except Missing as missing:
        print(f"compat-kv: without the plugin: {missing}")
        yield None
        return
    try:
        yield server
    finally:
        server.__exit__()


def beside(memcached, plugin):
    """How the plugin differs from memcached: in so many steps, and in which."""
    verdict, lines = compare(memcached, plugin, "plugin")
    steps = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    told = {"same": "same", "broken": "-"}.get(verdict, f"{len(steps)} differ")
    return (told if plugin[0] == 0 else f"{told}, exit {plugin[0]}"), lines


def run_all(options, names):
    rows, details, failed = [("program", "client", "version", "verdict", "plugin")], [], False
    folder = tempfile.mkdtemp(prefix="heddle-compat-kv-")
    try:
        with Memcached() as memcached, Farm(options.heddle, 0, ["--no-scratch"]) as farm, plugin_at_hand() as plugin:
            for name in names:
                what, prepare = PROGRAMS[name]
                try:
                    command, version = prepare()
                except Missing as missing:
                    rows.append((name, what, "-", "skipped", "-"))
                    details.append((name, [str(missing)]))
                    failed |= options.strict
                    continue
                straight = run_program(command, memcached.address, folder)
                verdict, lines = compare(straight, run_program(command, farm.kv, folder))
                told, of_plugin = beside(straight, run_program(command, plugin.address, folder)) if plugin else ("-", [])
                rows.append((name, what, version, verdict, told))
                details += [(name, lines)] if lines else []
                details += [(f"{name} at the plugin", of_plugin)] if of_plugin and options.plugin else []
                failed |= verdict != "same"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    table(rows)
    for name, lines in details:
        print(f"\n{name}:")
        print("\n".join(f"  {line}" for line in lines))
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default=os.environ.get("HEDDLE", os.path.join(ROOT, "bin", "heddle")))
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--plugin", action="store_true", help="tell in which steps MySQL's plugin differs")
    parser.add_argument("--suite", default=os.environ.get("MEMCACHED_SOURCE", ""))
    options = parser.parse_args()
    if options.list:
        print("\n".join(PROGRAMS))
        return 0
    names = [name for name in options.only.split(",") if name] or list(PROGRAMS)
    unknown = [name for name in names if name not in PROGRAMS and name != "suite"]
    if unknown:
        sys.exit(f"compat-kv: no program {unknown[0]}; --list shows them")
    options.heddle = os.path.abspath(options.heddle)
    if not os.access(options.heddle, os.X_OK):
        sys.exit(f"compat-kv: {options.heddle} is missing: run `make build` first")
    die_on_signals()
    try:
        good = run_all(options, [name for name in names if name != "suite"]) if names != ["suite"] else True
        if options.suite:
            good &= run_suite(options.heddle, os.path.abspath(options.suite))
    except (Failed, Missing, OSError) as error:
        sys.exit(f"compat-kv: FAILED: {error}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
