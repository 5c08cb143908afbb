"""Takes memory without end, once a file called `eat` lies beside it. Ends with status 3 where nobody
ends it.
"""

import os
import sys
import time

os.write(1, b"hungry\n")
while not os.path.exists("eat"):
    time.sleep(0.05)
kept: list[bytearray] = []
while len(kept) < 1024:
    kept.append(bytearray(b"x") * (1 << 20))
sys.exit(3)
