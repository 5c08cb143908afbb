"""The pages: one for each paper, and their index, as Markdown.

A page is made from the rows and the stored outputs alone, so that a test can compare it with them.
"""

from __future__ import annotations

import textwrap
from typing import Any

from . import plots
from .answers import Answer, Answered, Kind, answer, counted
from .outputs import Outputs
from .rows import Command, Paper, Rows, shown

WIDTH = 100
INDEX = "README.md"
NO_VALUE = "–"
MADE = (
    "Written by `make papers` from the [commands](rows.toml), the [list of rows]({rows}), and the stored "
    "[output](output) of the commands. Changes belong there."
)
CALLS = """make papers                 # all commands: hours
make papers QUICK=1         # their short forms: a quarter of an hour
make papers ONLY='ptp vm'   # some of them"""


def documents(rows: Rows, outputs: Outputs) -> dict[str, str]:
    """All files by their names: the index, the pages, and the plots."""
    made, counts = {}, {}
    for name, paper in rows.papers.items():
        answered = [answer(row, rows, outputs) for row in rows.of(name)]
        drawn = plots.plots(name, rows, answered)
        counts[name] = counted(answered)
        made[f"{name}.md"] = _page(paper, rows, answered, outputs, set(drawn))
        made |= {f"{plot}.svg": text for plot, text in drawn.items()}
    made[INDEX] = _index(rows, counts, outputs)
    return made


def _page(paper: Paper, rows: Rows, answered: list[Answered], outputs: Outputs, drawn: set[str]) -> str:
    parts = [f"# {paper.title}: the paper's values and ours", _prose(MADE.format(rows=f"rows/{paper.name}.toml"))]
    parts.append(_prose(f"The paper: {paper.source}. Its values were measured on {paper.hardware}."))
    parts.append(_prose(f"Rows of this page: {_counts(counted(answered))}."))
    parts.append(
        _prose(
            "*Input*: the value was taken from the paper, and is not compared. *Missing*: not measured yet, with what "
            "it takes. The ratio is ours ÷ the paper's; a dash is a value that the paper's text does not have. "
            "A command's name leads to its run, with the state of the machine."
        )
    )
    for figure in paper.figures:
        parts += _figure(figure, [one for one in answered if _figure_of(one) == figure], rows, drawn)
    drawings = [f"{name} ({subject})" for name, subject in paper.drawings.items()]
    parts += ["## Figures without quantities", _prose(f"These show a design: {', '.join(drawings)}.")]
    used = {one.cell.command for each in answered for one in each.answers if one.cell.command}
    parts += _runs([rows.commands[name] for name in rows.commands if name in used], outputs)
    return "\n\n".join(parts) + "\n"


def _figure_of(answered: Answered) -> str:
    return answered.row.cells[0].figure


def _figure(figure: str, answered: list[Answered], rows: Rows, drawn: set[str]) -> list[str]:
    """The section of a figure or table: a table, the differences, and plots."""
    table = [["quantity", "paper", "ours", "ours ÷ paper", "measured by, or why not"]]
    whys: dict[str, list[str]] = {}
    for one in answered:
        table += _curve(one) if one.row.is_curve else _cells(one)
        for each in one.answers:
            if each.ratio is not None:
                whats = whys.setdefault(each.cell.why, [])
                whats += [] if each.cell.what in whats else [each.cell.what]
    parts = [f"## {figure}", _table(table, numbers=3)]
    if whys:
        differences = [_item(f"{', '.join(whats)}: {why}.") for why, whats in whys.items()]
        parts += ["Why they differ:", "\n".join(differences)]
    for plot in dict.fromkeys(one.row.cells[0].plot for one in answered):
        if plot in drawn:
            parts.append(f"![{rows.plots[plot].title}]({plot}.svg)")
            of_plot = [one for one in answered if one.row.cells[0].plot == plot]
            parts += _points(rows.plots[plot].x, [one for one in of_plot if one.row.is_curve])
    return parts


def _cells(answered: Answered) -> list[list[str]]:
    lines, before = [], None
    for each in answered.answers:
        cell = each.cell
        name = ", ".join(filter(None, [cell.what, cell.at]))
        name += f" ({cell.where})" if cell.where and before is None else ""
        how = _how(each)
        lines.append([name, _paper(each), _ours(each), _ratio(each), _again(how, before)])
        before = how
    return lines


def _curve(answered: Answered) -> list[list[str]]:
    cell = answered.row.cells[0]
    name = ", ".join(filter(None, [cell.what, cell.label])) + (f" ({cell.where})" if cell.where else "")
    [kind] = answered.kinds
    theirs = sum(each.cell.paper is not None for each in answered.answers)
    paper = f"{theirs} points" if theirs else NO_VALUE
    if kind is Kind.MEASURED:
        return [[name, paper, f"{len(answered.answers)} points", "", _how(answered.answers[0])]]
    lacking = next(each for each in answered.answers if each.kind is kind)
    return [[name, paper, "", "", _how(lacking)]]


