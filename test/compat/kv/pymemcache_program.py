"""pymemcache: the base client, a pooled one, and its errors."""

import os

from pymemcache import exceptions
from pymemcache.client.base import Client, PooledClient

ADDRESS = (os.environ["KV_HOST"], int(os.environ["KV_PORT"]))


def step(name):
    print(f"== {name}")


def refused(work):
    try:
        return work()
    except exceptions.MemcacheError as error:
        return type(error).__name__


def basics(c):
    step("basics")
    print(c.flush_all(), c.get("a"), c.set("a", b"\0\xff value", expire=100, flags=77), c.get("a"))
    print(c.add("a", "x"), c.add("b", "x"), c.replace("none", "x"), c.replace("b", "y"), c.append("b", "1"), c.prepend("b", "2"), c.get("b"))
    print(c.delete("b"), c.delete("b"), c.touch("a", 0), c.touch("none", 5), c.get("none", "default"))


def numbers(c):
    step("numbers")
    print(c.set("n", "18446744073709551610"), c.incr("n", 3), c.incr("n", 10), c.decr("n", 100), c.incr("none", 1))
    print(c.set("t", "text"), refused(lambda: c.incr("t", 1)), c.set("s", "100"), c.decr("s", 1))


def versions(c):
    step("versions")
    c.set("v", "one")
    value, cas = c.gets("v")
    print(value, c.cas("v", "two", cas), c.cas("v", "three", cas), c.cas("none", "x", cas), c.gets_many(["v"])["v"][0])


def many(c):
    step("many")
    print(c.set_many({f"m{i}": f"{i}" for i in range(300)}))
    found = c.get_many([f"m{i}" for i in range(-5, 305)])
    print(len(found), found["m0"], found["m299"], c.delete_many([f"m{i}" for i in range(300)]), c.get_many(["m0", "m1"]))


def limits(c):
    step("limits")
    large = b"x" * (1 << 20)
    print(refused(lambda: c.set("large", large[:-200])), len(c.get("large")), refused(lambda: c.set("more", large + large)), c.get("more"))
    print(refused(lambda: c.set("k" * 251, "x")), refused(lambda: c.get("a b")), c.set("k" * 250, "x"), c.get("k" * 250))
    print(c.set("", "") if False else c.set("empty", ""), c.get("empty"))


def silent(c):
    step("silent")
    c.set("q", "1", noreply=True)
    c.incr("q", 4, noreply=True)
    c.delete("none", noreply=True)
    print(c.get("q"), sorted(c.stats())[:0], c.version().decode().split(".")[0])


client = Client(ADDRESS, default_noreply=False, allow_unicode_keys=True)
for part in (basics, numbers, versions, many, limits, silent):
    part(client)
step("unicode")
print(client.set("schlüssel", "wert".encode()), client.get("schlüssel"))
client.close()
step("pooled")
pool = PooledClient(ADDRESS, max_pool_size=4, default_noreply=False)
print(pool.set("p", "1"), pool.get("p"), pool.quit())
