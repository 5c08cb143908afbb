"""A HELICS federation as a plant: this process is one federate of it, and its values are signals.

Start it with ``python -m timeloom.helics``; it needs the package ``helics``. Configuration (``init.config``)::

    {
      "name": "timeloom",                      # of the federate
      "core_type": "tcp_ss",                   # as in HELICS; default "zmq"
      "core_init": "--federates=1 --broker=10.0.0.9",
      "subscribe": {"bus.680.v1": {"key": "grid/v680", "unit": "V", "initial": 2400.0}},
      "publish": {"storage.kw": {"key": "plc/storage", "unit": "kW", "initial": 0.0}},
      "patience_s": 5.0                        # how long the others may take, for one grant and at the start
    }

Subscribed values are signals that a scenario reads, published ones signals that it writes. The federation's time is
the run's: the engine asks the plant to come to an instant, the plant asks the federation for that time, and the run
stands until it is granted. No federate gets further than one step beyond the run. A published value leaves with the
next step.

HELICS itself waits for a federate that hangs without end, and 24 s for one that has died. Here it is
``patience_s``: then the run ends, and says which federates are behind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import helics as h

from timeloom.plant import Plant, PlantError, serve


@dataclass(frozen=True)
class _Exchanged:
    """A value that crosses, as configured."""

    key: str
    unit: str
    initial: float


class Federation(Plant):
    """One federate."""

    name = "helics"

    def setup(self, config: dict[str, Any]) -> None:
        self._patience_s = _number(config, "patience_s", 5.0)
        subscribed = _exchanged(config, "subscribe")
        published = _exchanged(config, "publish")
        self._federate = _create(config, self.step_ns)
        self._subscriptions = {}
        self._publications = {}
        self._others: set[str] = set()
        for signal, what in subscribed.items():
            handle = h.helicsFederateRegisterSubscription(self._federate, what.key, what.unit)
            h.helicsInputSetDefaultDouble(handle, what.initial)
            self._subscriptions[signal] = handle
            self.signal(signal, what.unit)
        for signal, what in published.items():
            handle = h.helicsFederateRegisterGlobalPublication(
                self._federate, what.key, h.HELICS_DATA_TYPE_DOUBLE, what.unit
            )
            self._publications[signal] = handle
            self.signal(signal, what.unit, what.initial, writable=True)
        self._begin()

    def _begin(self) -> None:
        h.helicsFederateEnterExecutingModeAsync(self._federate)
        self._wait("begin", lambda: h.helicsFederateEnterExecutingModeComplete(self._federate))
        #: One that dies is known no more.
        self._others = set(self._ask("global_state")) - {h.helicsFederateGetName(self._federate)}
        self._publish(self._publications)

    def step(self, t_ns: int, dt_ns: int) -> None:
        end_s = (t_ns + dt_ns) * 1e-9
        h.helicsFederateRequestTimeAsync(self._federate, end_s)
        granted_s = self._wait(
            f"reach {end_s:.9f} s", lambda: h.helicsFederateRequestTimeComplete(self._federate)
        )
        if granted_s >= h.HELICS_TIME_MAXTIME:
            raise PlantError(f"the federation has ended before {end_s:.9f} s")

    def read(self, names: Sequence[str]) -> list[float]:
        inputs = self._subscriptions
        return [h.helicsInputGetDouble(inputs[name]) if name in inputs else self[name] for name in names]

    def write(self, values: Mapping[str, float]) -> None:
        super().write(values)
        self._publish(values)

    def _publish(self, names: Any) -> None:
        for name in names:
            h.helicsPublicationPublishDouble(self._publications[name], self[name])

    def close(self) -> None:
        h.helicsFederateDisconnect(self._federate)
        h.helicsFederateFree(self._federate)
        h.helicsCloseLibrary()

    def _wait(self, what: str, complete: Any) -> Any:
        """The outcome of what was asked of the federation."""
        due = time.monotonic() + self._patience_s
        pause_s = 20e-6
        while not h.helicsFederateIsAsyncOperationCompleted(self._federate):
            if time.monotonic() > due:
                behind = self._behind()
                # Else the library waits on, also at the end of this process.
                h.helicsCoreDisconnect(h.helicsFederateGetCore(self._federate))
                raise PlantError(f"the federation did not {what} within {self._patience_s} s; {behind}")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.002)
        try:
            return complete()
        except h.HelicsException as error:
            raise PlantError(f"the federation did not {what}: {error}; {self._behind()}") from error

    def _ask(self, what: str) -> dict[str, dict[str, Any]]:
        """What the broker knows of each federate."""
        core = h.helicsFederateGetCore(self._federate)
        return _federates(h.helicsQueryCoreExecute(h.helicsCreateQuery("root", what), core))

    def _behind(self) -> str:
        """Who keeps the others waiting, as far as the broker knows."""
        states, times = self._ask("global_state"), self._ask("global_time")
        return _told(self._others, states, times, h.helicsFederateGetName(self._federate))


def _federates(answer: Any) -> dict[str, dict[str, Any]]:
    """The federates of a broker's answer, wherever in its tree they stand, by name."""
    found: dict[str, dict[str, Any]] = {}
    if isinstance(answer, dict):
        for federate in answer.get("federates", []):
            name = federate.get("attributes", {}).get("name") or federate.get("name")
            if isinstance(name, str):
                found[name] = federate
        for part in answer.values():
            found |= _federates(part)
    elif isinstance(answer, list):
        for part in answer:
            found |= _federates(part)
    return found


