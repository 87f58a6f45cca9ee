"""python-memcached: pickled values, compression, many keys, namespaces by prefix."""

import os

import memcache

c = memcache.Client([f"{os.environ['KV_HOST']}:{os.environ['KV_PORT']}"], debug=0, cache_cas=True)


def step(name):
    print(f"== {name}")


step("types")
c.flush_all()
for value in ("text", b"bytes\0\xff", 42, 1 << 70, True, {"a": [1, None]}, "ü"):
    print(c.set("t", value, time=60), repr(c.get("t")))
step("compressed")
print(c.set("z", "long " * 5000, min_compress_len=100), len(c.get("z")))
step("conditions")
print(c.add("a", 1), c.add("a", 2), c.replace("a", 3), c.replace("none", 3), c.append("s", "x"), c.set("s", "x"), c.append("s", "y"), c.prepend("s", "w"), c.get("s"))
step("numbers")
print(c.incr("a"), c.incr("a", 10), c.decr("a", 100), c.incr("none"), c.decr("none"))
step("versions")
print(c.gets("s"), c.set("s", "other"), c.cas("s", "mine"), c.gets("s"), c.cas("s", "mine"), c.get("s"))
step("many")
print(c.set_multi({str(i): i for i in range(100)}, key_prefix="p:"), sorted(c.get_multi(list("0123"), key_prefix="p:").items()), c.delete_multi(list("012"), key_prefix="p:"), c.get_multi(list("0123"), key_prefix="p:"))
step("gone")
print(c.delete("a"), c.delete("a"), c.touch("s", 100), c.touch("a", 100), c.get("a"))
step("stats")
print(len(c.get_stats()), c.get_stats()[0][1]["version"][:2])
c.disconnect_all()
