"""Shared parts of the tests: paths, example plants, the closed loop without any network."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from timeloom.client import PlantProcess
from timeloom.plant import Plant, PlantError, Session, serve
from timeloom.wire import PROTOCOL

PYTHON = Path(__file__).resolve().parents[1]
ROOT = PYTHON.parent
CASE = ROOT / "examples" / "ieee13"
MS = 1_000_000
SECOND = 1_000 * MS
_PORTS = iter(range(20_000, 30_000))

CASE_CONFIG = {
    "directory": str(CASE),
    "model": "modified.dss",
    "profiles": {
        "generator.wind.kw": "wind.csv",
        "load.692.kw": "load_692.csv",
        "load.652.kw": "load_652.csv",
        "load.611.kw": "load_611.csv",
    },
}
METER = [f"generator.wind.s{phase}" for phase in (1, 2, 3)] + ["load.692.kw", "load.652.kw", "load.611.kw"]
SET_POINTS = [f"storage.{phase}.kw" for phase in (1, 2, 3)]


def own_address() -> str:
    """A loopback address for a program that must be configured where to listen: this process is its
    host, so it is not taken by others.

    (A port that was free a moment ago may be taken by now.)
    """
    _, *host = os.getpid().to_bytes(4, "big")
    return "127.%d.%d.%d:%d" % (64 | host[0], *host[1:], next(_PORTS))


class Tank(Plant):
    """Fills at the rate of its inflow; its faults are there to be tested."""

    name = "tank"

    def setup(self, config: dict[str, Any]) -> None:
        self.signal("level", "m", config.get("level_m", 1.0))
        self.signal("inflow", "m/s", 0.0, writable=True)
        self.signal("steps", "1")
        self.signal("chance", "1", self.rng.random())

    def step(self, t_ns: int, dt_ns: int) -> None:
        if self["inflow"] == 666:
            os._exit(42)  # a solver that dies
        if self["inflow"] == 667:
            raise PlantError("the tank bursts")
        if self["inflow"] == 668:
            raise RuntimeError("a bug")
        self["level"] += self["inflow"] * dt_ns * 1e-9
        self["steps"] += 1


def tank_process(**env: str) -> PlantProcess:
    path = os.pathsep.join([str(PYTHON), str(PYTHON / "tests")])
    return PlantProcess([sys.executable, __file__], {"PYTHONPATH": path, **env})


def opendss_process() -> PlantProcess:
    return PlantProcess([sys.executable, "-m", "timeloom.opendss"], {"PYTHONPATH": str(PYTHON)})


class Here:
    """A plant in this process, addressed by protocol messages but without a socket."""

    def __init__(self, plant: Plant, **init: Any):
        self.session = Session(plant)
        self.init = self.ask("init", **{"protocol": PROTOCOL, "step_ns": 10 * MS, **init})

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        line, _ = self.session.handle({"id": 1, "op": op, **arguments})
        reply = json.loads(line)
        assert "ok" in reply, reply
        return reply["ok"]

    def read(self, names: list[str]) -> list[float]:
        return self.ask("read", signals=names)["values"]


def timeloom_binary() -> str:
    """The program built last, by ``make test`` or ``make build``, or the path in
    TIMELOOM_BINARY."""
    named = os.environ.get("TIMELOOM_BINARY")
    made = [Path(named)] if named else [ROOT / "target" / kind / "timeloom" for kind in ("debug", "release")]
    found = [path for path in made if path.exists()]
    assert found, f"none of these exists; `make build` makes one: {made}"
    return str(max(found, key=lambda path: path.stat().st_mtime))


def program(name: str) -> ModuleType:
    """An example's program as a module."""
    spec = importlib.util.spec_from_file_location(name, CASE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    serve(Tank())
