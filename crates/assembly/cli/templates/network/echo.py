"""Sends every datagram back."""

import socket
import sys

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.bind(("0.0.0.0", int(sys.argv[1])))
    print("waiting")
    while True:
        data, peer = own.recvfrom(2048)
        own.sendto(data, peer)
