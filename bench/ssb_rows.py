"""The tables of the star schema benchmark and rows for them, made up by a seed: as many and as selective as those of
its own generator, with other words."""

import datetime
import random

from tpch_rows import COLOURS, CONTAINERS, MODES, NATIONS, PRIORITIES, REGIONS, SEGMENTS, TYPES

KEYS = {"lineorder": "lo_orderkey"}  # The shard key of a table; a table without one is global.

TABLES = {
    "dates": "d_datekey INT PRIMARY KEY, d_date CHAR(18) NOT NULL, d_dayofweek CHAR(9) NOT NULL, "
             "d_month CHAR(9) NOT NULL, d_year INT NOT NULL, d_yearmonthnum INT NOT NULL, d_yearmonth CHAR(7) NOT NULL, "
             "d_daynuminweek INT NOT NULL, d_daynuminmonth INT NOT NULL, d_daynuminyear INT NOT NULL, "
             "d_monthnuminyear INT NOT NULL, d_weeknuminyear INT NOT NULL",
    "customer": "c_custkey INT PRIMARY KEY, c_name VARCHAR(25) NOT NULL, c_city CHAR(10) NOT NULL, "
                "c_nation CHAR(15) NOT NULL, c_region CHAR(12) NOT NULL, c_mktsegment CHAR(10) NOT NULL",
    "supplier": "s_suppkey INT PRIMARY KEY, s_name CHAR(25) NOT NULL, s_city CHAR(10) NOT NULL, "
                "s_nation CHAR(15) NOT NULL, s_region CHAR(12) NOT NULL",
    "part": "p_partkey INT PRIMARY KEY, p_name VARCHAR(22) NOT NULL, p_mfgr CHAR(6) NOT NULL, "
            "p_category CHAR(7) NOT NULL, p_brand1 CHAR(9) NOT NULL, p_color VARCHAR(11) NOT NULL, "
            "p_type VARCHAR(25) NOT NULL, p_size INT NOT NULL, p_container CHAR(10) NOT NULL",
    "lineorder": "lo_orderkey INT NOT NULL, lo_linenumber INT NOT NULL, lo_custkey INT NOT NULL, lo_partkey INT NOT NULL, "
                 "lo_suppkey INT NOT NULL, lo_orderdate INT NOT NULL, lo_orderpriority CHAR(15) NOT NULL, "
                 "lo_shippriority CHAR(1) NOT NULL, lo_quantity INT NOT NULL, lo_extendedprice INT NOT NULL, "
                 "lo_ordtotalprice INT NOT NULL, lo_discount INT NOT NULL, lo_revenue INT NOT NULL, "
                 "lo_supplycost INT NOT NULL, lo_tax INT NOT NULL, lo_commitdate INT NOT NULL, lo_shipmode CHAR(10) NOT NULL, "
                 "PRIMARY KEY (lo_orderkey, lo_linenumber)",
}

FIRST, DAYS = datetime.date(1992, 1, 1), 2556
ORDER_DAYS = 2406


class Rows:
    """Rows of every table as tuples of SQL, at a scale factor; equal for equal factors."""

    def __init__(self, scale):
        self.dice = random.Random(scale)
        self.customers = max(100, round(30_000 * scale))
        self.suppliers = max(20, round(2_000 * scale))
        self.parts = max(200, round(200_000 * min(scale, 1)))
        self.orders = max(500, round(1_500_000 * scale))

    def place(self):
        """City, nation and region."""
        nation, region = self.dice.choice(NATIONS)
        return f"'{nation[:9]:9}{self.dice.randrange(10)}', '{nation}', '{REGIONS[region]}'"

    def dates(self):
        for number in range(DAYS):
            day = FIRST + datetime.timedelta(number)
            in_year = day.timetuple().tm_yday
            yield (f"({day:%Y%m%d}, '{day:%B} {day.day}, {day.year}', '{day:%A}', '{day:%B}', {day.year}, {day:%Y%m}, "
                   f"'{day:%b%Y}', {day.isoweekday()}, {day.day}, {in_year}, {day.month}, {(in_year - 1) // 7 + 1})")

    def customer(self):
        for key in range(1, self.customers + 1):
            yield f"({key}, 'Customer#{key:09}', {self.place()}, '{self.dice.choice(SEGMENTS)}')"

    def supplier(self):
        for key in range(1, self.suppliers + 1):
            yield f"({key}, 'Supplier#{key:09}', {self.place()})"

    def part(self):
        for key in range(1, self.parts + 1):
            maker, category, brand = (self.dice.randint(1, most) for most in (5, 5, 40))
            colour, other = self.dice.sample(COLOURS, 2)
            kind = " ".join(self.dice.choice(words) for words in TYPES)
            container = " ".join(self.dice.choice(words) for words in CONTAINERS)
            yield (f"({key}, '{colour} {other}', 'MFGR#{maker}', 'MFGR#{maker}{category}', "
                   f"'MFGR#{maker}{category}{brand:02}', '{colour}', '{kind}', {self.dice.randint(1, 50)}, '{container}')")

    def lineorder(self):
        for number in range(self.orders):
            # Keys have gaps, and a third of the customers has no order.
            key = number // 8 * 32 + number % 8 + 1
            customer = self.dice.randint(1, self.customers)
            customer -= customer % 3 == 0
            day = FIRST + datetime.timedelta(self.dice.randrange(ORDER_DAYS))
            priority = self.dice.choice(PRIORITIES)
            lines = [self.line() for _ in range(self.dice.randint(1, 7))]
            total = sum(price for _, _, _, price, _ in lines)
            for line, (part, supplier, quantity, price, discount) in enumerate(lines, 1):
                commit = day + datetime.timedelta(self.dice.randint(30, 90))
                yield (f"({key}, {line}, {customer}, {part}, {supplier}, {day:%Y%m%d}, '{priority}', '0', {quantity}, "
                       f"{price}, {total}, {discount}, {price * (100 - discount) // 100}, {price * 6 // (10 * quantity)}, "
                       f"{self.dice.randint(0, 8)}, {commit:%Y%m%d}, '{self.dice.choice(MODES)}')")

    def line(self):
        part, supplier = self.dice.randint(1, self.parts), self.dice.randint(1, self.suppliers)
        quantity = self.dice.randint(1, 50)
        price = quantity * (90_000 + part // 10 % 20_001 + 100 * (part % 1000)) // 100
        return part, supplier, quantity, price, self.dice.randint(0, 10)
