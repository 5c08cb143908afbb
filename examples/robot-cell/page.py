"""One page about the cell's runs: what each fault did to both cells, and how they stood at chosen instants.

    page.py OUT.html NAME=RUN …

Every number on it is read from the runs' tables.
"""

from __future__ import annotations

import html
import json
import statistics
import sys
from bisect import bisect_right
from pathlib import Path

import drawing

from timeloom.results import Run, RunError

FAULT_S = 12.0
TOLERANCE_MM = 0.5
STOPPED, REJOINING, COORDINATED, HOLD = range(4)
STORIES = {
    "calm": ("Nothing happens", "Both cells, without a fault."),
    "reference": ("The reference stops", "What tells the time is killed, and started again twelve seconds later."),
    "daemon": ("A daemon dies", "What keeps the left hosts' time is killed, and started again after twelve seconds."),
    "slow": ("A link gets slow", "Cameras fill the link that leads to the left controllers, for ten seconds."),
    "one-way": ("A link gets slow one way", "The same link, filled on the way to the left controllers only."),
    "pause": ("The planner is paused", "The hosts of both planners stand for four seconds."),
    "rogue-unsigned": (
        "A rogue clock lies, unsigned",
        "A better PTP master appears, whose time is wrong. Plain clocks go by SNTP.",
    ),
    "rogue-signed": ("A rogue clock lies, signed", "The same rogue, where the left controller asks for signatures."),
    "machine": (
        "The planner in a virtual machine",
        "Nothing happens; the planner is in an emulated machine, which reads its host's timeline.",
    ),
    "machine-paused": (
        "Its virtual machine is paused",
        "The host with the planner's machine stands for four seconds, and so all of that.",
    ),
}


#: Series that are read from each run.
NEEDED = [
    *(f"{cell}.{what}" for cell in ("cell", "plain") for what in ("error", "dropped", "placed", "held")),
    *(f"{cell}.{side}.late" for cell in ("cell", "plain") for side in ("left", "right")),
    *(f"{cell}.{side}.{axis}" for cell in ("cell", "plain") for side in ("left", "right") for axis in "xyz"),
    *(f"cell.{side}.mode" for side in ("left", "right")),
    *(f"{side}.timeline.cell.half_width" for side in ("left", "right")),
]


class Nothing(Exception):
    """A run of which there is nothing to draw, and why."""


class Signal:
    """A recorded quantity: its value at an instant is the last sample's."""

    def __init__(self, times: list[float], values: list[float]):
        self.times, self.values = times, values

    def at(self, t_s: float) -> float:
        index = bisect_right(self.times, t_s) - 1
        return self.values[max(index, 0)]

    def first(self, from_s: float, wanted: set[float]) -> float | None:
        pairs = zip(self.times, self.values, strict=True)
        return next((t for t, value in pairs if t >= from_s and value in wanted), None)


class CellRun:
    """A run as the page needs it."""

    def __init__(self, name: str, directory: Path):
        self.name, self.directory = name, directory
        try:
            self.run = Run(directory)
        except RunError as error:
            raise Nothing(f"{name}: {error}") from None
        table = self.run.arrow.signals(long=True).to_pydict()
        rows: dict[str, tuple[list[float], list[float]]] = {}
        for t_ns, source, signal, value in zip(
            table["t_virtual_ns"], table["source"], table["name"], table["value"], strict=True
        ):
            times, values = rows.setdefault(f"{source}.{signal}", ([], []))
            times.append(t_ns / 1e9)
            values.append(value)
        self.signals = {name: Signal(*pair) for name, pair in rows.items()}
        if lacking := [name for name in NEEDED if name not in self.signals]:
            manifest = self.run.manifest
            raise Nothing(
                f"{name}: {len(lacking)} signals were not recorded, {lacking[0]} among them: the run ended after "
                f"{manifest.virtual_duration_ns / 1e9:.2f} s of virtual time, {manifest.outcome}: "
                f"{manifest.culprit or 'no reason is known'}; see {directory / 'report.html'}"
            )

    def __getitem__(self, name: str) -> Signal:
        return self.signals[name]

    def planner_half_widths_us(self) -> list[float]:
        """Half of the planner's interval at each command that it gave, from what it printed."""
        lines = self.run.arrow.logs().to_pylist()
        said = [line["text"] for line in lines if line["program"] in ("planner", "machine-planner")]
        # A machine's console also has other lines.
        commands = [json.loads(text) for text in said if text.startswith('{"number"') and text.rstrip().endswith("}")]
        return [command["half_width_ns"] / 1e3 for command in commands if command["half_width_ns"] is not None]

    def worst_mm(self, cell: str) -> float:
        return 1e3 * max(self[f"{cell}.error"].values)

    def last(self, name: str) -> int:
        return round(self[name].values[-1])

    def leaves_s(self, side: str) -> float | None:
        return self[f"cell.{side}.mode"].first(FAULT_S, {HOLD, STOPPED})

    def returns_s(self, side: str) -> float | None:
        left_s = self.leaves_s(side)
        return None if left_s is None else self[f"cell.{side}.mode"].first(left_s, {COORDINATED})

    def drops_s(self) -> float | None:
        drops = self["plain.dropped"]
        pairs = zip(drops.times, drops.values, strict=True)
        return next((t for t, value in pairs if value >= 1), None)


