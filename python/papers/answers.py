"""The kind of each row: measured, input, cannot be had here, or missing.

A row with a command is measured if, and only if, the stored output of the command has its value.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .outputs import Outputs
from .reader import NoValue, value_of
from .rows import Cell, Row, Rows


class Kind(Enum):
    """Kinds of rows, with the words that pages show."""

    MEASURED = "measured"
    INPUT = "input"
    CANNOT = "cannot be had here"
    MISSING = "missing"


STATED_KINDS = {"input": Kind.INPUT, "cannot": Kind.CANNOT, "missing": Kind.MISSING}


@dataclass(frozen=True)
class Answer:
    """What is known of a cell."""

    cell: Cell
    kind: Kind
    #: Our value in the paper's unit, of measured cells only.
    ours: float | None
    #: Why it is not measured.
    reason: str

    @property
    def ratio(self) -> float | None:
        """Our value divided by the paper's, if both are numbers and the paper's is not 0."""
        if self.ours is None or not isinstance(self.cell.paper, int | float) or self.cell.paper == 0:
            return None
        return self.ours / self.cell.paper


@dataclass(frozen=True)
class Answered:
    """A row of the file with the answers of its cells."""

    row: Row
    answers: list[Answer]

    @property
    def kinds(self) -> list[Kind]:
        """The kinds to count: one of each cell, or one of a curve, which needs all its points."""
        kinds = [answer.kind for answer in self.answers]
        if not self.row.is_curve:
            return kinds
        return [next((kind for kind in kinds if kind is not Kind.MEASURED), Kind.MEASURED)]


def answer(row: Row, rows: Rows, outputs: Outputs) -> Answered:
    """The answers of a row from the stored outputs."""
    return Answered(row, [_answer(cell, rows, outputs) for cell in row.cells])


def _answer(cell: Cell, rows: Rows, outputs: Outputs) -> Answer:
    if cell.stated is not None:
        key, reason = cell.stated
        return Answer(cell, STATED_KINDS[key], None, reason)
    assert cell.command is not None and cell.read is not None
    output = outputs.get(cell.command)
    if output is None:
        reason = f"command exists, not yet measured: `{rows.commands[cell.command].shown}`"
        return Answer(cell, Kind.MISSING, None, reason)
    try:
        return Answer(cell, Kind.MEASURED, value_of(output, cell.read) / cell.per, "")
    except NoValue as error:
        if cell.absent and output["exit"] == 0:
            return Answer(cell, Kind.CANNOT, None, cell.absent)
        return Answer(cell, Kind.MISSING, None, f"not in the output of `{cell.command}`{_failed(output)}: {error}")


def _failed(output: dict[str, Any]) -> str:
    size = " (a quick run)" if output["quick"] else ""
    return f"{size}, which ended with {output['exit']}" if output["exit"] else size


def counted(answered: list[Answered]) -> dict[Kind, int]:
    """The number of rows of each kind."""
    counts = Counter(kind for one in answered for kind in one.kinds)
    return {kind: counts[kind] for kind in Kind}
