"""A run whose time and signals another simulator controls: granting of time, and exchange of
values.

The scenario has ``mode = "stepped"`` under ``[time]``, and a plant ``timeloom.exchange``. Between two grants the run
is paused, and values are exchanged; within a grant only the run itself changes values::

    with Testbed("case", "grid") as run:
        while not run.ended:
            run.give({"bus.680.v1": 2387.0})
            run.grant_ns(run.now_ns + 100_000_000)
            print(run.read(["storage.kw"]))

``timeloom.bridge_helics`` and ``timeloom.bridge_mosaik`` are two such simulators (``timeloom bridge``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from timeloom.control import Granter
from timeloom.exchange import Exchanged, ExchangeError


class Testbed:
    """A run as used by the simulator that grants its time.

    Args:
        session: of the run; may be left out when only one runs.
        exchange: the name that the plant ``timeloom.exchange`` is configured with.
        wait_s: time limit for both to be present.

    Raises:
        ExchangeError, SessionEnded: one was not present in time.
        Refused: the run's time is not granted, or another simulator grants it.
    """

    #: pytest must not collect it as a test.
    __test__ = False

    def __init__(self, session: str | None, exchange: str, wait_s: float = 60.0):
        self._values = Exchanged(exchange, wait_s)
        try:
            self._granter = Granter(session, wait_s)
        except BaseException:
            self._values.close()
            raise

    @property
    def now_ns(self) -> int:
        """Virtual nanoseconds since the run began; it is paused there."""
        return self._granter.standing.now_ns

    @property
    def ended(self) -> bool:
        return self._granter.standing.ended

    def units(self, inputs: Iterable[str] = (), outputs: Iterable[str] = ()) -> dict[str, str]:
        """Units of signals.

        Raises:
            ExchangeError: the run does not exchange a signal in this direction; lists those that it does.
        """
        found = {}
        for names, known, what in (
            (inputs, self._values.inputs, "input"),
            (outputs, self._values.outputs, "output"),
        ):
            for name in names:
                if name not in known:
                    there = ", ".join(sorted(known)) or "none"
                    raise ExchangeError(f"the run has no {what} {name!r}; there are: {there}")
                found[name] = known[name].unit
        return found

    @property
    def inputs(self) -> list[str]:
        """Signals given by the simulator."""
        return list(self._values.inputs)

    @property
    def outputs(self) -> list[str]:
        """Signals given by the run."""
        return list(self._values.outputs)

    def give(self, values: Mapping[str, float]) -> None:
        if values:
            self._values.give(values)

    def read(self, names: Sequence[str]) -> dict[str, float]:
        return self._values.read(names) if names else {}

    def grant_ns(self, until_ns: int) -> None:
        """Let the run continue until then, or to its end; returns when it is paused."""
        self._granter.grant_ns(until_ns)

    def close(self) -> None:
        self._granter.close()
        self._values.close()

    def __enter__(self) -> Testbed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
