"""System calls that a process makes, counted by the kernel without stopping it."""

import contextlib
import shutil
import signal
import subprocess

EVENT = "raw_syscalls:sys_enter"


class Counted:
    """`calls` is known after the end of the block; None where nobody may count here."""
    calls = None


@contextlib.contextmanager
def counted(pid):
    """Counts the calls of all threads of a process while the block runs."""
    found = Counted()
    if pid is None or not shutil.which("perf"):
        yield found
        return
    perf = subprocess.Popen(["perf", "stat", "-x", ",", "-e", EVENT, "-p", str(pid)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield found
    finally:
        perf.send_signal(signal.SIGINT)
        said = perf.communicate()[1]
    found.calls = read(said)


def read(said):
    """The number in perf's line of the event: `1234,,raw_syscalls:sys_enter,…`."""
    for line in said.splitlines():
        fields = line.split(",")
        if EVENT in fields and fields[0].isdigit():
            return int(fields[0])
    return None
