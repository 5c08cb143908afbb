"""Drives a plant from Python, as the engine does: for tests, and to try a plant out by hand.

::

    with PlantProcess([sys.executable, "-m", "timeloom.opendss"]) as plant:
        plant.init(config={"model": "grid.dss"}, record=["bus.680.v1"], record_every_ns=100_000_000)
        reply = plant.advance(1_000_000_000)
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from timeloom.plant import FD_VARIABLE
from timeloom.wire import PROTOCOL


class PlantFailed(Exception):
    """The plant refused, with ``signal`` if the plant names one; or it ended (``exited`` is
    true)."""

    def __init__(self, message: str, signal: str | None = None, exited: bool = False):
        super().__init__(message if signal is None else f"{message}: {signal}")
        self.signal = signal
        self.exited = exited


class PlantProcess:
    """A plant in a child process. Instants and durations are virtual nanoseconds."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None):
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {**os.environ, **(env or {}), FD_VARIABLE: str(theirs.fileno())}
            self.process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
        self.socket = ours
        self._replies = ours.makefile("rb")
        self._last_id = 0

    def request(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Send one request and wait for its reply; returns the value of ``ok``.

        Raises:
            PlantFailed: the plant answered with an error, or ended.
        """
        self._last_id += 1
        line = json.dumps({"id": self._last_id, "op": op, **arguments}, allow_nan=False)
        try:
            self.socket.sendall(line.encode() + b"\n")
            answer = self._replies.readline()
        except ConnectionError:
            answer = b""
        if not answer:
            raise PlantFailed(f"the plant ended with exit code {self.process.wait()}", exited=True)
        reply = json.loads(answer)
        if "error" in reply:
            raise PlantFailed(reply["error"]["message"], reply["error"].get("signal"))
        if reply["id"] != self._last_id:
            raise PlantFailed(f"the plant answered request {reply['id']} instead of {self._last_id}")
        ok: dict[str, Any] = reply["ok"]
        return ok

    def init(
        self,
        config: Mapping[str, Any],
        *,
        seed: int = 0,
        t_ns: int = 0,
        step_ns: int = 10_000_000,
        record: Sequence[str] = (),
        record_every_ns: int = 100_000_000,
    ) -> dict[str, Any]:
        return self.request(
            "init",
            protocol=PROTOCOL,
            seed=seed,
            t_ns=t_ns,
            config=dict(config),
            record=list(record),
            record_every_ns=record_every_ns,
            step_ns=step_ns,
        )

    def advance(self, to_ns: int) -> dict[str, Any]:
        return self.request("advance", to_ns=to_ns)

    def read(self, signals: Sequence[str]) -> list[float]:
        values: list[float] = self.request("read", signals=list(signals))["values"]
        return values

    def write(self, values: Mapping[str, float]) -> None:
        self.request("write", values=dict(values))

    def stop(self) -> int:
        """End the plant and return its exit code."""
        try:
            self.request("stop")
        except PlantFailed as error:
            if not error.exited:
                raise
        return self.process.wait()

    def __enter__(self) -> PlantProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._replies.close()
        self.socket.close()  # the end of the stream ends the plant
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