def seconds(t_s: float | None) -> str:
    return "–" if t_s is None else f"{t_s:.2f} s"


def summary(runs: list[CellRun]) -> str:
    head = (
        "<tr><th>what happens at 12 s</th><th>cell</th><th class=n>worst error</th><th class=n>dropped</th>"
        "<th class=n>placed</th><th class=n>late commands</th><th class=n>left leaves</th><th class=n>right leaves</th>"
        "<th class=n>both back</th><th>checks</th></tr>"
    )
    rows = []
    for cell_run in runs:
        back = [cell_run.returns_s(side) for side in ("left", "right")]
        both = None if None in back else max(back)
        checks = [check for check in cell_run.run.check_list if check.applies]
        held = sum(check.passed for check in checks)
        verdict = "pass" if held == len(checks) else "fail"
        for cell, label in (("cell", "asks how good time is"), ("plain", "plain clocks")):
            late = sum(cell_run.last(f"{cell}.{side}.late") for side in ("left", "right"))
            dropped = cell_run.last(f"{cell}.dropped")
            first = cell == "cell"
            rows.append(
                f"<tr><td>{STORIES[cell_run.name][0] if first else ''}</td><td>{label}</td>"
                f"<td class=n>{cell_run.worst_mm(cell):.3f} mm</td>"
                f"<td class='n {'fail' if dropped else ''}'>{dropped}</td>"
                f"<td class=n>{cell_run.last(f'{cell}.placed')}</td>"
                f"<td class=n>{late}</td>"
                + (
                    f"<td class=n>{seconds(cell_run.leaves_s('left'))}</td>"
                    f"<td class=n>{seconds(cell_run.leaves_s('right'))}</td>"
                    f"<td class=n>{seconds(both)}</td><td class={verdict}>{held} of {len(checks)} hold</td></tr>"
                    if first
                    else "<td class=n>never</td><td class=n>never</td><td></td><td></td></tr>"
                )
            )
    return f"<div class=wide><table>{head}{''.join(rows)}</table></div>"


