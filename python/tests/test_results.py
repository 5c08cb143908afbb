"""`timeloom.results`, of a real run and of directories that are not runs."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recorded
from timeloom import run_tables
from timeloom.results import NotARun, OlderLayout, Run, Sweep, Unfinished
from timeloom.run_directory import civil_ns
from worlds import ROOT

DOCUMENT = (ROOT / "docs" / "results.md").read_text()
FRAMES = ("signals", "events", "clock", "labels", "pauses", "logs", "packets", "checks")


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded.tank(tmp_path_factory.getbasetemp())


@pytest.fixture
def run(directory: Path) -> Run:
    return Run(directory)


def table_of(heading: str, number: int = 0) -> dict[str, list[str]]:
    """The table under a heading of the document, by default the first: first column, and the
    others."""
    section = DOCUMENT.split(f" {heading}\n")[1].split("\n#")[0]
    blocks = [block.strip() for block in section.split("\n\n")]
    tables = [block for block in blocks if block.startswith("|")]
    lines = tables[number].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: row[1:] for row in rows for name in re.findall(r"`([^`]+)`", row[0])}


@pytest.mark.parametrize("table", list(run_tables.FILES))
def test_the_document_has_every_column_of_the_written_tables(directory: Path, table: str) -> None:
    schema = pq.read_schema(directory / f"{table}.parquet")
    written = {field.name: str(field.type) for field in schema}
    documented = {name: cells[0] for name, cells in table_of(f"{table}.parquet").items()}
    assert documented == written
    assert {name: str(kind) for name, kind in run_tables.FILES[table].items()} == written
    assert all(cells[1] == "ns" for name, cells in table_of(f"{table}.parquet").items() if name.endswith("_ns"))


def test_the_document_has_every_file_and_every_key(directory: Path) -> None:
    manifest = json.loads((directory / "manifest.json").read_text())
    documented = set(table_of("manifest.json"))
    assert set(manifest) <= documented
    # Present only in some runs.
    assert documented - set(manifest) <= {"grants", "untrusted", "failure", "inputs", "inherited"}
    assert all(
        set(check) == set(table_of("checks.json")) for check in json.loads((directory / "checks.json").read_text())
    )
    documented = set(table_of("Files"))
    for path in directory.rglob("*.*"):
        name = path.relative_to(directory).as_posix()
        known = {name, re.sub(r"/.*\.", "/NAME.", name), re.sub(r"/.*\.", "/A-B.", name)}
        known.add(re.sub(r"/.*", "/NAME", name))
        assert known & documented, f"docs/results.md says nothing of {name}"


@pytest.mark.parametrize("frame", FRAMES)
def test_the_document_has_every_column_of_every_frame(run: Run, frame: str) -> None:
    """Each is named in the row of the method, or, if that refers to a file, among the columns of
    the file."""
    columns = getattr(run.arrow, frame)(**({"long": True} if frame == "signals" else {})).column_names
    row = table_of("In Python")[{"signals": "signals(long=True)"}.get(frame, f"{frame}()")][0]
    documented = set(re.findall(r"`([a-z_]+)`", row))
    if "the file's columns" in row:
        documented |= set(table_of(f"{frame}.parquet"))
    assert documented == set(columns)


def test_signals_are_wide_over_virtual_seconds_or_long(run: Run) -> None:
    wide, long = run.signals(), run.signals(long=True)
    assert wide.index.name == "t_s" and wide.index.is_monotonic_increasing and wide.index.is_unique
    assert list(wide.columns) == ["tank.inflow", "tank.level"]
    assert wide.notna().to_numpy().sum() == len(long), "each sample has its place"
    for name, column in wide.items():
        of = long[long["source"] + "." + long["name"] == name]
        assert np.array_equal(column.dropna().to_numpy(), of["value"].to_numpy())
        assert np.array_equal(column.dropna().index.to_numpy(), of["t_s"].to_numpy())
    assert run.signals("level").columns.tolist() == ["tank.level"], "a name that one source has is enough"
    assert run.units == {"tank.inflow": "m3/s", "tank.level": "m"}
    with pytest.raises(KeyError, match=r"no signal 'lvel' was recorded; there are tank\.inflow, tank\.level"):
        run.signals("lvel")


def test_a_signal_is_empty_where_it_was_not_sampled_and_of_one_instant_the_last_counts() -> None:
    rows = [(0, "a", 1.0), (0, "b", 5.0), (10, "b", 6.0), (10, "b", 7.0), (20, "a", 2.0)]
    t_ns, names, values = zip(*rows, strict=True)
    source = pa.array(["x"] * len(rows))
    wide = run_tables.wide(pa.table({"t_virtual_ns": t_ns, "source": source, "name": names, "value": values}))
    assert wide.to_pydict() == {
        "t_virtual_ns": [0, 10, 20],
        "t_s": [0.0, 1e-8, 2e-8],
        "x.a": [1.0, None, 2.0],
        "x.b": [5.0, 7.0, None],
    }


@pytest.mark.parametrize("frame", FRAMES)
def test_pandas_polars_and_arrow_have_the_same_rows(run: Run, frame: str) -> None:
    arrow = getattr(run.arrow, frame)()
    assert isinstance(arrow, pa.Table)
    in_polars = getattr(run.polars, frame)()
    assert isinstance(in_polars, polars.DataFrame) and in_polars.to_dicts() == arrow.to_pylist()
    in_pandas = getattr(run, frame)()
    assert isinstance(in_pandas, pandas.DataFrame) and len(in_pandas) == len(arrow)
    if frame != "signals":
        assert in_pandas.columns.tolist() == arrow.column_names


def test_lines_have_their_instant_and_their_text(run: Run, directory: Path) -> None:
    lines = run.logs("keep-level")
    written = (directory / "logs" / "keep-level.log").read_text().splitlines()
    assert len(lines) == len(written) > 50
    assert written[3] == "[%12.6f] %s" % (lines["t_s"][3], lines["text"][3])
    assert lines["t_virtual_ns"].is_monotonic_increasing
    with pytest.raises(KeyError, match="no log of 'nobody'; there are idler, keep-level, plant-tank"):
        run.logs("nobody")


def test_packets_have_virtual_time_to_the_nanosecond_and_addresses(run: Run) -> None:
    packets = run.packets()
    assert set(packets["link"]) == {"operator-s1"}
    tcp = packets[packets["protocol"] == "TCP"]
    assert set(tcp["src"]) == {"10.0.0.1", "10.0.0.10"}
    assert (tcp["src_port"].eq(502) | tcp["dst_port"].eq(502)).all()
    assert packets["t_virtual_ns"].between(0, run.manifest.virtual_duration_ns + 1_000_000_000).all()
    # Between starts and pauses of the clock both clocks have the same rate: a lost nanosecond would
    # be seen.
    virtual, wall = packets["t_virtual_ns"].diff().dropna(), packets["t_wall_ns"].diff().dropna()
    assert (virtual % 256 != 0).any(), "rounded to what a float holds of nanoseconds since 1970"
    assert wall.ge(0).all()
    with pytest.raises(KeyError, match="the link 'a-b' was not captured; there are operator-s1"):
        run.packets("a-b")


def test_pauses_agree_with_the_count_of_the_manifest(run: Run) -> None:
    pauses = run.pauses()
    assert len(pauses) >= run.manifest.pauses > 50
    assert (pauses["to_wall_ns"] - pauses["from_wall_ns"]).equals(pauses["held_ns"])
    assert pauses["held_ns"].gt(0).all()
    assert set(pauses["requester"]) & set(run.clock()["requester"])


def test_attacks_are_labelled_and_one_without_end_has_none(run: Run, tmp_path: Path) -> None:
    [label] = run.arrow.labels().to_pylist()
    assert (label["attack"], label["technique"]) == ("idle", "T0830 T0814")
    assert (label["start_s"], label["end_s"]) == (5.0, 20.0), "it lasts as long as the run"
    copy = shutil.copytree(run.path, tmp_path / "run")
    never = {**label, "end_ns": 2**63 - 1}
    rows = pa.Table.from_pylist([never]).select(list(run_tables.FILES["labels"]))
    pq.write_table(rows, copy / "labels.parquet")
    [label] = Run(copy).arrow.labels().to_pylist()
    assert (label["start_s"], label["end_ns"], label["end_s"]) == (5.0, None, None)


def test_a_run_reports_its_scenario_and_outcome(run: Run) -> None:
    assert run.passed and run.manifest.outcome == "done" and run.manifest.name == "tank"
    assert run.scenario["time"]["mode"] == "skip"
    assert [check.name for check in run.check_list] == ["filled", "no-overflow"]
    assert run.checks()["measured"].between(1.45, 1.6).all()
    assert run.report().is_file()
    assert "start" in set(run.events()["kind"])


def test_civil_time_is_exact() -> None:
    assert civil_ns("2019-06-03T00:00:00.123456789Z") == 1_559_520_000_123_456_789
    assert civil_ns("1970-01-01T00:00:01Z") == 1_000_000_000


def test_a_directory_without_a_run_is_refused_with_the_fix(tmp_path: Path) -> None:
    for path, why in [(tmp_path / "nowhere", "no such directory"), (tmp_path, "no manifest.json")]:
        with pytest.raises(NotARun, match=f"{why}.*timeloom run SCENARIO -o DIR"):
            Run(path)


def test_a_run_that_goes_on_is_told_from_one_that_was_killed(directory: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(directory, tmp_path / "run")
    (copy / "journal").mkdir()
    with pytest.raises(Unfinished, match="was killed.*timeloom report") as killed:
        Run(copy)
    assert not killed.value.running
    with (copy / "journal" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Unfinished, match="still goes on") as running:
            Run(copy)
    assert running.value.running


def test_a_run_of_another_version_is_named(directory: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(directory, tmp_path / "run")
    (copy / "labels.parquet").unlink()
    with pytest.raises(OlderLayout, match="no labels.parquet"):
        Run(copy)
    shutil.copy(directory / "labels.parquet", copy)
    events = pq.read_table(copy / "events.parquet")
    pq.write_table(events.drop_columns("kind"), copy / "events.parquet")
    with pytest.raises(OlderLayout, match="events.parquet has no column `kind`"):
        Run(copy).events()


def test_a_sweep_has_a_table_and_its_runs(tmp_path: Path) -> None:
    """A real sweep, whose table has the documented columns."""
    scenario = recorded.tank_scenario(tmp_path)
    area = "simulation.plants.tank.config.area_m2"
    sets = [f"{area}=1,4", "time.mode=skip", "time.duration=20 s"]
    recorded.sweep(scenario, tmp_path / "swept", *(word for each in sets for word in ("--set", each)), "--seeds", "2")
    sweep = Sweep(tmp_path / "swept")
    table = sweep.table()
    assert table[area].tolist() == [1.0, 1.0, 4.0, 4.0] and table["seed"].tolist() == [1.0, 2.0, 1.0, 2.0]
    assert set(table["ended"]) == {"passed"} and table["culprit"].isna().all()
    # The smaller tank fills sooner.
    assert table["check.filled"][:2].min() > table["check.filled"][2:].max()
    run = sweep.run(table["run"][3])
    assert run.manifest.seed == 2 and run.signals()["tank.level"].iloc[-1] == table["tank.level.last"][3]

    known = {area: "KEY"} | {name: name for name in table.columns if "." not in name}
    for name in set(table.columns) - set(known):
        known[name] = re.sub(r"^tank\.\w+\.", "SIGNAL.", re.sub(r"^check\..*", "check.NAME", name))
    documented = set(table_of("Many runs: a sweep", 1))
    assert set(known.values()) <= documented
    with pytest.raises(NotARun, match=r"no sweep\.parquet"):
        Sweep(tmp_path)


def test_the_notebook_runs(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs its code cells in order, in one namespace: a kernel would only add a process."""
    notebook = json.loads((ROOT / "examples" / "hello" / "results.ipynb").read_text())
    monkeypatch.setenv("RUN", str(directory))
    monkeypatch.chdir(ROOT / "examples" / "hello")
    names: dict[str, Any] = {}
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        exec(compile(cell, f"cell {number} of results.ipynb", "exec"), names)  # noqa: S102
    assert len(cells) > 5 and names["reached_s"] > 0 and names["apart_m"].max() < 0.05
