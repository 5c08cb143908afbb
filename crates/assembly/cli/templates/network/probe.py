"""Sends twenty datagrams a second; says each second how many came back, and how late."""

import socket
import struct
import sys
import time

PERIOD_S, A_SECOND = 0.05, 20

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.connect((sys.argv[1], int(sys.argv[2])))
    sent, delays_s = 0, []
    due_s = time.monotonic()
    while True:
        own.send(struct.pack(">d", time.monotonic()))
        sent += 1
        due_s += PERIOD_S
        while (left_s := due_s - time.monotonic()) > 0:
            own.settimeout(left_s)
            try:
                (then_s,) = struct.unpack(">d", own.recv(64))
            except TimeoutError:
                break
            delays_s.append(time.monotonic() - then_s)
        if sent == A_SECOND:
            mean_ms = 1e3 * sum(delays_s) / len(delays_s) if delays_s else float("nan")
            print("%d of %d back, %.1f ms on average" % (len(delays_s), sent, mean_ms))
            sent, delays_s = 0, []
