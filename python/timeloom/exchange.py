"""Signals that a run and another simulator exchange while the run is paused.

The plant is the run's side: ``python -m timeloom.exchange`` holds the values, and devices, programs and checks of the
scenario read and write them as any plant's. It computes nothing. Configuration (``init.config``)::

    {
      "name": "grid",                                                  # name for the other simulator
      "inputs": {"bus.680.v1": {"unit": "V", "initial": 2400.0}},      # written by the simulator, read by the run
      "outputs": {"storage.kw": {"unit": "kW", "initial": 0.0}}        # written by the run, read by the simulator
    }

:class:`Exchanged` is the simulator's side. Its user decides when values change: ``timeloom.bridge`` changes
them between two grants, while no program of the run can read them.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from timeloom.control import is_own_directory, runtime_directory
from timeloom.plant import Plant, PlantError, Signal, serve
from timeloom.wire import BadLine, emit_line, is_number, parse_line, read_lines

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PATIENCE_S = 30.0


class ExchangeError(Exception):
    """The run's side is missing, or refused; the message has the reason."""


class Exchange(Plant):
    """The values, and the socket by which the other simulator accesses them."""

    name = "exchange"

    def setup(self, config: dict[str, Any]) -> None:
        for table, writable in (("inputs", False), ("outputs", True)):
            for signal, unit, initial in _table(config, table):
                self.signal(signal, unit, initial, writable=writable)
        # One access to the values at a time: the engine's is in one thread, the simulator's in
        # another.
        self._lock = threading.Lock()
        self._path = _path(config.get("name"))
        self._listener = _listen(self._path)
        threading.Thread(target=self._answer_all, daemon=True).start()

    def step(self, t_ns: int, dt_ns: int) -> None:
        """Time passes; values remain until they are changed."""

    def read(self, names: Sequence[str]) -> list[float]:
        with self._lock:
            return super().read(names)

    def write(self, values: Mapping[str, float]) -> None:
        with self._lock:
            super().write(values)

    def close(self) -> None:
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _answer_all(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            # One after the other: two simulators would alternate on one set of values.
            with connection, contextlib.suppress(OSError, BadLine):
                for line in read_lines(connection):
                    connection.sendall(self._answer(line))

    def _answer(self, line: bytes) -> bytes:
        request = parse_line(line)
        try:
            return emit_line({"id": request["id"], "ok": self._obey(request)})
        except PlantError as error:
            return emit_line({"id": request["id"], "error": str(error)})

    def _obey(self, request: dict[str, Any]) -> Any:
        match request.get("op"):
            case "signals":
                return [[s.name, s.unit, s.writable] for s in self.signals.values()]
            case "read":
                names = request.get("names")
                if not isinstance(names, list):
                    raise PlantError("names must be a list")
                return self.read([self._known(name).name for name in names])
            case "give":
                values = request.get("values")
                if not isinstance(values, dict):
                    raise PlantError("values must be an object")
                for name, value in values.items():
                    if self._known(name).writable:
                        raise PlantError(f"{name} is an output: the run writes it")
                    if not is_number(value):
                        raise PlantError(f"the value of {name} must be a number")
                self.write(values)
                return len(values)
            case other:
                raise PlantError(f"there is no request {other!r}")

    def _known(self, name: object) -> Signal:
        if not isinstance(name, str) or name not in self.signals:
            raise PlantError(f"there is no signal {name!r}")
        return self.signals[name]


class Exchanged:
    """The simulator's side.

    Args:
        name: as configured for the plant.
        wait_s: time limit for the plant to be present.

    Raises:
        ExchangeError: it is not present in time.
    """

    def __init__(self, name: str, wait_s: float = 10.0):
        try:
            path = _path(name)
        except PlantError as error:
            raise ExchangeError(str(error)) from None
        deadline = time.monotonic() + wait_s
        while (connection := _try_connect(path)) is None:
            if time.monotonic() > deadline:
                raise ExchangeError(f"no run exchanges signals as {name!r} (a plant `timeloom.exchange` of this name)")
            time.sleep(0.02)
        self._connection = connection
        self._lines = read_lines(connection)
        self._number = 0
        found = [Signal(*entry) for entry in self._ask("signals")]
        #: Signals given by the simulator, by name.
        self.inputs = {signal.name: signal for signal in found if not signal.writable}
        #: Signals given by the run, by name.
        self.outputs = {signal.name: signal for signal in found if signal.writable}

    def read(self, names: Sequence[str]) -> dict[str, float]:
        return dict(zip(names, self._ask("read", names=list(names)), strict=True))

    def give(self, values: Mapping[str, float]) -> None:
        """Writes all of them or none."""
        self._ask("give", values=dict(values))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Exchanged:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, op: str, **what: Any) -> Any:
        self._number += 1
        try:
            self._connection.sendall(emit_line({"id": self._number, "op": op, **what}))
            answer = parse_line(next(self._lines, b""))
        except (OSError, ValueError, BadLine) as error:
            raise ExchangeError(f"the run's side of the exchange does not answer: {error}") from None
        if "error" in answer:
            raise ExchangeError(answer["error"])
        return answer["ok"]


def _table(config: dict[str, Any], table: str) -> list[tuple[str, str, float]]:
    given = config.get(table, {})
    if not isinstance(given, dict):
        raise PlantError(f"config.{table} must be an object of signals")
    found = []
    for signal, what in given.items():
        unit, initial = (what.get("unit", ""), what.get("initial", 0.0)) if isinstance(what, dict) else (None, None)
        if not isinstance(unit, str) or not is_number(initial):
            raise PlantError(f"config.{table} must say the unit (a text) and the initial value of this signal", signal)
        found.append((signal, unit, float(initial)))
    return found


def _path(name: object) -> Path:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PlantError("config.name must be a name (letters, digits, `.`, `-`, `_`)")
    return runtime_directory() / f"{name}.exchange"


def _listen(path: Path) -> socket.socket:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_own_directory(path.parent):
        raise PlantError(f"{path.parent} must be a directory that belongs to you, and in which no other user may write")
    if (other := _try_connect(path)) is not None:
        other.close()
        raise PlantError(f"another run exchanges signals as {path.stem!r}")
    # Left by a run that was killed.
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.fspath(path))
    path.chmod(0o600)
    listener.listen()
    return listener


def _try_connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if not is_own_directory(path.parent):
            raise OSError("others may write there")
        connection.settimeout(_PATIENCE_S)
        connection.connect(os.fspath(path))
    except OSError:
        connection.close()
        return None
    return connection


if __name__ == "__main__":
    serve(Exchange())
