"""Set points of an OpenDSS model: the settable values of an element, and their present values.

A set point is read from the model, not from the value written last: a relay, a controller or the
model's own commands may have changed it since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import isclose
from typing import Any

from dss import DSS

from timeloom.plant import PlantError

PROPERTIES = {
    "load": ("kw", "kW"),
    "generator": ("kw", "kW"),
    "storage": ("kw", "kW"),
    "pvsystem": ("irradiance", "kW/m2"),
    "vsource": ("pu", "pu"),
}
"""Set point of each class: its property and unit."""

KINDS = {*PROPERTIES, "line", "capacitor", "transformer"}
"""Classes that have set points."""


@dataclass(frozen=True)
class SetPoint:
    """One settable value of an element."""

    what: str
    """Last part of the signal's name."""
    unit: str
    read: Callable[[], float]
    """Returns the model's present value."""
    write: Callable[[float], None]


def set_points(circuit: Any, element: str, kind: str) -> Iterator[SetPoint]:
    """Returns the set points of ``element``, which is of the class ``kind``."""
    if kind in PROPERTIES:
        what, unit = PROPERTIES[kind]
        read, write = _exact(partial(number, element, what), _property(circuit, element, kind, what))
        yield SetPoint(what, unit, read, write)
    elif kind == "line":
        yield SetPoint("closed", "1", partial(_is_closed, circuit, element), partial(_switch, element))
    elif kind == "capacitor":
        yield SetPoint("steps", "1", partial(_steps, element), partial(_set_steps, element))
    elif kind == "transformer":
        for winding in range(1, len(_list(element, "taps")) + 1):
            yield SetPoint(f"tap{winding}", "pu", partial(_tap, element, winding), partial(_set_tap, element, winding))


def number(element: str, what: str) -> float:
    """Present value of a property of the model."""
    DSS.Text.Command = f"? {element}.{what}"
    return float(DSS.Text.Result)


def _exact(
    read: Callable[[], float], write: Callable[[float], None]
) -> tuple[Callable[[], float], Callable[[float], None]]:
    """Reads and writes a property without loss. The model prints 15 digits of a number that it
    holds in full; if they match the last value written, that value is returned."""
    last: list[float] = []

    def write_and_keep(value: float) -> None:
        write(value)
        last[:] = [value]

    def read_in_full() -> float:
        shown = read()
        return next((value for value in last if isclose(value, shown, rel_tol=1e-14)), shown)

    return read_in_full, write_and_keep


def _list(element: str, what: str) -> list[float]:
    DSS.Text.Command = f"? {element}.{what}"
    return [float(part) for part in DSS.Text.Result.strip("[] ").replace(",", " ").split()]


def _property(circuit: Any, element: str, kind: str, what: str) -> Callable[[float], None]:
    # The typed interfaces avoid the parser: profiles set these at every step.
    short = element.partition(".")[2]
    typed = {"load": circuit.Loads, "generator": circuit.Generators}.get(kind)
    if typed is not None:

        def set_kw(value: float) -> None:
            typed.Name = short
            typed.kW = value

        return set_kw

    def edit(value: float) -> None:
        DSS.Text.Command = f"edit {element} {what}={value!r}"

    return edit


def _is_closed(circuit: Any, element: str) -> float:
    circuit.SetActiveElement(element)
    cell = circuit.ActiveCktElement
    # Phase 0 checks all phases.
    return 0.0 if any(cell.IsOpen(terminal, 0) for terminal in (1, 2)) else 1.0


def _switch(element: str, value: float) -> None:
    verb = "close" if value >= 0.5 else "open"
    for terminal in (1, 2):
        DSS.Text.Command = f"{verb} {element} {terminal}"


def _steps(element: str) -> float:
    return sum(_list(element, "states"))


def _set_steps(element: str, value: float) -> None:
    count, most = round(value), len(_list(element, "states"))
    if not 0 <= count <= most:
        raise PlantError(f"{element} has {most} steps: {value} of them cannot be on")
    DSS.Text.Command = f"edit {element} states=[{' '.join(['1'] * count + ['0'] * (most - count))}]"


def _tap(element: str, winding: int) -> float:
    return _list(element, "taps")[winding - 1]


def _set_tap(element: str, winding: int, value: float) -> None:
    DSS.Text.Command = f"edit {element} wdg={winding} tap={value!r}"
