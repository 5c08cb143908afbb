"""Controls a running session: its time, or that of some of its hosts.

:class:`Controller` does what ``timeloom pause``, ``dilate``, ``step`` and their relatives do, in any session::

    with Controller() as testbed:
        testbed.pause(hosts=["relay"])  # a relay that hangs for as long as we like
        ...
        testbed.resume(hosts=["relay"])

:class:`Granter` grants a session its time, as a simulator does that computes in steps. The session is one whose time
moves by grants: a scenario with ``mode = "stepped"`` under ``[time]``, or ``timeloom exec --stepped``. It stands
wherever it was not granted more, however long the simulator computes::

    with Granter() as testbed:
        while not testbed.standing.ended:
            compute_the_next(0.1)
            testbed.grant(testbed.standing.now_s + 0.1)

:class:`Hold` makes a run, or all machines of a pause bus, stand beside others that hold them::

    with Hold("solving") as hold:
        solve_until(hold.now_s)

Needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Refused(Exception):
    """The session said no, and why; it goes on answering."""


class SessionEnded(Exception):
    """Nobody answers: there is no such session, or it has ended."""


@dataclass(frozen=True)
class Standing:
    """Where a session stands. Instants are virtual time since it began."""

    now_ns: int
    #: The first instant at which something may happen by itself: ``now_ns`` if a program was stopped while it
    #: computed, none if all wait for what others send.
    next_deadline_ns: int | None
    #: It has ended, and nothing more can be granted.
    ended: bool
    #: How many grants there have been.
    grants: int

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    @property
    def next_deadline_s(self) -> float | None:
        return None if self.next_deadline_ns is None else self.next_deadline_ns / 1e9


@dataclass(frozen=True)
class HostState:
    """How the time of one host stands against the session's."""

    #: What it has lived through since the session began.
    now_ns: int
    #: How much it has missed; negative when it is ahead.
    behind_ns: int
    #: It is paused by itself.
    paused: bool
    #: Seconds of the session per second of the host.
    dilation: float

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9


@dataclass(frozen=True)
class State:
    """How a session stands. The session's instants are virtual time since it began."""

    now_ns: int
    paused: bool
    #: Wall seconds per virtual second.
    dilation: float
    #: Its hosts by name (a scenario has them): after :meth:`Controller.state`, and after what was asked of hosts. After
    #: what was asked of the session only those whose own time is not the session's.
    hosts: dict[str, HostState]

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9


class _Connection:
    """To the control socket of a session: a line of JSON each way."""

    def __init__(self, name: str | None, wait_s: float):
        self._socket = _connect(name, wait_s)
        self._answers = self._socket.makefile("rb")

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The session's status after what was asked."""
        # A session that ended meanwhile takes no request, but has answered it: its last line says so.
        with contextlib.suppress(OSError):
            self._socket.sendall(json.dumps(request, allow_nan=False).encode() + b"\n")
        line = b""
        with contextlib.suppress(OSError):
            line = self._answers.readline()
        if not line.endswith(b"\n"):
            raise SessionEnded("the session has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        status: dict[str, Any] = answer["ok"]
        return status

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


class Controller:
    """Pauses, dilates and steps a session, or with ``hosts`` only those, while the others go on.

    What was paused stays so when this is closed. Spans and instants are to the nearest nanosecond.

    Args:
        name: of the session; may be left out when only one runs.
        wait_s: how long to wait for the session to be there.

    Raises:
        SessionEnded: it was not there in time; each method: it has ended.
        Refused: each method: the session says why not (no such host, not paused, an instant that is past).
    """

    def __init__(self, name: str | None = None, wait_s: float = 10.0):
        self._connection = _Connection(name, wait_s)

    def pause(self, hosts: Sequence[str] = ()) -> State:
        """Clock and processes stand."""
        return self._ask({"op": "pause"}, hosts)

    def resume(self, hosts: Sequence[str] = ()) -> State:
        """They go on from where they stand."""
        return self._ask({"op": "resume"}, hosts)

    def dilate(self, factor: float, hosts: Sequence[str] = ()) -> State:
        """A virtual second takes so many wall seconds from now on; a host's second so many of the session."""
        return self._ask({"op": "dilate", "factor": factor}, hosts)

    def step(self, span_s: float, hosts: Sequence[str] = ()) -> State:
        """From where it is paused, run for exactly so much, then stand; returns when it does."""
        return self._ask({"op": "step", "span_ns": round(span_s * 1e9)}, hosts)

    def run_until(self, instant_s: float, hosts: Sequence[str] = ()) -> State:
        """Run until so much time since the session began, then stand; returns when it does."""
        return self._ask({"op": "run-until", "at_ns": round(instant_s * 1e9), "relative": False}, hosts)

    def leave(self, engine: str) -> State:
        """An engine of its simulated network leaves, while the rest goes on; returns when it has."""
        return self._ask({"op": "leave", "engine": engine}, ())

    def join(self, engine: str) -> State:
        """One that has left joins the others again; returns when it has."""
        return self._ask({"op": "join", "engine": engine}, ())

    def state(self) -> State:
        """How it stands."""
        return self._ask({"op": "query"}, ())

    def close(self) -> None:
        """Leave the session as it is."""
        self._connection.close()

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: dict[str, Any], hosts: Sequence[str]) -> State:
        if isinstance(hosts, str):
            raise TypeError(f"hosts are a list: [{hosts!r}]")
        if hosts:
            request = {"op": "host", "hosts": list(hosts), "request": request}
        status = self._connection.ask(request)
        own = {
            host["name"]: HostState(host["virtual_ns"], host["behind_ns"], host["paused"], host["dilation"])
            for host in status.get("hosts", [])
        }
        return State(status["virtual_ns"], status["paused"], status["dilation"], own)


