"""The farm of compose.yaml without docker: its commands, in a network of their own where each service has an address and
its name, with the servers and the etcd of this machine; then the commands of docs/DEPLOYING.md, and a failover.

The test runs this file again in namespaces of its own, which also end everything that it has started.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from tools import HEDDLE, PACKAGING, done, text

from processes import wait_for

try:
    import yaml
except ImportError:
    yaml = None

PATIENCE_S = 60
PASSWORD = "a'b\\c\"d"
NEEDED = ("unshare", "ip", "mount", "mariadbd", "mariadb-install-db", "mariadb", "etcd", "curl")
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def why_not():
    """What keeps this machine from running the farm; nothing where it can."""
    if yaml is None:
        return "python3-yaml is not installed"
    missing = [name for name in NEEDED if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing:
        return f"not installed: {', '.join(missing)}"
    tried = done(*NAMESPACES, "true")
    return f"no namespaces may be made here: {tried.stdout.strip()}" if tried.returncode else None


class ComposeFarm(unittest.TestCase):
    def test_it_starts_and_outlives_its_primary(self):
        reason = why_not()
        if reason:
            self.skipTest(reason)
        with tempfile.TemporaryDirectory(prefix="heddle-compose-") as folder:
            found = done(*NAMESPACES, sys.executable, os.path.abspath(__file__), folder)
        self.assertEqual(found.returncode, 0, found.stdout)
        self.assertTrue(found.stdout.endswith("the farm works\n"), found.stdout)


class Farm:
    """The services of compose.yaml as processes."""

    def __init__(self, folder):
        self.folder = folder
        self.services = yaml.safe_load(text("compose.yaml"))["services"]
        # 127.0.1.1 and so on: all of 127.0.0.0/8 is this namespace's own.
        self.addresses = {name: f"127.0.1.{number}" for number, name in enumerate(self.services, 1)}
        self.processes = {}

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content)
        return self.path(name)

    def prepare(self):
        """The network, the names and the secret that docker would give them."""
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        names = [f"{address} {name}\n" for name, address in self.addresses.items()]
        hosts = self.write("hosts", "127.0.0.1 localhost\n" + "".join(names))
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        os.mkdir("/run/secrets")
        shutil.copy(self.write("password", PASSWORD), "/run/secrets/heddle_password")

    def start(self, name, *command):
        with open(self.path(name + ".log"), "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def start_etcd(self):
        address = self.addresses["etcd"]
        words = [word.replace("0.0.0.0", address).replace("/var/lib/etcd", self.path("etcd")) for word in self.services["etcd"]["command"]]
        self.start("etcd", *words)

    def temporary(self, name):
        return self.path(name + "-tmp")

    def server(self, name, *more):
        """The command line of a MariaDB server."""
        return ["mariadbd", "--no-defaults", "--user=root", f"--datadir={self.path(name)}", f"--socket={self.path(name + '.sock')}",
                f"--tmpdir={self.temporary(name)}", "--innodb-buffer-pool-size=32M", *self.services[name]["command"], *more]

    def sql(self, name, statements):
        return done("mariadb", "--no-defaults", "--user=root", f"--socket={self.path(name + '.sock')}", "--execute", statements)

    def up_s(self, name):
        """For how many seconds a server is up; 0 while it does not answer."""
        found = self.sql(name, "SHOW GLOBAL STATUS LIKE 'Uptime'")
        return int(found.stdout.split()[-1]) if found.returncode == 0 else 0

    def start_server(self, name):
        """As the entrypoint of the image: makes the data, runs the script of accounts without a network, starts."""
        # A server that starts deletes all temporary tables in its directory for them, those of other servers, too.
        os.mkdir(self.temporary(name))
        subprocess.run(["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={self.path(name)}", f"--tmpdir={self.temporary(name)}",
                        "--skip-test-db", "--auth-root-authentication-method=normal", "--skip-log-bin"],
                       check=True, stdout=subprocess.DEVNULL)
        self.start(name, *self.server(name, "--skip-networking"))
        wait_for(lambda: self.sql(name, "SELECT 1").returncode == 0, PATIENCE_S, f"{name} answers")
        script = f"""docker_process_sql() {{ mariadb --no-defaults --user=root --socket={self.path(name + '.sock')} "$@"; }}
            docker_sql_escape_string_literal() {{ local e=${{1//\\\\/\\\\\\\\}}; echo "${{e//\\'/\\\\\\'}}"; }}
            . {PACKAGING}/compose/accounts.sh"""
        subprocess.run(["bash", "-euc", script], check=True)
        made = self.sql(name, "SET sql_log_bin = 0; CREATE USER app@'%' IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO app@'%'")
        assert made.returncode == 0, made.stdout
        self.processes[name].terminate()
        self.processes[name].wait(PATIENCE_S)
        self.start(name, *self.server(name, f"--bind-address={self.addresses[name]}", "--port=3306"))

    def start_router(self, name):
        settings = text("packaging/image.toml").replace("0.0.0.0", self.addresses[name]).replace("/var/lib/heddle", self.path(name))
        path = self.write(name + ".toml", settings)
        os.mkdir(self.path(name))
        words = [path if word == "/etc/heddle/heddle.toml" else word for word in self.services[name]["command"]]
        self.start(name, HEDDLE, *words)
        wait_for(lambda: self.command(name, "manage", "ping").returncode == 0, PATIENCE_S, f"{name} answers")

    def command(self, router, *words):
        return done(HEDDLE, *words, "--http", f"{self.addresses[router]}:6080", "--data", self.path(router, "heddle-data"))

    def client(self, router, statements):
        found = done("mariadb", "--no-defaults", "--host", self.addresses[router], "--port=6306", "--user=app", "--password=secret",
                     "--skip-column-names", "--batch", "--execute", statements)
        assert found.returncode == 0, found.stdout
        return found.stdout

    def logs(self):
        """The ends of all logs; what reads them may show the last of them only, so the routers' are the last."""
        for name in self.processes:
            with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as file:
                yield f"-- {name}\n{file.read()[-3000 if name.startswith('router') else -1000:]}"


def play(farm):
    farm.prepare()
    farm.start_etcd()
    for name in farm.services:
        if name.startswith("mariadb"):
            farm.start_server(name)
    for name in farm.services:
        if name.startswith("router"):
            farm.start_router(name)
    commands = re.findall(r"^docker compose exec (\w+) heddle (.+)$", text("docs/DEPLOYING.md"), re.MULTILINE)
    assert len(commands) == 5, commands
    for router, words in commands:
        found = farm.command(router, *words.split())
        assert found.returncode == 0, found.stdout
    assert farm.client("router2", "CREATE DATABASE t; CREATE TABLE t.a (i INT PRIMARY KEY); INSERT INTO t.a VALUES (1); SELECT i FROM t.a") == "1\n"
    wait_for(lambda: '"ready":true' in done("curl", "--silent", f"http://{farm.addresses['router3']}:6080/readyz").stdout, PATIENCE_S, "ready")
    # Of a replica that was started less than two seconds before the primary is lost, nobody knows that it has received
    # again what it once acknowledged.
    servers = [name for name in farm.services if name.startswith("mariadb")]
    wait_for(lambda: all(farm.up_s(name) >= 3 for name in servers), PATIENCE_S, "the servers are up for some seconds")
    farm.processes["mariadb1"].kill()
    found = farm.client("router3", "INSERT INTO t.a VALUES (2); SELECT i, @@server_id <> 1 FROM t.a ORDER BY i")
    assert found == "1\t1\n2\t1\n", found


def main():
    farm = Farm(sys.argv[1])
    try:
        play(farm)
    except BaseException:
        print("\n".join(farm.logs()))
        raise
    print("the farm works")


if __name__ == "__main__":
    main()
