"""A HELICS federate with a time limit: federates that exceed it are named.

HELICS itself waits for a federate that hangs without end, and 24 s for one that has died. ``timeloom.helics`` (the
federation as a plant) and ``timeloom.bridge_helics`` (the federation as the granter of a run) are built on this. Needs
the package ``helics``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import helics as h

from timeloom.plant import PlantError


class FederationError(PlantError):
    """The federation refused, failed, or exceeded the time limit."""


@dataclass(frozen=True)
class Crossing:
    """A value that is exchanged, as configured."""

    key: str
    unit: str
    initial: float


class Federate:
    """A federate whose time advances only on request.

    Args:
        config: ``name``, ``core_type`` and ``core_init`` as in HELICS, ``patience_s``.
        subscribed, published: exchanged values, by the caller's names.
    """

    def __init__(
        self, config: Mapping[str, Any], subscribed: Mapping[str, Crossing], published: Mapping[str, Crossing]
    ):
        self._patience_s = number(config, "patience_s", 5.0)
        self._federate = _create(config)
        self._subscriptions = {}
        self._publications = {}
        self._others: set[str] = set()
        for name, what in subscribed.items():
            handle = h.helicsFederateRegisterSubscription(self._federate, what.key, what.unit)
            h.helicsInputSetDefaultDouble(handle, what.initial)
            self._subscriptions[name] = handle
        for name, what in published.items():
            self._publications[name] = h.helicsFederateRegisterGlobalPublication(
                self._federate, what.key, h.HELICS_DATA_TYPE_DOUBLE, what.unit
            )

    def begin(self) -> None:
        """Wait until all federates are present."""
        h.helicsFederateEnterExecutingModeAsync(self._federate)
        self._wait("begin", lambda: h.helicsFederateEnterExecutingModeComplete(self._federate))
        #: A federate that dies is unknown afterwards.
        self._others = set(self._ask("global_state")) - {h.helicsFederateGetName(self._federate)}

    def reach(self, to_ns: int) -> None:
        """Wait until the federation grants this time.

        Raises:
            FederationError: not within the patience, with the federates that are behind; or all others have ended.
        """
        end_s = to_ns * 1e-9
        h.helicsFederateRequestTimeAsync(self._federate, end_s)
        granted_s = self._wait(f"reach {end_s:.9f} s", lambda: h.helicsFederateRequestTimeComplete(self._federate))
        if granted_s >= h.HELICS_TIME_MAXTIME:
            raise FederationError(f"the federation has ended before {end_s:.9f} s")

    def read(self, name: str) -> float:
        value: float = h.helicsInputGetDouble(self._subscriptions[name])
        return value

    def has(self, name: str) -> bool:
        """Returns true if the value was published; until then it has its initial value."""
        return (
            bool(h.helicsInputIsValid(self._subscriptions[name]))
            and h.helicsInputLastUpdateTime(self._subscriptions[name]) >= 0
        )

    def publish(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            h.helicsPublicationPublishDouble(self._publications[name], value)

    def close(self) -> None:
        """Leave. Waits for no longer than the patience: a broker that has gone does not answer."""
        h.helicsFederateDisconnectAsync(self._federate)
        with contextlib.suppress(FederationError):
            self._wait("let go", lambda: h.helicsFederateDisconnectComplete(self._federate))
        h.helicsFederateFree(self._federate)
        h.helicsCloseLibrary()

    def _wait(self, what: str, complete: Any) -> Any:
        """The result of a request to the federation."""
        due = time.monotonic() + self._patience_s
        pause_s = 20e-6
        while not h.helicsFederateIsAsyncOperationCompleted(self._federate):
            if time.monotonic() > due:
                behind = self._behind()
                # Otherwise the library waits on, also at the end of this process.
                h.helicsCoreDisconnect(h.helicsFederateGetCore(self._federate))
                raise FederationError(f"the federation did not {what} within {self._patience_s} s; {behind}")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.002)
        try:
            return complete()
        except h.HelicsException as error:
            raise FederationError(f"the federation did not {what}: {error}; {self._behind()}") from error

    def _ask(self, what: str) -> dict[str, dict[str, Any]]:
        """The broker's state of each federate."""
        core = h.helicsFederateGetCore(self._federate)
        return _federates(h.helicsQueryCoreExecute(h.helicsCreateQuery("root", what), core))

    def _behind(self) -> str:
        """The federates that delay the others, as far as the broker knows."""
        states, times = self._ask("global_state"), self._ask("global_time")
        return _told(self._others, states, times, h.helicsFederateGetName(self._federate))


def _federates(answer: Any) -> dict[str, dict[str, Any]]:
    """The federates of a broker's answer, at any level of its tree, by name."""
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


def _told(known: set[str], states: dict[str, dict[str, Any]], times: dict[str, dict[str, Any]], me: str) -> str:
    present = sorted((set(states) | set(times)) - {me})
    told = [f"{name} (gone)" for name in sorted(known - set(present))]
    granted = {name: times.get(name, {}).get("granted_time", 0.0) for name in present}
    least = min(granted.values(), default=0.0)
    for name in present:
        if granted[name] <= least:
            told.append(f"{name} ({states.get(name, {}).get('state', 'unknown')}, at {granted[name]} s)")
    return f"behind: {', '.join(told)}" if told else "no other federate is known"


def _create(config: Mapping[str, Any]) -> Any:
    info = h.helicsCreateFederateInfo()
    h.helicsFederateInfoSetCoreTypeFromString(info, str(config.get("core_type", "zmq")))
    h.helicsFederateInfoSetCoreInitString(info, str(config.get("core_init", "--federates=1")))
    h.helicsFederateInfoSetTimeProperty(info, h.HELICS_PROPERTY_TIME_DELTA, 1e-9)
    h.helicsFederateInfoSetFlagOption(info, h.HELICS_FLAG_UNINTERRUPTIBLE, True)
    try:
        return h.helicsCreateValueFederate(str(config.get("name", "timeloom")), info)
    except h.HelicsException as error:
        raise FederationError(f"joining the federation: {error}") from error


def crossings(config: Mapping[str, Any], table: str, units: Mapping[str, str] | None = None) -> dict[str, Crossing]:
    """The exchanged values of a configuration's table, by signal. The default of a unit is that of
    ``units``."""
    given = config.get(table, {})
    if not isinstance(given, dict):
        raise PlantError(f"config.{table} must be an object of signals")
    found = {}
    for signal, what in given.items():
        if not isinstance(what, dict) or not isinstance(what.get("key"), str):
            raise PlantError(f"config.{table} must say the key of this signal", signal)
        unit = what.get("unit", (units or {}).get(signal, ""))
        if not isinstance(unit, str):
            raise PlantError("a unit is a text", signal)
        found[signal] = Crossing(what["key"], unit, number(what, "initial", 0.0))
    return found


def number(table: Mapping[str, Any], key: str, default: float) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PlantError(f"{key} must be a number")
    return float(value)
