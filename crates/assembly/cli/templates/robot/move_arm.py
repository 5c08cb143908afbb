"""Moves the arm to a quarter turn and back: reads angle and speed, writes a torque."""

import math
import socket
import struct
import sys
import time

READ_INPUT, WRITE_HOLDING = 4, 16
UNIT = 1
PERIOD_S = 0.02
STIFFNESS_NM, DAMPING_NMS = 20.0, 2.0
WEIGHT_NM = 2.0 * 9.81 * 0.5 / 2  # of the arm when it is level


def receive(connection, length):
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionError("the drive closed the connection")
        data += part
    return data


def ask(connection, function, body):
    """Sends one request of Modbus/TCP and returns what the answer holds after its function."""
    connection.sendall(struct.pack(">HHHBB", 1, 0, 2 + len(body), UNIT, function) + body)
    _, _, length, _, answered = struct.unpack(">HHHBB", receive(connection, 8))
    rest = receive(connection, length - 2)
    if answered != function:
        raise ValueError("the drive refuses function %d with code %d" % (function, rest[0]))
    return rest


def wanted_rad(at_s):
    """A quarter turn within 2 s, a rest of 2 s, and back within 2 s; smooth."""
    share = min(max(at_s / 2, 0), 1) - min(max((at_s - 4) / 2, 0), 1)
    return math.pi / 2 * (1 - math.cos(math.pi * share)) / 2


with socket.create_connection((sys.argv[1], 502)) as drive:
    began_s = next_s = time.monotonic()
    while True:
        at_s = time.monotonic() - began_s
        angle, speed = struct.unpack(">xff", ask(drive, READ_INPUT, struct.pack(">HH", 0, 4)))
        wanted = wanted_rad(at_s)
        torque = STIFFNESS_NM * (wanted - angle) - DAMPING_NMS * speed + WEIGHT_NM * math.sin(angle)
        ask(drive, WRITE_HOLDING, struct.pack(">HHBff", 0, 4, 8, torque, wanted))
        if int(at_s / 0.5) != int((at_s - PERIOD_S) / 0.5):
            print("%.1f s: %.3f of %.3f rad" % (at_s, angle, wanted))
        next_s += PERIOD_S
        time.sleep(max(0, next_s - time.monotonic()))
