#!/usr/bin/env python3
"""Runs a client of MySQL Fabric as its makers published it, brought from its registry when it is first asked for.

Usage: clients.py NAME, one of those below. The client reads lines from stdin and answers each with a line:

    key TABLE KEY   what follows is about this key's shard
    group NAME      what follows is about this group
    sql TEXT        runs a statement; answers its first value
    report UUID     reports that this server failed

`ok VALUE` or `error TEXT`. Its first line is `ready`, or `missing: WHY` of a client that cannot be had here.
Environment: FABRIC and FABRIC_CALLS (HOST:PORT of the doors), MYSQL_USER, MYSQL_PASSWORD, HEDDLE_CACHE.
"""

import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))
from tools import CACHE, Missing, Python, program  # noqa: E402

INSTALL_TIMEOUT_S = 300
# Oracle's own releases of these versions are on PyPI no more; others put the same files there.
SDISTS = {"2.0.4": "mysql-connector-python-rf", "2.1.7": "mysql-connector"}


def bring(command, what):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=INSTALL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Missing(f"{what} is not there within {INSTALL_TIMEOUT_S} s")
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if "ERROR" in line] or done.stdout.splitlines()[-1:]
        raise Missing(f"{what} cannot be brought: {lines[0] if lines else 'no word why'}")


def sdist(version):
    """The folder of the modules of Connector/Python."""
    package = SDISTS[version]
    folder = os.path.join(CACHE, "fabric", f"{package}-{version}")
    if not os.path.isdir(folder):
        python = Python()
        python.need()
        part = f"{folder}.{os.getpid()}"
        os.makedirs(part)
        bring([python.python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--no-binary", ":all:", "--dest", part, f"{package}=={version}"], f"{package} {version} (PyPI)")
        [archive] = glob.glob(os.path.join(part, "*.tar.gz"))
        bring(["tar", "xzf", archive, "-C", part, "--strip-components=1"], archive)
        os.remove(archive)
        settle(part, folder)
    return os.path.join(folder, "lib")


def jar(version):
    folder = os.path.join(CACHE, "fabric", f"connector-j-{version}")
    if not os.path.isdir(folder):
        part = f"{folder}.{os.getpid()}"
        os.makedirs(part)
        bring([program("mvn", "maven"), "--batch-mode", "--quiet", "dependency:copy",
               f"-Dartifact=mysql:mysql-connector-java:{version}", f"-DoutputDirectory={part}"],
              f"Connector/J {version} (Maven Central)")
        settle(part, folder)
    [path] = glob.glob(os.path.join(folder, "*.jar"))
    return path


def settle(part, folder):
    """Another run may have been faster."""
    try:
        os.rename(part, folder)
    except OSError:
        shutil.rmtree(part)


def python_2():
    """Python 2.7, for which these releases were made."""
    versions = glob.glob(os.path.expanduser("~/.pyenv/versions/2.7*/bin/python2.7"))
    for path in [shutil.which("python2.7"), *versions]:
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    raise Missing("Python 2.7 is not here")


def connector_python(version, protocol, python):
    modules = sdist(version)
    program_file = os.path.join(HERE, "connector_python.py")
    return [python(), program_file, protocol], {"PYTHONPATH": modules, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}


def connector_j(version):
    program("javac", "default-jdk-headless")
    return ["java", "-Xshare:auto", "-cp", jar(version), os.path.join(HERE, "ConnectorJ.java")], {}


def python_3():
    return sys.executable


CLIENTS = {
    "connector-python-2.0.4": lambda: connector_python("2.0.4", "xmlrpc", python_2),
    "connector-python-2.0.4-on-3": lambda: connector_python("2.0.4", "xmlrpc", python_3),
    "connector-python-2.1.7": lambda: connector_python("2.1.7", "xmlrpc", python_2),
    "connector-python-2.1.7-on-3": lambda: connector_python("2.1.7", "xmlrpc", python_3),
    "connector-python-2.1.7-calls": lambda: connector_python("2.1.7", "mysql", python_2),
    "connector-python-2.1.7-calls-on-3": lambda: connector_python("2.1.7", "mysql", python_3),
    "connector-j-5.1.41": lambda: connector_j("5.1.41"),
    "connector-j-5.1.49": lambda: connector_j("5.1.49"),
}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in CLIENTS:
        sys.exit(__doc__)
    try:
        command, environment = CLIENTS[sys.argv[1]]()
    except Missing as missing:
        print(f"missing: {missing}", flush=True)
        return
    os.execvpe(command[0], command, {**os.environ, **environment})


if __name__ == "__main__":
    main()
