"""Controls a running session: its time, or that of some of its hosts.

:class:`Controller` does what ``timeloom pause``, ``dilate``, ``step`` and their relatives do, in any session::

    with Controller() as testbed:
        testbed.pause(hosts=["relay"])  # a relay that hangs for as long as needed
        ...
        testbed.resume(hosts=["relay"])

:class:`Granter` grants time to a session, as a simulator does that computes in steps. The session is one whose time
advances by grants: a scenario with ``mode = "stepped"`` under ``[time]``, or ``timeloom exec --stepped``. It is paused
at the end of each grant, however long the simulator computes::

    with Granter() as testbed:
        while not testbed.standing.ended:
            compute_the_next(0.1)
            testbed.grant(testbed.standing.now_s + 0.1)

:class:`Hold` pauses a run, or all machines of a pause bus, together with other holders::

    with Hold("solving") as hold:
        solve_until(hold.now_s)

Needs only the standard library.
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
    """The session refused, with its reason; it continues to answer."""


class SessionEnded(Exception):
    """No answer: there is no such session, or it has ended."""


@dataclass(frozen=True)
class Standing:
    """State of a paused session. Instants are virtual time since it began."""

    now_ns: int
    #: First instant at which an event may occur by itself: ``now_ns`` if a program was stopped
    #: while it computed, none if all wait for input from others.
    next_deadline_ns: int | None
    #: True if the session has ended, and nothing more can be granted.
    ended: bool
    #: Number of grants so far.
    grants: int

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    @property
    def next_deadline_s(self) -> float | None:
        return None if self.next_deadline_ns is None else self.next_deadline_ns / 1e9


@dataclass(frozen=True)
class HostState:
    """Time of one host relative to the session's."""

    #: Time of the host since the session began.
    now_ns: int
    #: Time that the host has missed; negative when it is ahead.
    behind_ns: int
    #: True if the host is paused by itself.
    paused: bool
    #: Seconds of the session per second of the host.
    dilation: float

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9


@dataclass(frozen=True)
class State:
    """State of a session. Its instants are virtual time since it began."""

    now_ns: int
    paused: bool
    #: Wall seconds per virtual second.
    dilation: float
    #: Its hosts by name (a scenario has them): after :meth:`Controller.state`, and after requests
    #: for hosts. After requests for the session only those whose own time is not the session's.
    hosts: dict[str, HostState]

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9


