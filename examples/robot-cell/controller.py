"""The controller of one arm: does what the planner says, at the instant of the timeline that it says.

    controller.py SIDE --planner ADDRESS --peer ADDRESS --arm ADDRESS [--plain]

A move is a promise between both controllers. Each says that it has the command in time and by good time, then that
it has heard so from the other. Only with both does it act: at an instant of its own crystal that it settles when it
promises, so that what happens to its time afterwards moves nothing any more. Who cannot promise leaves: it ends what
is under way, and begins nothing until its time is good and the others are there again.

With ``--plain`` it acts by the host's clock: nobody can ask how good it is, a command that comes too late is executed
at once, and nothing is promised.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from cell import ACCURACY_NS, BEAT_S, SIDES, Clock, Post, Watch, fresh

from timeloom.modbus import Client
from timeloom.timeline import Mode

#: Time between a promise and its instant: by then both must have received it.
SETTLED_NS = 40_000_000
#: Registers of the arm: the command, and the values on the arm's panel.
COMMAND, PANEL = 0, 12
Y_M = {"left": -0.4, "right": 0.4}
LOOK_S = 0.05


class Controller:
    """One arm, with or without asking how good its time is."""

    def __init__(self, side: str, post: Post, arm: Client, plain: bool):
        self.side, self.post, self.arm, self.plain = side, post, arm, plain
        self.peer = next(other for other in SIDES if other != side)
        self.clock = Clock(post)
        self.watch = Watch(post, ACCURACY_NS["controller"])
        self.machine = self.watch.machine
        self.pending: dict[str, Any] | None = None
        self.ends_ns = 0
        self.done = self.number = self.seen = self.late = 0
        self.said: dict[str, Any] = {}
        self.said_s = 0.0
        self.shown: list[float] | None = None

    @property
    def mode(self) -> Mode:
        return Mode.COORDINATED if self.plain else self.machine.mode

    def turn(self) -> None:
        """One look at everything."""
        due_s = LOOK_S
        if self.pending:
            due_s = min(due_s, (self.pending["due_ns"] - time.monotonic_ns()) / 1e9)
        self.post.collect(due_s)
        if not self.plain:
            self.watch.look()
            self.judge()
        for what, act_at_ns, in_time in self.post.moves:
            self.take(what, act_at_ns, in_time)
        self.post.moves.clear()
        self.act()
        if self.ends_ns and time.monotonic_ns() >= self.ends_ns:
            self.done, self.ends_ns = self.number, 0
        self.tell()

    def judge(self) -> None:
        """Whether the others are there; time itself the machine has judged."""
        planner, peer = self.post.beat, self.post.states.get(self.peer)
        there = fresh(planner) and planner["ok"] and fresh(peer)
        if self.machine.mode == Mode.COORDINATED:
            if not there or peer["mode"] in (Mode.HOLD, Mode.STOPPED):
                self.machine.withdraw()
        elif self.machine.mode == Mode.REJOINING and there:
            if peer["mode"] in (Mode.REJOINING, Mode.COORDINATED):
                self.machine.rejoined()

    def take(self, what: dict[str, Any], act_at_ns: int, in_time: bool) -> None:
        """A command."""
        left_ns = act_at_ns - self.clock.estimate_ns()
        due_ns = time.monotonic_ns() + left_ns
        enough_ns = 0 if self.plain else SETTLED_NS
        if left_ns < enough_ns or not (self.plain or in_time):
            self.late += 1
            print(f"move {what['number']} comes {-left_ns / 1e6:.1f} ms after its instant", flush=True)
            if not self.plain:
                self.machine.withdraw()
                return
        if self.mode == Mode.COORDINATED:
            self.pending = what | {"due_ns": due_ns, "agreed": self.plain}

    def act(self) -> None:
        move = self.pending
        if move is None:
            return
        peer = self.post.states.get(self.peer)
        if not self.plain and peer:
            if peer["number"] == move["number"]:
                self.seen = move["number"]
            both = self.seen == peer["seen"] == move["number"]
            move["agreed"] = move["agreed"] or both
        left_ns = move["due_ns"] - time.monotonic_ns()
        if not move["agreed"]:
            if left_ns < SETTLED_NS:
                print(f"move {move['number']} was not agreed on", flush=True)
                self.pending = None
                self.machine.withdraw()
            return
        if left_ns > 0:
            return
        goal = [move["x"], Y_M[self.side], move["z"]]
        self.arm.write_floats(COMMAND, [*goal, move["seconds"], float(move["close"]), float(move["number"])])
        print(f"move {move['number']} begins {-left_ns} ns after its instant", flush=True)
        self.ends_ns = time.monotonic_ns() + round(move["seconds"] * 1e9) + 50_000_000
        self.number, self.pending = move["number"], None

    def tell(self) -> None:
        """Says how it is: to the others at each change and beat, on the arm's panel at each change."""
        shown = [float(self.mode), float(self.late), float(self.post.unproved)]
        if shown != self.shown:
            if self.shown is None or shown[0] != self.shown[0]:
                print(f"{self.mode.name.lower()}: {'plain' if self.plain else self.machine.reason}", flush=True)
            self.arm.write_floats(PANEL, shown)
            self.shown = shown
        number = self.pending["number"] if self.pending else self.number
        state = {"mode": self.mode, "done": self.done, "number": number, "seen": self.seen}
        if state != self.said or time.monotonic() >= self.said_s:
            self.said, self.said_s = state, time.monotonic() + BEAT_S
            self.post.say(self.side, state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("--planner", required=True)
    parser.add_argument("--arm", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    post = Post(given.side, [given.planner, given.peer], given.plain)
    controller = Controller(given.side, post, Client(given.arm), given.plain)
    while True:
        controller.turn()


if __name__ == "__main__":
    main()
