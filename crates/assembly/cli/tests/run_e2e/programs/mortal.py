"""Waits, says what the clock shows, and is gone at once.

mortal.py SECONDS STATUS        a negative status is a signal
"""

import os
import sys
import time

time.sleep(float(sys.argv[1]))
status = int(sys.argv[2])
# Without a newline: only the program's end ends the line.
os.write(1, b"said %d" % time.time_ns())
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
