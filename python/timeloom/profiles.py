"""Time series that drive inputs of a plant: read from CSV, looked up at an instant.

A profile holds its first value before its first point and its last value after its last.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path

from timeloom.plant import PlantError

LINEAR = "linear"
HOLD = "hold"


class Profile:
    """Points (instant, value) with increasing instants; ``linear`` between them or ``hold``."""

    def __init__(self, t_ns: list[int], values: list[float], interpolation: str = LINEAR):
        if interpolation not in (LINEAR, HOLD):
            raise PlantError(f"interpolation is {LINEAR!r} or {HOLD!r}, not {interpolation!r}")
        if not t_ns or len(t_ns) != len(values):
            raise PlantError("a profile needs at least one point")
        if any(later <= earlier for earlier, later in pairwise(t_ns)):
            raise PlantError("the instants of a profile must increase")
        self._t_ns, self._values, self._linear = t_ns, values, interpolation == LINEAR

    def at(self, t_ns: int) -> float:
        """The value at an instant of virtual time."""
        after = bisect_right(self._t_ns, t_ns)
        if after == 0:
            return self._values[0]
        if after == len(self._t_ns) or not self._linear:
            return self._values[after - 1]
        t0_ns, t1_ns = self._t_ns[after - 1], self._t_ns[after]
        v0, v1 = self._values[after - 1], self._values[after]
        return v0 + (v1 - v0) * ((t_ns - t0_ns) / (t1_ns - t0_ns))


def read_profile(path: Path, column: str, interpolation: str = LINEAR) -> Profile:
    """Read column ``column`` over column ``t_s`` (seconds since the start of the run).

    Lines that begin with ``#`` are comments. Raises :class:`PlantError` with file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlantError(f"cannot read profile {path}: {error}") from None
    t_ns: list[int] = []
    values: list[float] = []
    header: list[str] | None = None
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if not row or row[0].startswith("#"):
            continue
        if header is None:
            header = [cell.strip() for cell in row]
            for needed in ("t_s", column):
                if needed not in header:
                    raise PlantError(f"{path}:{number}: there is no column {needed!r}")
            continue
        try:
            t_s, value = float(row[header.index("t_s")]), float(row[header.index(column)])
        except (ValueError, IndexError):
            raise PlantError(f"{path}:{number}: a row needs numbers under t_s and {column}") from None
        if not (math.isfinite(t_s) and math.isfinite(value)):
            raise PlantError(f"{path}:{number}: not a finite number")
        t_ns.append(round(t_s * 1e9))
        values.append(value)
    try:
        return Profile(t_ns, values, interpolation)
    except PlantError as error:
        raise PlantError(f"{path}: {error}") from None
