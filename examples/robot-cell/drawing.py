"""What the page is drawn with: plots over time, lanes of modes, and the cell as it stands at an instant."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

import arms
import ur5

STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1c1f23; --soft: #5b636d; --line: #d5d9de;
  --thin: #e6e9ec;
  --a: #005a8f; --b: #b04600; --c: #7a5aa0; --good: #00694d; --warn: #c98a00; --bad: #b04600;
  --idle: #8b939c; }
@media (prefers-color-scheme: dark) { :root { --page: #15181c; --ink: #e6e9ec; --soft: #a3abb5;
  --line: #3b424a;
  --thin: #2a3037; --a: #6cb6e8; --b: #f08a4b; --c: #b79be0; --good: #4cc29a; --warn: #e0b04a;
  --bad: #f08a4b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 Charter, Georgia, "Liberation Serif", serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 60px; }
h1 { font-size: 27px; margin: 0 0 6px; } h2 { font-size: 18px; margin: 36px 0 6px; border-top: 1px
  solid var(--line);
  padding-top: 10px; } h3, table, figcaption, .keys, svg text { font-family: Helvetica, Arial,
  "Liberation Sans", sans-serif; }
h3 { font-size: 13px; margin: 0 0 2px; } a { color: var(--a); } p { max-width: 92ch; margin: 0 0
  10px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 12.5px;
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--thin);
  vertical-align: bottom; }
.n { text-align: right; white-space: nowrap; } .pass { color: var(--good); } .fail { color:
  var(--bad); font-weight: 600; }
.plots { display: grid; grid-template-columns: 1fr 1fr; gap: 18px 28px; } .plots > div { min-width:
  0; }
.cells { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 14px;
  margin-top: 14px; }
@media (max-width: 760px) { .plots { grid-template-columns: 1fr; } }
figure { margin: 0; } figcaption, .keys { font-size: 12px; color: var(--soft); } svg { width: 100%;
  height: auto; display: block; }
svg text { font-size: 10.5px; fill: var(--soft); } .key { margin-right: 14px; white-space: nowrap; }
.key i { display: inline-block; width: 18px; height: 3px; margin-right: 5px; vertical-align: 3px; }
.trace { fill: none; stroke-width: 1.4; stroke-linejoin: round; } .grid { stroke: var(--thin); }
  .fault { stroke: var(--bad);
  stroke-dasharray: 3 3; } .limit { stroke: var(--ink); stroke-dasharray: 5 3; stroke-width: 0.9; }
.bone { stroke: var(--soft); stroke-width: 5; stroke-linecap: round; stroke-linejoin: round; fill:
  none; }
.joint { fill: var(--page); stroke: var(--soft); stroke-width: 1.4; } .part { stroke: var(--a);
  stroke-width: 7; stroke-linecap: round; }
.fallen { stroke: var(--bad); } .floor { fill: none; stroke: var(--line); } .claw { fill:
  var(--ink); }
"""

WIDTH, HEIGHT, LEFT, BOTTOM = 500, 170, 44, 20
MODES = {0.0: ("stopped", "bad"), 1.0: ("rejoining", "c"), 2.0: ("coordinated", "good"), 3.0: ("hold", "warn")}


def plot(
    title: str,
    unit: str,
    traces: list[tuple[str, str, Any]],
    end_s: float,
    top: float | None,
    line: tuple[float, str] | None,
    fault: float | None,
) -> str:
    """Signals over time; what is above ``top`` is drawn at the top."""
    most = max(max(signal.values) for _, _, signal in traces)
    high = max(most, line[0] if line else 0.0) * 1.1 or 1.0
    cut = top is not None and high > top
    high = top if cut else high
    x, y = _across(end_s), (lambda value: HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 8) * min(value, high) / high)
    shapes = [_axes(end_s)]
    for share in (0.0, 0.5, 1.0):
        value = high * share
        shapes.append(f"<line class=grid x1={LEFT} x2={WIDTH} y1={y(value):.1f} y2={y(value):.1f} />")
        label = f"≥ {value:.4g}" if cut and share == 1.0 else f"{value:.3g}"
        shapes.append(f"<text x={LEFT - 5} y={y(value) + 3.5:.1f} text-anchor=end>{label}</text>")
    if line:
        shapes.append(f"<line class=limit x1={LEFT} x2={WIDTH} y1={y(line[0]):.1f} y2={y(line[0]):.1f} />")
        shapes.append(f"<text x={WIDTH - 2} y={y(line[0]) - 3:.1f} text-anchor=end>{html.escape(line[1])}</text>")
    if fault is not None:
        shapes.append(f"<line class=fault x1={x(fault):.1f} x2={x(fault):.1f} y1=6 y2={HEIGHT - BOTTOM} />")
    for _, kind, signal in traces:
        points, before, gap = [], None, 0.0
        for t, value in _thinned(signal):
            # A gap in the record is a gap in the trace.
            move = before is None or t - before > max(1.0, 3 * gap)
            gap, before = (gap if before is None else min(t - before, 0.5)), t
            points.append(f"{'M' if move else 'L'}{x(t):.1f} {y(value):.1f}")
        shapes.append(f"<path class=trace style='stroke: var(--{kind})' d='{''.join(points)}' />")
    keys = _keys((name, kind) for name, kind, _ in traces)
    head = f"{html.escape(title)}{f' [{unit}]' if unit else ''}".replace("[us]", "[µs]")
    return f"<div><h3>{head}</h3><div class=keys>{keys}</div>{_svg(''.join(shapes), HEIGHT)}</div>"


