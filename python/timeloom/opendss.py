"""Power grids: any OpenDSS model as a plant, by the DSS C-API (package ``dss-python``).

Start it with ``python -m timeloom.opendss``. Configuration (``init.config``)::

    {
      "model": "feeder.dss",            # compiled at the start
      "directory": "examples/ieee13",   # relative paths are taken from here (default: the working directory)
      "profiles": {                     # inputs that follow a file instead of being written
        "generator.wind.kw": {"csv": "wind.csv", "column": "kw", "interpolation": "linear"}
      },
      "commands": ["edit load.671 kw=900"],   # OpenDSS text after compiling, for variants
      "expose": ["bus.*", "storage.*"],       # which signals to offer (shell patterns; default all)
      "control_mode": "off"             # tap changers and the like: off, static, time, event
    }

The signals come from the names in the model, in lower case:

- ``bus.680.v1`` [V]: line-to-neutral magnitude at node (phase) 1 of bus 680;
- ``generator.wind.p1``, ``.q1``, ``.s1`` [kW, kvar, kVA]: measured at terminal 1 in the conductor
  on node 1; ``.p`` and ``.q`` are sums over the conductors. Loads and capacitors count their
  consumption, lines and transformers the flow into terminal 1, generators, storages and sources their output;
- ``storage.1.stored_kwh`` [kWh];
- set points: ``load.611.kw``, ``generator.wind.kw``, ``storage.1.kw`` (below zero charges) [kW],
  ``pvsystem.x.irradiance`` [kW/m2], ``vsource.x.pu`` [pu], ``line.x.closed`` [1 if all phases are
  closed at both ends, else 0], ``capacitor.x.steps`` [number switched on], ``transformer.x.tap2`` [pu]
  of its second winding. They are writable, except where a profile drives them. The value read is the
  model's: a relay, a tap changer or a dispatcher in the model changes it, too, and a storage
  that is empty or idle takes its idling losses (below zero);
- the same with ``_set`` at the end (``storage.1.kw_set``): the value written last, by either name or
  by a profile; before that, the model's initial value.

The solution is quasi-static: a power flow at the end of every step. It runs in the engine's *duty*
mode, because a snapshot never moves the energy of a storage, and the engine's clock then advances
by the step size of each solve and by nothing else. A write takes effect at the instant at which it
arrives: the flow is solved again with a step of zero before anything measured is read. The mode
``dynamics`` is not used: it can crash with an idle storage, and gives wrong results above 10 ms.

A bad model can still crash the process; that is why a plant is a process.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dss import DSS, DSSException

from timeloom.opendss_set_points import KINDS, SetPoint, number, set_points
from timeloom.plant import Plant, PlantError, serve
from timeloom.profiles import Profile, read_profile

MEASURED = {
    "load": 1,
    "generator": -1,
    "storage": -1,
    "pvsystem": -1,
    "vsource": -1,
    "line": 1,
    "transformer": 1,
    "capacitor": 1,
}
"""Classes with measured powers, and the sign that turns the engine's direction (into the element)
into the reader's."""

WRITTEN = "_set"
"""What the name of a set point ends with that says what was written, not what the model has."""

CONTROL_MODES = ("off", "static", "time", "event")
NS_PER_S = 1_000_000_000


