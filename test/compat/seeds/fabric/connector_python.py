"""Connector/Python's connections of MySQL Fabric, told what to do line by line (clients.py says which lines).

Runs on Python 2.7 and 3. The connector is as published; what two of its releases need is set from outside: 2.1.6 and
later import two names in a circle, on every Python, and the end of a generator was another before Python 3.7.
"""

import os
import sys
import types
from collections import namedtuple

import mysql.connector
from mysql.connector import cursor


def load_fabric():
    try:
        from mysql.connector import fabric
        return fabric
    except ImportError:
        pass
    for name in [name for name in sys.modules if name.startswith("mysql.connector.fabric")]:
        del sys.modules[name]
    folder = os.path.join(os.path.dirname(mysql.connector.__file__), "fabric")
    module = types.ModuleType("mysql.connector.fabric")
    module.__path__ = [folder]
    module.__package__ = module.__name__
    module.__file__ = os.path.join(folder, "__init__.py")
    module.FabricMySQLServer = namedtuple("FabricMySQLServer", "uuid group host port mode status weight")
    module.FabricShard = namedtuple("FabricShard", "database table column key shard shard_type group global_group")
    sys.modules[module.__name__] = mysql.connector.fabric = module
    with open(module.__file__) as source:
        exec(compile(source.read(), module.__file__, "exec"), module.__dict__)
    return module


def ending(iterate):
    def results(self, query_iter):
        try:
            for result in iterate(self, query_iter):
                yield result
        except RuntimeError as error:
            if not isinstance(error.__cause__, StopIteration):
                raise
    return results


class Conversation(object):
    def __init__(self, fabric, protocol):
        self.fabric = fabric
        host, port = os.environ["FABRIC_CALLS" if protocol == "mysql" else "FABRIC"].split(":")
        door = {"host": host, "port": int(port), "report_errors": True}
        if protocol == "mysql":
            door["protocol"] = protocol
        self.connection = mysql.connector.connect(
            fabric=door, user=os.environ["MYSQL_USER"], password=os.environ["MYSQL_PASSWORD"], autocommit=True)

    def choose(self, **properties):
        self.connection.reset_properties()
        # An application that is told of a server that does not answer asks again itself.
        self.connection.set_property(mode=self.fabric.MODE_READWRITE, attempts=1, **properties)
        return "chosen"

    def key(self, words):
        table, key = words.split(" ")
        return self.choose(tables=[table], key=int(key))

    def group(self, name):
        return self.choose(group=name)

    def sql(self, text):
        try:
            found = self.connection.cursor(buffered=True)
            found.execute(text)
            row = found.fetchone() if found.with_rows else None
            found.close()
        except Exception:
            # What is left of the connection is of no use; the next statement looks a server up again.
            try:
                self.connection.close()
            except Exception:
                pass
            raise
        return row[0] if row else "done"

    def report(self, uuid):
        try:
            self.connection._fabric.report_failure(uuid, 2003)
        except (AssertionError, TypeError):
            # 2.1 and later cannot read what Fabric answers; the report was sent.
            pass
        return "sent"

    def answer(self, line):
        word, rest = line.split(" ", 1)
        return {"key": self.key, "group": self.group, "sql": self.sql, "report": self.report}[word](rest)


def main():
    fabric = load_fabric()
    if sys.version_info >= (3, 7):
        cursor.MySQLCursor._execute_iter = ending(cursor.MySQLCursor._execute_iter)
    conversation = Conversation(fabric, sys.argv[1])
    say("ready")
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        try:
            say("ok %s" % (conversation.answer(line.rstrip("\n")),))
        except Exception as error:
            say("error %s: %s" % (type(error).__name__, str(error).replace("\n", " ")))


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
