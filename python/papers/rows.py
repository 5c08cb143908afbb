"""The list of rows: ``docs/papers/rows.toml`` and ``docs/papers/rows/*.toml``, parsed and checked.

The first file has the papers and the commands, the others have the rows of one paper each. A row
has the paper's value of one quantity, or with ``cells`` or ``each`` (numbers, which are the x of a
plot) of several that are read in the same way. Keys of a cell replace those of its row, and a row
with ``variants`` stands for as many rows, each with the keys of one variant. ``{key}`` in ``read``
is the ``key`` of the cell. A row with ``curve`` counts as one. Each cell has exactly one of

- ``command`` and ``read``: the command of ours that measures it, and where its output has the value;
- ``input``: the value was taken from the paper, so that it is never compared;
- ``cannot``: the reason for which it cannot be had here;
- ``missing``: what it takes to measure it.

With ``absent`` a measured row cannot be had on a machine on which its command leaves the value out,
for the reason that it states.
"""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "papers" / "rows.toml"
FOLDER = FILE.with_suffix("")

#: Ways to state that a row is not measured by a command.
STATED = ("input", "cannot", "missing")
#: Keys of a cell; a row and a variant may have the others as well.
CELL_KEYS = {"figure", "what", "at", "key", "x", "unit", "paper", "where", "plot", "label"}
CELL_KEYS |= {"command", "read", "per", "why", "absent", *STATED}
VARIANT_KEYS = CELL_KEYS | {"cells", "each"}
ROW_KEYS = VARIANT_KEYS | {"curve", "variants"}


class BadRows(Exception):
    """A mistake in the list of rows, with its place and the fix."""


@dataclass(frozen=True)
class Paper:
    """One of the papers."""

    name: str
    title: str
    source: str
    #: The machines on which the authors measured.
    hardware: str
    #: Figures that show a design and no quantity, with their subjects.
    drawings: dict[str, str]
    #: The order of the figures on the page.
    figures: list[str]


@dataclass(frozen=True)
class Command:
    """A command whose output has values of rows."""

    name: str
    #: Its words; ``timeloom`` is the program that is measured, ``{out}`` a directory for files.
    words: list[str]
    #: Its words in a quick run; empty if it takes too long for one.
    quick: list[str]
    minutes: int
    #: True if each line of the output is a JSON object.
    json: bool
    #: Files of ``{out}`` that belong to the output.
    files: list[str]
    #: Programs whose versions matter, as words that print them.
    versions: list[str]

    @property
    def shown(self) -> str:
        """Its words for readers."""
        return shown(self.words)


def shown(words: list[str]) -> str:
    """Words of a command for readers. Programs and directories among its arguments are in capitals."""
    first, *rest = words
    arguments = ["TIMELOOM" if word == "timeloom" else word for word in rest]
    return " ".join([first, *arguments]).replace("{out}", "DIRECTORY")


@dataclass(frozen=True)
class Plot:
    """Axes of a plot, in which rows are drawn."""

    name: str
    title: str
    x: str
    y: str
    logarithmic: list[str]


@dataclass(frozen=True)
class Cell:
    """One quantity with one set of parameters."""

    paper_name: str
    figure: str
    what: str
    at: str
    unit: str
    #: The paper's value; a text where it gives a bound or words; None if its text has no number.
    paper: float | str | None
    where: str
    why: str
    command: str | None
    read: dict[str, Any] | None
    #: Divisor that converts our unit to the paper's.
    per: float
    #: Why a machine cannot have the value that its output lacks; empty if every machine can.
    absent: str
    #: The kind that the row states, and the reason; None for a row with a command.
    stated: tuple[str, str] | None
    x: float | None
    plot: str | None
    label: str

    def __str__(self) -> str:
        return f"{self.paper_name}, {self.figure}: {self.what}{f', {self.at}' if self.at else ''}"


@dataclass(frozen=True)
class Row:
    """A row of the file: cells that are shown together."""

    cells: list[Cell]
    #: True if the cells are points of one curve, which counts as one row.
    is_curve: bool


@dataclass(frozen=True)
class Rows:
    """The whole list."""

    papers: dict[str, Paper]
    commands: dict[str, Command]
    plots: dict[str, Plot]
    rows: list[Row] = field(default_factory=list)

    def of(self, paper: str) -> list[Row]:
        """The rows of a paper, in their order."""
        return [row for row in self.rows if row.cells[0].paper_name == paper]


