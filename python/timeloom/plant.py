"""Base class and main loop of a plant: simulated physics in a child process of the engine.

The engine owns virtual time. It asks the plant to advance to an instant, reads and writes signals
there, and every program of the experiment is paused meanwhile; the real time that the solver takes
therefore has no effect. ``docs/plant-protocol.md`` describes the protocol.

A whole plant::

    from timeloom.plant import Plant, serve

    class Tank(Plant):
        name = "tank"

        def setup(self, config):
            self.signal("tank.level", "m", 1.0)
            self.signal("tank.inflow", "m3/s", 0.0, writable=True)
            self.area_m2 = config.get("area_m2", 2.0)

        def step(self, t_ns, dt_ns):
            outflow = 0.1 * self["tank.level"] ** 0.5
            self["tank.level"] += (self["tank.inflow"] - outflow) / self.area_m2 * dt_ns * 1e-9

    if __name__ == "__main__":
        serve(Tank())

Errors: raise :class:`PlantError` for anything the experiment's author can fix; it is sent back as a
reply and the plant continues. Any other exception is a bug: it is answered too, and then ends the
process, since the state of the model is no longer known.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from timeloom.wire import (
    LINE_LIMIT_BYTES,
    PROTOCOL,
    TIME_LIMIT_NS,
    BadLine,
    emit_line,
    is_integer,
    is_number,
    parse_line,
    read_lines,
)

FD_VARIABLE = "TIMELOOM_PLANT_FD"
"""Environment variable that holds the number of the inherited socket."""

EXIT_OK = 0
EXIT_BUG = 1
EXIT_BAD_PEER = 2


class PlantError(Exception):
    """A refusal that leaves the plant as it was; ``signal`` names the signal concerned, if there is
    one."""

    def __init__(self, message: str, signal: str | None = None):
        super().__init__(message)
        self.signal = signal


@dataclass(frozen=True)
class Signal:
    """One quantity of the plant. ``unit`` is an SI-style symbol (``V``, ``kW``, ``m3/s``)."""

    name: str
    unit: str
    writable: bool = False


class Plant:
    """Derive from this; override :meth:`setup` and :meth:`step`.

    Plants that keep their quantities elsewhere (in a solver) also override :meth:`read` and
    :meth:`write`. Within :meth:`setup` these are already set: ``t_ns`` (start of the run),
    ``step_ns``, ``rng`` (the only source of chance a plant should use).
    """

    name = "plant"

    def __init__(self) -> None:
        self.t_ns = 0
        self.step_ns = 1
        self.rng = random.Random(0)
        self.signals: dict[str, Signal] = {}
        self._values: dict[str, float] = {}

    # Methods that a plant overrides.

    def setup(self, config: dict[str, Any]) -> None:
        """Declare the signals and read the configuration. Called once, at the start of the run."""
        raise NotImplementedError

    def step(self, t_ns: int, dt_ns: int) -> None:
        """Move the state from ``t_ns`` to ``t_ns + dt_ns``; 0 < ``dt_ns`` <= ``step_ns``.

        The pieces are cut at multiples of ``step_ns``, at the instants that are recorded, and where
        the engine stops; a solver may therefore see pieces shorter than ``step_ns``.
        """
        raise NotImplementedError

    def read(self, names: Sequence[str]) -> list[float]:
        """Returns the values of declared signals at the present instant."""
        return [self._values[name] for name in names]

    def write(self, values: Mapping[str, float]) -> None:
        """Set declared, writable signals at the present instant; all of them or none."""
        self._values.update(values)

    def close(self) -> None:
        """Release the plant's resources. Called at the end of the run, not after a crash."""

    # Methods that a plant uses.

    def signal(self, name: str, unit: str, value: float = 0.0, *, writable: bool = False) -> None:
        """Declare a signal with its value at the start."""
        if name in self.signals:
            raise PlantError("two signals share this name", name)
        self.signals[name] = Signal(name, unit, writable)
        self._values[name] = value

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __setitem__(self, name: str, value: float) -> None:
        if name not in self._values:
            raise KeyError(name)  # a typing error must not silently create a new quantity
        self._values[name] = value