class _Connection:
    """Connection to the control socket of a session: a line of JSON each way."""

    def __init__(self, name: str | None, wait_s: float):
        self._socket = _connect(name, wait_s)
        self._answers = self._socket.makefile("rb")

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sends a request; returns the session's status after it."""
        # A session that ended meanwhile accepts no request, but has answered it: its last line
        # states the end.
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
    """Pauses, dilates and steps a session, or with ``hosts`` only those, while the others continue.

    A pause remains when this is closed. Spans and instants are to the nearest nanosecond.

    Args:
        name: of the session; may be left out when only one runs.
        wait_s: how long to wait for the session to be there.

    Raises:
        SessionEnded: it was not present in time; each method: it has ended.
        Refused: each method: the session's reason (no such host, not paused, an instant that is past).
    """

    def __init__(self, name: str | None = None, wait_s: float = 10.0):
        self._connection = _Connection(name, wait_s)

    def pause(self, hosts: Sequence[str] = ()) -> State:
        """Pauses clock and processes."""
        return self._ask({"op": "pause"}, hosts)

    def resume(self, hosts: Sequence[str] = ()) -> State:
        """Continues them from where they are paused."""
        return self._ask({"op": "resume"}, hosts)

    def dilate(self, factor: float, hosts: Sequence[str] = ()) -> State:
        """Sets the length of a virtual second in wall seconds from now on; of a host's second in
        seconds of the session."""
        return self._ask({"op": "dilate", "factor": factor}, hosts)

    def step(self, span_s: float, hosts: Sequence[str] = ()) -> State:
        """From a pause, runs for exactly this span, then pauses; returns when it is paused."""
        return self._ask({"op": "step", "span_ns": round(span_s * 1e9)}, hosts)

    def run_until(self, instant_s: float, hosts: Sequence[str] = ()) -> State:
        """Runs until this time since the session began, then pauses; returns when it is paused."""
        return self._ask({"op": "run-until", "at_ns": round(instant_s * 1e9), "relative": False}, hosts)

    def leave(self, engine: str) -> State:
        """Makes an engine of its simulated network leave, while the rest continues; returns when it
        has left."""
        return self._ask({"op": "leave", "engine": engine}, ())

    def join(self, engine: str) -> State:
        """Makes an engine that has left join the others again; returns when it has joined."""
        return self._ask({"op": "join", "engine": engine}, ())

    def change_link(
        self,
        link: str,
        delay_s: float | None = None,
        jitter_s: float | None = None,
        loss: float | None = None,
        rate_bps: int | None = None,
        up: bool | None = None,
    ) -> State:
        """Changes a link of its network from now on, in both directions: a link by its name, or by
        its nodes as A-B. Properties that are not given stay as they are."""
        change: dict[str, Any] = {
            "delay_ns": None if delay_s is None else round(delay_s * 1e9),
            "jitter_ns": None if jitter_s is None else round(jitter_s * 1e9),
            "loss": loss,
            "rate_bps": rate_bps,
            "up": up,
        }
        given = {key: value for key, value in change.items() if value is not None}
        return self._ask({"op": "link", "link": link, "change": given}, ())

    def start_attack(self, attack: str) -> State:
        """Starts an attack of its scenario that has no ``at``."""
        return self._ask({"op": "attack", "id": attack, "start": True}, ())

    def stop_attack(self, attack: str) -> State:
        """Stops an attack: kills its programs, with all that they have started."""
        return self._ask({"op": "attack", "id": attack, "start": False}, ())

    def state(self) -> State:
        """Returns its state."""
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
    """Grants a session its time, until closed. The session is then paused where it is.

    Args:
        name: of the session; may be left out when only one runs.
        wait_s: how long to wait for the session to be there.

    Raises:
        SessionEnded: it was not present in time, or ended while it was being prepared.
        Refused: another granter grants its time, or its time is not granted.
    """

    def __init__(self, name: str | None = None, wait_s: float = 10.0):
        self._connection = _Connection(name, wait_s)
        try:
            #: State of the paused session.
            self.standing = self._ask({"op": "attach"})
        except BaseException:
            self.close()
            raise

    def grant(self, until_s: float) -> Standing:
        """Let the session run until this many seconds since it began, to the nearest nanosecond;
        wait until it is paused.

        It ends earlier if the session does; ``ended`` is then true.

        Raises:
            Refused: that instant is past.
            SessionEnded: it has ended, or failed meanwhile.
        """
        return self.grant_ns(round(until_s * 1e9))

    def grant_ns(self, until_ns: int) -> Standing:
        """Like :meth:`grant`, in nanoseconds."""
        self.standing = self._ask({"op": "run-until", "at_ns": until_ns, "relative": False})
        return self.standing

    def close(self) -> None:
        """Stops granting."""
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
    """Share in the pause: the testbed is paused, on all its machines, until this and all others are
    closed.

    It is for programs outside of the testbed: one inside would be paused too, and never release it. The end
    of the process, for any reason, releases the hold.

    Args:
        reason: purpose, for the records.
        name: of the session, as for :class:`Controller`.
        wait_s: how long to wait for the session to be there.

    Raises:
        SessionEnded: it was not present in time, or ended before it was paused.
        Refused: it has no pause bus (``timeloom exec`` has none), or is still being prepared.
    """

    def __init__(self, reason: str, name: str | None = None, wait_s: float = 10.0):
        self._connection = _Connection(name, wait_s)
        try:
            #: Virtual instant at which all are paused.
            self.now_ns: int = self._connection.ask({"op": "hold", "reason": reason})["virtual_ns"]
        except BaseException:
            self.close()
            raise

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def close(self) -> None:
        """Releases the hold."""
        self._connection.close()

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def runtime_directory() -> Path:
    """Directory of the control sockets of this user's sessions."""
    if os.geteuid() == 0:
        return Path("/run/timeloom")
    if directory := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(directory) / "timeloom"
    return Path(tempfile.gettempdir()) / f"timeloom-{os.geteuid()}"


def is_own_directory(directory: Path) -> bool:
    """Returns true if only this user and root can put a socket there; otherwise it may be a foreign
    session's."""
    try:
        status = os.lstat(directory)
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022


def _connect(name: str | None, wait_s: float) -> socket.socket:
    deadline = time.monotonic() + wait_s
    if not is_own_directory(directory := runtime_directory()):
        raise Refused(f"{directory} must be a directory that belongs to you, and in which no other user may write")
    while True:
        paths = [_path(name)] if name is not None else sorted(runtime_directory().glob("*.sock"))
        found = [(path, connected) for path in paths if (connected := _try_connect(path)) is not None]
        if len(found) == 1:
            return found[0][1]
        for _, connected in found:
            connected.close()
        if found:
            names = ", ".join(path.stem for path, _ in found)
            raise Refused(f"several sessions are running, choose one: {names}")
        if time.monotonic() >= deadline:
            raise SessionEnded("no session is running" if name is None else f"there is no session {name!r}")
        time.sleep(0.02)


def _path(name: str) -> Path:
    return runtime_directory() / f"{name}.sock"


def _try_connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A session that is stuck accepts no connections once its queue is full.
        connection.settimeout(0.2)
        connection.connect(os.fspath(path))
        connection.settimeout(None)
    except OSError:
        connection.close()
        return None
    return connection
