"""Messages between programs that share a timeline: each carries when it was sent, as an interval, and may say when to act.

::

    here = Channel(timeline, "run-7", listen="tcp/127.0.0.1:7447")
    there = Channel(timeline, "run-7", connect=["tcp/127.0.0.1:7447"])
    there.subscribe("valve", lambda message: print(message.payload), at_time=True)
    here.publish("valve", b"open", act_at_ns=timeline.read().latest_ns + 50_000_000)

Over Zenoh, as a peer with explicit endpoints: nothing is looked for by multicast or gossip, and no router is needed.
Every run takes a prefix of its own, so that two on one machine do not hear each other. Whoever can reach the endpoint
can speak, and is not heard by who has a ``key``: then every message is sealed with it (:mod:`timeloom.seal`).

Needs ``eclipse-zenoh``.
"""

from __future__ import annotations

import heapq
import itertools
import json
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import zenoh

from timeloom.seal import Seal, Unproved
from timeloom.timeline import Order, Stamp, Timeline

#: Magic, version, flags, status, nothing; timeline high and low; earliest, estimate, latest, act at. Big-endian.
_HEADER = struct.Struct(">4sBBBxQQqqqq")
_MAGIC = b"TLMS"
_VERSION = 1
_BOUNDED, _ACT_AT = 1, 2


class Malformed(Exception):
    """Bytes that are no message."""


@dataclass(frozen=True)
class Envelope:
    """What travels: when it was sent, when to act on it if that matters, and what it says."""

    stamp: Stamp
    act_at_ns: int | None
    payload: bytes

    def encode(self) -> bytes:
        stamp = self.stamp
        bounded = stamp.estimate_ns is not None
        flags = (_BOUNDED if bounded else 0) | (_ACT_AT if self.act_at_ns is not None else 0)
        ends = (stamp.earliest_ns, stamp.estimate_ns, stamp.latest_ns) if bounded else (0, 0, 0)
        header = _HEADER.pack(
            _MAGIC, _VERSION, flags, stamp.status, stamp.timeline_high, stamp.timeline_low, *ends, self.act_at_ns or 0
        )
        return header + self.payload

    @classmethod
    def decode(cls, data: bytes) -> Envelope:
        """Raises :class:`Malformed`."""
        if len(data) < _HEADER.size:
            raise Malformed(f"{len(data)} bytes are too few")
        magic, version, flags, status, high, low, *ends, act_at_ns = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != _VERSION or flags & ~(_BOUNDED | _ACT_AT):
            raise Malformed("another kind or version of message")
        try:
            stamp = Stamp(high, low, status, *ends) if flags & _BOUNDED else Stamp(high, low, status)
        except ValueError as error:
            raise Malformed(str(error)) from None
        return cls(stamp, act_at_ns if flags & _ACT_AT else None, data[_HEADER.size :])


@dataclass(frozen=True)
class Message:
    """A message that has arrived."""

    #: Without the channel's prefix.
    key: str
    payload: bytes
    #: When it was sent, by the sender's clock.
    sent: Stamp
    #: When it arrived, by ours.
    arrived: Stamp
    act_at_ns: int | None
    #: What was read before the call: at ``act_at_ns`` or after it.
    acted: Stamp

    @property
    def in_time(self) -> bool:
        """Whether it certainly arrived before it was to be acted on; ``True`` when that does not matter."""
        if self.act_at_ns is None:
            return True
        return self.arrived.latest_ns is not None and self.arrived.latest_ns <= self.act_at_ns

    @property
    def order(self) -> Order:
        """Of sending and arriving. ``AFTER`` would mean that one of the clocks has lied."""
        return Order(self.sent.compare(self.arrived))


