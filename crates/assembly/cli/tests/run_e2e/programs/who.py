"""Says who it is and what it may do, writes a file, binds a port; then ticks."""

import os
import socket
import sys
import time

NAME, PORT = sys.argv[1], int(sys.argv[2])

with open("/proc/self/status", encoding="ascii") as status:
    fields = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
for key in ("Uid", "Gid", "Groups", "NoNewPrivs", "CapEff", "CapPrm", "CapBnd", "CapAmb"):
    print(key, *fields[key].split())
print("home", os.environ.get("HOME"))

server = socket.socket()
try:
    server.bind(("0.0.0.0", PORT))
    print("bound", PORT)
except PermissionError:
    print("refused", PORT)

with open(f"written-by-{NAME}", "w", encoding="ascii") as file:
    file.write("it could\n")
try:
    os.setuid(0)
    print("root again")
except PermissionError:
    print("root no more")

# The program's time is the session's, independently of the machine's.
print("year", time.gmtime().tm_year)
before = time.monotonic_ns()
time.sleep(0.05)
print("slept", time.monotonic_ns() - before)
print("ready", flush=True)
while True:
    print("tick", time.monotonic_ns(), flush=True)
    time.sleep(0.02)
