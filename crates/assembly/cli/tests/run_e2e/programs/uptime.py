"""Says whether /proc/uptime and the boot time in /proc/stat are those of its clocks, a few hundred times over."""

import os
import time


def contents(path):
    with open(path) as file:
        return file.read()


def boot_time():
    return int(next(line for line in contents("/proc/stat").splitlines() if line.startswith("btime ")).split()[1])


wrong = []
for _ in range(200):
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    up = float(contents("/proc/uptime").split()[0])
    after = time.clock_gettime(time.CLOCK_BOOTTIME)
    if not before - 0.011 <= up <= after:
        wrong.append(f"uptime {up} not in {before} {after}")
    # Truncated to a second; and the clock advances between the two reads.
    least = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - 1
    boot = boot_time()
    earlier = time.clock_gettime(time.CLOCK_BOOTTIME)
    if not least - 0.001 <= boot <= time.time() - earlier + 0.001:
        wrong.append(f"boot time {boot} not in {least}")
os.write(1, f"wrong {wrong[:1]} {len(wrong)}\n".encode() if wrong else b"right\n")
time.sleep(1e6)