def _points(x: str, curves: list[Answered]) -> list[str]:
    """A table of the points of curves that share a plot."""
    curves = [one for one in curves if any(each.ours is not None for each in one.answers)]
    if not curves:
        return []
    heading, columns = [x], []
    for one in curves:
        cell = one.row.cells[0]
        unit = f" ({cell.unit})" if cell.unit else ""
        by_x = {each.cell.x: each for each in one.answers}
        if any(each.cell.paper is not None for each in one.answers):
            heading.append(f"{cell.label}, paper{unit}")
            columns.append({at: _number(each.cell.paper) for at, each in by_x.items()})
        heading.append(f"{cell.label}{unit}")
        columns.append({at: _number(each.ours) for at, each in by_x.items()})
    xs = sorted({at for column in columns for at in column if at is not None})
    lines = [[f"{at:g}", *(column.get(at, NO_VALUE) for column in columns)] for at in xs]
    return [_table([heading, *lines], numbers=len(heading))]


def _paper(each: Answer) -> str:
    value = each.cell.paper
    if value is None:
        return NO_VALUE
    text = value if isinstance(value, str) else f"{value:.10g}"
    return f"{text} {each.cell.unit}".strip() if each.cell.unit != "ratio" else text


def _ours(each: Answer) -> str:
    if each.ours is None:
        return ""
    return f"{_number(each.ours)} {each.cell.unit}".strip() if each.cell.unit != "ratio" else _number(each.ours)


def _ratio(each: Answer) -> str:
    if each.ratio is not None:
        return _number(each.ratio)
    if each.ours is not None and each.ours == each.cell.paper:
        return "equal"
    return ""


def _how(each: Answer) -> str:
    if each.kind is Kind.MEASURED:
        return f"[`{each.cell.command}`](#{each.cell.command})"
    return f"*{each.kind.value}*: {each.reason}"


def _again(how: str, before: str | None) -> str:
    """A reason is given once for neighbouring cells."""
    return f"{how.partition(':')[0]}, as above" if how == before and how.startswith("*") else how


def _runs(commands: list[Command], outputs: Outputs) -> list[str]:
    """The section about the runs of the commands."""
    parts = ["## The runs"]
    for command in commands:
        parts.append(f"### {command.name}")
        output = outputs.get(command.name)
        if output is None:
            parts += ["Not run yet:", f"```sh\n{command.shown}\n```"]
        else:
            parts += [f"```sh\n{shown(output['run'])}\n```", "\n".join(_item(line) for line in _stamp(output))]
    return parts


def _stamp(output: dict[str, Any]) -> list[str]:
    """What is known of a run, in lines."""
    state, late = output["machine"], output["machine"]["wake_up"]
    ended = "" if output["exit"] == 0 else f" It ended with **{output['exit']}**."
    changed = ", with changes" if output["changed"] else ""
    lines = [
        f"{'Quick run' if output['quick'] else 'Run'} of {output['date']}, {output['seconds']:g} s; "
        f"commit {output['commit'][:10]}{changed}.{ended} [Output](output/{output['command']}.json).",
        f"{state['processors']} processors, {state['processor']}, Linux {state['kernel']}: "
        f"{100 * state['stolen']:.1f} % stolen, {100 * state['idle']:.0f} % idle, load {state['load_before']:g} before "
        f"and {state['load_after']:g} after.",
        f"Lateness of a sleep of 1 ms before it ({late['policy']}): {late['median_ns'] / 1e3:.0f} µs in the median, "
        f"{late['p99_ns'] / 1e3:.0f} µs once in a hundred, {late['worst_ns'] / 1e3:.0f} µs at worst.",
    ]
    if output["versions"]:
        versions = [f"`{words}` prints `{said}`" for words, said in output["versions"].items()]
        lines.append(f"Versions: {', '.join(versions)}.")
    return lines


def _index(rows: Rows, counts: dict[str, dict[Kind, int]], outputs: Outputs) -> str:
    whole = {kind: sum(count[kind] for count in counts.values()) for kind in Kind}
    table = [["paper", *(kind.value for kind in Kind)]]
    for name, paper in rows.papers.items():
        table.append([f"[{paper.title}]({name}.md)", *(str(counts[name][kind]) for kind in Kind)])
    table.append(["all", *(str(whole[kind]) for kind in Kind)])
    quick = sum(output["quick"] for output in outputs.values())
    parts = [
        "# Five papers: every figure and table beside ours",
        _prose(MADE.format(rows="rows")),
        _prose(
            "Each page has every table and figure of one paper: its value, ours, their ratio, the command, the state "
            "of the machine, and why they differ. Values that were taken from a paper are marked as *input*, and "
            "never compared."
        ),
        f"```sh\n{CALLS}\n```",
        _table(table, numbers=len(Kind)),
        _prose(
            f"A row counts as measured if the stored output of its command has its value. {len(outputs)} of "
            f"{len(rows.commands)} commands were run, {quick} of them in their short form, whose figures are less "
            "certain."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _counts(counts: dict[Kind, int]) -> str:
    return ", ".join(f"**{count}** {kind.value}" for kind, count in counts.items())


def _number(value: float | str | None) -> str:
    """A number with four digits, without an exponent unless it is very small or large."""
    if value is None:
        return NO_VALUE
    if isinstance(value, str):
        return value
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3e}"
    rounded = float(f"{value:.4g}")
    return f"{rounded:.0f}" if rounded == round(rounded) else f"{rounded:.8f}".rstrip("0")


def _prose(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _item(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _table(lines: list[list[str]], numbers: int) -> str:
    """A table whose columns after the first, so many of them, hold numbers."""
    heading, *rest = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    rules = ["--:" if 1 <= place <= numbers else "---" for place in range(len(heading))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [heading, rules, *rest])
