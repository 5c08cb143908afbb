"""Seals on messages: who does not have the key can neither write one nor say an old one again.

A sealed message is the magic, the sender (16 random bytes), a count, the HMAC-SHA256 over both, over the name under which
it is sent and over the body, and the body. The body can be read by everybody: a seal proves, and hides nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
import threading

#: Magic, sender, count; the tag follows.
_HEADER = struct.Struct(">4s16sQ")
_MAGIC = b"TLS1"
_TAG_BYTES = hashlib.sha256().digest_size
#: Shorter keys are refused.
LEAST_KEY_BYTES = 16


class Unproved(Exception):
    """Not sealed with our key, changed on the way, or said before."""


class Seal:
    """One party's side: seals what it sends, and opens what others send with the same key."""

    def __init__(self, key: bytes):
        if len(key) < LEAST_KEY_BYTES:
            raise ValueError(f"a key has {LEAST_KEY_BYTES} bytes at least, not {len(key)}")
        self._key = key
        self._sender = os.urandom(16)
        self._count = 0
        #: The last count of each sender under each name. Only who has the key can make it grow.
        self._last: dict[tuple[bytes, str], int] = {}
        self._one = threading.Lock()

    def seal(self, name: str, body: bytes) -> bytes:
        with self._one:
            self._count += 1
            header = _HEADER.pack(_MAGIC, self._sender, self._count)
        return header + self._tag(header, name, body) + body

    def open(self, name: str, data: bytes) -> bytes:
        """The body. Raises :class:`Unproved`."""
        header, rest = data[: _HEADER.size], data[_HEADER.size :]
        if len(rest) < _TAG_BYTES or header[:4] != _MAGIC:
            raise Unproved("not sealed")
        tag, body = rest[:_TAG_BYTES], rest[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(header, name, body)):
            raise Unproved("another key, or changed on the way")
        _, sender, count = _HEADER.unpack(header)
        with self._one:
            if count <= self._last.get((sender, name), 0):
                raise Unproved("said before")
            self._last[sender, name] = count
        return body

    def _tag(self, header: bytes, name: str, body: bytes) -> bytes:
        under = name.encode()
        return hmac.digest(self._key, header + struct.pack(">I", len(under)) + under + body, "sha256")
