"""A real run: ``examples/hello/plant.toml``, shortened, with a capture and a labelled attack. Made
once for all tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from worlds import ROOT, timeloom_binary

MORE = """
[[capture]]
link = ["operator", "s1"]

[[attack]]
id = "idle"
at = "5 s"
host = "operator"
technique = ["T0830", "T0814"]
programs = [{ name = "idler", run = ["sleep", "3600"] }]
"""


def environment() -> dict[str, str]:
    """An environment in which ``python3`` is this Python, and finds the package."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "python")}


def run(scenario: Path, into: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs ``timeloom run`` to its end."""
    command = [timeloom_binary(), "run", str(scenario), "-o", str(into), *options]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)


def sweep(scenario: Path, into: Path, *options: str) -> None:
    """Runs ``timeloom sweep``, which must pass."""
    command = [timeloom_binary(), "sweep", str(scenario), "-o", str(into), *options]
    made = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr + made.stdout


def tank_scenario(scratch: Path) -> Path:
    """A copy of the example, with additions."""
    copied = scratch / "hello"
    shutil.copytree(ROOT / "examples" / "hello", copied)
    scenario = copied / "plant.toml"
    scenario.write_text(scenario.read_text().replace("../../python", str(ROOT / "python")) + MORE)
    return scenario


@cache
def tank(scratch: Path) -> Path:
    """The run directory of the tank. Time skips, so that it takes a second or two."""
    scenario = tank_scenario(scratch)
    made = run(scenario, scratch / "tank", "--set", "time.mode=skip", "--set", "time.duration=20 s")
    assert made.returncode == 0, made.stderr + made.stdout
    return scratch / "tank"
