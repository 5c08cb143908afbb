"""The task planner: says where both arms go next, and at which instant of the timeline.

    planner.py LEFT RIGHT [--plain]

It sends one command for both arms, ahead of its time. The next is planned when both have said that they are done with
the one before. Its own time must be good to a millisecond; while it is not, it says so, and plans nothing. With
``--plain`` it asks nobody how good time is.
"""

from __future__ import annotations

import json
import sys
import time

from cell import ACCURACY_NS, BEAT_S, SIDES, Clock, Post, Watch, fresh

from timeloom.timeline import Mode

#: Time from planning to acting.
AHEAD_NS = 300_000_000
#: Time for the controllers to report completion; after it the move is planned again.
GRACE_NS = 400_000_000
#: x, z, closed state of the grippers, and seconds: the part is carried from one place to the other
#: and back.
NEAR, FAR, LOW, HIGH = 0.2, 0.7, 0.1, 0.35


def carry(from_x: float, to_x: float) -> list[tuple[float, float, bool, float]]:
    return [
        (from_x, LOW, False, 0.8),
        (from_x, LOW, True, 0.2),
        (from_x, HIGH, True, 0.8),
        (to_x, HIGH, True, 1.0),
        (to_x, LOW, True, 0.8),
        (to_x, LOW, False, 0.2),
        (to_x, HIGH, False, 0.8),
    ]


MOVES = carry(NEAR, FAR) + carry(FAR, NEAR)


def main(controllers: list[str], plain: bool) -> None:
    post = Post("planner", controllers, plain)
    clock = Clock(post)
    watch = Watch(post, ACCURACY_NS["planner"])
    move, number, planned_ns, beat_s = 0, 0, 0, 0.0
    while True:
        post.collect(0.05)
        ok = plain or guard(watch)
        if time.monotonic() >= beat_s:
            beat_s = time.monotonic() + BEAT_S
            post.say("beat", {"ok": ok})
        states = [post.states.get(side) for side in SIDES]
        if not ok or not all(map(fresh, states)):
            continue
        together = plain or all(state["mode"] == Mode.COORDINATED for state in states)
        now_ns = clock.estimate_ns()
        if not together or now_ns < planned_ns:
            continue
        done = {state["done"] for state in states}
        if done != {number} and now_ns < planned_ns + GRACE_NS:
            continue
        if done == {number} and number:
            move += 1
        x, z, close, seconds = MOVES[move % len(MOVES)]
        number += 1
        act_at_ns = now_ns + AHEAD_NS
        planned_ns = act_at_ns + round(seconds * 1e9) + 100_000_000
        post.say(
            "move",
            {"number": number, "move": move, "x": x, "z": z, "close": close, "seconds": seconds},
            act_at_ns,
        )
        said = {"number": number, "move": move, "act_at_ns": act_at_ns, "half_width_ns": half_width_ns(post)}
        print(json.dumps(said), flush=True)


def half_width_ns(post: Post) -> int | None:
    """How well the time is known by which a command is given; a plain clock does not say."""
    stamp = post.read()
    return None if stamp.earliest_ns is None else (stamp.latest_ns - stamp.earliest_ns) // 2


def guard(watch: Watch) -> bool:
    """Whether the planner's own time is good."""
    watch.look()
    if watch.machine.mode == Mode.REJOINING:
        watch.machine.rejoined()  # it has no peer to rejoin
    return watch.machine.mode == Mode.COORDINATED


if __name__ == "__main__":
    main(sys.argv[1:3], "--plain" in sys.argv)
