"""Keeps the level of a tank: reads it by Modbus/TCP and sets the inflow, five times a second.

Modbus is simple enough to be written by hand; a real program would use a library such as pymodbus.
"""

import argparse
import socket
import struct
import time

READ_INPUT, WRITE_HOLDING = 4, 16
UNIT = 1


def receive(connection, length):
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionError("the device closed the connection")
        data += part
    return data


def ask(connection, function, body):
    """Sends one request and returns what the answer holds after its function code."""
    # Transaction, protocol 0, length of the rest, unit; then function code and body.
    connection.sendall(struct.pack(">HHHBB", 1, 0, 2 + len(body), UNIT, function) + body)
    _, _, length, _, answered = struct.unpack(">HHHBB", receive(connection, 8))
    rest = receive(connection, length - 2)
    if answered != function:
        raise ValueError("the device refuses function %d with code %d" % (function, rest[0]))
    return rest


def read_float(connection, address):
    return struct.unpack(">xf", ask(connection, READ_INPUT, struct.pack(">HH", address, 2)))[0]


def write_float(connection, address, value):
    ask(connection, WRITE_HOLDING, struct.pack(">HHBf", address, 2, 4, value))


parser = argparse.ArgumentParser(description="Keep the level of a tank.")
parser.add_argument("device", help="address of the Modbus/TCP device")
parser.add_argument("--port", type=int, default=502)
parser.add_argument("--level", type=float, default=1.5, help="the level to keep, in m (default 1.5)")
options = parser.parse_args()

with socket.create_connection((options.device, options.port)) as tank:
    while True:
        level_m = read_float(tank, 0)
        # Outflow at the set point, and more the further the level is below it.
        inflow_m3_s = 0.1 * options.level**0.5 + 0.5 * (options.level - level_m)
        inflow_m3_s = min(max(inflow_m3_s, 0.0), 0.3)
        write_float(tank, 0, inflow_m3_s)
        print("level %.3f m, inflow %.3f m3/s" % (level_m, inflow_m3_s))
        time.sleep(0.2)
