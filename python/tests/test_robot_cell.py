"""The robot cell: its arms, its part, and a short run in which the reference stops."""

from __future__ import annotations

import importlib
import os
import random
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from recorded import tank
from timeloom.results import Run
from worlds import timeloom_binary

ROOT = Path(__file__).resolve().parents[2]
CELL = ROOT / "examples" / "robot-cell"
FAULT_S = 4.0
HOLD, COORDINATED, REJOINING = 3.0, 2.0, 1.0


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(CELL))
    return importlib.import_module("ur5"), importlib.import_module("arms")


def test_the_joints_bring_the_tool_where_it_is_wanted(programs: tuple[ModuleType, ModuleType]) -> None:
    ur5, _ = programs
    # With all joints at zero the arm lies stretched out along its published lengths.
    x, y, z = ur5.tool([0.0] * 6)
    assert (x, y, z) == pytest.approx((-0.81725, -0.10915 - 0.0823, 0.089159 - 0.09465), abs=1e-12)
    chance, reached = random.Random(7), 0
    for _ in range(500):
        place = (chance.uniform(-0.7, 0.7), chance.uniform(-0.7, 0.7), chance.uniform(0.0, 0.5))
        try:
            q = ur5.joints(*place)
        except ur5.OutOfReach:
            continue
        reached += 1
        assert ur5.tool(q) == pytest.approx(place, abs=1e-9)
        wrist, flange = ur5.joints_along(q)[-2:]
        assert wrist[2] - flange[2] == pytest.approx(0.0823), "it points down"
    assert reached > 200
    with pytest.raises(ur5.OutOfReach):
        ur5.joints(1.2, 0.0, 0.3)


def test_a_part_falls_when_one_arm_is_later_than_it_bears(programs: tuple[ModuleType, ModuleType]) -> None:
    _, arms = programs

    def carried(late_ns: int) -> tuple[float, float]:
        cell = arms.Cell()
        cell.t_ns, cell.step_ns = 0, 1_000_000
        cell.setup({})
        for side in arms.BASES:
            cell.write({f"{side}.close": 1.0})
        assert cell["held"] == 1.0
        due = {"left": 0, "right": late_ns}
        worst = 0.0
        while cell.t_ns < 1_200_000_000:
            end_ns = min([cell.t_ns + 1_000_000, *(at for at in due.values() if at > cell.t_ns)])
            for side in [side for side, at in due.items() if at <= cell.t_ns]:
                y = cell[f"{side}.y"]
                cell.write({f"{side}.goal_x": 0.7, f"{side}.goal_y": y, f"{side}.goal_z": 0.35, f"{side}.go": 1.0})
                due.pop(side)
            cell.step(cell.t_ns, end_ns - cell.t_ns)
            cell.t_ns = end_ns
            worst = max(worst, cell["error"])
        for side in arms.BASES:
            assert cell[f"{side}.x"] == pytest.approx(0.7, abs=1e-6)
        return worst, cell["dropped"]

    together, dropped = carried(0)
    assert together < 1e-4 and dropped == 0.0
    # Fastest in the middle: half a metre in a second, by the least jerk.
    fastest = 1.875 * 0.5
    for late_ns, falls in ((200_000, 0.0), (1_000_000, 1.0)):
        worst, dropped = carried(late_ns)
        assert worst == pytest.approx(fastest * late_ns * 1e-9, rel=0.15) and dropped == falls