def _told(
    known: set[str], states: dict[str, dict[str, Any]], times: dict[str, dict[str, Any]], me: str
) -> str:
    present = sorted((set(states) | set(times)) - {me})
    told = [f"{name} (gone)" for name in sorted(known - set(present))]
    granted = {name: times.get(name, {}).get("granted_time", 0.0) for name in present}
    least = min(granted.values(), default=0.0)
    for name in present:
        if granted[name] <= least:
            told.append(f"{name} ({states.get(name, {}).get('state', 'unknown')}, at {granted[name]} s)")
    return f"behind: {', '.join(told)}" if told else "no other federate is known"


def _create(config: dict[str, Any], step_ns: int) -> Any:
    info = h.helicsCreateFederateInfo()
    h.helicsFederateInfoSetCoreTypeFromString(info, str(config.get("core_type", "zmq")))
    h.helicsFederateInfoSetCoreInitString(info, str(config.get("core_init", "--federates=1")))
    # Its time stands exactly where the engine asks for.
    h.helicsFederateInfoSetTimeProperty(info, h.HELICS_PROPERTY_TIME_DELTA, 1e-9)
    h.helicsFederateInfoSetFlagOption(info, h.HELICS_FLAG_UNINTERRUPTIBLE, True)
    try:
        return h.helicsCreateValueFederate(str(config.get("name", "timeloom")), info)
    except h.HelicsException as error:
        raise PlantError(f"joining the federation: {error}") from error


def _exchanged(config: dict[str, Any], table: str) -> dict[str, _Exchanged]:
    given = config.get(table, {})
    if not isinstance(given, dict):
        raise PlantError(f"config.{table} must be an object of signals")
    exchanged = {}
    for signal, what in given.items():
        if not isinstance(what, dict) or not isinstance(what.get("key"), str):
            raise PlantError(f"config.{table} must say the key of this signal", signal)
        unit = what.get("unit", "")
        if not isinstance(unit, str):
            raise PlantError("a unit is a text", signal)
        exchanged[signal] = _Exchanged(what["key"], unit, _number(what, "initial", 0.0))
    return exchanged


def _number(table: dict[str, Any], key: str, default: float) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PlantError(f"{key} must be a number")
    return float(value)


if __name__ == "__main__":
    serve(Federation())