class Granter:
    """The one who grants a session its time, until closed. The session then stands where it is.

    Args:
        name: of the session; may be left out when only one runs.
        wait_s: how long to wait for the session to be there.

    Raises:
        SessionEnded: it was not there in time, or ended while it got ready.
        Refused: somebody else grants it its time, or its time moves by itself.
    """

    def __init__(self, name: str | None = None, wait_s: float = 10.0):
        self._connection = _Connection(name, wait_s)
        try:
            #: Where the session stands.
            self.standing = self._ask({"op": "attach"})
        except BaseException:
            self.close()
            raise

    def grant(self, until_s: float) -> Standing:
        """Let the session run until so many seconds since it began, to the nearest nanosecond; wait until it stands.

        It ends earlier when the session does; ``ended`` says so.

        Raises:
            Refused: that instant is past.
            SessionEnded: it has ended, or failed on the way.
        """
        return self.grant_ns(round(until_s * 1e9))

    def grant_ns(self, until_ns: int) -> Standing:
        """The same in nanoseconds."""
        self.standing = self._ask({"op": "run-until", "at_ns": until_ns, "relative": False})
        return self.standing

    def close(self) -> None:
        """Stop being the granter."""
        self._connection.close()

    def __enter__(self) -> Granter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: dict[str, Any]) -> Standing:
        status = self._connection.ask(request)
        standing = status["standing"]
        return Standing(status["virtual_ns"], standing["next_deadline_ns"], standing["ended"], standing["grants"])


class Hold:
    """A share in the pause: the testbed stands, on all its machines, until this and all others are closed.

    It is for programs outside of the testbed: one inside would stand too, and never let go. Whoever ends, in whatever
    way, lets go.

    Args:
        reason: what for, in the records.
        name: of the session, as for :class:`Controller`.
        wait_s: how long to wait for the session to be there.

    Raises:
        SessionEnded: it was not there in time, or ended before it stood.
        Refused: it has no pause bus (``timeloom exec`` has none), or is still getting ready.
    """

    def __init__(self, reason: str, name: str | None = None, wait_s: float = 10.0):
        self._connection = _Connection(name, wait_s)
        try:
            #: The virtual instant at which all stand.
            self.now_ns: int = self._connection.ask({"op": "hold", "reason": reason})["virtual_ns"]
        except BaseException:
            self.close()
            raise

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def close(self) -> None:
        """Let go."""
        self._connection.close()

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def runtime_directory() -> Path:
    """Where the control sockets of this user's sessions lie."""
    if os.geteuid() == 0:
        return Path("/run/timeloom")
    if directory := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(directory) / "timeloom"
    return Path(tempfile.gettempdir()) / f"timeloom-{os.geteuid()}"


def is_own_directory(directory: Path) -> bool:
    """Whether nobody but this user, or root, can put a socket there, which is then another's session."""
    try:
        status = os.lstat(directory)
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022


def _connect(name: str | None, wait_s: float) -> socket.socket:
    deadline = time.monotonic() + wait_s
    if not is_own_directory(directory := runtime_directory()):
        raise Refused(f"{directory} must be a directory of yours in which nobody else may write")
    while True:
        paths = [_path(name)] if name is not None else sorted(runtime_directory().glob("*.sock"))
        found = [(path, connected) for path in paths if (connected := _try_connect(path)) is not None]
        if len(found) == 1:
            return found[0][1]
        for _, connected in found:
            connected.close()
        if found:
            names = ", ".join(path.stem for path, _ in found)
            raise Refused(f"several sessions are running, say which: {names}")
        if time.monotonic() >= deadline:
            raise SessionEnded("no session is running" if name is None else f"there is no session {name!r}")
        time.sleep(0.02)


def _path(name: str) -> Path:
    return runtime_directory() / f"{name}.sock"


def _try_connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A session that is stuck takes no connections once its queue is full.
        connection.settimeout(0.2)
        connection.connect(os.fspath(path))
        connection.settimeout(None)
    except OSError:
        connection.close()
        return None
    return connection
