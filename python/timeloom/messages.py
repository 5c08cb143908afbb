"""Messages between programs that share a timeline: each states its time of sending, as an interval,
and may state when to act on it.

By datagrams to listed peers, as programs in Rust and C publish and subscribe too (``timeloom.h``)::

    here = Datagrams(timeline, "run-7", listen="127.0.0.1:7447", key=key)
    there = Datagrams(timeline, "run-7", peers=["127.0.0.1:7447"], key=key)
    here.subscribe("valve", lambda message: print(message.payload), at_time=True)
    there.publish("valve", b"open", act_at_ns=timeline.read().latest_ns + 50_000_000)

Or over Zenoh (:class:`Channel`, needs ``eclipse-zenoh``), as a peer with explicit endpoints, if no message may be lost
on the way or there are routers in between.

Every run takes a prefix of its own, so that two on one machine do not hear each other. Any program that can
reach an endpoint can send, unless the receiver has a ``key``: then every message must be sealed. The format of messages
and seals is libtimeloom's; :func:`write` and :func:`read` provide it for other transports.
"""

from __future__ import annotations

import heapq
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeloom import _timeline
from timeloom._timeline import Seal
from timeloom.timeline import ErrorCode, Order, Stamp, Timeline, TimelineError

if TYPE_CHECKING:
    import zenoh

__all__ = ["Channel", "Datagrams", "Malformed", "Message", "Seal", "Unproved", "read", "write"]


class Malformed(Exception):
    """Bytes that are not a message."""


class Unproved(Exception):
    """Not sealed with our key, modified on the way, replayed, or from before our start."""


def write(seal: Seal | None, name: str, sent: Stamp, payload: bytes, act_at_ns: int | None = None) -> bytes:
    """Returns the bytes of a message that is sent under ``name``; with a seal, of a sealed one."""
    return _timeline.write(seal, name, sent, act_at_ns, payload)


def read(seal: Seal | None, name: str, data: bytes, since: Stamp | None = None) -> tuple[Stamp, int | None, bytes]:
    """Returns the time of sending, the time to act if there is one, and the payload.

    ``since`` is a reading from before anything could have come. From a sender that was not heard before under
    ``name``, messages that it certainly sent earlier are refused: otherwise a restarted receiver would accept
    messages to its predecessor.

    Raises:
        Malformed: the bytes are not a message.
        Unproved: it is not sealed with the same key, or not new. Each message can be read once.
    """
    try:
        return _timeline.open(seal, name, data, since)
    except TimelineError as error:
        code, reason = error.args
        kinds = {ErrorCode.UNPROVED: Unproved, ErrorCode.MALFORMED: Malformed}
        raise kinds.get(code, TimelineError)(reason) from None


@dataclass(frozen=True)
class Message:
    """A received message."""

    #: Key without the channel's prefix.
    key: str
    payload: bytes
    #: Time of sending, by the sender's clock.
    sent: Stamp
    #: Time of arrival, by ours.
    arrived: Stamp
    act_at_ns: int | None
    #: Reading before the call: at ``act_at_ns`` or after it.
    acted: Stamp

    @property
    def in_time(self) -> bool:
        """Returns true if it certainly arrived before its time to act, or if it has none."""
        if self.act_at_ns is None:
            return True
        return self.arrived.latest_ns is not None and self.arrived.latest_ns <= self.act_at_ns

    @property
    def order(self) -> Order:
        """Order of sending and arrival. ``AFTER`` would mean that one of the clocks violates its
        bounds."""
        return Order(self.sent.compare(self.arrived))


