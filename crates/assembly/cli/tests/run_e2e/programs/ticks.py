"""Prints its own time every so often, on the grid of its own clock.

usage: ticks.py PERIOD_S [END_S EXIT]: after END_S of its own time it exits with status EXIT, or kills
itself with signal -EXIT.
"""

import os
import sys
import time

START_NS = 1_559_520_000 * 10**9  # 2019-06-03T00:00:00Z, as in the scenarios


def say(*words):
    """In one write, so that the end of the run does not cut a line in two."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


period_s = float(sys.argv[1])
end_s, status = (float(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 2 else (float("inf"), 0)
began_s = time.monotonic()
say("begun")
for count in range(1, 1_000_000):
    due_s = began_s + count * period_s
    time.sleep(max(0.0, min(due_s, began_s + end_s) - time.monotonic()))
    if time.monotonic() - began_s >= end_s:
        say("the end of it")
        if status < 0:
            os.kill(os.getpid(), -status)
        sys.exit(status)
    say("tick", count, time.time_ns() - START_NS)
