"""The plant: two six-joint arms at 1 kHz, and the long part that they carry together.

Each arm has a controller of its own on board, as the real ones have: told where to go and how long that may take, it
moves its tool along a straight line (minimum jerk), finds the joints for each millisecond, and its servos follow.
It knows no clock but its own period. A move begins at the instant at which its number, ``go``, is written.

The part is rigid. Both grippers hold it, so their ends must keep their distance and direction; what they disagree
by beyond that is ``error``. Past the tolerance the part slips, and is dropped. Nobody feels a force: nothing but time
keeps the arms together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ur5

from timeloom.plant import Plant, PlantError, serve

#: Positions of the arms, in the cell's metres; the part lies along y between them.
BASES = {"left": (0.0, -0.6, 0.0), "right": (0.0, 0.6, 0.0)}
#: Vector from the left gripper to the right one.
BETWEEN = (0.0, 0.8, 0.0)
#: Maximum time between the opening of both grippers; beyond it the part falls from one of them.
TOGETHER_NS = 20_000_000


class Arm:
    """One arm with what its own controller is doing."""

    def __init__(self, base: ur5.Vector, start: ur5.Vector, lag_s: float):
        self.base, self.lag_s = base, lag_s
        self.q = self._joints(start)
        self.end = self._end()
        self.line: tuple[ur5.Vector, ur5.Vector, int, int] | None = None
        self.aim = list(self.q)

    def _joints(self, at: ur5.Vector) -> list[float]:
        return ur5.joints(at[0] - self.base[0], at[1] - self.base[1], at[2] - self.base[2])

    def _end(self) -> ur5.Vector:
        x, y, z = ur5.tool(self.q)
        return (x + self.base[0], y + self.base[1], z + self.base[2])

    def go(self, goal: ur5.Vector, t_ns: int, length_ns: int) -> None:
        self._joints(goal)  # raises if the goal is out of reach
        self.line = (self.end, goal, t_ns, length_ns)

    def step(self, to_ns: int, dt_ns: int) -> None:
        if self.line is not None:
            begin, goal, t_ns, length_ns = self.line
            share = min(1.0, (to_ns - t_ns) / length_ns)
            # Minimum jerk: the motion begins and ends at rest.
            way = share**3 * (10.0 + share * (6.0 * share - 15.0))
            x, y, z = (b + way * (g - b) for b, g in zip(begin, goal, strict=True))
            self.aim = self._joints((x, y, z))
            if share == 1.0:
                self.line = None
        off = [math.remainder(aim - q, 2 * math.pi) for aim, q in zip(self.aim, self.q, strict=True)]
        if max(map(abs, off)) < 1e-12:
            return
        dt_s = dt_ns * 1e-9
        keep, most = 1.0 - math.exp(-dt_s / self.lag_s), ur5.JOINT_SPEED * dt_s
        self.q = [q + max(-most, min(most, keep * o)) for q, o in zip(self.q, off, strict=True)]
        self.end = self._end()


class Cell(Plant):
    """Two arms and a part."""

    name = "cell"

    def setup(self, config: dict[str, Any]) -> None:
        self.tolerance_m = float(config.get("tolerance_m", 0.0005))
        start = config.get("start", [0.2, 0.0, 0.35])
        lag_s = float(config.get("lag_s", 0.004))
        self.arms = {}
        for side, sign in (("left", -1.0), ("right", 1.0)):
            at = (start[0], sign * BETWEEN[1] / 2, start[2])
            self.arms[side] = arm = Arm(BASES[side], at, lag_s)
            for axis, value in zip("xyz", arm.end, strict=True):
                self.signal(f"{side}.{axis}", "m", value)
                self.signal(f"{side}.goal_{axis}", "m", value, writable=True)
            self.signal(f"{side}.seconds", "s", 1.0, writable=True)
            for word in ("close", "go", "mode", "late", "unproved"):
                self.signal(f"{side}.{word}", "1", 0.0, writable=True)
        self.signal("error", "m")
        self.signal("held", "1")
        self.signal("dropped", "1")
        self.signal("placed", "1")
        self.bucket_ns = -1
        self.let_go_ns: int | None = None

    def write(self, values: Mapping[str, float]) -> None:
        for side, arm in self.arms.items():
            if values.get(f"{side}.go", self[f"{side}.go"]) == self[f"{side}.go"]:
                continue
            x, y, z = (values.get(f"{side}.goal_{axis}", self[f"{side}.goal_{axis}"]) for axis in "xyz")
            seconds = values.get(f"{side}.seconds", self[f"{side}.seconds"])
            if not 0.01 <= seconds <= 60.0:
                raise PlantError("a move takes from 10 ms to a minute", f"{side}.seconds")
            try:
                arm.go((x, y, z), self.t_ns, round(seconds * 1e9))
            except ur5.OutOfReach as far:
                raise PlantError(str(far), f"{side}.goal_x") from None
        super().write(values)
        self._hold(self.t_ns)

    def step(self, t_ns: int, dt_ns: int) -> None:
        now_ns = t_ns + dt_ns
        for side, arm in self.arms.items():
            arm.step(now_ns, dt_ns)
            for axis, value in zip("xyz", arm.end, strict=True):
                self[f"{side}.{axis}"] = value
        left, right = self.arms["left"].end, self.arms["right"].end
        error = math.dist(BETWEEN, (right[0] - left[0], right[1] - left[1], right[2] - left[2]))
        # The record has the maximum of each ten milliseconds.
        bucket_ns = t_ns // 10_000_000
        self["error"] = max(error, self["error"]) if bucket_ns == self.bucket_ns else error
        self.bucket_ns = bucket_ns
        if self["held"] and error > self.tolerance_m:
            self._drop()
        self._hold(now_ns)

    def _hold(self, now_ns: int) -> None:
        """What the grippers make of the part."""
        closed = [self[f"{side}.close"] > 0.5 for side in self.arms]
        if not self["held"]:
            # A gripper that has dropped a part must open before there is another one.
            if all(closed) and self.let_go_ns is None:
                self["held"] = 1.0
            elif not any(closed):
                self.let_go_ns = None
        elif not any(closed):
            self["held"], self.let_go_ns = 0.0, None
            self["placed"] += 1.0
        elif not all(closed):
            self.let_go_ns = self.let_go_ns or now_ns
            if now_ns - self.let_go_ns > TOGETHER_NS:
                self._drop()

    def _drop(self) -> None:
        self["held"] = 0.0
        self["dropped"] += 1.0
        self.let_go_ns = self.let_go_ns or -1


if __name__ == "__main__":
    serve(Cell())