class OpenDss(Plant):
    """An OpenDSS model as a plant; see the module for the configuration."""

    name = "opendss"

    def setup(self, config: dict[str, Any]) -> None:
        options = dict(config)
        directory = Path(_text(options.pop("directory", "."), "directory"))
        model = directory / _text(options.pop("model", None), "model")
        profiles = options.pop("profiles", {})
        commands = _texts(options.pop("commands", []), "commands")
        self._patterns = _texts(options.pop("expose", ["*"]), "expose")
        control_mode = options.pop("control_mode", "off")
        if control_mode not in CONTROL_MODES:
            raise PlantError(f"control_mode is one of {', '.join(CONTROL_MODES)}")
        if not isinstance(profiles, dict):
            raise PlantError("profiles must be an object of set points and files")
        if options:
            raise PlantError(f"unknown configuration key {next(iter(options))!r}")

        self._compile(model, commands, control_mode)
        self._profiles = {name: _profile(directory, name, entry) for name, entry in profiles.items()}
        self._declare()
        for name in self._profiles:
            if name not in self._setters:
                raise PlantError("a profile drives something that is not a set point of the model", name)
        self._apply_profiles(self.t_ns)
        self._solve(0)

    def step(self, t_ns: int, dt_ns: int) -> None:
        self._apply_profiles(t_ns + dt_ns)
        self._solve(dt_ns)

    def read(self, names: Sequence[str]) -> list[float]:
        if self._stale:
            self._solve(0)
        return [self._readers[name]() for name in names]

    def write(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._set(name.removesuffix(WRITTEN), value)

    def _compile(self, model: Path, commands: list[str], control_mode: str) -> None:
        if not model.is_file():
            raise PlantError(f"there is no model file {model}")
        DSS.AllowForms = False
        DSS.AllowEditor = False
        DSS.AllowChangeDir = False  # compiling would otherwise move this process to the model's folder
        try:
            DSS.ClearAll()
            DSS.Text.Command = f'compile "{model.resolve()}"'
            for command in commands:
                DSS.Text.Command = command
            # The mode resets the clock, so it comes before the start time.
            DSS.Text.Command = f"set mode=duty number=1 stepsize=0 controlmode={control_mode}"
            seconds, rest_ns = divmod(self.t_ns, NS_PER_S)
            DSS.Text.Command = f"set hour={seconds // 3600} sec={seconds % 3600 + rest_ns / NS_PER_S!r}"
        except DSSException as error:
            raise PlantError(f"the model does not compile: {_reason(error)}") from None
        self._circuit = DSS.ActiveCircuit
        self._solution = self._circuit.Solution

    def _declare(self) -> None:
        self._readers: dict[str, Callable[[], float]] = {}
        self._setters: dict[str, Callable[[float], None]] = {}
        self._written: dict[str, float] = {}
        self._powers: dict[str, Any] = {}
        self._voltages_v: Any = None
        for index, node in enumerate(self._circuit.AllNodeNames):
            bus, _, phase = node.lower().rpartition(".")
            self._offer(f"bus.{bus}.v{phase}", "V", partial(self._voltage, index))
        for element in self._circuit.AllElementNames:
            kind = element.partition(".")[0].lower()
            if kind in MEASURED:
                self._declare_element(element, kind)

    def _declare_element(self, element: str, kind: str) -> None:
        name = element.lower()
        active = self._circuit.SetActiveElement(element)
        if active < 0 or not self._circuit.ActiveCktElement.Enabled:
            return
        cell = self._circuit.ActiveCktElement
        conductors = cell.NumConductors
        nodes = [int(node) for node in cell.NodeOrder[:conductors]]
        sign = MEASURED[kind]
        # Powers alternate between kW and kvar, conductor by conductor, terminal 1 first.
        terminal_kw, terminal_kvar = slice(0, 2 * conductors, 2), slice(1, 2 * conductors, 2)
        self._offer(f"{name}.p", "kW", partial(self._power, element, terminal_kw, sign))
        self._offer(f"{name}.q", "kvar", partial(self._power, element, terminal_kvar, sign))
        for position, node in enumerate(nodes):
            if node == 0 or node in nodes[:position]:
                continue  # the neutral, or a second conductor on the same node
            kw, kvar = slice(2 * position, 2 * position + 1), slice(2 * position + 1, 2 * position + 2)
            self._offer(f"{name}.p{node}", "kW", partial(self._power, element, kw, sign))
            self._offer(f"{name}.q{node}", "kvar", partial(self._power, element, kvar, sign))
            self._offer(f"{name}.s{node}", "kVA", partial(self._apparent, element, kw, kvar))
        if kind == "storage":
            self._offer(f"{name}.stored_kwh", "kWh", partial(number, element, "kwhstored"))
        if kind in KINDS:
            for point in set_points(self._circuit, element, kind):
                self._declare_set_point(f"{name}.{point.what}", point)

    def _declare_set_point(self, name: str, point: SetPoint) -> None:
        writable = name not in self._profiles
        self._written[name] = point.read()
        offered = self._offer(name, point.unit, point.read, writable=writable)
        written = partial(self._written.__getitem__, name)
        if self._offer(f"{name}{WRITTEN}", point.unit, written, writable=writable):
            offered = True
        if offered:
            self._setters[name] = point.write

    def _offer(self, name: str, unit: str, reader: Callable[[], float], *, writable: bool = False) -> bool:
        if name not in self._profiles and not any(fnmatch.fnmatchcase(name, p) for p in self._patterns):
            return False
        self.signal(name, unit, writable=writable)
        self._readers[name] = reader
        return True

    def _set(self, name: str, value: float) -> None:
        try:
            self._setters[name](value)
        except DSSException as error:
            raise PlantError(f"the model refuses {value}: {_reason(error)}", name) from None
        except PlantError as error:
            raise PlantError(str(error), name) from None
        self._written[name] = value
        self._stale = True

    def _apply_profiles(self, t_ns: int) -> None:
        for name, profile in self._profiles.items():
            self._set(name, profile.at(t_ns))

    def _solve(self, dt_ns: int) -> None:
        try:
            self._solution.StepSize = dt_ns / NS_PER_S
            self._solution.Solve()
        except DSSException as error:
            raise PlantError(f"the power flow failed: {_reason(error)}") from None
        if not self._solution.Converged:
            raise PlantError(f"the power flow does not converge in {self._solution.Iterations} iterations")
        self._stale = False
        self._powers.clear()
        self._voltages_v = None

    def _voltage(self, index: int) -> float:
        if self._voltages_v is None:
            self._voltages_v = self._circuit.AllBusVmag
        return float(self._voltages_v[index])

    def _power(self, element: str, part: slice, sign: int) -> float:
        powers = self._powers.get(element)
        if powers is None:
            self._circuit.SetActiveElement(element)
            powers = self._powers[element] = self._circuit.ActiveCktElement.Powers
        return sign * float(powers[part].sum())

    def _apparent(self, element: str, kw: slice, kvar: slice) -> float:
        return math.hypot(self._power(element, kw, 1), self._power(element, kvar, 1))


def _profile(directory: Path, name: str, entry: object) -> Profile:
    if isinstance(entry, str):
        entry = {"csv": entry}
    if not isinstance(entry, dict) or not set(entry) <= {"csv", "column", "interpolation"}:
        raise PlantError("a profile is a file name or {csv, column, interpolation}", name)
    path = directory / _text(entry.get("csv"), "csv")
    column = _text(entry.get("column", name.rpartition(".")[2]), "column")
    return read_profile(path, column, entry.get("interpolation", "linear"))


def _text(value: object, key: str) -> str:
    if not isinstance(value, str) or not value or "\n" in value or '"' in value:
        raise PlantError(f"{key} must be a text of one line without double quotes")
    return value


def _texts(value: object, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(line, str) and "\n" not in line for line in value):
        raise PlantError(f"{key} must be a list of texts of one line")
    return value


def _reason(error: DSSException) -> str:
    return " ".join(str(part) for part in error.args)


if __name__ == "__main__":
    serve(OpenDss())
