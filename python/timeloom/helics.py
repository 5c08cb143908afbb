"""A HELICS federation as a plant: this process is one federate of it, and its values are signals.

Start it with ``python -m timeloom.helics``; it needs the package ``helics``. Configuration (``init.config``)::

    {
      "name": "timeloom",                      # of the federate
      "core_type": "tcp_ss",                   # as in HELICS; default "zmq"
      "core_init": "--federates=1 --broker=10.0.0.9",
      "subscribe": {"bus.680.v1": {"key": "grid/v680", "unit": "V", "initial": 2400.0}},
      "publish": {"storage.kw": {"key": "plc/storage", "unit": "kW", "initial": 0.0}},
      "patience_s": 5.0                        # time limit for the others, for one grant and at the start
    }

Subscribed values are signals that a scenario reads, published ones signals that it writes. The federation's time is
the run's: the engine asks the plant to advance to an instant, the plant asks the federation for that time, and the run
is paused until it is granted. No federate gets further than one step beyond the run. A value is published with the
next step.

A federate that delays it for longer than ``patience_s`` ends the run, and is named (``timeloom.federate``). For a
federation that grants the run its time instead, see ``timeloom.bridge_helics``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from timeloom.federate import Federate, crossings
from timeloom.plant import Plant, serve


class Federation(Plant):
    """One federate."""

    name = "helics"

    def setup(self, config: dict[str, Any]) -> None:
        self._subscribed = crossings(config, "subscribe")
        self._published = crossings(config, "publish")
        self._federate = Federate(config, self._subscribed, self._published)
        for signal, what in self._subscribed.items():
            self.signal(signal, what.unit)
        for signal, what in self._published.items():
            self.signal(signal, what.unit, what.initial, writable=True)
        self._federate.begin()
        self._federate.publish({signal: self[signal] for signal in self._published})

    def step(self, t_ns: int, dt_ns: int) -> None:
        self._federate.reach(t_ns + dt_ns)

    def read(self, names: Sequence[str]) -> list[float]:
        return [self._federate.read(name) if name in self._subscribed else self[name] for name in names]

    def write(self, values: Mapping[str, float]) -> None:
        super().write(values)
        self._federate.publish(values)

    def close(self) -> None:
        self._federate.close()


if __name__ == "__main__":
    serve(Federation())
