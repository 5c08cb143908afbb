"""Answers each line with the time that this machine's clock shows."""

import socket
import sys
import time

with socket.create_server(("0.0.0.0", int(sys.argv[1]))) as server:
    print("listening")
    while True:
        connection, peer = server.accept()
        print("connected from", peer[0])
        with connection, connection.makefile("rw") as lines:
            for line in lines:
                print("heard:", line.strip())
                lines.write(time.strftime("it is %H:%M:%S here\n", time.gmtime()))
                lines.flush()
