"""Reads the results of a run: tables as data frames, logs, packets, checks, and their provenance.

    from timeloom.results import Run

    run = Run("runs/tank")
    run.signals()["tank.level"].plot()      # pandas, over virtual seconds
    run.polars.events()                     # polars
    run.arrow.packets()                     # Arrow, the basis of both

Every table, column and unit is in docs/results.md. This module writes nothing and starts no run; ``timeloom run`` does.

Needs pyarrow, and pandas or polars for their frames; plots need matplotlib, packets python-pcapng and dpkt.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from . import run_files, run_tables
from .run_directory import Check, Manifest, NotARun, OlderLayout, RunError, Unfinished, opened

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Check", "Manifest", "NotARun", "OlderLayout", "Run", "RunError", "Sweep", "Tables", "Unfinished"]

Frame = TypeVar("Frame")


class Tables(Generic[Frame]):
    """The tables of a run, as frames of one library.

    ``t_virtual_ns`` is virtual time since the session began, in nanoseconds and exact; ``t_s`` is that in seconds, for
    axes. ``t_wall_ns`` is the machine's CLOCK_MONOTONIC.
    """

    def __init__(self, directory: Path, to_frame: Callable[[pa.Table], Frame]):
        self._directory = directory
        self._to_frame = to_frame

    def signals(self, *names: str, long: bool = False) -> Frame:
        """Recorded signals: a row per instant and a column per signal, or with ``long`` a row per sample.

        Args:
            names: ``source.name``, or ``name`` where only one source has it; all, if none is given.
            long: the table as it was recorded.

        In the wide table a signal has a value where it was sampled and none elsewhere (pandas: ``.ffill()`` holds the
        last). Of several samples at one instant it has the last.

        Raises:
            KeyError: no signal of that name was recorded, or several sources have it.
        """
        samples = run_tables.signals(self._directory, names)
        return self._to_frame(samples if long else run_tables.wide(samples))

    def events(self) -> Frame:
        """Events: starts and ends of programs, phases, warnings."""
        return self._to_frame(run_tables.events(self._directory))

    def labels(self) -> Frame:
        """The attacks, with their beginning, end and technique."""
        return self._to_frame(run_tables.labels(self._directory))

    def clock(self) -> Frame:
        """Every change of the virtual clock."""
        return self._to_frame(run_tables.clock(self._directory))

    def pauses(self) -> Frame:
        """Holds of the virtual clock with requester, time and duration: a row per hold that
        ended."""
        return self._to_frame(run_tables.pauses(self._directory))

    def logs(self, *programs: str) -> Frame:
        """Output of programs and plants: a row per line, of those programs or all. A plant's lines
        have no instant.

        Raises:
            KeyError: there is no log of that name.
        """
        return self._to_frame(run_tables.logs(self._directory, programs))

    def packets(self, *links: str) -> Frame:
        """Captured packets of those links or all: a row per packet, with virtual time, addresses and bytes.

        Raises:
            KeyError: that link was not captured.
        """
        from . import captures  # its dependencies are needed for nothing else

        manifest = Manifest.read(self._directory)
        return self._to_frame(captures.packets(self._directory, manifest.session_start_ns, links))

    def checks(self) -> Frame:
        """The checks of the scenario, with their results."""
        return self._to_frame(run_tables.checks(self._directory))


class Run(Tables["pandas.DataFrame"]):
    """A finished run. Its own tables are pandas'; :attr:`polars` and :attr:`arrow` have the others.

    Args:
        directory: the one given to ``timeloom run`` by ``-o``, or created under ``runs/``.

    Raises:
        NotARun: there is no run.
        Unfinished: the run is under way, or was killed and not completed.
        OlderLayout: here or in any method: it was written by a version of Timeloom with other files or columns.
    """

    def __init__(self, directory: str | Path):
        self.path = opened(Path(directory))
        super().__init__(self.path, _to_pandas)

    def signals(self, *names: str, long: bool = False) -> pandas.DataFrame:
        """Like :meth:`Tables.signals`; the wide table has ``t_s`` as its index, ready to be
        plotted.

        Plotting needs matplotlib, which ``timeloom[plot]`` brings.
        """
        frame = super().signals(*names, long=long)
        return frame if long else frame.drop(columns="t_virtual_ns").set_index("t_s")

    @cached_property
    def arrow(self) -> Tables[pa.Table]:
        """The tables as Arrow tables."""
        return Tables(self.path, lambda table: table)

    @cached_property
    def polars(self) -> Tables[polars.DataFrame]:
        """The tables as polars frames."""
        return Tables(self.path, _to_polars)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest: programs, versions, machine, and the end of the run."""
        return Manifest.read(self.path)

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The scenario as it was run: overrides applied, defaults filled in."""
        try:
            return tomllib.loads(run_files.text(self.path, "scenario.toml", run_files.SCENARIO_BYTES))
        except FileNotFoundError:
            raise OlderLayout(self.path, "it has no scenario.toml") from None
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(f"{self.path / 'scenario.toml'} cannot be read: {error}") from None

    @cached_property
    def units(self) -> dict[str, str]:
        """The unit of every recorded signal by ``source.name``; empty where it has none."""
        return run_tables.units(self.path)

    @property
    def passed(self) -> bool:
        """True if it reached its end, is trustworthy, and no check that applies failed."""
        good = self.manifest.outcome == "done" and not self.manifest.untrusted
        return good and all(check.passed for check in self.check_list if check.applies)

    @cached_property
    def check_list(self) -> Sequence[Check]:
        """The checks as objects."""
        return Check.read(self.path)

    def report(self) -> Path:
        """Path of the report, to be opened in a browser."""
        return self.path / "report.html"

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.manifest.name}, {self.manifest.outcome})"


class Sweep:
    """The result of ``timeloom sweep``: a table with a row for each run, and the runs.

    Raises:
        NotARun: there is no sweep in this directory.
    """

    def __init__(self, directory: str | Path):
        self.path = Path(directory)
        if not run_files.has(self.path, "sweep.parquet"):
            raise NotARun(self.path, "it has no sweep.parquet")

    def table(self) -> pandas.DataFrame:
        """A row for each run; the columns are in docs/results.md."""
        import pandas

        with run_files.opened(self.path, "sweep.parquet") as file:
            return pandas.read_parquet(file)

    def run(self, name: str) -> Run:
        """Returns one of its runs, by the column ``run``. Raises as :class:`Run` does for one that
        is not done."""
        return Run(self.path / "runs" / name)


def _to_pandas(table: pa.Table) -> pandas.DataFrame:
    """Converts to pandas; integers remain integers where some are missing."""
    import pandas

    frame: pandas.DataFrame = table.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get)
    return frame


def _to_polars(table: pa.Table) -> polars.DataFrame:
    import polars

    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)  # of a table, never a series
    return frame


def _main() -> None:
    """``python -m timeloom.results DIR``: an overview of a run."""
    import argparse

    parser = argparse.ArgumentParser(description="What a run directory has in it.")
    parser.add_argument("directory")
    run = Run(parser.parse_args().directory)
    print(json.dumps(run.manifest.raw, indent=2))
    for name, unit in run.units.items():
        print(ascii(f"{name} ({unit or 'no unit'})")[1:-1])


if __name__ == "__main__":
    _main()
