"""MariaDB's own main suite: its files are played by mysqltest straight and through Heddle, and what they
print is compared. Whether it is what the file expects does not matter: servers here are set otherwise.

Files that start servers with options of their own are left out. `mtr_known.txt` says why a file differs.
"""

import glob
import os
import re
import shutil
import subprocess

from processes import Failed
from tools import HERE, Missing, program

FOLDER = "/usr/share/mysql/mysql-test"
FILE_TIMEOUT_S = 90
# The exit code of a file that does not want to run on such a server.
UNFIT = 62
# Accounts, databases and variables of the farm that files change are put back; these are not theirs to change.
SYSTEM = ("mysql", "sys", "performance_schema", "information_schema", "heddle", "test", "mtr")
KEPT = re.compile(r"^(gtid_|timestamp$|rpl_semi_sync_|innodb_buffer_pool_(load|dump)|read_only$|server_id$)")
# What a file may not do to servers that others share: stop them, follow others, change tables of accounts,
# take locks on everything. Nor what needs a server built otherwise.
LEFT_OUT = re.compile("|".join((
    r"restart_mysqld", r"shutdown_mysqld", r"kill_mysqld", r"wait_until_disconnected", r"start_mysqld", r"mysqld_bootstrap",
    r"expect_file", r"\$MYSQLD_", r"crash", r"include/master-slave", r"change master", r"reset master", r"galera",
    r"(alter|rename|drop|truncate) table `?mysql`?\.", r"(insert into|replace into|update|delete from) mysql\.",
    r"install (plugin|soname)", r"FLUSH TABLES WITH READ LOCK", r"super_read_only", r"innodb_force_recovery",
    r"have_debug", r"have_perfschema", r"big_test", r"valgrind", r"\bembedded\b.*inc$")), re.IGNORECASE)
# These end the server of MariaDB 10.11.19 itself.
FATAL = ("ctype_collate_column",)

# What the suite's own servers have.
SETUP = ("SET GLOBAL log_bin_trust_function_creators = ON", "SET GLOBAL default_storage_engine = MyISAM",
         "CREATE DATABASE IF NOT EXISTS mtr", "CREATE OR REPLACE PROCEDURE mtr.add_suppression(pattern TEXT) BEGIN END")


