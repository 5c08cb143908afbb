"""Messages with their interval and their time to act, between two peers on the loopback interface."""

from __future__ import annotations

import queue
import random
import time
import uuid

import pytest

from test_timeline import PATIENCE_S, Daemon, daemon, truth_ns  # noqa: F401
from timeloom.messages import Channel, Datagrams, Malformed, Message, Seal, Unproved, read, write
from timeloom.timeline import Order, Stamp, Status, TimelineError
from worlds import own_address


def test_messages_come_back_as_they_were() -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(200):
        ends = sorted(chance.randrange(-(2**62), 2**62) for _ in range(3))
        identity = (chance.randrange(2**64), chance.randrange(2**64))
        stamp = Stamp(*identity, Status.OK, *ends) if chance.random() < 0.7 else Stamp(*identity, Status.DISRUPTED)
        act_at_ns = chance.choice([None, 0, -1, chance.randrange(-(2**63), 2**63)])
        payload = chance.randbytes(chance.randrange(20))
        data = write(None, "a", stamp, payload, act_at_ns)
        sent, at_ns, body = read(None, "a", data)
        assert (at_ns, body, repr(sent)) == (act_at_ns, payload, repr(stamp)), seed
        assert (sent.timeline_high, sent.timeline_low) == identity, seed
        assert write(None, "a", sent, body, at_ns) == data, seed


def test_malformed_messages_are_refused() -> None:
    good = write(None, "a", Stamp(1, 2, Status.OK, 1, 2, 3), b"x", 4)
    assert good[:8] == b"TLMS\x01\x03\x01\x00" and len(good) == 57
    inverted = good[:24] + good[40:48] + good[32:40] + good[24:32] + good[48:]
    changed = [b"XXXX" + good[4:], good[:4] + b"\x02" + good[5:], good[:5] + b"\xff" + good[6:]]
    for bad in [b"", good[:55], *changed, inverted]:
        with pytest.raises(Malformed):
            read(None, "a", bad)


def test_messages_carry_their_interval_and_wait_for_their_time(daemon: Daemon) -> None:  # noqa: F811
    timeline, endpoint, prefix = daemon.timeline, f"tcp/{own_address()}", f"test-{uuid.uuid4().hex}"
    got: queue.Queue[tuple[Message, int]] = queue.Queue()
    with Channel(timeline, prefix, listen=endpoint) as here, Channel(timeline, prefix, connect=[endpoint]) as there:
        there.subscribe("cell/*", lambda message: got.put((message, truth_ns())), at_time=True)
        assert here.wait_for_subscriber("cell/valve", PATIENCE_S)
        sent = here.publish("cell/valve", b"now")
        message, _ = got.get(timeout=PATIENCE_S)
        assert (message.key, message.payload, message.act_at_ns) == ("cell/valve", b"now", None)
        assert message.sent.estimate_ns == sent.estimate_ns
        assert message.order != Order.AFTER and message.in_time
        # Sent in another order than that of their due times.
        base = truth_ns() + 200_000_000
        for after_ms in (20, 0, 40):
            here.publish("cell/valve", b"%d" % after_ms, act_at_ns=base + after_ms * 1_000_000)
        for after_ms in (0, 20, 40):
            message, at = got.get(timeout=PATIENCE_S)
            due = base + after_ms * 1_000_000
            assert (message.payload, message.act_at_ns) == (b"%d" % after_ms, due)
            assert at >= due, f"acted {due - at} ns early"
            assert message.acted.earliest_ns >= due
        late = timeline.read().earliest_ns - 1
        here.publish("cell/valve", b"late", act_at_ns=late)
        message, _ = got.get(timeout=PATIENCE_S)
        assert message.payload == b"late" and not message.in_time
        # Datagrams that are not messages, or of another timeline, are dropped and counted.
        here._publisher("cell/valve").put(b"rubbish")
        here._publisher("cell/valve").put(write(None, "", Stamp(1, 2, Status.OK, 1, 2, 3), b"x"))
        deadline = time.monotonic() + PATIENCE_S
        while there.dropped < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert there.dropped == 2 and got.empty()


def test_runs_with_other_prefixes_do_not_hear_each_other(daemon: Daemon) -> None:  # noqa: F811
    timeline, endpoint = daemon.timeline, f"tcp/{own_address()}"
    got: queue.Queue[Message] = queue.Queue()
    with Channel(timeline, "run-a", listen=endpoint) as here, Channel(timeline, "run-b", connect=[endpoint]) as other:
        other.subscribe("**", got.put)
        assert not here.wait_for_subscriber("key", 0.3)
        here.publish("key", b"x")
        with pytest.raises(queue.Empty):
            got.get(timeout=0.2)


