"""The tables of a run directory as Arrow tables. Called by :mod:`timeloom.results`, the interface for programs.

Columns are added (virtual seconds, programs' names), none is renamed; docs/results.md lists them all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import run_files
from .run_directory import Check, OlderLayout, RunError

_NS_PER_S = 1e9

#: The columns of the files, as this version writes them.
FILES: dict[str, dict[str, pa.DataType]] = {
    "signals": {
        "t_virtual_ns": pa.int64(),
        "t_wall_ns": pa.int64(),
        "host": pa.string(),
        "source": pa.string(),
        "name": pa.string(),
        "value": pa.float64(),
        "unit": pa.string(),
    },
    "events": {
        "t_virtual_ns": pa.int64(),
        "t_wall_ns": pa.int64(),
        "host": pa.string(),
        "source": pa.string(),
        "kind": pa.string(),
        "text": pa.string(),
    },
    "clock": {
        "seq": pa.int64(),
        "t_virtual_ns": pa.int64(),
        "t_wall_ns": pa.int64(),
        "host": pa.string(),
        "action": pa.string(),
        "requester": pa.string(),
        "reason": pa.string(),
        "duration_ns": pa.int64(),
    },
    "labels": {
        "start_ns": pa.int64(),
        "end_ns": pa.int64(),
        "technique": pa.string(),
        "target": pa.string(),
        "attack": pa.string(),
    },
}


def signals(directory: Path, names: Sequence[str] = ()) -> pa.Table:
    """Samples in the order of time; of one instant in the order of recording."""
    table = _with_seconds(_read(directory, "signals"))
    if names:
        full = pc.binary_join_element_wise(table["source"], table["name"], ".")
        wanted = _full_names(set(full.to_pylist()) if len(table) else set(), names)
        table = table.filter(pc.is_in(full, pa.array(sorted(wanted))))
    # Arrow's sort is not stable; the sample recorded last must stay last.
    return table.take(pa.array(np.argsort(table["t_virtual_ns"].to_numpy(), kind="stable")))


def wide(samples: pa.Table) -> pa.Table:
    """One row per instant, one column per signal, empty where it was not sampled."""
    instants, rows = np.unique(samples["t_virtual_ns"].to_numpy(), return_inverse=True)
    columns: dict[str, pa.Array] = {
        "t_virtual_ns": pa.array(instants, pa.int64()),
        "t_s": pa.array(instants / _NS_PER_S),
    }
    full = pc.binary_join_element_wise(samples["source"], samples["name"], ".").combine_chunks().dictionary_encode()
    values = samples["value"].to_numpy()
    codes = full.indices.to_numpy(zero_copy_only=False)
    for name, code in sorted((str(name), code) for code, name in enumerate(full.dictionary.to_pylist())):
        its = np.flatnonzero(codes == code)
        column, empty = np.zeros(len(instants)), np.ones(len(instants), dtype=bool)
        column[rows[its]] = values[its]
        empty[rows[its]] = False
        columns[name] = pa.array(column, mask=empty)
    return pa.table(columns)


def units(directory: Path) -> dict[str, str]:
    """Units of all signals, in the order of names."""
    table = _read(directory, "signals").select(["source", "name", "unit"])
    rows = table.group_by(["source", "name"], use_threads=False).aggregate([("unit", "first")]).to_pylist()
    return {name: unit for name, unit in sorted((f"{row['source']}.{row['name']}", row["unit_first"]) for row in rows)}


def events(directory: Path) -> pa.Table:
    """Events, in the order of time."""
    return _with_seconds(_read(directory, "events")).sort_by("t_virtual_ns")


def labels(directory: Path) -> pa.Table:
    """The attacks. One without an end has no end instant."""
    table = _read(directory, "labels")
    never = pc.equal(table["end_ns"], np.iinfo(np.int64).max)
    end = pc.if_else(never, pa.scalar(None, pa.int64()), table["end_ns"])
    table = table.set_column(table.column_names.index("end_ns"), "end_ns", end)
    return table.append_column("start_s", _seconds(table["start_ns"])).append_column("end_s", _seconds(end))


def clock(directory: Path) -> pa.Table:
    """Every change of the virtual clock, in its order."""
    return _with_seconds(_read(directory, "clock"))


def pauses(directory: Path) -> pa.Table:
    """Holds of the clock that ended: the row of each resume states how long its requester had held
    it."""
    table = clock(directory)
    table = table.filter(pc.equal(table["action"], "resume"))
    return pa.table(
        {
            "t_virtual_ns": table["t_virtual_ns"],
            "t_s": table["t_s"],
            "requester": table["requester"],
            "reason": table["reason"],
            "held_ns": table["duration_ns"],
            "from_wall_ns": pc.subtract(table["t_wall_ns"], table["duration_ns"]),
            "to_wall_ns": table["t_wall_ns"],
        }
    )


#: ``[   22.500123] text``, the timestamps of programs' lines. Plants' lines have none.
_STAMPED = re.compile(r"\[ *(-?\d+)\.(\d{6})\] ?(.*)", re.DOTALL)


def logs(directory: Path, programs: Sequence[str] = ()) -> pa.Table:
    """Lines of programs and plants, each program's in its order."""
    files = run_files.names(directory, "logs", ".log")
    for program in programs:
        if program not in files:
            raise KeyError(f"there is no log of {program!r}; there are {_listed(files)}")
    rows: list[tuple[int | None, str, str]] = []
    for program in programs or files:
        with run_files.opened(directory, files[program]) as file:
            text = file.read().decode(errors="replace")
        for line in text.split("\n"):
            if stamped := _STAMPED.fullmatch(line):
                t_us = int(stamped[1]) * 1_000_000 + int(stamped[2])
                rows.append((t_us * 1000, program, stamped[3]))
            elif line:
                rows.append((None, program, line))
    instants, names, texts = zip(*rows, strict=True) if rows else ((), (), ())
    t_ns = pa.array(instants, pa.int64())
    text_columns = {"program": pa.array(names, pa.string()), "text": pa.array(texts, pa.string())}
    return pa.table({"t_virtual_ns": t_ns, "t_s": _seconds(t_ns), **text_columns})


