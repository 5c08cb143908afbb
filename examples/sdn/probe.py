"""Pings an address twenty times, then sends to it by TCP with iperf3.

    python3 probe.py 10.0.2.1 --seconds 10

Its clock is that of the experiment. Needs root for the pings.
"""

import argparse
import os
import socket
import statistics
import struct
import time

ECHO_REQUEST, ECHO_REPLY = 8, 0


def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~((total >> 16) + total) & 0xFFFF


def ping(ping_socket, address, sequence):
    """Returns the round trip in seconds, or None when nothing came within two."""
    ident = os.getpid() & 0xFFFF
    body = struct.pack("!HH", ident, sequence) + bytes(56)
    head = struct.pack("!BBH", ECHO_REQUEST, 0, checksum(struct.pack("!BBH", ECHO_REQUEST, 0, 0) + body))
    began = time.monotonic()
    ping_socket.sendto(head + body, (address, 0))
    while (left := began + 2 - time.monotonic()) > 0:
        ping_socket.settimeout(left)
        try:
            packet = ping_socket.recv(2048)
        except TimeoutError:
            break
        reply = packet[(packet[0] & 15) * 4 :]
        if len(reply) >= 8 and reply[0] == ECHO_REPLY and struct.unpack_from("!HH", reply, 4) == (ident, sequence):
            return time.monotonic() - began
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("--seconds", type=int, default=10, help="of TCP (default 10)")
    options = parser.parse_args()
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as ping_socket:
        trips = [ping(ping_socket, options.address, sequence) for sequence in range(20) if not time.sleep(0.1)]
    came = [trip * 1e3 for trip in trips if trip is not None]
    print("pings: %d of %d came" % (len(came), len(trips)), flush=True)
    if came:
        rest = came[1:] or came
        print("first %.2f ms, then median %.2f, worst %.2f ms" % (came[0], statistics.median(rest), max(rest)), flush=True)
    iperf = ["iperf3", "--client", options.address, "--time", str(options.seconds)]
    os.execvp(iperf[0], iperf)


if __name__ == "__main__":
    main()