def test_the_cell_leaves_before_its_arms_disagree_and_the_plain_one_drops_the_part(tmp_path: Path) -> None:
    binary, name = timeloom_binary(), f"cell-test-{os.getpid()}"
    command = [binary, "run", str(CELL / "cell.toml"), "--name", name, "-o", str(tmp_path / "run")]
    for change in (
        "time.duration=15 s",
        "attack.reference.enabled=true",
        f"attack.reference.at={FAULT_S} s",
        'attack.reference.programs.reference.run=["./daemon.sh", "8"]',
        # The whole run's checks are about later instants; the conditions for now are checked below.
        "check=[]",
    ):
        command += ["--set", change]
    environment = os.environ | {"TIMELOOM": binary, "CELL_RUN": name, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    table = Run(tmp_path / "run").arrow.signals(long=True).to_pydict()
    signals: dict[str, list[tuple[float, float]]] = {}
    for t_ns, source, signal, value in zip(
        table["t_virtual_ns"], table["source"], table["name"], table["value"], strict=True
    ):
        signals.setdefault(f"{source}.{signal}", []).append((t_ns / 1e9, value))

    def first(name: str, wanted: float, from_s: float) -> float:
        found = [t for t, value in signals[name] if t >= from_s and value == wanted]
        assert found, f"{name} is never {wanted} from {from_s} s on"
        return found[0]

    slips = 0.0005
    assert max(value for _, value in signals["cell.error"]) < slips
    assert max(value for _, value in signals["cell.dropped"]) == 0.0
    # The same estimates, without a check of their quality.
    falls_s = first("plain.dropped", 1.0, 0.0)
    assert falls_s > FAULT_S, "before the fault plain clocks do as well"
    assert max(value for _, value in signals["plain.error"]) > slips
    for side in ("left", "right"):
        leaves_s = first(f"cell.{side}.mode", HOLD, FAULT_S)
        assert leaves_s < falls_s
        assert first(f"cell.{side}.mode", COORDINATED, leaves_s) > FAULT_S + 8.0
        assert max(value for _, value in signals[f"{side}.timeline.cell.outside"]) == 0.0
        assert max(value for _, value in signals[f"cell.{side}.unproved"]) == 0.0


def test_a_run_of_which_there_is_nothing_to_draw_is_named_with_the_reason(
    programs: tuple[ModuleType, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = importlib.import_module("page")
    # A run, but not of the cell: as one that failed before any record of the cell.
    other = tank(tmp_path)
    with pytest.raises(SystemExit, match="no run to make a page of"):
        page.main(str(tmp_path / "page.html"), [f"calm={other}", f"slow={tmp_path / 'none'}"])
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and not (tmp_path / "page.html").exists()
    assert said[0].startswith("page.py: calm: ") and "the run ended after 20.00 s of virtual time, done" in said[0]
    assert said[1].startswith("page.py: slow: ")


def test_two_runs_of_the_cell_agree_in_every_signal(tmp_path: Path) -> None:
    """Compares all records until the first arms move: the timelines, SNTP, all messages and the
    plants. The load of links may differ: the kernel repeats the first segment of a connection after
    one second of real time, at any load."""
    binary, name = timeloom_binary(), f"cell-twice-{os.getpid()}"
    command = [binary, "run", str(CELL / "cell.toml"), "--verify", "--name", name, "-o", str(tmp_path / "run")]
    for change in ("time.duration=2500 ms", "check=[]", "attack=[]"):
        command += ["--set", change]
    environment = os.environ | {"TIMELOOM": binary, "CELL_RUN": name, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def signals(directory: Path) -> dict[str, list[tuple[int, float]]]:
        table = Run(directory).arrow.signals(long=True).to_pydict()
        found: dict[str, list[tuple[int, float]]] = {}
        for t_ns, source, signal, value in zip(
            table["t_virtual_ns"], table["source"], table["name"], table["value"], strict=True
        ):
            found.setdefault(f"{source}.{signal}", []).append((t_ns, value))
        return {name: sorted(values) for name, values in found.items() if not name.startswith("net.link.")}

    assert (tmp_path / "run-again").is_dir(), done.stdout[-3000:] + done.stderr[-3000:]
    first, second = signals(tmp_path / "run"), signals(tmp_path / "run-again")

    def agree(one: list[tuple[int, float]], other: list[tuple[int, float]]) -> bool:
        """Timelines agree to a nanosecond (docs/limitations/skipping.md), everything else exactly."""
        if [t_ns for t_ns, _ in one] != [t_ns for t_ns, _ in other]:
            return False
        return all(abs(a - b) <= 1.1e-9 for (_, a), (_, b) in zip(one, other, strict=True))

    differ = [
        name
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
        and not (".timeline." in name and agree(first.get(name, []), second.get(name, [])))
    ]
    assert not differ, f"{differ[:5]}: {done.stdout[-2000:]}"
    # It has reached this point.
    assert max(value for _, value in first["cell.left.mode"]) >= REJOINING
    assert len({round(value, 4) for _, value in first["plain.left.z"]}) > 10, "the arm moves"