def section(cell_run: CellRun) -> str:
    title, story = STORIES[cell_run.name]
    end_s = cell_run["cell.error"].times[-1]
    fault = None if cell_run.name in ("calm", "machine") else FAULT_S
    errors = drawing.plot(
        "How far the arms' ends disagree",
        "mm",
        [
            ("asks how good time is", "a", scaled(cell_run["cell.error"], 1e3)),
            ("plain clocks", "b", scaled(cell_run["plain.error"], 1e3)),
        ],
        end_s,
        top=2.0,
        line=(TOLERANCE_MM, "the part slips"),
        fault=fault,
    )
    widths = drawing.plot(
        "Half of the interval of the controllers' timelines",
        "us",
        [
            ("left", "a", scaled(cell_run["left.timeline.cell.half_width"], 1e6)),
            ("right", "b", scaled(cell_run["right.timeline.cell.half_width"], 1e6)),
        ],
        end_s,
        top=300.0,
        line=(100.0, "required"),
        fault=fault,
    )
    modes = drawing.lanes(
        "Modes", [(side, cell_run[f"cell.{side}.mode"]) for side in ("left", "right")], end_s, fault=fault
    )
    parts = drawing.plot(
        "Parts dropped by plain clocks, and commands that came too late",
        "",
        [
            ("dropped", "b", cell_run["plain.dropped"]),
            ("late, plain", "c", added(cell_run["plain.left.late"], cell_run["plain.right.late"])),
            ("late, left", "a", cell_run["cell.left.late"]),
        ],
        end_s,
        top=None,
        line=None,
        fault=fault,
    )
    pictures = "".join(
        f"<figure>{drawing.cell(cell_run, name, t_s)}<figcaption>{html.escape(label)}, {t_s:.2f} s: "
        f"the ends are off by {cell_run[f'{name}.error'].at(t_s) * 1e3:.3f} mm</figcaption></figure>"
        for name, label, t_s in instants(cell_run)
    )
    report = html.escape(f"{cell_run.directory.name}/report.html")
    widths_us = cell_run.planner_half_widths_us()
    planner = (
        f"The planner knew the time of its {len(widths_us)} commands to ± {statistics.median(widths_us):.0f} µs in the "
        f"median, and to ± {max(widths_us):.0f} µs at worst; it asks for ± 1000 µs."
        if widths_us
        else "The planner gave no command with an interval."
    )
    return (
        f"<h2 id={cell_run.name}>{title}</h2><p>{story} {planner} <a href='{report}'>The run's own report</a>.</p>"
        f"<div class=plots>{errors}{modes}{widths}{parts}</div><div class=cells>{pictures}</div>"
    )


def instants(cell_run: CellRun) -> list[tuple[str, str, float]]:
    """Which drawings tell the story: before it, when a controller leaves, when the plain cell drops, and at the end."""
    carried = next((t for t, z, held in _held(cell_run) if held and z > 0.3), FAULT_S - 1.0)
    found = [("cell", "Carrying", carried)]
    leaves = [t for t in map(cell_run.leaves_s, ("left", "right")) if t is not None]
    if leaves:
        found.append(("cell", "Both have left", max(leaves)))
    drops = cell_run.drops_s()
    if drops is not None:
        found.append(("plain", "Plain clocks: the part falls", drops))
    back = [t for t in map(cell_run.returns_s, ("left", "right")) if t is not None]
    if back:
        found.append(("cell", "Together again", max(back)))
    return found


def _held(cell_run: CellRun) -> list[tuple[float, float, bool]]:
    held = cell_run["cell.held"]
    return [(t, cell_run["cell.left.z"].at(t), bool(value)) for t, value in zip(held.times, held.values, strict=True)]


def scaled(signal: Signal, by: float) -> Signal:
    return Signal(signal.times, [value * by for value in signal.values])


def added(first: Signal, second: Signal) -> Signal:
    return Signal(first.times, [value + second.at(t) for t, value in zip(first.times, first.values, strict=True)])


def main(out: str, given: list[str]) -> None:
    runs, nothing = [], []
    for pair in given:
        name, _, directory = pair.partition("=")
        if name not in STORIES or not directory:
            sys.exit(f"page.py: {pair}: NAME=RUN is wanted, with one of {', '.join(STORIES)}")
        try:
            runs.append(CellRun(name, Path(directory)))
        except Nothing as why:
            print(f"page.py: {why}", file=sys.stderr)
            nothing.append(str(why))
    if not runs:
        sys.exit("page.py: there is no run to make a page of")
    drop = sum(bool(cell_run.last("plain.dropped")) for cell_run in runs)
    kept = all(cell_run.last("cell.dropped") == 0 for cell_run in runs)
    lead = (
        f"Two arms carry one part together by time-stamped commands. "
        f"In {len(runs)} run{'s' * (len(runs) > 1)} the cell "
        f"that asks how good its time is {'never drops a part' if kept else '<b class=fail>drops parts</b>'}. "
        f"Beside it the same cell with plain clocks drops parts in {drop} of them. "
        f"The part slips when the arms' ends disagree by more than {TOLERANCE_MM} mm."
    )
    body = "".join(map(section, runs))
    absent = "".join(f"<p class=fail>Not on this page: {html.escape(why)}</p>" for why in nothing)
    Path(out).write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>The robot cell</title><style>{drawing.STYLE}</style><main><h1>The robot cell</h1><p>{lead}</p>{absent}"
        f"{summary(runs)}{body}</main></html>\n"
    )
    print(out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