class Channel:
    """A place to publish and subscribe. Callbacks run in threads of the channel's."""

    def __init__(
        self,
        timeline: Timeline,
        prefix: str,
        *,
        listen: str | None = None,
        connect: Sequence[str] = (),
        key: bytes | None = None,
    ):
        self.timeline = timeline
        self.prefix = prefix
        self._seal = None if key is None else Seal(key)
        #: Messages that were not sealed with ``key``, were changed, or were said before.
        self.unproved = 0
        #: Messages that were malformed, or of another timeline.
        self.dropped = 0
        own = timeline.read()
        self._id = (own.timeline_high, own.timeline_low)
        config = zenoh.Config()
        for key, value in {
            "mode": "peer",
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": False,
            "listen/endpoints": [listen] if listen else [],
            "connect/endpoints": list(connect),
        }.items():
            config.insert_json5(key, json.dumps(value))
        self._session = zenoh.open(config)
        self._publishers: dict[str, zenoh.Publisher] = {}
        self._subscribers: list[object] = []
        self._agendas: list[_Agenda] = []

    def publish(self, key: str, payload: bytes, act_at_ns: int | None = None) -> Stamp:
        """Send; returns when it was sent, as the receivers will see it."""
        stamp = self.timeline.read()
        data = Envelope(stamp, act_at_ns, payload).encode()
        if self._seal is not None:
            data = self._seal.seal(f"{self.prefix}/{key}", data)
        self._publisher(key).put(data)
        return stamp

    def wait_for_subscriber(self, key: str, patience_s: float = 10.0) -> bool:
        """Whether somebody subscribes to ``key``; waits for that. A message without subscribers is lost."""
        publisher, deadline = self._publisher(key), time.monotonic() + patience_s
        while not publisher.matching_status.matching:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def subscribe(self, key: str, told: Callable[[Message], object], *, at_time: bool = False) -> None:
        """Call ``told`` for each message under ``key`` (``*`` and ``**`` stand for any parts): as it comes, or with
        ``at_time`` not before its ``act_at_ns``, in that order."""
        agenda = _Agenda(self.timeline, told) if at_time else None
        if agenda is not None:
            self._agendas.append(agenda)

        def arrived(sample: zenoh.Sample) -> None:
            now = self.timeline.read()
            try:
                data = sample.payload.to_bytes()
                if self._seal is not None:
                    data = self._seal.open(str(sample.key_expr), data)
                envelope = Envelope.decode(data)
            except Unproved:
                self.unproved += 1
                return
            except Malformed:
                self.dropped += 1
                return
            stamp = envelope.stamp
            if (stamp.timeline_high, stamp.timeline_low) != self._id:
                self.dropped += 1
                return
            name = str(sample.key_expr).removeprefix(self.prefix + "/")
            message = Message(name, envelope.payload, stamp, now, envelope.act_at_ns, now)
            if agenda is None or message.act_at_ns is None:
                told(message)
            else:
                agenda.add(message)

        self._subscribers.append(self._session.declare_subscriber(f"{self.prefix}/{key}", arrived))

    def close(self) -> None:
        """End the session and all that was begun on it; what was still to be acted on is dropped."""
        for agenda in self._agendas:
            agenda.stop()
        self._session.close()

    def _publisher(self, key: str) -> zenoh.Publisher:
        if key not in self._publishers:
            self._publishers[key] = self._session.declare_publisher(f"{self.prefix}/{key}")
        return self._publishers[key]

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Agenda:
    """Messages that wait for their time, earliest first."""

    def __init__(self, timeline: Timeline, told: Callable[[Message], object]):
        self._timeline = timeline
        self._told = told
        self._due: list[tuple[int, int, Message]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="timeline-agenda", daemon=True)
        self._thread.start()

    def add(self, message: Message) -> None:
        assert message.act_at_ns is not None
        with self._changed:
            heapq.heappush(self._due, (message.act_at_ns, next(self._count), message))
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            message, now = due
            self._told(
                Message(message.key, message.payload, message.sent, message.arrived, message.act_at_ns, now)
            )

    def _next(self) -> tuple[Message, Stamp] | None:
        with self._changed:
            while not self._stopped:
                wait_s: float | None = None
                if self._due:
                    now = self._timeline.read()
                    # Without an interval nothing is certain: wait until there is one.
                    left_ns = 100_000_000 if now.earliest_ns is None else self._due[0][0] - now.earliest_ns
                    if left_ns <= 0:
                        return heapq.heappop(self._due)[2], now
                    wait_s = min(left_ns / 1e9, 0.5)
                self._changed.wait(wait_s)
        return None
