"""Reading of a value from an output.

A reader is a table of ``rows.toml``. By its keys it is one of

- ``line`` and ``word``: in the line of text that begins with ``line``, the word of that number
  (from 0) after it;
- ``file`` and ``column``: the mean of a column of a CSV file, with ``over`` divided by that of
  another column, or with ``greatest`` the greatest value; of all rows, or of those that have
  ``row`` in the first column, or of the step of a staircase with so many ``flows``;
- otherwise the JSON object of which all other keys have the given values (``a.b`` is a member of a
  member), and in it the number at ``pointer`` (RFC 6901, ``/value`` if absent); divided by that at
  ``over`` if given, and by the same of the object whose ``metric`` is ``base`` if given.
"""

from __future__ import annotations

import csv
import io
import math
from typing import Any

OWN_KEYS = {"pointer", "over", "base"}
#: Number of steps of a staircase: flows double from 1 to 64, in steps of equal length.
STEPS = 7


class NoValue(Exception):
    """The output lacks the value; the text names what was looked for."""


def value_of(output: dict[str, Any], read: dict[str, Any]) -> float:
    """The number that a reader finds in an output.

    Raises:
        NoValue: there is no such number, or more than one.
    """
    if "line" in read:
        found = _in_text(output.get("text", []), read["line"], read["word"])
    elif "file" in read:
        found = _in_csv(output.get("files", {}), read)
    else:
        found = _in_json(output.get("records", []), read)
    if not math.isfinite(found):
        raise NoValue(f"{shown(read)} was not measured")
    return found


def shown(read: dict[str, Any]) -> str:
    """A reader as text."""
    return ", ".join(f"{key} {value}" for key, value in read.items())


def _in_text(lines: list[str], start: str, word: int) -> float:
    found = [line for line in lines if line.startswith(start)]
    if len(found) != 1:
        raise NoValue(f"{len(found)} lines begin with `{start}`")
    words = found[0].removeprefix(start).split()
    return _number(words[word] if word < len(words) else None, f"word {word} after `{start}`")


def _in_csv(files: dict[str, str], read: dict[str, Any]) -> float:
    name = read["file"]
    if name not in files:
        raise NoValue(f"there is no file {name}")
    heading, *lines = csv.reader(io.StringIO(files[name]))
    if "row" in read:
        lines = [line for line in lines if float(line[0]) == float(read["row"])]
    elif "flows" in read:
        step = int(read["flows"]).bit_length()
        lines = lines[len(lines) * (step - 1) // STEPS : len(lines) * step // STEPS]
    if not lines:
        raise NoValue(f"there is no such row: {shown(read)}")

    def column(title: str) -> list[float]:
        if title not in heading:
            raise NoValue(f"{name} has no column `{title}`")
        values = [_number(line[heading.index(title)], f"`{title}` of {name}") for line in lines]
        if not all(map(math.isfinite, values)):
            raise NoValue(f"`{title}` of {name} was not measured")
        return values

    values = column(read["column"])
    if read.get("greatest"):
        return max(values)
    mean = sum(values) / len(values)
    if "over" in read:
        below = sum(column(read["over"])) / len(values)
        return mean / below if below else math.nan
    return mean


def _in_json(records: list[dict[str, Any]], read: dict[str, Any]) -> float:
    wanted = {key: value for key, value in read.items() if key not in OWN_KEYS}
    found = [record for record in records if all(_is(record, key, value) for key, value in wanted.items())]
    if len(found) != 1:
        raise NoValue(f"{len(found)} lines have {shown(wanted)}")
    value = _at(found[0], read.get("pointer", "/value"))
    if "over" in read:
        value = _divided(value, _at(found[0], read["over"]), read)
    if "base" in read:
        base = {key: value for key, value in read.items() if key != "base"} | {"metric": read["base"]}
        value = _divided(value, _in_json(records, base), read)
    return value


def _divided(value: float, by: float, read: dict[str, Any]) -> float:
    if not by:
        raise NoValue(f"the divisor is 0: {shown(read)}")
    return value / by


def _is(record: Any, path: str, value: Any) -> bool:
    for name in path.split("."):
        if not isinstance(record, dict) or name not in record:
            return False
        record = record[name]
    return str(record) == str(value)


def _at(record: Any, pointer: str) -> float:
    for name in pointer.split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if isinstance(record, list) and name.isdigit() and int(name) < len(record):
            record = record[int(name)]
        elif isinstance(record, dict) and name in record:
            record = record[name]
        else:
            raise NoValue(f"there is nothing at {pointer}")
    return _number(record, pointer)


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or value is None:
        raise NoValue(f"there is no number at {place}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise NoValue(f"there is no number at {place}") from None