def lanes(title: str, rows: list[tuple[str, Any]], end_s: float, fault: float | None) -> str:
    """Modes over time, a lane for each."""
    x, shapes = _across(end_s), [_axes(end_s)]
    for index, (name, signal) in enumerate(rows):
        top = 14 + index * 66
        shapes.append(f"<text x={LEFT - 5} y={top + 28} text-anchor=end>{html.escape(name)}</text>")
        begins = [
            (t, value)
            for t, value, before in zip(signal.times, signal.values, [None, *signal.values], strict=False)
            if value != before
        ]
        for (t, value), (until, _) in zip(begins, [*begins[1:], (end_s, 0.0)], strict=True):
            name_of, kind = MODES[value]
            width = max(x(until) - x(t), 0.8)
            shapes.append(
                f"<rect x={x(t):.1f} y={top} width={width:.1f} height=44 style='fill: var(--{kind})'>"
                f"<title>{name_of} from {t:.2f} s</title></rect>"
            )
    if fault is not None:
        shapes.append(f"<line class=fault x1={x(fault):.1f} x2={x(fault):.1f} y1=6 y2={HEIGHT - BOTTOM} />")
    keys = _keys(MODES.values())
    return f"<div><h3>{html.escape(title)}</h3><div class=keys>{keys}</div>{_svg(''.join(shapes), HEIGHT)}</div>"


def cell(seen: Any, name: str, t_s: float) -> str:
    """Both arms and the part, seen from above the front."""
    shapes = []
    corners = [(-0.1, -0.85, 0.0), (0.9, -0.85, 0.0), (0.9, 0.85, 0.0), (-0.1, 0.85, 0.0)]
    shapes.append(f"<path class=floor d='M{'L'.join(map(_seen, corners))}Z' />")
    ends = []
    for side, base in arms.BASES.items():
        end = tuple(seen[f"{name}.{side}.{axis}"].at(t_s) for axis in "xyz")
        q = ur5.joints(*(e - b for e, b in zip(end, base, strict=True)))
        places = [tuple(p + b for p, b in zip(place, base, strict=True)) for place in ur5.joints_along(q)]
        shapes.append(f"<path class=bone d='M{'L'.join(map(_seen, places))}' />")
        for place in places[1:-1]:
            u, v = _seen(place).split()
            shapes.append(f"<circle class=joint cx={u} cy={v} r=3.2 />")
        u, v = _seen(end).split()
        shapes.append(f"<rect class=claw x={float(u) - 4:.1f} y={float(v) - 2:.1f} width=8 height=6 />")
        ends.append(end)
    held = seen[f"{name}.held"].at(t_s) > 0.5
    fallen = not held and seen[f"{name}.dropped"].at(t_s) > 0
    if held or fallen:
        below = [(x, y, z - 0.02 if held else 0.0) for x, y, z in ends]
        shapes.append(f"<path class='part {'fallen' if fallen else ''}' d='M{'L'.join(map(_seen, below))}' />")
    return f"<svg viewBox='0 0 320 195' role=img aria-label='The cell at {t_s:.2f} s'>{''.join(shapes)}</svg>"


def _keys(named: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"<span class=key><i style='background: var(--{kind})'></i>{html.escape(name)}</span>" for name, kind in named
    )


def _seen(place: Any) -> str:
    """Oblique projection: y to the right, z up, x towards the reader."""
    x, y, z = place
    return f"{178 + 145 * y - 42 * x:.1f} {122 - 150 * z + 75 * x:.1f}"


def _across(end_s: float) -> Any:
    return lambda t: LEFT + (WIDTH - LEFT) * min(t, end_s) / end_s


def _axes(end_s: float) -> str:
    x, every = _across(end_s), 5
    marks = range(0, int(end_s) + 1, every)
    return "".join(
        f"<line class=grid x1={x(t):.1f} x2={x(t):.1f} y1=8 y2={HEIGHT - BOTTOM} />"
        f"<text x={x(t):.1f} y={HEIGHT - 5} text-anchor=middle>{t} s</text>"
        for t in marks
    )


def _svg(shapes: str, height: int) -> str:
    return f"<svg viewBox='0 0 {WIDTH + 12} {height}'>{shapes}</svg>"


def _thinned(signal: Any) -> list[tuple[float, float]]:
    """The worst of each pixel's worth of samples."""
    pairs = list(zip(signal.times, signal.values, strict=True))
    at_once = max(1, len(pairs) // 600)
    return [max(pairs[i : i + at_once], key=lambda pair: pair[1]) for i in range(0, len(pairs), at_once)]
