"""The controller of examples/sdn: its answers, and its robustness against any input from a
switch."""

import importlib.util
import random
import struct
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "examples" / "sdn" / "learning_switch.py"
spec = importlib.util.spec_from_file_location("learning_switch", PATH)
learning_switch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(learning_switch)

A, B, EVERYONE = bytes.fromhex("020000000001"), bytes.fromhex("020000000002"), b"\xff" * 6


def frame(destination: bytes, source: bytes) -> bytes:
    return destination + source + b"\x08\x00" + bytes(46)


def packet_in(in_port: int, data: bytes) -> bytes:
    return struct.pack("!IHBBQ", 0xFFFFFFFF, len(data), 0, 0, 0) + learning_switch.match(in_port) + b"\0\0" + data


def messages(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        version, kind, length, _ = struct.unpack_from("!BBHI", data)
        assert version == 4 and 8 <= length <= len(data)
        found.append((kind, data[8:length]))
        data = data[length:]
    return found


def out_port(packet_out: bytes) -> int:
    return struct.unpack_from("!I", packet_out, 16 + 4)[0]


def ask(switch, in_port: int, data: bytes) -> list[tuple[int, bytes]]:
    return messages(switch.handle(learning_switch.PACKET_IN, 0, packet_in(in_port, data)))


def test_a_switch_that_introduces_itself_is_told_to_ask():
    switch = learning_switch.Switch()
    answer = messages(switch.handle(learning_switch.FEATURES_REPLY, 1, struct.pack("!QIBB2xII", 7, 0, 1, 0, 0, 0)))
    assert switch.datapath == 7
    assert [kind for kind, _ in answer] == [learning_switch.FLOW_MOD]


def test_an_echo_is_answered_in_kind():
    answer = learning_switch.Switch().handle(learning_switch.ECHO_REQUEST, 99, b"here?")
    assert answer == struct.pack("!BBHI", 4, learning_switch.ECHO_REPLY, 13, 99) + b"here?"


def test_unknown_goes_everywhere_known_goes_one_way_and_becomes_a_rule():
    switch = learning_switch.Switch()
    [(kind, flooded)] = ask(switch, 1, frame(EVERYONE, A))
    assert (kind, out_port(flooded)) == (learning_switch.PACKET_OUT, learning_switch.FLOOD)
    (rule, _), (kind, forwarded) = ask(switch, 2, frame(A, B))
    assert (rule, kind, out_port(forwarded)) == (learning_switch.FLOW_MOD, learning_switch.PACKET_OUT, 1)
    assert ask(switch, 1, frame(A, B)) == [], "it came from where it would go"


def test_a_group_address_is_never_learned():
    switch = learning_switch.Switch()
    ask(switch, 1, frame(A, EVERYONE))
    assert switch.port_of == {}


def test_a_switch_that_floods_by_itself_is_configured_and_its_stations_learned_once():
    switch = learning_switch.FloodingSwitch()
    features = struct.pack("!QIBB2xII", 7, 0, 1, 0, 0, 0)
    (_, asks), (_, floods) = messages(switch.handle(learning_switch.FEATURES_REPLY, 1, features))
    assert floods[40:].startswith(learning_switch.match(destination=learning_switch.MANY))
    for port in (learning_switch.FLOOD, learning_switch.TO_CONTROLLER):
        assert learning_switch.output(port) in floods
    assert learning_switch.output(learning_switch.FLOOD) not in asks
    [(kind, rule)] = ask(switch, 1, frame(EVERYONE, A))
    assert kind == learning_switch.FLOW_MOD
    assert rule[40:].startswith(learning_switch.match(1, A, learning_switch.MANY))
    assert learning_switch.output(learning_switch.TO_CONTROLLER) not in rule
    assert ask(switch, 1, frame(EVERYONE, A)) == [], "on its way before the rule was there"
    (rule, _), (kind, forwarded) = ask(switch, 2, frame(A, B))
    assert (rule, kind, out_port(forwarded)) == (learning_switch.FLOW_MOD, learning_switch.PACKET_OUT, 1)
    assert ask(switch, 3, frame(EVERYONE, EVERYONE)) == [] and EVERYONE not in switch.port_of


def test_malformed_messages_are_named_as_such():
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    good = packet_in(3, frame(EVERYONE, A))
    for _ in range(20_000):
        body = bytearray(good[: chance.randrange(len(good) + 1)])
        for _ in range(chance.randrange(4)):
            if body:
                body[chance.randrange(len(body))] = chance.randrange(256)
        kind = chance.choice([learning_switch.PACKET_IN, learning_switch.FEATURES_REPLY, learning_switch.ERROR])
        try:
            messages(learning_switch.Switch().handle(kind, 0, bytes(body)))
        except learning_switch.Malformed:
            pass
        except Exception as error:
            pytest.fail("seed %d, %r: %r" % (seed, bytes(body), error))
