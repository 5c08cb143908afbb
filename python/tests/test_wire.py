import socket
import threading

import pytest

from timeloom.wire import LINE_LIMIT_BYTES, BadLine, emit_line, is_number, parse_line, read_lines


def lines_of(data: bytes) -> list[bytes]:
    near, far = socket.socketpair()

    def feed() -> None:
        with far:
            try:
                far.sendall(data)
            except OSError:
                pass  # the reader gave up, as some tests want

    writer = threading.Thread(target=feed)
    writer.start()
    try:
        with near:
            return list(read_lines(near))
    finally:
        writer.join()


def test_emitted_messages_parse_to_the_same():
    message = {"id": 2**63 - 1, "ok": {"values": [1.0, -0.0, 1e-308, 0.1], "name": "\u00b5 \n \U0001f600"}}
    assert parse_line(emit_line(message)[:-1]) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[1]",
        b"7",
        b"null",
        b"\xff{}",
        b'{"op":"stop"}',
        b'{"id":"1"}',
        b'{"id":1.0}',
        b'{"id":true}',
        b'{"id":-1}',
        b'{"id":9223372036854775808}',
        b'{"id":1,"x":NaN}',
        b'{"id":1,"x":-Infinity}',
        b'{"id":1,"x":1e999}',
        b'{"id":1,"id":2}',
        b'{"id":1} {"id":2}',
        b"[" * 100_000,
        b'{"id":' + b"9" * 5000 + b"}",
    ],
)
def test_a_line_that_is_no_message_is_refused(line: bytes):
    with pytest.raises(BadLine):
        parse_line(line)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_never_leave(value: float):
    with pytest.raises(ValueError):
        emit_line({"id": 1, "ok": value})
    assert not is_number(value)


def test_truth_values_and_giants_are_no_numbers():
    assert not is_number(True)
    assert not is_number(10**400)
    assert is_number(-3) and is_number(2.5)


def test_lines_are_cut_at_newlines_for_any_arrival_of_bytes():
    assert lines_of(b"a\nbb\n\nccc\n") == [b"a", b"bb", b"", b"ccc"]


def test_the_longest_line_passes_and_one_byte_more_does_not():
    longest = b"x" * (LINE_LIMIT_BYTES - 1)
    assert lines_of(longest + b"\nnext\n") == [longest, b"next"]
    with pytest.raises(BadLine, match="limit"):
        lines_of(b"first\n" + longest + b"x\n")


def test_a_line_cut_short_by_the_end_is_noticed():
    with pytest.raises(BadLine, match="inside a line"):
        lines_of(b'{"id":1}\n{"id"')