def known():
    """Patterns of files and why they differ, from `mtr_known.txt`."""
    with open(os.path.join(HERE, "mtr_known.txt"), encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def files():
    """The names of the files that can run on a server that is there already."""
    found = []
    for path in sorted(glob.glob(os.path.join(FOLDER, "main", "*.test"))):
        stem = path.removesuffix(".test")
        options = [stem + ".opt", stem + "-master.opt", stem + "-slave.opt", stem + ".cnf", stem + "-master.sh", stem + ".combinations"]
        with open(path, encoding="latin-1") as file:
            text = file.read()
        if not any(map(os.path.exists, options)) and not LEFT_OUT.search(text):
            found.append(os.path.basename(stem))
    return [name for name in found if name not in FATAL]


class Place:
    """Where files run: one address, with what they find there."""

    def __init__(self, target, straight, vardir):
        self.target = target
        self.straight = straight
        self.vardir = vardir
        for name in ("tmp", "log"):
            os.makedirs(os.path.join(vardir, name), exist_ok=True)
        if not os.path.exists(os.path.join(vardir, "std_data")):
            os.symlink(os.path.join(FOLDER, "std_data"), os.path.join(vardir, "std_data"))
        self.datadir = self.ask("SELECT @@datadir").strip()
        self.users = self.accounts()
        self.variables = self.globals()

    def ask(self, *statements):
        return self.straight.client("root", "", *statements)

    def accounts(self):
        return set(self.ask("SELECT CONCAT(QUOTE(User), '@', QUOTE(Host)) FROM mysql.global_priv").split("\n")) - {""}

    def globals(self):
        lines = self.ask("SHOW GLOBAL VARIABLES").splitlines()
        return dict(line.split("\t", 1) for line in lines if "\t" in line)

    def clean(self):
        """As it was before any file, as far as others could see a difference."""
        databases = set(self.ask("SHOW DATABASES").split("\n")) - {""}
        for name in sorted(databases - set(SYSTEM)):
            self.ask(f"DROP DATABASE `{name.replace('`', '``')}`")
        for user in self.accounts() - self.users:
            self.ask(f"DROP USER {user}")
        for name, value in self.globals().items():
            was = self.variables.get(name)
            if was is None or was == value or KEPT.match(name):
                continue
            quoted = "'" + was.replace("\\", "\\\\").replace("'", "''") + "'"
            # Read-only ones follow from others; NULL is shown as an empty text.
            for text in (was if re.fullmatch(r"-?\d+(\.\d+)?", was) else quoted, "NULL"):
                try:
                    self.ask(f"SET GLOBAL {name} = {text}")
                    break
                except Failed:
                    continue
        try:
            self.ask("DROP DATABASE IF EXISTS test")
        except Failed:
            # A file has copied tables' files into the directory of the database.
            shutil.rmtree(os.path.join(self.datadir, "test"), ignore_errors=True)
            self.ask("DROP DATABASE IF EXISTS test")
        self.ask("CREATE DATABASE test CHARACTER SET latin1", "FLUSH STATUS")
        shutil.rmtree(os.path.join(self.vardir, "tmp"), ignore_errors=True)
        os.makedirs(os.path.join(self.vardir, "tmp"))

    def environment(self):
        connect = f"--user=root --host={self.target.host} --port={self.target.port} --protocol=tcp"
        tools = {"MYSQL": "mariadb", "MYSQL_DUMP": "mariadb-dump", "MYSQL_CHECK": "mariadb-check", "MYSQL_IMPORT": "mariadb-import",
                 "MYSQL_SHOW": "mariadb-show", "MYSQLADMIN": "mariadb-admin", "MYSQL_SLAP": "mariadb-slap", "MYSQL_TEST": "mysqltest"}
        commands = {name: f"{tool} {connect}" for name, tool in tools.items()}
        return {**os.environ, **commands, "MYSQL_TEST_DIR": FOLDER, "MYSQL_TMP_DIR": self.vardir + "/tmp", "MYSQLTEST_VARDIR": self.vardir,
                "MYSQLTEST_REAL_VARDIR": self.vardir, "MASTER_MYPORT": self.target.port, "DEFAULT_MASTER_PORT": self.target.port,
                "MASTER_MYSOCK": "", "EXE_MYSQL": "mariadb", "MYSQL_BINLOG": "mariadb-binlog --no-defaults", "MYSQL_SHAREDIR": "/usr/share/mysql",
                "MYSQL_CHARSETSDIR": "/usr/share/mysql/charsets", "LC_ALL": "C", "TZ": "GMT-3", "NUMBER_OF_CPUS": "2"}

    def run(self, name):
        """(exit code, what it printed) of one file; 62 is a file that does not want to run here."""
        self.clean()
        command = [program("mysqltest", "mariadb-test"), "--no-defaults", f"--host={self.target.host}", f"--port={self.target.port}",
                   "--protocol=tcp", "--user=root", "--database=test", f"--basedir={FOLDER}", f"--tmpdir={self.vardir}/tmp",
                   f"--logdir={self.vardir}/log", "--character-sets-dir=/usr/share/mysql/charsets", f"--test-file={FOLDER}/main/{name}.test"]
        try:
            done = subprocess.run(command, cwd=FOLDER, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, errors="backslashreplace", timeout=FILE_TIMEOUT_S)
            return done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as hung:
            return "hangs", (hung.stdout or b"").decode(errors="backslashreplace")


def alike(text, target):
    """Without what names the address."""
    text = text.replace(f":{target.port}", ":PORT").replace(f"={target.port}", "=PORT").replace(f"port {target.port}", "port PORT")
    return re.sub(r"(?m)^(.*/tmp/)\S*", r"\1", text)


def suite():
    """Outcomes for `suites.py`: a file passes through Heddle when it prints what it printed straight.
    COMPAT_MTR names files, with commas between them."""
    program("mysqltest", "mariadb-test")
    if not os.path.isdir(os.path.join(FOLDER, "main")):
        raise Missing("no files of the main suite: apt-get install mariadb-test-data")
    version = subprocess.run(["mysqltest", "--version"], capture_output=True, text=True).stdout
    version = re.search(r"(?:Distrib |from )([\d.]+)", version).group(1)
    asked = os.environ.get("COMPAT_MTR")
    chosen = asked.split(",") if asked else files()
    targets, printed = [], {}

    def outcomes(target, log):
        folder = os.path.splitext(log)[0] + ".files"
        os.makedirs(folder, exist_ok=True)
        # The first one is straight; what a file leaves behind is put back there.
        targets.append(target)
        straight = targets[0]
        if target is straight:
            straight.client("root", "", *SETUP)
        place = Place(target, straight, os.path.join(folder, "var-" + target.name))
        results = {}
        for name in chosen:
            code, text = place.run(name)
            text = f"exit {code}\n" + alike(text, target).replace(place.vardir, "VARDIR")
            with open(os.path.join(folder, f"{name}.{target.name}"), "w", encoding="utf-8") as file:
                file.write(text)
            same = printed.setdefault(name, text) == text
            results[name] = "skip" if code == UNFIT else "pass" if same else "fail"
        place.clean()
        return results
    return version, outcomes
