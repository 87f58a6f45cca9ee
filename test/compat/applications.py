#!/usr/bin/env python3
"""Runs the settings of docs/APPLICATIONS.md as printed: every block marked `tried NAME`, in its framework, through Heddle.

Usage: test/compat/applications.py [--heddle PATH] [--only NAME,…]. Only the port is replaced. A program of
test/compat/applications, or of the Java programs, stands around each block. It writes two rows on one connection, counts
them on another, shows the level of the block's connections for reports (of all its connections where it has none), and
whether it knows error 1213 as the page says.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

from programs import GO, JAVA, NODE, PYTHON
from run import HERE, ROOT, Failed, Farm, Missing, die_on_signals
from tools import CACHE, program, unpacked

PAGE = "docs/APPLICATIONS.md"
PLACE = re.compile(r"^(#|//) \{\{settings\}\}$", re.MULTILINE)
TIMEOUT_S = 120
SETUP = """CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE USER app@'%' IDENTIFIED BY 'secret';
GRANT ALL ON shop.* TO app@'%';"""
LATE, DEFAULT, BLOG = "2 eventual true\n", "2 client true\n", "2 client\n"


def go_command(path):
    folder = os.path.join(os.path.dirname(path), "go")
    os.makedirs(folder)
    return [GO.build(path, folder)]


def wordpress_command(path):
    folder, _ = unpacked("wordpress")
    return ["env", f"WORDPRESS={folder}/usr/share/wordpress", program("php", "php-cli"), path]


# By the name of a block: the program around it, how it is started, what it must print.
APPLICATIONS = {
    "wordpress": ("wordpress.php", wordpress_command, BLOG),
    "django": ("django.py", lambda path: [PYTHON.need("Django", "mysqlclient"), path], LATE),
    "sqlalchemy": ("sqlalchemy.py", lambda path: [PYTHON.need("SQLAlchemy", "PyMySQL", "cryptography"), path], LATE),
    "rails": ("rails.rb", lambda path: [program("ruby", "ruby"), "-W0", path], LATE),
    "laravel": ("laravel.php", lambda path: [program("php", "php-cli"), path], LATE),
    "spring": (None, lambda path: [program("java", "default-jdk-headless"), "-cp", JAVA.need(), "compat.SpringSettings", path], DEFAULT),
    "go": ("go.go", go_command, LATE),
    "mysql2": ("mysql2.js", lambda path: [NODE.need("mysql2"), path], LATE),
}


def blocks():
    """{name: text} of the page; each must be known here, and the other way round."""
    with open(os.path.join(ROOT, PAGE), encoding="utf-8") as file:
        found = dict(re.findall(r"^```\w+ tried (\w+)\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL))
    if set(found) != set(APPLICATIONS):
        raise Failed(f"{PAGE} has blocks for {sorted(found)}, and there are programs for {sorted(APPLICATIONS)}")
    return found


def written(name, block, port, folder):
    """The block in its program, as a file."""
    around = APPLICATIONS[name][0]
    text = block.replace("6306", port)
    if around:
        with open(os.path.join(HERE, "applications", around), encoding="utf-8") as file:
            text, count = PLACE.subn(lambda _: text, file.read())
        if count != 1:
            raise Failed(f"{around} has no place for the settings")
    # Not by the name of a library: languages look beside the program first.
    path = os.path.join(folder, f"try_{around or name}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def run(name, block, farm):
    """The verdict on one block."""
    with tempfile.TemporaryDirectory(prefix="heddle-applications-") as folder:
        try:
            command = APPLICATIONS[name][1](written(name, block, farm.address.rsplit(":", 1)[1], folder))
        except Missing as missing:
            return f"skipped: {missing}"
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S,
                                  env={**os.environ, "NODE_PATH": NODE.modules}, cwd=folder, check=False)
        except subprocess.TimeoutExpired:
            return "FAILED: hangs"
    expected = APPLICATIONS[name][2]
    if done.returncode == 0 and done.stdout.lower().endswith(expected):
        return "works"
    return f"FAILED with code {done.returncode}: {done.stdout[:1500]}, not {expected}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default=os.path.join(ROOT, "bin/heddle"), help="the program under test")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of blocks")
    options = parser.parse_args()
    die_on_signals()
    os.makedirs(CACHE, exist_ok=True)
    failed = 0
    try:
        found = blocks()
        with Farm(os.path.abspath(options.heddle), 1) as farm:
            host, port = farm.address.rsplit(":", 1)
            client = [program("mariadb", "mariadb-client"), "--host", host, "--port", port, "--user", "root", "--execute", SETUP]
            subprocess.run(client, check=True)
            for name in options.only or found:
                verdict = run(name, found[name], farm)
                failed += verdict.startswith("FAILED")
                print(f"{name}: {verdict}", flush=True)
    except (Failed, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"applications: FAILED: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
