"""Lines of the plant protocol: one JSON object each, checked before use.

Reads and writes single lines, with every limit of ``timeloom-plant/1``. The meaning of the messages
is in :mod:`timeloom.plant`.

Everything received is hostile until parsed. A line that cannot be parsed at all raises
:class:`BadLine`; the peers are then out of step and the connection ends, because guessing where
the next message begins would be worse.
"""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterator
from typing import Any, TypeGuard

PROTOCOL = "timeloom-plant/1"
LINE_LIMIT_BYTES = 1 << 20
"""Longest line, newline included."""

TIME_LIMIT_NS = (1 << 63) - 1
"""Largest instant: the engine keeps virtual time in a signed 64-bit integer."""

_READ_BYTES = 1 << 16


class BadLine(Exception):
    """A line that is not a message; the connection cannot continue."""


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):  # 1e999 is valid JSON text, but no number of ours
        raise ValueError(f"{text} is out of range")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):  # two readers could disagree on which one counts
        raise ValueError("an object repeats a key")
    return found


def parse_line(line: bytes) -> dict[str, Any]:
    """Parse one line (without its newline) into an object with an integer ``id``.

    Raises:
        BadLine: not UTF-8, not one JSON object, a repeated key, a number that is not finite, or no
            integer ``id`` within 0..2^63-1.
    """
    try:
        message = json.loads(
            line.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_unique_keys,
        )
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise BadLine(f"not a line of JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadLine("a line must hold one JSON object")
    number = message.get("id")
    if not is_integer(number) or not 0 <= number <= TIME_LIMIT_NS:
        raise BadLine("a message needs an integer id from 0 to 2^63-1")
    return message


def emit_line(message: dict[str, Any]) -> bytes:
    """One message as a line with its newline.

    Raises:
        ValueError: a number that is not finite, or a line beyond the limit.
    """
    line = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    if len(line) > LINE_LIMIT_BYTES:
        raise ValueError(f"a reply of {len(line)} bytes exceeds the limit of {LINE_LIMIT_BYTES}")
    return line


def read_lines(connection: socket.socket) -> Iterator[bytes]:
    """Lines without their newlines, until the peer closes.

    Raises:
        BadLine: a line beyond the limit (found without storing it), or one cut short by the end.
    """
    pending = bytearray()
    while True:
        # Look for newlines only in what is new: a long line must not cost quadratic time.
        searched = len(pending)
        chunk = connection.recv(_READ_BYTES)
        if not chunk:
            if pending:
                raise BadLine("the connection ended inside a line")
            return
        pending += chunk
        start = 0
        while (end := pending.find(b"\n", max(start, searched))) >= 0:
            if end + 1 - start > LINE_LIMIT_BYTES:
                break
            yield bytes(pending[start:end])
            start = end + 1
        del pending[:start]
        if len(pending) >= LINE_LIMIT_BYTES:
            raise BadLine(f"a line exceeds the limit of {LINE_LIMIT_BYTES} bytes")


def is_integer(value: object) -> TypeGuard[int]:
    """Returns true if a JSON value is an integer. ``True`` is an ``int`` to Python, but not
    here."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Returns true if a JSON value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False