def checks(directory: Path) -> pa.Table:
    """Checks as in the file; a measured value that is a number has its column, and text another."""
    all_checks = Check.read(directory)
    measured = [check.measured for check in all_checks]
    return pa.table(
        {
            "name": pa.array([check.name for check in all_checks], pa.string()),
            "applies": pa.array([check.applies for check in all_checks], pa.bool_()),
            "passed": pa.array([check.passed for check in all_checks], pa.bool_()),
            "measured": pa.array([x if isinstance(x, int | float) else None for x in measured], pa.float64()),
            "measured_text": pa.array([x if isinstance(x, str) else None for x in measured], pa.string()),
            "expression": pa.array([check.expression for check in all_checks], pa.string()),
            "explanation": pa.array([check.explanation for check in all_checks], pa.string()),
        }
    )


def _full_names(known: set[str], wanted: Sequence[str]) -> set[str]:
    full = set()
    for name in wanted:
        found = [name] if name in known else [each for each in known if each.partition(".")[2] == name]
        if not found:
            raise KeyError(f"no signal {name!r} was recorded; there are {_listed(known)}")
        if len(found) > 1:
            raise KeyError(f"several sources have a signal {name!r}: {_listed(found)}")
        full.update(found)
    return full


def _listed(names: object) -> str:
    listed = sorted(str(name) for name in names)  # type: ignore[attr-defined]
    return ", ".join(listed[:20]) + (f" and {len(listed) - 20} more" if len(listed) > 20 else "") or "none"


def _read(directory: Path, table: str) -> pa.Table:
    path = directory / f"{table}.parquet"
    try:
        with run_files.opened(directory, path.name) as file:
            found = _bounded(file)
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    for column, kind in FILES[table].items():
        if column not in found.column_names:
            raise OlderLayout(directory, f"{table}.parquet has no column `{column}`")
        if found.schema.field(column).type != kind:
            raise OlderLayout(directory, f"column `{column}` of {table}.parquet is not {kind}")
    return found


#: Bounds for the number of rows: a row has an instant of the machine's clock, which compresses to a
#: few bytes; any file may have this many rows.
_ROWS_PER_BYTE, _FEW_ROWS = 8, 1 << 20


def _bounded(file: BinaryIO) -> pa.Table:
    """Returns the table, unless it claims more rows than its length allows, which could exhaust memory."""
    parquet = pq.ParquetFile(file)
    length = os.fstat(file.fileno()).st_size
    rows = parquet.metadata.num_rows
    if rows > length * _ROWS_PER_BYTE + _FEW_ROWS:
        raise run_files.StrangeFile(f"it claims {rows} rows in {length} bytes")
    return parquet.read()


def _with_seconds(table: pa.Table) -> pa.Table:
    place = table.column_names.index("t_virtual_ns") + 1
    return table.add_column(place, "t_s", _seconds(table["t_virtual_ns"]))


def _seconds(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.divide(pc.cast(column, pa.float64(), safe=False), _NS_PER_S)
