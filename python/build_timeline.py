"""Builds ``timeloom/_timeline.abi3.so`` from C and ``libtimeloom.a``; run by ``make build`` and ``make test``.

Usage: build_timeline.py DIRECTORY-OF-LIBTIMELOOM [--if-needed]
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = [HERE / "timeloom" / name for name in ("_timeline.c", "_stamp.c", "_degradation.c", "_messages.c")]
OWN_HEADER = HERE / "timeloom" / "_timeline.h"
HEADER = HERE.parent / "crates" / "assembly" / "capi" / "include" / "timeloom.h"
MADE = HERE / "timeloom" / "_timeline.abi3.so"


def main(arguments: list[str]) -> int:
    library = Path(arguments[0]) / "libtimeloom.a"
    python = Path(sysconfig.get_path("include"))
    if not (python / "Python.h").exists():
        print(f"{python}/Python.h is missing (Debian: apt install python3-dev)", file=sys.stderr)
        return 3
    if "--if-needed" in arguments and MADE.exists():
        newest = max(path.stat().st_mtime for path in (*SOURCES, OWN_HEADER, HEADER, library))
        if MADE.stat().st_mtime > newest:
            return 0
    # Beside it, then renamed: a program that has the old one loaded keeps it.
    fresh = MADE.with_suffix(".new")
    command = [
        os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror",
        # Python's own headers define functions that they do not use.
        "-Wno-missing-field-initializers", "-Wno-cast-function-type",
        "-I", str(HEADER.parent), "-isystem", str(python), *map(str, SOURCES), str(library),
        "-Wl,--exclude-libs,ALL", "-Wl,--gc-sections", "-s", "-lpthread", "-ldl", "-lm", "-o", str(fresh),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    fresh.replace(MADE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
