"""The tables of TPC-H and rows for them, made up by a seed: as many, as long and as selective as those of
its own generator, with other words."""

import datetime
import random

KEYS = {  # The shard key of a table; a table without one is global.
    "lineitem": "l_orderkey",
    "orders": "o_orderkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey",
    "customer": "c_custkey",
}

TABLES = {
    "region": "r_regionkey INT PRIMARY KEY, r_name CHAR(25) NOT NULL, r_comment VARCHAR(152)",
    "nation": "n_nationkey INT PRIMARY KEY, n_name CHAR(25) NOT NULL, n_regionkey INT NOT NULL, n_comment VARCHAR(152)",
    "supplier": "s_suppkey INT PRIMARY KEY, s_name CHAR(25) NOT NULL, s_address VARCHAR(40) NOT NULL, "
                "s_nationkey INT NOT NULL, s_phone CHAR(15) NOT NULL, s_acctbal DECIMAL(15,2) NOT NULL, "
                "s_comment VARCHAR(101) NOT NULL",
    "part": "p_partkey INT PRIMARY KEY, p_name VARCHAR(55) NOT NULL, p_mfgr CHAR(25) NOT NULL, "
            "p_brand CHAR(10) NOT NULL, p_type VARCHAR(25) NOT NULL, p_size INT NOT NULL, "
            "p_container CHAR(10) NOT NULL, p_retailprice DECIMAL(15,2) NOT NULL, p_comment VARCHAR(23) NOT NULL",
    "partsupp": "ps_partkey INT NOT NULL, ps_suppkey INT NOT NULL, ps_availqty INT NOT NULL, "
                "ps_supplycost DECIMAL(15,2) NOT NULL, ps_comment VARCHAR(199) NOT NULL, "
                "PRIMARY KEY (ps_partkey, ps_suppkey), KEY (ps_suppkey)",
    "customer": "c_custkey INT PRIMARY KEY, c_name VARCHAR(25) NOT NULL, c_address VARCHAR(40) NOT NULL, "
                "c_nationkey INT NOT NULL, c_phone CHAR(15) NOT NULL, c_acctbal DECIMAL(15,2) NOT NULL, "
                "c_mktsegment CHAR(10) NOT NULL, c_comment VARCHAR(117) NOT NULL",
    "orders": "o_orderkey INT PRIMARY KEY, o_custkey INT NOT NULL, o_orderstatus CHAR(1) NOT NULL, "
              "o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL, o_orderpriority CHAR(15) NOT NULL, "
              "o_clerk CHAR(15) NOT NULL, o_shippriority INT NOT NULL, o_comment VARCHAR(79) NOT NULL, "
              "KEY (o_custkey)",
    "lineitem": "l_orderkey INT NOT NULL, l_partkey INT NOT NULL, l_suppkey INT NOT NULL, l_linenumber INT NOT NULL, "
                "l_quantity DECIMAL(15,2) NOT NULL, l_extendedprice DECIMAL(15,2) NOT NULL, "
                "l_discount DECIMAL(15,2) NOT NULL, l_tax DECIMAL(15,2) NOT NULL, l_returnflag CHAR(1) NOT NULL, "
                "l_linestatus CHAR(1) NOT NULL, l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, "
                "l_receiptdate DATE NOT NULL, l_shipinstruct CHAR(25) NOT NULL, l_shipmode CHAR(10) NOT NULL, "
                "l_comment VARCHAR(44) NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber), "
                "KEY (l_partkey, l_suppkey), KEY (l_suppkey)",
}

REVENUE = ("CREATE VIEW revenue0 (supplier_no, total_revenue) AS "
           "SELECT l_suppkey, SUM(l_extendedprice * (1 - l_discount)) FROM lineitem "
           "WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-01-01' + INTERVAL 3 MONTH "
           "GROUP BY l_suppkey")

REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
NATIONS = [("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
           ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4),
           ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3),
           ("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1)]
COLOURS = ("almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood chartreuse chiffon "
           "chocolate coral cornflower cream cyan dark deep dim dodger drab firebrick floral forest frosted gainsboro "
           "ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime linen "
           "magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya "
           "peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate "
           "smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow").split()
TYPES = [["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
         ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"], ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"]]
CONTAINERS = [["SM", "LG", "MED", "JUMBO", "WRAP"], ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
WORDS = "furiously quick deposits sleep above the ironic accounts pending theodolites haggle blithely".split()
FIRST, DAYS = datetime.date(1992, 1, 1), 2406
TODAY = datetime.date(1995, 6, 17)


class Rows:
    """Rows of every table as tuples of SQL, at a scale factor; equal for equal factors."""

    def __init__(self, scale):
        self.dice = random.Random(scale)
        self.suppliers = max(10, round(10_000 * scale))
        self.parts = max(200, round(200_000 * scale))
        self.customers = max(150, round(150_000 * scale))

    def text(self, words):
        return " ".join(self.dice.choices(WORDS, k=words))

    def cents(self, least, most):
        return f"{self.dice.randint(least, most) / 100:.2f}"

    def phone(self, nation):
        return f"{nation + 10}-{self.dice.randint(100, 999)}-{self.dice.randint(100, 999)}-{self.dice.randint(1000, 9999)}"

    def price(self, part):
        return 90_000 + part // 10 % 20_001 + 100 * (part % 1000)

    def supplier_of(self, part, nth):
        """One of the four suppliers of a part."""
        return (part + nth * (self.suppliers // 4)) % self.suppliers + 1

    def region(self):
        return (f"({at}, '{name}', '{self.text(5)}')" for at, name in enumerate(REGIONS))

    def nation(self):
        return (f"({at}, '{name}', {region}, '{self.text(5)}')" for at, (name, region) in enumerate(NATIONS))

    def supplier(self):
        for key in range(1, self.suppliers + 1):
            nation = self.dice.randrange(25)
            complaint = "Customer slow Complaints" if self.dice.randrange(2000) == 0 else ""
            yield (f"({key}, 'Supplier#{key:09}', '{self.text(3)}', {nation}, '{self.phone(nation)}', "
                   f"{self.cents(-99_999, 999_999)}, '{self.text(5)} {complaint}')")

    def part(self):
        for key in range(1, self.parts + 1):
            maker = self.dice.randint(1, 5)
            name = " ".join(self.dice.sample(COLOURS, 5))
            kind = " ".join(self.dice.choice(words) for words in TYPES)
            container = " ".join(self.dice.choice(words) for words in CONTAINERS)
            yield (f"({key}, '{name}', 'Manufacturer#{maker}', 'Brand#{maker}{self.dice.randint(1, 5)}', '{kind}', "
                   f"{self.dice.randint(1, 50)}, '{container}', {self.price(key) / 100:.2f}, '{self.text(2)}')")

    def partsupp(self):
        for part in range(1, self.parts + 1):
            for nth in range(4):
                yield (f"({part}, {self.supplier_of(part, nth)}, {self.dice.randint(1, 9999)}, "
                       f"{self.cents(100, 100_000)}, '{self.text(10)}')")

    def customer(self):
        for key in range(1, self.customers + 1):
            nation = self.dice.randrange(25)
            yield (f"({key}, 'Customer#{key:09}', '{self.text(3)}', {nation}, '{self.phone(nation)}', "
                   f"{self.cents(-99_999, 999_999)}, '{self.dice.choice(SEGMENTS)}', '{self.text(8)}')")

    def orders_and_lines(self):
        """Pairs of an order and its lines."""
        for number in range(self.customers * 10):
            # Keys have gaps, and a third of the customers has no order.
            key = number // 8 * 32 + number % 8 + 1
            customer = self.dice.randint(1, self.customers)
            customer -= customer % 3 == 0
            day = FIRST + datetime.timedelta(self.dice.randrange(DAYS - 151))
            lines, total, open_lines = [], 0, 0
            for line in range(1, self.dice.randint(1, 7) + 1):
                text, cents, is_open = self.line(key, line, day)
                lines.append(text)
                total += cents
                open_lines += is_open
            status = "F" if open_lines == 0 else "O" if open_lines == len(lines) else "P"
            special = "special packages requests" if self.dice.randrange(80) == 0 else ""
            order = (f"({key}, {customer}, '{status}', {total / 100:.2f}, '{day}', '{self.dice.choice(PRIORITIES)}', "
                     f"'Clerk#{self.dice.randint(1, 1000):09}', 0, '{self.text(4)} {special}')")
            yield order, lines

    def line(self, order, number, day):
        part = self.dice.randint(1, self.parts)
        supplier = self.supplier_of(part, self.dice.randrange(4))
        quantity, discount, tax = self.dice.randint(1, 50), self.dice.randint(0, 10), self.dice.randint(0, 8)
        cents = quantity * self.price(part)
        shipped = day + datetime.timedelta(self.dice.randint(1, 121))
        committed = day + datetime.timedelta(self.dice.randint(30, 90))
        received = shipped + datetime.timedelta(self.dice.randint(1, 30))
        flag = self.dice.choice("RA") if received <= TODAY else "N"
        is_open = shipped > TODAY
        text = (f"({order}, {part}, {supplier}, {number}, {quantity}, {cents / 100:.2f}, 0.{discount:02}, 0.{tax:02}, "
                f"'{flag}', '{'O' if is_open else 'F'}', '{shipped}', '{committed}', '{received}', "
                f"'{self.dice.choice(INSTRUCTIONS)}', '{self.dice.choice(MODES)}', '{self.text(3)}')")
        return text, cents, is_open
