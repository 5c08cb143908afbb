"""The datagrams by which the watch and the switch's controller speak: sealed with a key that both have.

A datagram is ``VERB COUNT SEAL``: what is to be done or has been done, a number that only grows, and the HMAC-SHA256
over both. So nobody else can have a port cut off, and what was said before is not heard again.
"""

import hmac

#: Port at which the switch's controller intercepts alarms, and at which the watch receives the
#: answer.
SWITCH_PORT, WATCH_PORT = 6699, 6698
ALARM, ISOLATED = "alarm", "isolated"


def sealed(key: bytes, verb: str, count: int) -> bytes:
    said = f"{verb} {count}"
    return f"{said} {hmac.digest(key, said.encode(), 'sha256').hex()}".encode()


def opened(key: bytes, datagram: bytes, verb: str) -> int | None:
    """The number of a datagram of this verb that was sealed with the key."""
    said, _, seal = datagram.decode(errors="replace").rpartition(" ")
    wanted = hmac.digest(key, said.encode(), "sha256").hex()
    named, _, count = said.partition(" ")
    if not hmac.compare_digest(seal.encode(), wanted.encode()) or named != verb or not count.isdigit():
        return None
    return int(count)
