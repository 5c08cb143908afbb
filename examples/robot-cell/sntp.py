"""Plain clocks: CLOCK_REALTIME set by SNTP (RFC 4330), by the last answer and by nothing else.

    sntp.py serve            answers with this host's clock
    sntp.py ADDRESS          asks twice a second, and sets this host's clock

It believes that the way there takes as long as the way back, as the protocol does, and tells nobody how far off it
may be.
"""

import select
import socket
import struct
import sys
import time

PORT = 123
EVERY_S = 0.5
#: Seconds from 1900, NTP's epoch, to 1970.
ERA_S = 2_208_988_800
#: Leap and version and mode, stratum, poll, precision; delay, dispersion, name; four timestamps.
PACKET = struct.Struct("!BBbb3I4Q")


def ntp(unix_ns: int) -> int:
    return (unix_ns + ERA_S * 10**9 << 32) // 10**9


def unix_ns(stamp: int) -> int:
    return (stamp * 10**9 >> 32) - ERA_S * 10**9


def serve() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("0.0.0.0", PORT))
        while True:
            data, who = udp.recvfrom(512)
            came = ntp(time.time_ns())
            if len(data) == PACKET.size and data[0] & 7 == 3:
                asked = PACKET.unpack(data)[-1]
                reply = PACKET.pack(0x24, 1, 0, -30, 0, 0, 0x4C4F434C, came, asked, came, ntp(time.time_ns()))
                udp.sendto(reply, who)


def follow(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.connect((address, PORT))
        while True:
            began_s = time.monotonic()
            try:
                ask(udp)
            except OSError:
                pass  # no answer: the oscillator runs freely
            time.sleep(max(0.0, began_s + EVERY_S - time.monotonic()))


def ask(udp: socket.socket) -> None:
    sent = ntp(time.time_ns())
    udp.send(PACKET.pack(0x23, 0, 0, 0, 0, 0, 0, 0, 0, 0, sent))
    if not select.select([udp], [], [], EVERY_S * 0.8)[0]:
        return
    data, came_ns = udp.recv(512), time.time_ns()
    if len(data) != PACKET.size:
        return
    *_, origin, received, transmitted = PACKET.unpack(data)
    if origin == sent:
        offset_ns = (unix_ns(received) - unix_ns(sent) + unix_ns(transmitted) - came_ns) // 2
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + offset_ns)


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else follow(sys.argv[1])
