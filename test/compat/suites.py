"""The drivers' own test suites, as their packages ship them, run at both addresses: no test may fail only
through Heddle. A suite runs from a copy of its sources, in databases of its own."""

import fnmatch
import glob
import json
import os
import re
import shutil
import subprocess

import mtr
from programs import GO, PYTHON, RUST
from tools import CACHE, HERE, Missing, program

SUITE_TIMEOUT_S = 1800


class Suite:
    """`run(targets, keep)` gives the version and, per target, {test: pass|fail|skip}. `known` maps patterns
    of tests to the reason why they fail only through Heddle, or why their outcome says nothing. A `long` one runs only when it is named."""

    def __init__(self, name, prepare, known=None, long=False):
        self.name = name
        self.prepare = prepare
        self.known = known or {}
        self.long = long

    def run(self, targets, keep):
        version, outcomes = self.prepare()
        results = []
        for target in targets:
            log = os.path.join(keep, f"suite-{self.name}.{target.name}")
            results.append(outcomes(target, log))
        return version, results

    def reason(self, test):
        for pattern, reason in self.known.items():
            if fnmatch.fnmatchcase(test.removesuffix(" (did not run)"), pattern):
                return reason
        return None

    @staticmethod
    def count(outcomes):
        words = list(outcomes.values())
        return ", ".join(f"{words.count(word)} {word}" for word in ("pass", "fail", "skip") if word in words)


def _output(command, log, **options):
    with open(log, "w", encoding="utf-8") as file:
        try:
            subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                           timeout=SUITE_TIMEOUT_S, **options)
        except subprocess.TimeoutExpired:
            file.write("\nthe suite did not end in time\n")
    with open(log, encoding="utf-8", errors="replace") as file:
        return file.read()


def _copy(source, name):
    """A fresh copy of a suite's sources, which may be read-only or be written to by the tests."""
    target = os.path.join(CACHE, "suites", name)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    subprocess.run(["chmod", "-R", "u+w", target], check=True)
    return target


