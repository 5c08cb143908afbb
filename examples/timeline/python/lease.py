"""A lease that is over only when no doubt is left, and a periodic task.

    .venv/bin/python examples/timeline/python/lease.py NAME

The daemon: `timeloom timeline serve`.
"""

import sys
import threading

from timeloom.timeline import Change, Order, Requirement, Schedule, Timeline

LEASE_NS = 20_000_000


def main(name: str) -> None:
    timeline = Timeline(name)
    told = threading.Event()
    with timeline.bind(Requirement.within(500_000_000)) as binding:

        def tell(change: Change) -> None:
            print("the clock is", "good" if change.met else change.reason)
            told.set()

        binding.subscribe(tell)

        granted = timeline.read()
        turns = 0
        schedule = Schedule(period_ns=5_000_000)
        while not granted.certainly_older_than(LEASE_NS, timeline.read()):
            timeline.wait_until_next_period(schedule)
            turns += 1
        now = timeline.read()
        assert granted.compare(now) == Order.BEFORE
        print(
            f"the lease is over, certainly by {now.earliest_ns - granted.latest_ns - LEASE_NS} ns, after {turns} turns"
        )

        ticks, event = timeline.event()
        print(f"an event at {event!r}, again {timeline.convert(ticks)!r}")
        assert told.wait(10), "never told about the clock"


if __name__ == "__main__":
    main(sys.argv[1])
