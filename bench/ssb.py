#!/usr/bin/env python3
"""What a star over shards costs: the 13 queries of the star schema benchmark on a farm of three groups and on one
server, as bench/tpch.py does it.

The facts are spread by their orders, and the dimensions are on every group: each group answers for its own facts, and
no row is to be gathered.

Environment or flags: ROUNDS=3 SCALE=0.1 QUERIES=1,2,… HEDDLE=bin/heddle
"""

from ssb_rows import KEYS, TABLES, Rows
from tpch import Suite, main


def fill(filler, scale):
    rows = Rows(scale)
    for table in ("dates", "customer", "supplier", "part", "lineorder"):
        for row in getattr(rows, table)():
            filler.add(table, row)


if __name__ == "__main__":
    main(Suite("ssb", TABLES, KEYS, [], fill))
