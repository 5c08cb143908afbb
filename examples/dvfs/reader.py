"""Reads its host's clock for some seconds, and says how often it did not increase."""

import sys
import time

RAW, MONOTONIC = time.CLOCK_MONOTONIC_RAW, time.CLOCK_MONOTONIC

reads = not_increasing = 0
begun = last = time.clock_gettime_ns(RAW)
last_monotonic = time.clock_gettime_ns(MONOTONIC)
while last - begun < float(sys.argv[1]) * 1e9:
    now, monotonic = time.clock_gettime_ns(RAW), time.clock_gettime_ns(MONOTONIC)
    not_increasing += (now <= last) + (monotonic <= last_monotonic)
    reads += 1
    last, last_monotonic = now, monotonic
print(f"reads={reads} not_increasing={not_increasing}", flush=True)
sys.exit(not_increasing != 0 or reads < 10_000)
