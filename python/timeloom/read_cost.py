"""The cost of a read in Python: for ``timeloom bench timeline``.

``python -m timeloom.read_cost PAGE ROUNDS BATCH CORE`` prints nanoseconds per call of ``time.time_ns()``, of
``Timeline.read()`` and of ``Timeline.read().estimate_ns``, a line per round.
"""

from __future__ import annotations

import os
import sys
import time
from timeit import Timer

from timeloom.timeline import Timeline


def main(arguments: list[str]) -> None:
    page, (rounds, batch, core) = arguments[0], map(int, arguments[1:4])
    os.sched_setaffinity(0, {core})
    timeline = Timeline(page=page)
    if timeline.read().estimate_ns is None:
        raise SystemExit("the timeline has no interval: the good case is what is measured")
    names = {"time_ns": time.time_ns, "read": timeline.read}
    calls = [Timer(call, globals=names) for call in ("time_ns()", "read()", "read().estimate_ns")]
    for _ in range(rounds):
        print(*(f"{call.timeit(batch) / batch * 1e9:.2f}" for call in calls))


if __name__ == "__main__":
    main(sys.argv[1:])
