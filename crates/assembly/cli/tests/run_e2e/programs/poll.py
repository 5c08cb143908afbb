"""Reads the plant's time over Modbus/TCP again and again, and says what its own clocks showed.

usage: poll.py ADDRESS PERIOD_S [SET BEGIN_S]

Prints `sample BEFORE AFTER PLANT LASTED`, all in ns: civil time since the start of the run before the
request and after it, the plant's own time, and how long the request took on the monotonic clock. With
SET it also steers the plant's level towards that value, from BEGIN_S of its own time on.
"""

import os
import socket
import struct
import sys
import time

START_NS = 1_559_520_000 * 10**9  # 2019-06-03T00:00:00Z, as in the scenarios


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_REALTIME) - START_NS


def say(*words):
    """In one write, so that the end of the run does not cut a line in two."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def receive(connection, length):
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionError("the device closed the connection")
        data += part
    return data


def ask(connection, function, body):
    connection.sendall(struct.pack(">HHHBB", 1, 0, 2 + len(body), 1, function) + body)
    _, _, length, _, answered = struct.unpack(">HHHBB", receive(connection, 8))
    rest = receive(connection, length - 2)
    if answered != function:
        raise ValueError("the device refuses with code %d" % rest[0])
    return rest


address, period_s = sys.argv[1], float(sys.argv[2])
wanted = float(sys.argv[3]) if len(sys.argv) > 3 else None
with socket.create_connection((address, 502)) as device:
    if wanted is not None:
        time.sleep(max(0.0, float(sys.argv[4]) - now_ns() * 1e-9))
    device.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        began_ns = time.monotonic_ns()
        before_ns = now_ns()
        reply = ask(device, 4, struct.pack(">HH", 0, 8))
        after_ns = now_ns()
        lasted_ns = time.monotonic_ns() - began_ns
        plant_ns, level = struct.unpack(">xdd", reply)
        say("sample", before_ns, after_ns, int(plant_ns), lasted_ns)
        if wanted is not None:
            ask(device, 16, struct.pack(">HHBf", 0, 2, 4, 0.5 * wanted + 0.5 * (wanted - level)))
        time.sleep(period_s)
