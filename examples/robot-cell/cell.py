"""What planner and controllers share: the timeline, the messages between them, and what they are called."""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from timeloom.messages import Malformed, Seal, Unproved, read, write
from timeloom.timeline import Binding, Degradation, Policy, Stamp, Status, Timeline, TimelineError

SIDES = ("left", "right")
#: Required accuracy of the time of each program.
ACCURACY_NS = {"planner": 1_000_000, "controller": 100_000}
#: Interval of the status messages, and the silence after which a program is considered gone.
BEAT_S, GONE_S = 0.1, 0.35
PORT = 7447


class Clock:
    """Time as one number: a timeline's estimate, or with a plain clock what the host shows. Without an interval it runs
    on by the host's crystal from the last one."""

    def __init__(self, post: Post):
        self.post = post
        self._last = (0, 0)

    def estimate_ns(self) -> int:
        if self.post.timeline is None:
            return time.time_ns()
        now_ns, stamp = time.monotonic_ns(), self.post.timeline.read()
        if stamp.estimate_ns is not None:
            self._last = (stamp.estimate_ns, now_ns)
        return self._last[0] + now_ns - self._last[1]


class Post:
    """The timeline of one party, what it says to the others, and the last that it has heard of them.

    A message is one of :mod:`timeloom.messages`, sealed, in a datagram to each of the others. What
    is lost is sent again with the next beat: a stream would hold back all that comes after it. One
    thread does everything.
    """

    def __init__(self, who: str, others: list[str], plain: bool):
        self.who = who
        #: None with a plain clock.
        self.timeline = None if plain else opened()
        self._prefix = "plain" if plain else "cell"
        # The plain cell has no secret; its seal protects nothing.
        self._seal = Seal(bytes(32) if plain else key())
        # Plain clocks cannot order messages, so an old message is accepted once more.
        self._since = None if plain else self.read()
        self._to = [(address, PORT) for address in others]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("0.0.0.0", PORT))
        #: Datagrams without the key's seal, or repeated ones.
        self.unproved = 0
        self.states: dict[str, dict[str, Any]] = {}
        self.beat: dict[str, Any] = {}
        #: Commands, with the time to act and true if they certainly arrived before it.
        self.moves: list[tuple[dict[str, Any], int, bool]] = []

    def say(self, topic: str, what: dict[str, Any], act_at_ns: int | None = None) -> None:
        body = json.dumps({"topic": topic} | what).encode()
        data = write(self._seal, self._prefix, self.read(), body, act_at_ns)
        for address in self._to:
            try:
                self._socket.sendto(data, address)
            except OSError:
                pass  # the peer is not there yet

    def collect(self, patience_s: float) -> None:
        """Waits for a message, not longer than that, and takes what there is."""
        ready, _, _ = select.select([self._socket], [], [], max(patience_s, 0.0))
        while ready:
            try:
                data = self._socket.recv(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                continue
            try:
                _, act_at_ns, body = read(self._seal, self._prefix, data, self._since)
                self._take(json.loads(body), act_at_ns or 0)
            except (Unproved, Malformed):
                self.unproved += 1

    def _take(self, what: dict[str, Any], act_at_ns: int) -> None:
        # Only a sender with the key can create it, so it is well formed.
        what["heard_s"] = time.monotonic()
        topic = what.pop("topic")
        if topic == "beat":
            self.beat = what
        elif topic == "move":
            latest_ns = self.read().latest_ns
            self.moves.append((what, act_at_ns, latest_ns is not None and latest_ns <= act_at_ns))
        else:
            self.states[topic] = what

    def read(self) -> Stamp:
        """A reading; a plain clock has none."""
        return Stamp(0, 0, Status.NEVER_SYNCHRONISED) if self.timeline is None else self.timeline.read()

    def renew(self) -> bool:
        """Opens the timeline anew, after its daemon has died; whether there is one again."""
        try:
            timeline = Timeline("cell")
        except TimelineError:
            return False
        self.timeline = timeline
        return True


class Watch:
    """Reads the timeline for a machine, and binds anew when its daemon has died and another has come."""

    def __init__(self, post: Post, accuracy_ns: int):
        self.post = post
        self.policy = replace(Policy.within(accuracy_ns), blind_after_ns=250_000_000)
        self.machine = Degradation(self.policy)
        self.binding: Binding | None = None
        self._retry_s = 0.0

    def look(self) -> None:
        stamp = self.post.timeline.read()
        self.machine.read(stamp)
        lost = self.binding is None or stamp.status == Status.DAEMON_DEAD
        if not lost or time.monotonic() < self._retry_s:
            return
        self._retry_s = time.monotonic() + 0.5
        if stamp.status == Status.DAEMON_DEAD and not self.post.renew():
            return
        try:
            self.binding = self.post.timeline.bind(self.policy.keep)
            self.binding.subscribe(self.machine.told)
        except TimelineError:
            # The timeline is not available yet, or its quality is too low.
            self.binding = None


def fresh(heard: dict[str, Any] | None) -> bool:
    """Whether somebody has been heard of lately."""
    return bool(heard) and time.monotonic() - heard["heard_s"] < GONE_S


def opened() -> Timeline:
    """The host's timeline, once its daemon is there and in step."""
    while True:
        try:
            timeline = Timeline("cell")
            if timeline.read().estimate_ns is not None:
                return timeline
        except TimelineError:
            pass
        time.sleep(0.02)


def key() -> bytes:
    """The cell's key, which the first who asks makes."""
    place = Path(os.environ["TIMELOOM_TIMELINES"]).parent / "cell.key"
    try:
        with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secrets.token_bytes(32))
    except FileExistsError:
        pass
    while len(found := place.read_bytes()) < 32:
        time.sleep(0.01)
    return found


__all__ = ["ACCURACY_NS", "BEAT_S", "SIDES", "Clock", "Post", "Watch", "fresh"]
