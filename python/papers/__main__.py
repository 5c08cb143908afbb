"""The command ``python -m papers``; ``make papers`` calls it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import outputs, pages, rows
from .run import run_all

FOLDER = rows.FILE.parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="papers", description="Figures and tables of five papers, beside ours")
    does = parser.add_subparsers(dest="does", required=True)
    runs = does.add_parser("run", help="run the commands of the rows, store their output, and write the pages")
    runs.add_argument("timeloom", type=Path, help="program to measure")
    runs.add_argument("commands", nargs="*", help="commands of rows.toml (default all)")
    runs.add_argument("--quick", action="store_true", help="short forms, all within a quarter of an hour")
    does.add_parser("write", help="write the pages from the stored output")
    asked = parser.parse_args()
    try:
        listed = rows.load()
        failed = []
        if asked.does == "run":
            unknown = sorted(set(asked.commands) - set(listed.commands))
            if unknown:
                parser.error(f"there is no command {unknown[0]} (known: {', '.join(listed.commands)})")
            failed = run_all(listed, asked.timeloom.resolve(), asked.quick, asked.commands)
        write(listed)
    except (rows.BadRows, outputs.BadOutput) as error:
        sys.exit(f"papers: {error}")
    if failed:
        sys.exit(f"papers: failed: {', '.join(failed)}; the pages name their rows as missing")


def write(listed: rows.Rows) -> None:
    """Writes all pages and plots, and removes plots that are no more."""
    made = pages.documents(listed, outputs.load())
    for path in FOLDER.glob("*.svg"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)
    print(f"papers: wrote {len(made)} files into {FOLDER.relative_to(rows.ROOT)}")


if __name__ == "__main__":
    main()
