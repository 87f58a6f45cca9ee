"""Servers that may use a part of a CPU each, as if every one had a machine of its own: by cgroups, v1 or v2."""

import contextlib
import os

from processes import Failed

ROOTS = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"]
PERIOD_US = 20_000


@contextlib.contextmanager
def capped(pids, percent):
    """Within it, each process has `percent` of one CPU at most; with 0 it has what there is."""
    made = []
    try:
        if percent:
            made.extend(group_of(pid, percent) for pid in pids)
        yield
    finally:
        for path, root in made:
            with open(os.path.join(path, "cgroup.procs"), encoding="ascii") as file:
                members = file.read().split()
            for member in members:
                with contextlib.suppress(OSError):
                    write(os.path.join(root, "cgroup.procs"), member)
            with contextlib.suppress(OSError):
                os.rmdir(path)


def group_of(pid, percent):
    """The cgroup that was made for the process, and the one above it."""
    quota_us = PERIOD_US * percent // 100
    for root in ROOTS:
        if os.path.exists(os.path.join(root, "cpu.cfs_quota_us")):
            bound = [("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", quota_us)]
        elif "cpu" in controllers(root):
            bound = [("cpu.max", f"{quota_us} {PERIOD_US}")]
        else:
            continue
        path = os.path.join(root, f"heddle-bench-{pid}")
        try:
            os.mkdir(path)
            for name, value in bound:
                write(os.path.join(path, name), value)
            write(os.path.join(path, "cgroup.procs"), pid)
        except OSError as error:
            raise Failed(f"no server can be capped: {error}; run as root") from error
        return path, root
    raise Failed("no server can be capped: there is no cgroup controller for CPUs")


def controllers(root):
    """Those that a cgroup of version 2 hands on to the ones below."""
    try:
        with open(os.path.join(root, "cgroup.subtree_control"), encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []


def write(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))
