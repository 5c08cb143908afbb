"""The programs of the variants of examples/ieee13: the attacker's changes of packets, and the
defence's of frames."""

from __future__ import annotations

import argparse
import random
import struct
import sys

import pytest

from worlds import CASE

sys.path[:0] = [str(CASE), str(CASE.parent / "sdn")]
import alarm  # noqa: E402
import defence  # noqa: E402
import learning_switch  # noqa: E402
import middle  # noqa: E402

METER, SENSOR = bytes([10, 0, 0, 12]), bytes([10, 0, 0, 2])
TRUE, RECORDED = (700.0, 701.5, 702.0, 480.0, 128.0, 170.0), (1200.0, 1201.5, 1202.0, 470.0, 127.0, 171.0)
KEY = b"a key of sixteen bytes"


def answer(values, transaction=7):
    return middle.ANSWER.pack(transaction, 0, 27, 1, 4, 24) + middle.VALUES.pack(*values)


def packet(payload: bytes, port=502, sequence=1000) -> bytes:
    """A packet from the meter to the sensor; TCP's checksum is left open, as on virtual
    interfaces."""
    segment = struct.pack("!HHIIBBHHH", port, 40000, sequence, 5, 5 << 4, 0x18, 500, 0xBEEF, 0) + payload
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(segment), 1, 0, 64, 6, 0, METER, SENSOR) + segment


def values_of(out: bytes) -> tuple[float, ...]:
    return middle.VALUES.unpack(out[40 + middle.ANSWER.size :])


def sum_holds(out: bytes) -> bool:
    segment = out[20:]
    return middle.checksum(out[12:20] + struct.pack("!BBH", 0, 6, len(segment)) + segment) == 0


@pytest.fixture
def clock(monkeypatch):
    now = argparse.Namespace(s=100.0)
    monkeypatch.setattr(middle.time, "monotonic", lambda: now.s)
    return now


def test_a_replayed_answer_has_the_length_and_the_head_of_the_original(clock) -> None:
    lie = middle.Lie("none", 3.0, 0.0, 0.0)
    remembered: dict[int, bytes] = {}
    assert values_of(middle.rewritten(packet(answer(RECORDED)), lie, remembered)) == RECORDED
    clock.s += 5
    assert values_of(middle.rewritten(packet(answer(TRUE), sequence=1), lie, remembered)) == TRUE
    lie.begin("replay")
    original = packet(answer(TRUE, transaction=99), sequence=2)
    out = middle.rewritten(original, lie, remembered)
    assert values_of(out) == RECORDED and len(out) == len(original) and sum_holds(out)
    # All but TCP's checksum and the registers: the requester gets the answer to its request.
    assert out[:36] == original[:36] and out[38 : 40 + middle.ANSWER.size] == original[38 : 40 + middle.ANSWER.size]


def test_a_bias_grows_to_its_end_and_loads_are_left_alone(clock) -> None:
    lie = middle.Lie("inject", 0.0, 20.0, 400.0)
    remembered: dict[int, bytes] = {}
    for after_s, bias in ((0.0, 0.0), (5.0, 100.0), (40.0, 400.0)):
        clock.s = 100.0 + after_s
        told = values_of(middle.rewritten(packet(answer(TRUE), sequence=int(after_s)), lie, remembered))
        assert told == (700.0 + bias, 701.5 + bias, 702.0 + bias, 480.0, 128.0, 170.0)


def test_a_retransmission_has_the_content_of_the_original(clock) -> None:
    lie = middle.Lie("inject", 0.0, 20.0, 400.0)
    remembered: dict[int, bytes] = {}
    clock.s += 1
    first = middle.rewritten(packet(answer(TRUE)), lie, remembered)
    clock.s += 1
    assert middle.rewritten(packet(answer(TRUE)), lie, remembered) == first
    for sequence in range(5000, 5000 + 3 * middle.REMEMBERED):
        middle.rewritten(packet(answer(TRUE), sequence=sequence), lie, remembered)
    assert len(remembered) == middle.REMEMBERED


def test_all_else_passes_as_it_is_and_nothing_that_comes_breaks_the_attacker() -> None:
    lie = middle.Lie("inject", 0.0, 1e9, 1e9)
    lie.began_s -= 100
    others = [packet(b""), packet(b"\0" * 33), packet(answer(TRUE), port=503), packet(answer(TRUE)[:-1])]
    refused = middle.ANSWER.pack(7, 0, 27, 1, 3, 24) + bytes(24)
    for out in (middle.rewritten(one, lie, {}) for one in [*others, packet(refused)]):
        assert sum_holds(out) and out[40:] in {one[40:] for one in [*others, packet(refused)]}
    chance = random.Random(1)
    for _ in range(2000):
        whole = packet(answer(TRUE))
        cut = bytearray(whole[: chance.randrange(20, len(whole) + 1)])
        cut[chance.randrange(len(cut))] = chance.randrange(256)
        middle.rewritten(bytes(cut), lie, {})


