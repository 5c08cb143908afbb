"""Simulated boards on one wire: a GPIO chip for each (the kernel's gpio-sim), and a process
that joins their outputs by OR and leads that to their inputs.

A board's lines: 0 is its output, 1 its input for rising, 2 that for falling edges.
"""

import multiprocessing
import os
import time
from pathlib import Path

CONFIG = Path("/sys/kernel/config/gpio-sim")
OUTPUT, RISING, FALLING = range(3)


class Board:
    """One chip with three lines."""

    def __init__(self, name):
        self.name = name
        device = CONFIG / name
        (device / "bank").mkdir(parents=True)
        (device / "bank" / "num_lines").write_text("3")
        (device / "live").write_text("1")
        self.chip = (device / "bank" / "chip_name").read_text().strip()
        platform = (device / "dev_name").read_text().strip()
        lines = Path("/sys/devices/platform") / platform / self.chip
        self.lines = [lines / f"sim_gpio{line}" for line in range(3)]

    def open(self):
        """Its lines' files, once for a process."""
        flags = os.O_RDWR
        self.pulls = [os.open(line / "pull", flags) for line in self.lines]
        self.value = os.open(self.lines[OUTPUT] / "value", os.O_RDONLY)

    def drives(self):
        """Whether the output drives high. One that does not keeps what it had last, until
        it is pulled down."""
        self.pull(OUTPUT, False)
        return os.pread(self.value, 4, 0).strip() == b"1"

    def pull(self, line, high):
        os.pwrite(self.pulls[line], b"pull-up" if high else b"pull-down", 0)


class Wire:
    """The wire between boards, as a process of its own.

    What is written to `faults` (index of a board: letters) is wrong with it: `r` its input
    for rising, `f` that for falling edges keeps its level. `stuck` holds the wire high.
    """

    def __init__(self, boards):
        self.boards = boards
        self.stuck = multiprocessing.Value("b", 0)
        self.faults = [multiprocessing.Array("c", 4) for _ in boards]
        self.level = multiprocessing.Value("b", 0)
        # Changes: their number, and for each board the bounds of the instants of the last.
        self.log, self._writer = multiprocessing.Pipe(duplex=False)
        self._process = multiprocessing.Process(target=self._run, daemon=True)

    def start(self):
        self._process.start()

    def is_alive(self):
        return self._process.is_alive()

    def _run(self):
        for board in self.boards:
            board.open()
        level = False
        # Last value given to each input.
        given = [[False, False] for _ in self.boards]
        while True:
            high = bool(self.stuck.value) or any([board.drives() for board in self.boards])
            changed = high != level
            level = high
            bounds = []
            for index, board in enumerate(self.boards):
                wrong = self.faults[index].value
                before = time.monotonic_ns()
                for at, (line, letter) in enumerate(((RISING, b"r"), (FALLING, b"f"))):
                    if given[index][at] != high and letter not in wrong:
                        board.pull(line, high)
                        given[index][at] = high
                bounds.append((before, time.monotonic_ns()))
            if changed:
                self.level.value = high
                self._writer.send((high, bounds))
            # All boards share the processors with this process.
            time.sleep(0.002)
