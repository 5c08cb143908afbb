"""Gymnasium environments of real programs, in which time is paused while the agent thinks.

The environment starts a session whose time is granted (``--stepped``, ``mode = "stepped"``). One ``step`` is one grant:
the testbed runs for that span and is paused again, to the nanosecond, however long the agent then takes. A program in
the session acts and observes for the agent (:mod:`timeloom.gym_agent`).

    class Tank(VirtualTimeEnv):
        observation_space = gymnasium.spaces.Box(0.0, 10.0, (1,))
        action_space = gymnasium.spaces.Box(0.0, 0.3, (1,))

        def judge(self, observation):
            return -abs(observation[0] - 1.5), False     # reward, and whether it is over

    env = Tank(["timeloom", "run", "tank.toml", "--name", "{name}", "--set", "seed={seed}"], step_s=0.5)

Episodes of one seed are similar, not equal: programs are as fast as the machine. The agent's time for thinking makes no
difference.

Needs gymnasium (``timeloom[gym]``).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from .control import Granter, SessionEnded
from .gym_agent import SOCKET_VARIABLE

Array = NDArray[np.float32]


class SessionFailed(Exception):
    """The session did not begin, or its program never sent an observation; the text has its
    output."""


class VirtualTimeEnv(gymnasium.Env[Array, Array]):
    """A session as an environment. Subclasses set the two spaces (boxes of float32) and :meth:`judge`.

    ``info`` has ``now_s``, the session's virtual time. An episode is truncated when the session has ended.

    Args:
        command: starts the session; ``{name}`` and ``{seed}`` are replaced in each word.
        step_s: virtual time of one step.
        wait_s: wall time for the session to begin.
        begin_s: virtual time within which the program must send an observation.

    Raises:
        SessionFailed: ``reset`` and ``step``.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, command: Sequence[str], step_s: float, wait_s: float = 60.0, begin_s: float = 60.0):
        self._command, self._step_ns = list(command), round(step_s * 1e9)
        self._wait_s, self._begin_ns = wait_s, round(begin_s * 1e9)
        self._session: _Session | None = None

    def judge(self, observation: Array) -> tuple[float, bool]:
        """The reward for the observation after a step, and true if the episode is over."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begins a new session, and lets it run until there is an observation, in whole steps."""
        super().reset(seed=seed)
        self.close()
        # Without a seed each episode has another one, of this environment's own generator.
        chosen = int(self.np_random.integers(2**31)) if seed is None else seed
        self._session = session = _Session(self._command, chosen, self._wait_s)
        while not session.ended and session.now_ns < self._begin_ns:
            session.run_for(self._step_ns)
            if session.seen is not None:
                return self._observation(session), self._info(session)
        raise SessionFailed(session.failure("no program told what it sees (AgentLink.observe)"))

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Acts, lets the testbed run for one step, and returns the last observation."""
        session = self._session
        if session is None or session.ended:
            raise SessionFailed("there is no session: call reset() first, and again after an episode's end")
        session.act([float(value) for value in np.asarray(action).ravel()])
        session.run_for(self._step_ns)
        observation = self._observation(session)
        reward, terminated = self.judge(observation)
        return observation, float(reward), bool(terminated), session.ended, self._info(session)

    def close(self) -> None:
        """Ends the session."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _observation(self, session: _Session) -> Array:
        space = self.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        return np.asarray(session.seen, dtype=np.float32).reshape(space.shape)

    @staticmethod
    def _info(session: _Session) -> dict[str, Any]:
        return {"now_s": session.now_ns / 1e9}


class _Session:
    """A stepped session under way, and the socket between it and us."""

    def __init__(self, command: Sequence[str], seed: int, wait_s: float):
        self._scratch = tempfile.TemporaryDirectory(prefix="timeloom-gym-")
        directory = Path(self._scratch.name)
        name = f"gym-{os.getpid()}-{directory.name.rpartition('-')[2]}"
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._link.bind(str(directory / "link"))
        self._peer: str | None = None
        self._output = directory / "output"
        self.seen: list[float] | None = None
        words = [word.replace("{name}", name).replace("{seed}", str(seed)) for word in command]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                words,
                env={**os.environ, SOCKET_VARIABLE: str(directory / "link")},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._granter = Granter(name, wait_s=wait_s)
        except Exception as error:
            why = self.failure(str(error))
            self.close()
            raise SessionFailed(why) from None

    @property
    def now_ns(self) -> int:
        return self._granter.standing.now_ns

    @property
    def ended(self) -> bool:
        return self._granter.standing.ended

    def run_for(self, span_ns: int) -> None:
        """One grant; then all observations on the way have arrived, since the program is paused."""
        try:
            self._granter.grant_ns(self.now_ns + span_ns)
        except SessionEnded:
            raise SessionFailed(self.failure("the session ended")) from None
        with contextlib.suppress(BlockingIOError):
            while True:
                line, self._peer = self._link.recvfrom(65536)
                self.seen = json.loads(line)

    def act(self, action: Sequence[float]) -> None:
        if self._peer is not None:
            # A program that has ended, or reads no action, is the scenario's responsibility.
            with contextlib.suppress(OSError):
                self._link.sendto(json.dumps(list(action), allow_nan=False).encode(), self._peer)

    def failure(self, what: str) -> str:
        said = self._output.read_text(errors="replace").strip()
        return f"{what}; the session had said:\n{said[-4000:]}"

    def close(self) -> None:
        """Interrupts the session, as Ctrl-C would, and waits until it has ended."""
        if hasattr(self, "_granter"):
            self._granter.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._link.close()
        self._scratch.cleanup()