def test_an_alarm_is_accepted_only_from_a_key_holder() -> None:
    said = alarm.sealed(KEY, alarm.ALARM, 12)
    assert alarm.opened(KEY, said, alarm.ALARM) == 12
    changed = said.replace(b"12", b"13", 1)
    for bad in (changed, said[:-1], b"", b"alarm 12", b"alarm 12 ", b"\xff" * 40, said.replace(b"alarm", b"isolated")):
        assert alarm.opened(KEY, bad, alarm.ALARM) is None
    assert alarm.opened(KEY, said, alarm.ISOLATED) is None
    assert alarm.opened(b"another", said, alarm.ALARM) is None


WATCH, LIAR, A, B = (bytes.fromhex(f"02000000000{n}") for n in (1, 2, 3, 4))
ADDRESS_A, ADDRESS_B, ADDRESS_WATCH = (bytes([10, 0, 0, n]) for n in (12, 2, 1))


def guarded(later) -> defence.GuardedSwitch:
    return defence.GuardedSwitch(["10.0.0.12", "10.0.0.2"], KEY, later)


def claim(switch, port: int, sender: bytes, address: bytes, target=B) -> bytes:
    said = defence.ARP_FRAME.pack(1, 0x0800, 6, 4, 2, sender, address, target, ADDRESS_B)
    return switch.forward(port, target + sender + b"\x08\x06" + said)


def alarm_frame(count: int, key=KEY, cut=0) -> bytes:
    said = alarm.sealed(key, alarm.ALARM, count)
    frame = defence.datagram(b"\xff" * 6, bytes([10, 0, 0, 255]), alarm.SWITCH_PORT, said)
    frame = frame[:6] + WATCH + frame[12:26] + ADDRESS_WATCH + frame[30:]
    return frame[: len(frame) - cut]


def drops(data: bytes) -> list[bytes]:
    """The matches of the rules without an instruction."""
    found, version = [], learning_switch.VERSION
    while data:
        got, kind, length, _ = learning_switch.HEADER.unpack_from(data)
        assert got == version
        body, data = data[8:length], data[length:]
        if kind == learning_switch.FLOW_MOD:
            size = struct.unpack_from("!H", body, 42)[0]
            if len(body) == 40 + size + (-size % 8):
                found.append(body[40:])
    return found


def test_a_liar_is_cut_off_only_after_the_alarm_of_the_watch() -> None:
    later = []
    switch = guarded(lambda after_s, data: later.append((after_s, data)))
    claim(switch, 1, A, ADDRESS_A)
    claim(switch, 2, B, ADDRESS_B)
    assert not drops(claim(switch, 3, LIAR, ADDRESS_A)) and list(switch.suspects) == [3] and not switch.cut_off
    for bad in (alarm_frame(5, key=b"another"), alarm_frame(5, cut=1), alarm_frame(5)[:40]):
        assert not drops(switch.forward(4, bad)) and not switch.cut_off
    rules = switch.forward(4, alarm_frame(5))
    assert drops(rules) == [learning_switch.match(in_port=3), learning_switch.match(destination=LIAR)]
    assert switch.cut_off == {3} and alarm.sealed(KEY, alarm.ISOLATED, 5) in rules
    # Both learn the address of the other again, more than once, and the disconnected one is not
    # heard.
    told = [data for _, data in later]
    assert sum(A + ADDRESS_A in data for data in told) == sum(B + ADDRESS_B in data for data in told)
    assert len(told) == 2 * len(defence.TOLD_AFTER_S)
    assert switch.forward(3, B + LIAR + bytes(50)) == b""
    assert not drops(switch.forward(4, alarm_frame(5))), "said before"


def test_without_a_lie_an_alarm_cuts_no_port_off() -> None:
    switch = guarded(lambda after_s, data: pytest.fail("nothing is to be told"))
    claim(switch, 1, A, ADDRESS_A)
    claim(switch, 1, A, ADDRESS_A)
    assert switch.forward(4, alarm_frame(1)) == b"" and not switch.cut_off


def test_no_frame_breaks_the_defence() -> None:
    chance = random.Random(2)
    switch = guarded(lambda after_s, data: None)
    for _ in range(3000):
        whole = bytearray(alarm_frame(chance.randrange(99)))
        whole[chance.randrange(len(whole))] = chance.randrange(256)
        switch.forward(chance.randrange(1, 5), bytes(whole[: chance.randrange(14, len(whole) + 1)]))
