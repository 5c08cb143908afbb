"""A camera sends pictures to a store, as fast as TCP lets it: `bulk.py ADDRESS SECONDS`, and `bulk.py take`."""

import socket
import sys
import time

PORT = 9000


def take() -> None:
    with socket.create_server(("0.0.0.0", PORT)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                while connection.recv(1 << 20):
                    pass


def send(address: str, seconds: float) -> None:
    end_s, picture = time.monotonic() + seconds, bytes(1 << 18)
    with socket.create_connection((address, PORT)) as connection:
        while time.monotonic() < end_s:
            connection.sendall(picture)


if __name__ == "__main__":
    take() if sys.argv[1] == "take" else send(sys.argv[1], float(sys.argv[2]))