def load() -> Rows:
    """The committed list.

    Raises:
        BadRows: see :func:`parse`.
    """
    return parse(FILE.read_text(), {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.toml"))})


def parse(common: str, texts: dict[str, str]) -> Rows:
    """The list of the papers and commands in one text of TOML, and rows in a text for each paper.

    Raises:
        BadRows: something is missing, contradictory or unknown.
    """
    tables = _tables("rows.toml", common, {"paper", "command"})
    papers = {name: _paper(name, table) for name, table in tables.get("paper", {}).items()}
    commands = {name: _command(name, table) for name, table in tables.get("command", {}).items()}
    if set(texts) != set(papers):
        wrong = sorted(set(texts) ^ set(papers))[0]
        raise BadRows(f"rows/{wrong}.toml: one file for each paper of rows.toml is needed")
    rows = Rows(papers, commands, {})
    for name, paper in papers.items():
        place = f"rows/{name}.toml"
        tables = _tables(place, texts[name], {"plot", "row"})
        for plot, table in tables.get("plot", {}).items():
            rows.plots[f"{name}-{plot}"] = _plot(f"{name}-{plot}", table)
        for number, table in enumerate(tables.get("row", []), 1):
            rows.rows.extend(_rows(f"{place}, row {number} ({table.get('what')})", table, paper, rows))
        _complete(place, paper, rows)
    return rows


def _tables(place: str, text: str, keys: set[str]) -> dict[str, Any]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadRows(f"{place}: {error}") from None
    _known(tables, keys, place)
    return tables


def _known(table: dict[str, Any], keys: set[str], place: str) -> None:
    unknown = sorted(set(table) - keys)
    if unknown:
        raise BadRows(f"{place}: unknown key `{unknown[0]}` (known: {', '.join(sorted(keys))})")


def _paper(name: str, table: dict[str, Any]) -> Paper:
    _known(table, {"title", "source", "hardware", "drawings", "figures"}, f"paper.{name}")
    return Paper(name=name, **table)


def _command(name: str, table: dict[str, Any]) -> Command:
    _known(table, {"run", "quick", "minutes", "json", "files", "versions"}, f"command.{name}")
    return Command(
        name=name,
        words=shlex.split(table["run"]),
        quick=shlex.split(table.get("quick", "")),
        minutes=table["minutes"],
        json=table.get("json", False),
        files=table.get("files", []),
        versions=table.get("versions", []),
    )


def _plot(name: str, table: dict[str, Any]) -> Plot:
    _known(table, {"title", "x", "y", "logarithmic"}, f"plot.{name}")
    return Plot(name=name, logarithmic=table.pop("logarithmic", []), **table)


def _rows(place: str, table: dict[str, Any], paper: Paper, rows: Rows) -> list[Row]:
    """The rows of one table: one for each of its variants."""
    _known(table, ROW_KEYS, place)
    made = []
    for variant in table.get("variants", [{}]):
        _known(variant, VARIANT_KEYS, place)
        whole = _merged({key: value for key, value in table.items() if key != "variants"}, variant)
        cells = list(whole.pop("cells", []))
        cells += [{"x": x, "at": f"{x:g}", "key": f"{x:g}"} for x in whole.pop("each", [])]
        is_curve = whole.pop("curve", False)
        made.append(Row([_cell(place, whole, cell, paper, rows) for cell in cells or [{}]], is_curve))
    return made


def _merged(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The keys of a row with those of a variant or cell in their place."""
    table = {**common, **own}
    # What states a kind replaces whatever else states one.
    if any(key in own for key in STATED):
        dropped = {"command", "read", *STATED} - set(own)
    elif "command" in own:
        dropped = set(STATED)
    else:
        dropped = set()
    table = {key: value for key, value in table.items() if key not in dropped}
    if "read" in own:
        table["read"] = {**common.get("read", {}), **own["read"]}
    return table


def _cell(place: str, common: dict[str, Any], own: dict[str, Any], paper: Paper, rows: Rows) -> Cell:
    _known(own, CELL_KEYS, place)
    table = _merged(common, own)
    place = f"{place}, {table['at']}" if "at" in table else place
    for key in ("figure", "what"):
        if key not in table:
            raise BadRows(f"{place}: `{key}` is missing")
    plot = f"{paper.name}-{table['plot']}" if "plot" in table else None
    if plot not in (None, *rows.plots):
        raise BadRows(f"{place}: there is no plot.{table['plot']}")
    stated = [(key, table[key]) for key in STATED if key in table]
    is_measured = "command" in table or "read" in table
    if len(stated) + is_measured != 1 or any(not reason for _, reason in stated):
        raise BadRows(f"{place}: exactly one of command with read, {', '.join(STATED)} is needed, with its reason")
    if is_measured:
        _measurable(place, table, rows)
    return Cell(
        paper_name=paper.name,
        figure=table["figure"],
        what=table["what"],
        at=str(table.get("at", "")),
        unit=table.get("unit", ""),
        paper=table.get("paper"),
        where=table.get("where", ""),
        why=table.get("why", ""),
        command=table.get("command"),
        read=_filled(table["read"], str(table.get("key", ""))) if is_measured else None,
        per=table.get("per", 1),
        absent=table.get("absent", ""),
        stated=stated[0] if stated else None,
        x=table.get("x"),
        plot=plot,
        label=table.get("label", ""),
    )


def _measurable(place: str, table: dict[str, Any], rows: Rows) -> None:
    """Checks the keys of a cell that a command measures."""
    if not {"command", "read"} <= set(table):
        raise BadRows(f"{place}: a command and its `read` belong together")
    if table["command"] not in rows.commands:
        raise BadRows(f"{place}: there is no command.{table['command']}")
    if isinstance(table.get("paper"), int | float) and not table.get("why"):
        raise BadRows(f"{place}: `why` is missing: one line about the difference")


def _filled(read: dict[str, Any], key: str) -> dict[str, Any]:
    """The reader with the cell's key in place of ``{key}``."""
    return {name: value.replace("{key}", key) if isinstance(value, str) else value for name, value in read.items()}


def _complete(place: str, paper: Paper, rows: Rows) -> None:
    """Checks that each figure of the paper has a row or is a drawing, and that no other exists."""
    used = {cell.figure for row in rows.of(paper.name) for cell in row.cells}
    both = used & set(paper.drawings)
    if both:
        raise BadRows(f"{place}: {sorted(both)[0]} is a drawing and has rows")
    if used != set(paper.figures):
        wrong = sorted(used ^ set(paper.figures))[0]
        raise BadRows(f"{place}: `{wrong}` has no row, or is not in `figures` of the paper")
