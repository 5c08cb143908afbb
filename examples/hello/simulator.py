"""A simulator that lets the testbed run in steps of 100 ms, and computes 30 ms for each.

    timeloom run examples/hello/hello.toml --set time.mode=stepped --name hello &
    PYTHONPATH=python python3 examples/hello/simulator.py hello

Neither machine of hello.toml can tell: their clocks stand while this program computes.
"""

import sys
import time

from timeloom.control import Granter

STEP_NS = 100_000_000

with Granter(sys.argv[1], wait_s=60) as testbed:
    at = testbed.standing
    while not at.ended:
        time.sleep(0.03)  # stands for a simulator's computation
        at = testbed.grant_ns(at.now_ns + STEP_NS)
        print("%.1f s; the next deadline is at %s" % (at.now_s, at.next_deadline_s))
