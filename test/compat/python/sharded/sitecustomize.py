"""Declares the tables that a test suite makes, as the tables of a sharded application would be.

Python runs this file before a suite whose PYTHONPATH has its folder. It looks at the CREATE TABLE texts
that go to PyMySQL and mysqlclient:

- a table with a primary key is sharded by the first column of it;
- one with another unique key or a foreign key is global, and so become the tables that it refers to;
- one that gets such a unique key later becomes global then;
- what Heddle refuses so, and every other table, stays as it is.

A foreign key that is added to a sharded table later is left out: rows of other shards cannot be referred
to. What became of the tables is added to the file that COMPAT_DECLARED names.
"""

import atexit
import collections
import json
import os
import re

MAP = "suite"
CREATE = re.compile(r"\s*CREATE\s+TABLE\s+(?!.*\bSELECT\b)(?:IF\s+NOT\s+EXISTS\s+)?((?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))?)\s*\(", re.IGNORECASE | re.DOTALL)
PRIMARY = re.compile(r"PRIMARY\s+KEY\s*\(\s*(`[^`]+`|\w+)", re.IGNORECASE)
INLINE = re.compile(r"[(,]\s*(`[^`]+`|\w+)\s+[^,]*?\bPRIMARY\s+KEY\b", re.IGNORECASE)
UNIQUE = re.compile(r"\bUNIQUE\b", re.IGNORECASE)
REFERENCES = re.compile(r"\bREFERENCES\s+((?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))?)", re.IGNORECASE)
ADDED = re.compile(r"\s*ALTER\s+TABLE\s+((?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))?)\s+ADD\s+CONSTRAINT\s+\S+\s+FOREIGN\s+KEY", re.IGNORECASE)
MADE_UNIQUE = re.compile(r"\s*ALTER\s+TABLE\s+((?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))?)\s+ADD\s+(?:CONSTRAINT\s+\S+\s+)?UNIQUE\b", re.IGNORECASE)

counts = collections.Counter()
sharded = set()


def bare(name):
    return name.replace("`", "").lower()


def comments(text):
    """What may be said of the table, the best first."""
    primary = PRIMARY.search(text) or INLINE.search(text)
    if not primary:
        return []
    whole = ("global", f" /*heddle global_map={MAP}*/")
    if UNIQUE.search(text) or REFERENCES.search(text):
        return [whole]
    return [("sharded", f" /*heddle shard_map={MAP} shard_key={primary.group(1).strip('`')}*/"), whole]


def make_global(cursor, original, name):
    """Declares a sharded table anew."""
    sharded.discard(name)
    original(cursor, "SELECT DATABASE()", None)
    database = cursor.fetchone()[0]
    full = name if "." in name else f"{database}.{name}"
    full = ".".join(f"`{part}`" for part in full.split("."))
    try:
        original(cursor, f"HEDDLE SHARDING REMOVE_TABLE '{full}'", None)
    except Exception as error:
        if "is on no shard map" in str(error):
            # Another table had that name, and was dropped.
            return
        raise
    original(cursor, f"HEDDLE SHARDING ADD_GLOBAL_TABLE {MAP} '{full}'", None)
    counts["sharded"] -= 1
    counts["global"] += 1


def create(cursor, original, text, name):
    for parent in map(bare, REFERENCES.findall(text)):
        if parent in sharded:
            make_global(cursor, original, parent)
    for kind, comment in comments(text):
        try:
            done = original(cursor, text.rstrip().rstrip(";") + comment, None)
        except Exception as error:
            counts[f"refused: {error.args[-1]}"[:160]] += 1
            continue
        counts[kind] += 1
        if kind == "sharded":
            sharded.add(name)
        return done
    counts["undeclared"] += 1
    return original(cursor, text, None)


def wrapped(original):
    def execute(self, query, args=None):
        text = query.decode("utf-8", "replace") if isinstance(query, bytes) else query
        if not args and isinstance(text, str):
            if args is not None:
                # As the driver would do it.
                text, args = text % (), None
            if found := CREATE.match(text):
                return create(self, original, text, bare(found.group(1)))
            if (found := MADE_UNIQUE.match(text)) and bare(found.group(1)) in sharded:
                make_global(self, original, bare(found.group(1)))
            if (found := ADDED.match(text)) and bare(found.group(1)) in sharded | referred(text):
                counts["foreign keys left out"] += 1
                return 0
            return original(self, text, None)
        return original(self, query, args)
    return execute


def referred(text):
    """The altered table, when it refers to a sharded one."""
    found = ADDED.match(text)
    return {bare(found.group(1))} if any(bare(name) in sharded for name in REFERENCES.findall(text)) else set()


def tell():
    if counts:
        with open(os.environ["COMPAT_DECLARED"], "a", encoding="utf-8") as file:
            file.write(json.dumps(counts) + "\n")


if os.environ.get("COMPAT_DECLARED"):
    atexit.register(tell)
    try:
        import pymysql.cursors
        pymysql.cursors.Cursor.execute = wrapped(pymysql.cursors.Cursor.execute)
    except ImportError:
        pass
    try:
        import MySQLdb.cursors
        MySQLdb.cursors.BaseCursor.execute = wrapped(MySQLdb.cursors.BaseCursor.execute)
    except ImportError:
        pass