def _pytest(target, folder, log, *tests, environment):
    text = _output([PYTHON.python, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--tb=short", *tests], log, cwd=folder,
                   env={**os.environ, **environment})
    words = {"PASSED": "pass", "XFAIL": "pass", "XPASS": "pass", "SKIPPED": "skip", "FAILED": "fail", "ERROR": "fail"}
    found = re.findall(r"^(PASSED|XFAIL|XPASS|FAILED|ERROR) (\S+)", text, re.MULTILINE)
    return {name: words[word] for word, name in found}


def go_driver():
    version, source = GO.module("github.com/go-sql-driver/mysql")
    folder = _copy(source, "go-sql-driver")
    binary = os.path.join(folder, "suite.test")
    built = subprocess.run([program("go", "golang"), "test", "-c", "-o", binary, "."], cwd=folder, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if built.returncode != 0:
        raise Missing(f"go test -c: {built.stdout.strip()[-200:]}")

    def outcomes(target, log):
        target.fresh("gotest")
        settings = {"MYSQL_TEST_USER": "compat", "MYSQL_TEST_PASS": "compat_pass", "MYSQL_TEST_PROT": "tcp",
                    "MYSQL_TEST_ADDR": f"{target.host}:{target.port}", "MYSQL_TEST_DBNAME": "gotest"}
        # The skipped test connects to an address out on the internet and waits for nothing to answer.
        text = _output([binary, "-test.v", "-test.skip", "TestConnectorReturnsTimeout"], log, cwd=folder,
                       env={**os.environ, **settings})
        found = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", text, re.MULTILINE)
        return {name: word.lower() for word, name in found}
    return version, outcomes


def pymysql():
    # The wheel holds the tests, too; the databases stand in a file beside them.
    PYTHON.need("PyMySQL", "cryptography", "pytest")
    script = "import pymysql, os; print(os.path.dirname(pymysql.__file__))"
    package = subprocess.run([PYTHON.python, "-c", script], capture_output=True, text=True).stdout.strip()
    if not os.path.isdir(os.path.join(package, "tests")):
        package = os.path.join(PYTHON.source("PyMySQL"), "pymysql")
    if not os.path.isdir(os.path.join(package, "tests")):
        raise Missing("this PyMySQL comes without its tests")
    folder = os.path.dirname(_copy(package, os.path.join("pymysql", "pymysql")))

    def outcomes(target, log):
        for name in ("test1", "test2"):
            target.fresh(name)
        at = {"host": target.host, "port": int(target.port), "user": "compat", "passwd": "compat_pass"}
        with open(os.path.join(folder, "pymysql", "tests", "databases.json"), "w", encoding="utf-8") as file:
            json.dump([{**at, "database": "test1", "use_unicode": True, "local_infile": True}, {**at, "database": "test2"}], file)
        return _pytest(target, folder, log, "pymysql/tests", environment={"PYTHONPATH": folder})
    return PYTHON.version("PyMySQL"), outcomes


def mysqlclient():
    PYTHON.need("mysqlclient", "pytest")
    folder = _copy(os.path.join(PYTHON.source("mysqlclient"), "tests"), "mysqlclient")

    def outcomes(target, log):
        target.fresh("mysqldb_test")
        with open(os.path.join(folder, "compat.cnf"), "w", encoding="utf-8") as file:
            file.write(f"[MySQLdb-tests]\nhost = {target.host}\nport = {target.port}\nuser = compat\n"
                       "password = compat_pass\ndatabase = mysqldb_test\ndefault-character-set = utf8mb4\n")
        return _pytest(target, folder, log, ".", environment={"TESTDB": "compat.cnf"})
    return PYTHON.version("mysqlclient"), outcomes


def sqlalchemy(*tests, sharded=False):
    PYTHON.need("SQLAlchemy", "PyMySQL", "cryptography", "pytest")
    folder = _copy(PYTHON.source("SQLAlchemy"), "sqlalchemy")

    def outcomes(target, log):
        for name in ("sqlalchemy_test", "test_schema", "test_schema_2"):
            target.fresh(name)
        url = f"mysql+pymysql://compat:compat_pass@{target.host}:{target.port}/sqlalchemy_test?charset=utf8mb4"
        return _pytest(target, folder, log, "--dburi", url, "-p", "no:randomly", "--maxfail", "500", "-q", *tests,
                       environment=_declaring(target, log, sharded, os.path.join(folder, "lib")))
    return PYTHON.version("SQLAlchemy"), outcomes


def _declaring(target, log, sharded, *paths):
    """Through Heddle, tables are declared when they are made, and counted beside the log."""
    if not sharded:
        return {"PYTHONPATH": ":".join(paths)}
    declared = {"COMPAT_DECLARED": log + ".declared"} if target.name == "heddle" else {}
    return {"PYTHONPATH": ":".join([os.path.join(HERE, "python", "sharded"), *paths]), **declared}


DJANGO_SETTINGS = """SECRET_KEY = "compat"
USE_TZ = False
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES = {{name: {{
    "ENGINE": "django.db.backends.mysql", "NAME": "django_" + name, "USER": "compat", "PASSWORD": "compat_pass",
    "HOST": "{host}", "PORT": "{port}", "TEST": {{"CHARSET": "utf8mb4"}}}} for name in ("default", "other")}}
"""


def django(*apps, sharded=False):
    PYTHON.need("Django", "mysqlclient")
    folder = _copy(PYTHON.source("Django"), "django")

    def outcomes(target, log):
        for name in ("django_default", "django_other"):
            target.fresh(name)
        with open(os.path.join(folder, "tests", "compat_settings.py"), "w", encoding="utf-8") as file:
            file.write(DJANGO_SETTINGS.format(host=target.host, port=target.port))
        environment = _declaring(target, log, sharded, folder, os.path.join(folder, "tests"))
        text = _output([PYTHON.python, "runtests.py", "--settings=compat_settings", "--noinput", "--parallel=1", "-v", "2", *apps],
                       log, cwd=os.path.join(folder, "tests"), env={**os.environ, **environment})
        words = {"ok": "pass", "FAIL": "fail", "ERROR": "fail", "skipped": "skip", "expected failure": "pass"}
        found = re.findall(r"^\w+ \(([\w.]+)\)(?:\n[^\n]*?)? \.\.\. (ok|FAIL|ERROR|skipped|expected failure)", text, re.MULTILINE)
        return {name: words[word] for name, word in found}
    return PYTHON.version("Django"), outcomes


def mysql_async():
    cargo = program(os.environ.get("CARGO", "cargo"), "cargo")
    RUST.need()
    version = RUST.version("mysql_async")
    home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    found = glob.glob(os.path.join(home, "registry", "src", "*", f"mysql_async-{version}"))
    if not found:
        raise Missing(f"cargo keeps no sources of mysql_async {version}")
    folder = _copy(found[0], "mysql_async")

    def outcomes(target, log):
        target.fresh("mysql_async")
        url = f"mysql://compat:compat_pass@{target.host}:{target.port}/mysql_async"
        text = _output([cargo, "test", "--lib", "--target-dir", os.path.join(CACHE, "rust-suite"), "--", "--test-threads=2"], log,
                       cwd=folder, env={**os.environ, "DATABASE_URL": url})
        words = {"ok": "pass", "FAILED": "fail", "ignored": "skip"}
        return {name: words[word] for name, word in re.findall(r"^test (\S+) .*?(ok|FAILED|ignored)", text, re.MULTILINE)}
    return version, outcomes


SUITES = [
    Suite("suite-go", go_driver),
    Suite("suite-pymysql", pymysql),
    Suite("suite-mysqlclient", mysqlclient),
    Suite("suite-mysql-async", mysql_async, known={
        f"*{test}": "it asks the server how many statements it has closed: Heddle keeps one for who prepares it next"
        for test in ("should_hold_stmt_cache_size_bound", "should_not_cache_statements_if_stmt_cache_size_is_zero")}),
    Suite("suite-sqlalchemy", lambda: sqlalchemy(
        "test/dialect/mysql", "test/dialect/test_suite.py", "test/engine", "test/sql/test_types.py")),
    Suite("suite-mariadb-main", mtr.suite, known=mtr.known(), long=True),
]

# On a farm whose map `suite` is over several groups; the tables are declared as they are made.
SHARDED_SUITES = [
    Suite("sharded-sqlalchemy", lambda: sqlalchemy(
        "test/dialect/test_suite.py", "test/sql/test_query.py", "test/sql/test_resultset.py",
        "test/sql/test_insert_exec.py", sharded=True)),
    Suite("sharded-django", lambda: django(
        "basic", "lookup", "ordering", "aggregation", "bulk_create", "update", "delete", "expressions", "transactions",
        "many_to_one", "many_to_many", "queries", sharded=True)),
]