def test_a_seal_holds_against_another_key_a_change_a_replay_and_another_name() -> None:
    here, there, stamp = Seal(b"k" * 16), Seal(b"k" * 16), Stamp(1, 2, Status.OK, 10, 20, 30)
    first, second = (write(here, "cell/move", stamp, said) for said in (b"one", b"two"))
    assert read(there, "cell/move", first)[2] == b"one"
    for again in (first, first[:-1] + b"x", second[:30] + b"x" + second[31:], b"", second[:40]):
        with pytest.raises(Unproved):
            read(there, "cell/move", again)
    with pytest.raises(Unproved):
        read(there, "cell/stop", second)
    with pytest.raises(Unproved):
        read(Seal(b"x" * 16), "cell/move", second)
    assert read(there, "cell/move", second)[2] == b"two"
    with pytest.raises(ValueError, match="16 bytes"):
        Seal(b"short")
    # A restarted receiver does not accept messages that were certainly sent before.
    third = write(here, "cell/move", stamp, b"three")
    for since in (Stamp(1, 2, Status.OK, 31, 32, 33), Stamp(1, 2, Status.DISRUPTED)):
        with pytest.raises(Unproved):
            read(Seal(b"k" * 16), "cell/move", third, since)
    assert read(Seal(b"k" * 16), "cell/move", third, Stamp(1, 2, Status.OK, 30, 31, 32))[2] == b"three"


def test_datagrams_between_two_of_python(daemon: Daemon) -> None:  # noqa: F811
    timeline, key = daemon.timeline, b"0123456789abcdef"
    got: queue.Queue[tuple[Message, int]] = queue.Queue()
    with Datagrams(timeline, "run", key=key) as here:
        here.subscribe("cell/*", lambda message: got.put((message, truth_ns())), at_time=True)
        peers = [f"127.0.0.1:{here.port}"]
        with (
            Datagrams(timeline, "run", peers=peers, key=key) as there,
            Datagrams(timeline, "run", peers=peers) as rogue,
        ):
            rogue.publish("cell/move", b"forged")
            due = truth_ns() + 100_000_000
            sent = there.publish("cell/move", b"true", act_at_ns=due)
            message, at = got.get(timeout=PATIENCE_S)
            assert (message.key, message.payload, message.act_at_ns) == ("cell/move", b"true", due)
            assert at >= due and message.acted.earliest_ns >= due and repr(message.sent) == repr(sent)
            deadline = time.monotonic() + PATIENCE_S
            while not here.unproved and time.monotonic() < deadline:
                time.sleep(0.01)
            assert (here.unproved, here.dropped) == (1, 0) and got.empty()
            with pytest.raises(TimelineError, match="not a key"):
                there.publish("a//b", b"")
        with pytest.raises(TimelineError, match="listen or peers"):
            Datagrams(timeline, "run", peers=["localhost"])
    with pytest.raises(TimelineError):
        here.publish("cell/move", b"closed")
    with pytest.raises(TimelineError):
        here.subscribe("cell/move", print)


def test_a_channel_with_a_key_hears_no_sender_without_it(daemon: Daemon) -> None:  # noqa: F811
    timeline, endpoint, prefix = daemon.timeline, f"tcp/{own_address()}", f"test-{uuid.uuid4().hex}"
    got: queue.Queue[Message] = queue.Queue()
    key = b"0123456789abcdef"
    with (
        Channel(timeline, prefix, listen=endpoint, key=key) as here,
        Channel(timeline, prefix, connect=[endpoint], key=key) as there,
        Channel(timeline, prefix, connect=[endpoint]) as rogue,
    ):
        here.subscribe("move", got.put)
        assert there.wait_for_subscriber("move", PATIENCE_S) and rogue.wait_for_subscriber("move", PATIENCE_S)
        rogue.publish("move", b"forged")
        deadline = time.monotonic() + PATIENCE_S
        while not here.unproved and time.monotonic() < deadline:
            time.sleep(0.01)
        there.publish("move", b"true")
        assert got.get(timeout=PATIENCE_S).payload == b"true"
        assert (here.unproved, here.dropped) == (1, 0) and got.empty()
