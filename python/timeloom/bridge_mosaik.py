"""A run as a simulator of mosaik: a co-simulation grants its time, and values are exchanged at each step.

A world starts it by ``timeloom bridge mosaik %(addr)s`` (or ``python -m timeloom.bridge_mosaik %(addr)s``); it needs
the package ``mosaik-api-v3``. The scenario is stepped and has a plant ``timeloom.exchange`` (``timeloom.bridge``)::

    world = mosaik.World({"Timeloom": {"cmd": "timeloom bridge mosaik %(addr)s"}, "Grid": …})
    run = world.start("Timeloom", exchange="grid", session="case", step_s=0.1).Run()
    world.connect(grid, run, ("v680", "bus.680.v1"))
    world.connect(run, grid, ("storage.kw", "p"), time_shifted=True, initial_data={"storage.kw": 0.0})

There is one model, ``Run``, whose attributes are the signals of the exchange. A step passes the run its inputs from
others, lets it run to the end of the step, and then provides its outputs. ``step_s`` must be a whole number of the
world's ``time_resolution``. An input with two sources is refused: their sum has no meaning here.

Parameters: ``exchange``, ``step_s``; ``session`` may be left out when only one runs; ``patience_s`` (60) is
mosaik's time limit between two requests. After that the bridge ends with status 1, and lists the simulators that the
run was connected with: one of them has not answered. The run is paused meanwhile, and ends after its own patience.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import Any

import mosaik_api_v3

from timeloom.bridge import Testbed
from timeloom.control import Refused, SessionEnded
from timeloom.exchange import ExchangeError

_META = {
    "api_version": "3.0",
    "type": "time-based",
    "models": {"Run": {"public": True, "params": [], "attrs": []}},
}
_ENTITY = "run"


class Patience:
    """Ends this process when no request comes for too long."""

    def __init__(self, patience_s: float):
        self._patience_s = patience_s
        self._lock = threading.Lock()
        #: Deadline of the next request; none while the run itself is at work.
        self._due: float | None = time.monotonic() + patience_s
        self.others: list[str] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def __enter__(self) -> None:
        with self._lock:
            self._due = None

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._due = time.monotonic() + self._patience_s

    def _watch(self) -> None:
        while True:
            time.sleep(self._patience_s / 20)
            with self._lock:
                over = self._due is not None and time.monotonic() > self._due
            if over:
                others = ", ".join(self.others) or "no simulator"
                print(
                    f"timeloom bridge mosaik: mosaik has sent no request for {self._patience_s} s; "
                    f"the run is connected with: {others}",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(1)


class TestbedSimulator(mosaik_api_v3.Simulator):
    """The run as a simulator of mosaik."""

    #: pytest must not collect it as a test.
    __test__ = False

    def __init__(self) -> None:
        super().__init__(_META)
        self._run: Testbed | None = None

    def init(
        self,
        sid: str,
        time_resolution: float = 1.0,
        *,
        exchange: str,
        step_s: float,
        session: str | None = None,
        patience_s: float = 60.0,
    ) -> Any:
        steps = step_s / time_resolution
        self._step = round(steps)
        if self._step < 1 or abs(steps - self._step) > 1e-9 * steps:
            raise ValueError(f"step_s = {step_s} is no whole number of the world's time_resolution ({time_resolution})")
        self._resolution_ns = time_resolution * 1e9
        self._run = Testbed(session, exchange)
        self.meta["models"]["Run"]["attrs"] = [*self._run.inputs, *self._run.outputs]
        self._patience = Patience(patience_s)
        return self.meta

    def create(self, num: int, model: str, **_: Any) -> Any:
        if num != 1:
            raise ValueError("there is one run")
        return [{"eid": _ENTITY, "type": model}]

    def setup_done(self) -> Any:
        # The package requires a generator, whose yields are awaited.
        with self._patience:
            related = yield self.mosaik.get_related_entities()
        names = {name.split(".")[0] for name in related["nodes"]}
        self._patience.others = sorted(names - {self.sid_of(related)})

    def sid_of(self, related: Any) -> str:
        """The name of this simulator in mosaik."""
        own = [name for name, node in related["nodes"].items() if node.get("type") == "Run"]
        return own[0].split(".")[0] if own else ""

    def step(self, time: int, inputs: Any, max_advance: int) -> int:
        assert self._run is not None
        with self._patience:
            given = {}
            for name, sources in inputs.get(_ENTITY, {}).items():
                if len(sources) != 1:
                    raise ValueError(f"{name} has several sources: {', '.join(sorted(sources))}")
                given[name] = float(next(iter(sources.values())))
            self._run.units(inputs=given)
            self._run.give(given)
            end = time + self._step
            if self._run.ended:
                raise ValueError(f"the run has ended at {self._run.now_ns * 1e-9:.9f} s, and mosaik goes on")
            self._run.grant_ns(round(end * self._resolution_ns))
            return end

    def get_data(self, outputs: Any) -> Any:
        assert self._run is not None
        with self._patience:
            return {entity: self._run.read(names) for entity, names in outputs.items()}

    def finalize(self) -> None:
        if self._run is not None:
            self._run.close()


def main(arguments: list[str]) -> int:
    host, colon, port = arguments[0].rpartition(":") if len(arguments) == 1 else ("", "", "")
    if not colon or not port.isdigit():
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        asyncio.run(mosaik_api_v3.run_as_client(TestbedSimulator(), host, int(port)))
    except (ExchangeError, Refused, SessionEnded, ValueError, OSError, EOFError) as error:
        print(f"timeloom bridge mosaik: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
