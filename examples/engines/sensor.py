"""A sensor: answers each question by UDP with its next reading."""

import socket
import sys

value = float(sys.argv[1])
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind(("", 4000))
print("listening")
while True:
    question, asker = line.recvfrom(100)
    # A reading depends on the number of the question only.
    number = int(question)
    reading = value + (number * 7 % 10) / 10
    line.sendto(f"{number} {reading:.1f}".encode(), asker)
