"""A controller: asks all sensors every 100 ms, 15 times, and prints their readings."""

import socket
import sys
import time

line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind(("", 4001))
line.settimeout(0.05)


def ask(sensor, number):
    """Returns a sensor's reading. A question may be lost in a full queue between the sites."""
    while True:
        line.sendto(str(number).encode(), (sensor, 4000))
        try:
            while True:
                answer, (address, _) = line.recvfrom(100)
                of, reading = answer.decode().split()
                if (address, int(of)) == (sensor, number):
                    return reading
        except TimeoutError:
            pass


longest = 0.0
for number in range(1, 16):
    time.sleep(0.1 - time.monotonic() % 0.1)
    readings = []
    for sensor in sys.argv[1:]:
        began = time.monotonic()
        readings.append(ask(sensor, number))
        longest = max(longest, time.monotonic() - began)
    print(f"reading {number}:", *readings)
print(f"the slowest answer took {longest * 1000:.3f} ms")
