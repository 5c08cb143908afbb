"""Messages between programs that share a timeline: each says when it was sent, as an interval, and may say when to act.

By datagrams to peers that are named, as programs in Rust and C publish and subscribe too (``timeloom.h``)::

    here = Datagrams(timeline, "run-7", listen="127.0.0.1:7447", key=key)
    there = Datagrams(timeline, "run-7", peers=["127.0.0.1:7447"], key=key)
    here.subscribe("valve", lambda message: print(message.payload), at_time=True)
    there.publish("valve", b"open", act_at_ns=timeline.read().latest_ns + 50_000_000)

Or over Zenoh (:class:`Channel`, needs ``eclipse-zenoh``), as a peer with explicit endpoints, where nothing may be lost
on the way or routers lie between.

Every run takes a prefix of its own, so that two on one machine do not hear each other. Whoever can reach an endpoint
can speak, and is not heard by who has a ``key``: then every message is sealed. The bytes of messages and seals are
libtimeloom's; :func:`write` and :func:`read` give them to who has another transport.
"""

from __future__ import annotations

import heapq
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from timeloom import _timeline
from timeloom._timeline import Seal
from timeloom.timeline import ErrorCode, Order, Stamp, Timeline, TimelineError

__all__ = ["Channel", "Datagrams", "Malformed", "Message", "Seal", "Unproved", "read", "write"]


class Malformed(Exception):
    """Bytes that are no message."""


class Unproved(Exception):
    """Not sealed with our key, changed on the way, said before, or from before we began."""


def write(seal: Seal | None, name: str, sent: Stamp, payload: bytes, act_at_ns: int | None = None) -> bytes:
    """The bytes of a message that is sent under ``name``; with a seal, of a sealed one."""
    return _timeline.write(seal, name, sent, act_at_ns, payload)


def read(seal: Seal | None, name: str, data: bytes, since: Stamp | None = None) -> tuple[Stamp, int | None, bytes]:
    """When a message was sent, when to act on it if that matters, and what it says.

    ``since`` is a reading from before anything could have come. Of a sender that was not heard before under ``name``,
    nothing is taken that it certainly sent earlier: else who begins anew would take what was said to one before.

    Raises:
        Malformed: the bytes are no message.
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


class Datagrams(_timeline.Channel):
    """A place to publish and subscribe, by datagrams: what is lost on the way is lost.

    Callbacks run in threads of the channel's.

    Args:
        timeline: by which messages are stamped, and acted on.
        prefix: of all keys.
        listen: ``HOST:PORT`` where messages come; port 0 takes a free one, which :attr:`port` tells.
        peers: each as ``HOST:PORT``, to which is published.
        key: 16 bytes or more that all have; without, nothing is sealed and everybody is believed.

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
        """Send to every peer; returns when it was sent, as the receivers will see it."""
        return self._publish(key, payload, act_at_ns)

    def subscribe(self, key: str, told: Callable[[Message], object], *, at_time: bool = False) -> None:
        """Call ``told`` for each message under ``key`` (``*`` stands for one part, ``**`` for any number): as it comes,
        or with ``at_time`` certainly not before its ``act_at_ns``, in that order."""
        self._subscribe(key, at_time, lambda *fields: told(Message(*fields)))

    @property
    def unproved(self) -> int:
        """Messages that were not sealed with our key, were changed, or were not new."""
        return self._counts()[0]

    @property
    def dropped(self) -> int:
        """Messages that were none, or of another prefix or timeline."""
        return self._counts()[1]

    def __enter__(self) -> Datagrams:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Channel:
    """A place to publish and subscribe over Zenoh. Callbacks run in threads of the channel's."""

    def __init__(
        self,
        timeline: Timeline,
        prefix: str,
        *,
        listen: str | None = None,
        connect: Sequence[str] = (),
        key: bytes | None = None,
    ):
        import zenoh  # not needed by who takes datagrams

        self.timeline = timeline
        self.prefix = prefix
        self._seal = None if key is None else Seal(key)
        #: Messages that were not sealed with ``key``, were changed, or were said before.
        self.unproved = 0
        #: Messages that were malformed, or of another timeline.
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
        """Send; returns when it was sent, as the receivers will see it."""
        stamp = self.timeline.read()
        self._publisher(key).put(write(self._seal, f"{self.prefix}/{key}", stamp, payload, act_at_ns))
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