def serve(plant: Plant) -> None:
    """Serve ``plant`` on the inherited socket until told to stop; never returns."""
    # Ctrl-C reaches the whole process group. The engine decides when plants stop, and its death
    # closes the socket, so nothing is left behind by ignoring the signal here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    text = os.environ.get(FD_VARIABLE, "")
    try:
        connection = socket.socket(fileno=int(text))
        connection.set_inheritable(False)
    except (ValueError, OSError):
        print(
            f"{plant.name}: {FD_VARIABLE}={text!r} is not a connected socket; the engine starts plants",
            file=sys.stderr,
        )
        sys.exit(EXIT_BAD_PEER)
    sys.exit(serve_connection(plant, connection))


def serve_connection(plant: Plant, connection: socket.socket) -> int:
    """Serve ``plant`` on a connected stream socket; returns the exit code of the process."""
    session = Session(plant)
    try:
        for line in read_lines(connection):
            request = parse_line(line)
            reply, exit_code = session.handle(request)
            connection.sendall(reply)
            if exit_code is not None:
                break
        else:
            exit_code = EXIT_OK
    except BadLine as error:
        print(f"{plant.name}: {error}", file=sys.stderr)
        _try_send(connection, {"id": None, "error": {"message": str(error)}})
        return EXIT_BAD_PEER
    except (ConnectionError, BrokenPipeError):
        return EXIT_OK  # the engine is gone, which is equivalent to the end of the stream
    finally:
        connection.close()
    if session.ready and exit_code == EXIT_OK:
        plant.close()
    return exit_code


def _try_send(connection: socket.socket, message: dict[str, Any]) -> None:
    try:
        connection.sendall(emit_line(message))
    except OSError:
        pass


