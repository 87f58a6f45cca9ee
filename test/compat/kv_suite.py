"""memcached's own tests (t/*.t of a checkout of its sources) against the key-value door of a running farm.
They connect where T_MEMD_USE_DAEMON says; whatever a test wants its memcached started with is not there."""

import os
import re
import subprocess
import tempfile

from processes import Failed, Farm
from run import table
from tools import program

TEST_TIMEOUT_S = 240

# Why checks differ that a table cannot satisfy.
MEMORY = "rows are neither evicted nor laid out in slabs"
STARTED = "wants a memcached that was started in another way"
COUNTS = "counts rows that expired or were pushed out of memory"
TIME = "turns memcached's clock by `debugtime`, which a server in production must not have"
HISTORY = "flags h, l and u: nothing is known of earlier reads"
RESET = "`stats reset` is refused: the counters are metrics, which never fall"

# What passes whole.
WHOLE = """bogus-commands cas chunked-items evictions flags getandtouch incrdecr issue_108 issue_14 issue_152 issue_192
 issue_3 issue_41 issue_68 issue_70 malicious-commands multiversioning noreply quit touch strtol-testing issue_104""".split()

# Numbers of the checks that differ, with the reason; a check after the last one listed counts, too, when the
# test gave up there (`None`).
PARTLY = {
    "flush-all": {25: STARTED, 26: STARTED},
    "getset": {1: "a line that is too long is told of before the connection is closed",
               538: "a value that is too large leaves the row as it was", 541: "the same"},
    "issue_163": {4: COUNTS},
    "issue_183": {2: COUNTS, 5: COUNTS},
    "issue_22": {42: RESET, 43: MEMORY, 84: MEMORY},
    "issue_42": {11: MEMORY},
    "issue_61": {7: "there are no yields to count"},
    "64bit": {2: MEMORY, 3: MEMORY, 4: MEMORY, 5: MEMORY, 6: MEMORY},
}

# What says nothing about tables.
WITHOUT = {
    "expirations": TIME,
    "stats": MEMORY, "stats-detail": "`stats detail` is refused", "issue_29": MEMORY, "lru": MEMORY,
    "00-startup": STARTED, "conn-limits": STARTED, "idle-timeout": STARTED, "item_size_max": STARTED, "maxconns": STARTED,
    "issue_50": STARTED, "issue_67": STARTED, "line-lengths": STARTED, "shutdown": STARTED, "stats-conns": STARTED,
    "ascii-auth": STARTED, "ascii-auth2": STARTED, "daemonize": STARTED, "dash-M": MEMORY, "dyn-maxbytes": MEMORY,
    "watcher": "`watch` is refused", "watcher_connid": "`watch` is refused",
    "metaget": HISTORY,
    "issue_140": "skips itself", "issue_260": "skips itself", "whitespace": "reads memcached's sources",
    "misbehave": "skips itself", "unixsocket": STARTED, "udp": "there is no UDP", "restart": MEMORY,
    "refhang": MEMORY, "binary": "the binary protocol, which memcached gave up", "binary-get": "the same",
    "binary-sasl": "the same", "slabhang": MEMORY, "lru-crawler": MEMORY, "lru-maintainer": MEMORY,
}
WITHOUT_PATTERNS = [(r"proxy", "the proxy"), (r"extstore|error-extstore", MEMORY), (r"slabs", MEMORY), (r"ssl_", STARTED)]


def reason_without(name):
    if name in WITHOUT:
        return WITHOUT[name]
    return next((reason for pattern, reason in WITHOUT_PATTERNS if re.search(pattern, name)), None)


def checks(output):
    """Numbers of the outermost checks: those that passed, those that failed, those that were planned."""
    good = {int(n) for n in re.findall(r"^ok (\d+)", output, re.M)}
    bad = {int(n) for n in re.findall(r"^not ok (\d+)", output, re.M)}
    plan = re.search(r"^1\.\.(\d+)", output, re.M)
    return good, bad, int(plan.group(1)) if plan else None


def run_test(source, name, address, helper):
    environment = {**os.environ, "T_MEMD_USE_DAEMON": address, "LC_ALL": "C"}
    command = [program("perl", "perl"), f"-I{source}/t/lib", f"{source}/t/{name}.t"]
    try:
        done = subprocess.run(command, cwd=helper, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TEST_TIMEOUT_S, text=True, errors="replace", stdin=subprocess.DEVNULL)
        return done.stdout
    except subprocess.TimeoutExpired as hung:
        return (hung.stdout or b"").decode(errors="replace") + "\nhangs\n"


def verdict(name, output):
    good, bad, plan = checks(output)
    known = PARTLY.get(name, {})
    lines = [f"check {number} fails" for number in sorted(bad - set(known))]
    lines += [f"check {number} is listed, but passes: {known[number]}" for number in sorted(good & set(known))]
    if output.endswith("\nhangs\n") or plan is None or len(good) + len(bad) != plan:
        lines.append(f"ended after {len(good) + len(bad)} of {plan} checks")
    shown = f"{len(good)} of {plan}" if bad else f"all {len(good)}"
    return shown, lines


def run_suite(heddle, source):
    """Runs all tests that have a meaning; true when none of them does what is not listed."""
    folder = os.path.join(source, "t")
    if not os.path.isfile(os.path.join(folder, "lib", "MemcachedTest.pm")):
        raise Failed(f"{source} is no checkout of memcached's sources: there is no t/lib/MemcachedTest.pm")
    names = sorted(file[:-2] for file in os.listdir(folder) if file.endswith(".t"))
    rows, failed = [("memcached's test", "passes", "")], []
    with tempfile.TemporaryDirectory(prefix="heddle-suite-") as helper:
        # The tests ask a memcached what it was built with: this one was built with nothing.
        exe = os.path.join(helper, "memcached-debug")
        with open(exe, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho memcached 1.6\n")
        os.chmod(exe, 0o755)
        for name in names:
            if name not in WHOLE and name not in PARTLY:
                reason = reason_without(name)
                if reason is None:
                    rows.append((name, "-", "not looked at yet"))
                continue
            # Each begins with an empty container and counters at zero.
            with Farm(heddle, 0, ["--no-scratch"]) as farm:
                shown, lines = verdict(name, run_test(source, name, farm.kv, helper))
            rows.append((name, shown, "; ".join(dict.fromkeys(PARTLY.get(name, {}).values()))))
            if lines:
                failed.append((name, lines))
    print()
    table(rows)
    for name, lines in failed:
        print(f"\n{name}:")
        print("\n".join(f"  {line}" for line in lines[:8]))
    return not failed
