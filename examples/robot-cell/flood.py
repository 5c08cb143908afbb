"""A camera sends as much as the link to the left controllers takes, and a little more: flood.py ADDRESS SECONDS."""

import socket
import sys
import time

#: One picture every hundredth of a second, in datagrams that fill a frame: 103 Mbit/s with all
#: headers.
PAYLOAD_BYTES, PER_PICTURE, EVERY_S = 1472, 84, 0.01
#: Number of datagrams sent first, to fill the link's queue.
QUEUE = 400


def main(address: str, seconds: float) -> None:
    picture = bytes(PAYLOAD_BYTES)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        due_s = time.monotonic()
        end_s, count = due_s + seconds, QUEUE
        while due_s < end_s:
            for _ in range(count):
                udp.sendto(picture, (address, 9))
            due_s, count = due_s + EVERY_S, PER_PICTURE
            time.sleep(max(0.0, due_s - time.monotonic()))


main(sys.argv[1], float(sys.argv[2]))
