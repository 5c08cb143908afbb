"""State of the machine: processor, load, stolen time, and the lateness of wake-ups."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Length of a sleep whose lateness is measured, and their number.
SLEEP_NS = 1_000_000
SLEEPS = 300
#: Column of stolen time in /proc/stat, after the name of the line (proc_stat(5)).
STEAL = 7
COLUMNS = 8


def about() -> dict[str, Any]:
    """The machine, apart from its present state."""
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
    }


def lateness() -> dict[str, Any]:
    """How late a thread wakes from a sleep of a millisecond, in ns: median, 99th percentile, worst.

    The thread has a real-time priority if that is permitted.
    """
    with _first() as policy:
        late = []
        for _ in range(SLEEPS):
            begun = time.monotonic_ns()
            time.sleep(SLEEP_NS * 1e-9)
            late.append(time.monotonic_ns() - begun - SLEEP_NS)
    late.sort()
    at = {"median_ns": late[SLEEPS // 2], "p99_ns": late[SLEEPS * 99 // 100], "worst_ns": late[-1]}
    return {**at, "policy": policy}


@contextlib.contextmanager
def _first() -> Iterator[str]:
    """Gives this thread a real-time priority meanwhile; yields the name of its policy."""
    before = os.sched_getscheduler(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except OSError:
        yield "SCHED_OTHER"
        return
    try:
        yield "SCHED_FIFO"
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))


class Watch:
    """Processor time of the whole machine since the watch was made."""

    def __init__(self) -> None:
        self._before = _times()

    def shares(self) -> dict[str, float]:
        """The shares of processor time that were stolen by the hypervisor, and idle."""
        spent = [now - before for now, before in zip(_times(), self._before, strict=True)]
        whole = sum(spent) or 1
        # Columns 3 and 4 are idle time and time of waiting for disks.
        return {"stolen": round(spent[STEAL] / whole, 4), "idle": round((spent[3] + spent[4]) / whole, 4)}


def _times() -> list[int]:
    return [int(word) for word in _lines("/proc/stat")[0].split()[1 : 1 + COLUMNS]]


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