class Datagrams(_timeline.Channel):
    """Channel to publish and subscribe, by datagrams: a lost datagram is not repeated.

    Callbacks run in threads of the channel's.

    Args:
        timeline: for the timestamps of messages, and the times to act.
        prefix: of all keys.
        listen: ``HOST:PORT`` to receive at; port 0 takes a free one, which is :attr:`port`.
        peers: each as ``HOST:PORT``, to publish to.
        key: 16 bytes or more that all share; without, nothing is sealed and every sender is accepted.

    Raises:
        TimelineError: here and in all methods.
    """

    def __new__(
        cls,
        timeline: Timeline,
        prefix: str,
        *,
        listen: str = "127.0.0.1:0",
        peers: Sequence[str] = (),
        key: bytes | None = None,
    ) -> Datagrams:
        return super().__new__(cls, timeline, prefix, listen, tuple(peers), key)

    def publish(self, key: str, payload: bytes, act_at_ns: int | None = None) -> Stamp:
        """Send to every peer; returns the time of sending, as the receivers will see it."""
        return self._publish(key, payload, act_at_ns)

    def subscribe(self, key: str, told: Callable[[Message], object], *, at_time: bool = False) -> None:
        """Call ``told`` for each message under ``key`` (``*`` matches one part, ``**`` any number):
        as it arrives, or with ``at_time`` certainly not before its ``act_at_ns``, in that order."""
        self._subscribe(key, at_time, lambda *fields: told(Message(*fields)))

    @property
    def unproved(self) -> int:
        """Number of messages that were not sealed with our key, were modified, or were not new."""
        return self._counts()[0]

    @property
    def dropped(self) -> int:
        """Number of datagrams that were not messages, or of another prefix or timeline."""
        return self._counts()[1]

    def __enter__(self) -> Datagrams:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Channel:
    """Channel to publish and subscribe over Zenoh. Callbacks run in threads of the channel."""

    def __init__(
        self,
        timeline: Timeline,
        prefix: str,
        *,
        listen: str | None = None,
        connect: Sequence[str] = (),
        key: bytes | None = None,
    ):
        import zenoh  # not needed for datagrams

        self.timeline = timeline
        self.prefix = prefix
        self._seal = None if key is None else Seal(key)
        #: Number of messages that were not sealed with ``key``, were modified, or were replayed.
        self.unproved = 0
        #: Number of messages that were malformed, or of another timeline.
        self.dropped = 0
        own = self._since = timeline.read()
        self._id = (own.timeline_high, own.timeline_low)
        config = zenoh.Config()
        for setting, value in {
            "mode": "peer",
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": False,
            "listen/endpoints": [listen] if listen else [],
            "connect/endpoints": list(connect),
        }.items():
            config.insert_json5(setting, json.dumps(value))
        self._session = zenoh.open(config)
        self._publishers: dict[str, zenoh.Publisher] = {}
        self._subscribers: list[object] = []
        self._agendas: list[_Agenda] = []

    def publish(self, key: str, payload: bytes, act_at_ns: int | None = None) -> Stamp:
        """Send; returns the time of sending, as the receivers will see it."""
        stamp = self.timeline.read()
        self._publisher(key).put(write(self._seal, f"{self.prefix}/{key}", stamp, payload, act_at_ns))
        return stamp

    def wait_for_subscriber(self, key: str, patience_s: float = 10.0) -> bool:
        """Waits for a subscriber to ``key``; returns true if there is one. A message without
        subscribers is lost."""
        publisher, deadline = self._publisher(key), time.monotonic() + patience_s
        # Zenoh's types say bool; it is a status.
        while not publisher.matching_status.matching:  # type: ignore[attr-defined]
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def subscribe(self, key: str, told: Callable[[Message], object], *, at_time: bool = False) -> None:
        """Call ``told`` for each message under ``key`` (``*`` and ``**`` match any parts): as it
        arrives, or with ``at_time`` not before its ``act_at_ns``, in that order."""
        agenda = _Agenda(self.timeline, told) if at_time else None
        if agenda is not None:
            self._agendas.append(agenda)

        def arrived(sample: zenoh.Sample) -> None:
            now = self.timeline.read()
            try:
                data = sample.payload.to_bytes()
                stamp, act_at_ns, payload = read(self._seal, str(sample.key_expr), data, self._since)
            except Unproved:
                self.unproved += 1
                return
            except Malformed:
                self.dropped += 1
                return
            if (stamp.timeline_high, stamp.timeline_low) != self._id:
                self.dropped += 1
                return
            name = str(sample.key_expr).removeprefix(self.prefix + "/")
            message = Message(name, payload, stamp, now, act_at_ns, now)
            if agenda is None or message.act_at_ns is None:
                told(message)
            else:
                agenda.add(message)

        self._subscribers.append(self._session.declare_subscriber(f"{self.prefix}/{key}", arrived))

    def close(self) -> None:
        """End the session and all operations on it; messages that still wait for their time are
        dropped."""
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
            self._told(Message(message.key, message.payload, message.sent, message.arrived, message.act_at_ns, now))

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
