"""Outputs of commands with their stamps: one JSON file for each command.

An output has ``command``, ``run`` (the words), ``quick``, ``date``, ``commit``, ``changed`` (true if
the tree had changes), ``seconds``, ``exit``, ``machine`` (see ``machine``), ``versions``, and what
the command gave: ``records`` (objects of JSON lines) or ``text`` (lines), ``errors`` (the end of
its standard error) and ``files``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .rows import ROOT

FOLDER = ROOT / "docs" / "papers" / "output"

STAMP = ("command", "run", "quick", "date", "commit", "changed", "seconds", "exit", "machine", "versions", "errors")

Outputs = dict[str, dict[str, Any]]


class BadOutput(Exception):
    """A stored output without its stamp."""


def load(folder: Path = FOLDER) -> Outputs:
    """All stored outputs by the names of their commands.

    Raises:
        BadOutput: a file lacks a part of its stamp, or has the name of another command.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        output = json.loads(path.read_text())
        lacking = [key for key in STAMP if key not in output]
        if lacking:
            raise BadOutput(f"{path.name} has no `{lacking[0]}`: run its command again (`make papers`)")
        if output["command"] != path.stem:
            raise BadOutput(f"{path.name} has the output of {output['command']}")
        found[path.stem] = output
    return found


def store(output: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Writes an output in place of an older one of the same command; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{output['command']}.json"
    path.write_text(json.dumps(output, indent=1, ensure_ascii=False) + "\n")
    return path
