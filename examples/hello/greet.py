"""Says hello once a second and prints the answer and how long it took."""

import socket
import sys
import time

with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    with connection.makefile("rw") as lines:
        while True:
            asked_s = time.monotonic()
            lines.write("hello\n")
            lines.flush()
            answer = lines.readline().strip()
            print("%s (after %.3f ms)" % (answer, 1e3 * (time.monotonic() - asked_s)))
            time.sleep(1)