class Session:
    """The state machine of one connection: requests in, reply lines out; no sockets."""

    def __init__(self, plant: Plant):
        self._plant = plant
        self.ready = False
        self._record: list[str] = []
        self._record_every_ns = 0
        self._start_ns = 0
        self._start_recorded = False
        self._slowdown_ns = 0
        self._failure: str | None = None

    def handle(self, request: dict[str, Any]) -> tuple[bytes, int | None]:
        """The reply line, and the exit code if the process must end after sending it."""
        number = request["id"]
        exit_code: int | None = None
        try:
            ok, exit_code = self._dispatch(request)
            try:
                return emit_line({"id": number, "ok": ok}), exit_code
            except ValueError as error:
                raise PlantError(f"{error}; ask for fewer signals") from None
        except PlantError as error:
            answer: dict[str, Any] = {"message": str(error)[:4096]}
            if error.signal is not None:
                answer["signal"] = error.signal[:256]
        except Exception as error:  # noqa: BLE001 - a bug in the plant must reach the engine in words
            traceback.print_exc()
            answer = {"message": f"the plant failed: {type(error).__name__}: {error}"[:4096]}
            exit_code = EXIT_BUG
        if self.ready:
            # During an advance this is neither its start nor its planned end.
            answer["t_ns"] = self._plant.t_ns
        return emit_line({"id": number, "error": answer}), exit_code

    def _dispatch(self, request: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
        op = request.get("op")
        if op == "stop":
            return {}, EXIT_OK
        if op == "init":
            return self._init(request), None
        if op not in ("advance", "read", "write"):
            raise PlantError(f"unknown op {_shown(op)}; there are init, advance, read, write, stop")
        if not self.ready:
            raise PlantError("init comes first")
        if self._failure is not None:
            raise PlantError(f"the plant failed before: {self._failure}")
        if op == "advance":
            return self._advance(request), None
        if op == "read":
            return self._read(request), None
        return self._write(request), None

    def _init(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.ready:
            raise PlantError("init comes once")
        if request.get("protocol") != PROTOCOL:
            raise PlantError(f"this plant speaks {PROTOCOL}, not {_shown(request.get('protocol'))}")
        plant = self._plant
        config = request.get("config", {})
        if not isinstance(config, dict):
            raise PlantError("config must be an object")
        record = _names(request.get("record", []), "record")
        every_ns = _whole(request, "record_every_ns", 0, default=0)
        if record and every_ns == 0:
            raise PlantError("record_every_ns must be at least 1 where signals are recorded")
        slowdown_ns = config.pop("slowdown_ns", 0)
        if not is_integer(slowdown_ns) or not 0 <= slowdown_ns <= 3_600_000_000_000:
            raise PlantError("config.slowdown_ns must be an integer from 0 to one hour")

        plant.t_ns = self._start_ns = _whole(request, "t_ns", 0, default=0)
        plant.step_ns = _whole(request, "step_ns", 1)
        plant.rng = random.Random(_whole(request, "seed", 0, default=0))
        plant.signals.clear()
        plant.setup(config)
        self._known(record)
        self._record, self._record_every_ns, self._slowdown_ns = record, every_ns, slowdown_ns
        self.ready = True
        return {
            "name": plant.name,
            "signals": [{"name": s.name, "unit": s.unit, "writable": s.writable} for s in plant.signals.values()],
        }

    def _advance(self, request: dict[str, Any]) -> dict[str, Any]:
        plant = self._plant
        to_ns = _whole(request, "to_ns", 0)
        if to_ns < plant.t_ns:
            raise PlantError(f"cannot advance backwards, from {plant.t_ns} to {to_ns} ns")
        self._check_room(to_ns)
        began_ns = time.monotonic_ns()
        if to_ns > plant.t_ns and self._slowdown_ns:
            time.sleep(self._slowdown_ns * 1e-9)  # real time: it stands for a slower solver
        try:
            samples = self._move(to_ns)
        except PlantError as error:
            # Part of the way is done and its samples are lost; continuing would leave an unnoticed
            # gap in the record.
            self._failure = str(error)
            raise
        return {"t_ns": plant.t_ns, "solve_ns": time.monotonic_ns() - began_ns, "samples": samples}

    def _move(self, to_ns: int) -> list[dict[str, Any]]:
        plant = self._plant
        samples = []
        if self._record and not self._start_recorded:
            samples.append(self._sample())
        self._start_recorded = True
        while plant.t_ns < to_ns:
            t_ns = plant.t_ns
            end_ns = min(to_ns, _next_multiple(t_ns, plant.step_ns))
            if self._record:
                end_ns = min(end_ns, _next_multiple(t_ns, self._record_every_ns))
            plant.step(t_ns, end_ns - t_ns)
            plant.t_ns = end_ns
            if self._record and end_ns % self._record_every_ns == 0:
                samples.append(self._sample())
        return samples

    def _check_room(self, to_ns: int) -> None:
        # Refuse before moving: a reply that does not fit would lose what was recorded.
        if not self._record:
            return
        count = to_ns // self._record_every_ns - self._plant.t_ns // self._record_every_ns + 1
        bytes_per_sample = 64 + 26 * len(self._record)  # 26: the longest float and its comma
        most = (LINE_LIMIT_BYTES - 256) // bytes_per_sample
        if count > most:
            raise PlantError(f"this advance spans {count} samples and a reply holds {most}; advance in pieces")

    def _sample(self) -> dict[str, Any]:
        return {"t_ns": self._plant.t_ns, "values": self._finite_values(self._record)}

    def _read(self, request: dict[str, Any]) -> dict[str, Any]:
        names = _names(request.get("signals"), "signals")
        self._known(names)
        return {"values": self._finite_values(names)}

    def _write(self, request: dict[str, Any]) -> dict[str, Any]:
        values = request.get("values")
        if not isinstance(values, dict):
            raise PlantError("values must be an object of signal names and numbers")
        self._known(list(values))
        for name, value in values.items():
            if not self._plant.signals[name].writable:
                raise PlantError("this signal is not writable", name)
            if not is_number(value):
                raise PlantError("a value must be a finite number", name)
        self._plant.write({name: float(value) for name, value in values.items()})
        return {}

    def _known(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._plant.signals:
                raise PlantError("the plant has no such signal", name)

    def _finite_values(self, names: Sequence[str]) -> list[float]:
        values = [float(value) for value in self._plant.read(names)]
        for name, value in zip(names, values, strict=True):
            if not is_number(value):
                raise PlantError(f"the model gives {value}", name)
        return values


def _next_multiple(t_ns: int, period_ns: int) -> int:
    return (t_ns // period_ns + 1) * period_ns


def _whole(request: dict[str, Any], key: str, least: int, default: int | None = None) -> int:
    value = request.get(key, default)
    if not is_integer(value) or not least <= value <= TIME_LIMIT_NS:
        raise PlantError(f"{key} must be an integer from {least} to 2^63-1")
    return value


def _names(value: object, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise PlantError(f"{key} must be a list of signal names")
    return value


def _shown(value: object) -> str:
    return repr(value)[:64]
