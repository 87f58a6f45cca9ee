"""What the Python programs share: where to connect, and steps whose output is compared.

A step that raises something it did not expect prints it and the next step runs, so that one
difference does not hide the others.
"""

import datetime
import decimal
import os
import sys

HOST = os.environ["COMPAT_HOST"]
PORT = int(os.environ["COMPAT_PORT"])
USER = os.environ["COMPAT_USER"]
PASSWORD = os.environ["COMPAT_PASSWORD"]
DATABASE = os.environ["COMPAT_DATABASE"]
FOLDER = os.environ["COMPAT_FOLDER"]
# Every connection is by TLS; whose certificate it is does not matter here.
TLS = bool(os.environ["COMPAT_TLS"])

# One value of every kind that an application stores.
VALUES = {
    "tiny": -128, "big": 18446744073709551615, "dec": decimal.Decimal("-12345678901234567.890123"),
    "flt": 0.5, "dbl": -1.25e100, "txt": "naïve — 日本語 — 🧵 'quoted' \\ back", "bin": bytes(range(256)),
    "day": datetime.date(2024, 2, 29), "moment": datetime.datetime(1999, 12, 31, 23, 59, 59, 123456),
    "span": datetime.timedelta(hours=-300, minutes=5), "doc": '{"a": [1, null, "ü"]}', "nothing": None,
}
VALUES_TABLE = """CREATE TABLE everything (id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED,
    dec_ DECIMAL(30,6), flt FLOAT, dbl DOUBLE, txt TEXT, bin VARBINARY(300), day DATE, moment DATETIME(6),
    span TIME, doc JSON, nothing INT) DEFAULT CHARSET utf8mb4"""
VALUES_COLUMNS = "tiny, big, dec_, flt, dbl, txt, bin, day, moment, span, doc, nothing"

_steps = []


def step(function):
    """Registers a step; they run in the order in which they are written."""
    _steps.append(function)
    return function


def say(*words):
    print(*[repr(word) for word in words], flush=True)


def error_fields(error):
    """Class, number and text: what an application decides by."""
    return [type(error).__name__, *error.args]


def run():
    for function in _steps:
        print("==", function.__name__, flush=True)
        try:
            function()
        except Exception as error:  # whatever it is, it is part of the comparison
            print("unexpected:", type(error).__name__, error, flush=True)
    sys.stdout.flush()
