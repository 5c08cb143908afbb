"""`timeloom.results` on run directories of other users: entries of an unexpected type are refused at once."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from timeloom import run_tables
from timeloom.results import Run, RunError
from worlds import ROOT

READERS: dict[str, Callable[[Run], object]] = {
    "manifest.json": lambda run: run.manifest,
    "checks.json": lambda run: run.check_list,
    "scenario.toml": lambda run: run.scenario,
    "signals.parquet": lambda run: run.signals(),
    "events.parquet": lambda run: run.events(),
    "logs/plc.log": lambda run: run.logs("plc"),
    "net/a-b.pcapng": lambda run: run.packets("a-b"),
}
MANIFEST = {
    "name": "made-up",
    "timeloom_version": "0",
    "outcome": "done",
    "started": "2026-01-01T00:00:00Z",
    "session_start": "2026-01-01T00:00:00Z",
    "seed": 1,
    "scenario_sha256": "",
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A finished run with one signal."""
    run = tmp_path / "run"
    for folder in ("logs", "net"):
        (run / folder).mkdir(parents=True)
    for name, columns in run_tables.FILES.items():
        rows = []
        if name == "signals":
            row = {"host": "local", "source": "tank", "name": "level", "value": 1.5, "unit": "m"}
            rows = [{"t_virtual_ns": t * 10**9, "t_wall_ns": t, **row} for t in range(4)]
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(columns)), run / f"{name}.parquet")
    (run / "manifest.json").write_text(json.dumps(MANIFEST))
    (run / "checks.json").write_text("[]")
    (run / "scenario.toml").write_text("seed = 1\n")
    (run / "logs/plc.log").write_text("[    0.500000] hello\n")
    (run / "net/a-b.pcapng").write_bytes(b"")
    return run


def test_a_made_up_run_is_read(directory: Path) -> None:
    run = Run(directory)
    assert run.signals()["tank.level"].tolist() == [1.5] * 4
    assert run.logs()["text"].tolist() == ["hello"] and run.scenario == {"seed": 1} and run.passed


@pytest.mark.parametrize("kind", ["link", "FIFO", "socket", "directory", "terabytes"])
@pytest.mark.parametrize("name", READERS)
def test_special_and_too_long_files_are_refused_at_once(directory: Path, name: str, kind: str) -> None:
    run, secret = Run(directory), directory.parent / "secret"
    place = directory / name
    shutil.copy(place, secret)
    place.unlink()
    if kind == "link":
        place.symlink_to(secret)
    elif kind == "FIFO":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))
    elif kind == "directory":
        place.mkdir()
    elif name.endswith((".json", ".toml")):
        with place.open("wb") as file:
            file.truncate(1 << 42)
    else:
        pytest.skip("only documents have a limit")
    if name == "checks.json" and kind != "terabytes":
        # Readers treat the entry as missing.
        assert READERS[name](run) == ()
        return
    with pytest.raises((RunError, KeyError, OSError)) as refused:
        READERS[name](run)
    assert Path(name).name in str(refused.value) or Path(name).stem in str(refused.value)


def test_a_folder_that_is_a_link_is_not_entered(directory: Path) -> None:
    outside = directory.parent / "outside"
    shutil.move(directory / "logs", outside)
    (directory / "logs").symlink_to(outside)
    assert len(Run(directory).logs()) == 0
    with pytest.raises(KeyError):
        Run(directory).logs("plc")


def test_rows_that_compress_to_nothing_are_refused_by_their_number(directory: Path) -> None:
    row = {name: 0 if pa.types.is_integer(kind) else "x" for name, kind in run_tables.FILES["labels"].items()}
    table = pa.Table.from_pylist([row], pa.schema(run_tables.FILES["labels"])).take(pa.array([0] * 2_000_000))
    pq.write_table(table, directory / "labels.parquet", row_group_size=2_000_000)
    with pytest.raises(RunError, match="claims 2000000 rows"):
        Run(directory).labels()


def test_signals_are_plotted_as_documented(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    axes = Run(directory).signals()["tank.level"].plot()
    assert axes.lines[0].get_xdata().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_the_documented_extras_are_in_the_metadata_of_both_packages() -> None:
    """Compares those of the wheel and of the package in this tree; plotting requires reading and
    matplotlib."""
    document = (ROOT / "docs" / "results.md").read_text()
    for file in ("pyproject.toml", "python/pyproject.toml"):
        extras = tomllib.loads((ROOT / file).read_text())["project"]["optional-dependencies"]
        for extra in ("results", "polars", "packets", "plot"):
            assert extra in extras and f"timeloom[{extra}]" in document, f"{extra} in {file}"
        names = [requirement.split(">")[0] for requirement in extras["plot"]]
        assert set(names) == {"pyarrow", "pandas", "numpy", "matplotlib"}
