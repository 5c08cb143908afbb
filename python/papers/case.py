"""The voltage case with and without the attack, as lines of JSON (Figure 12 of Hannon et al., PADS 2019).

    python -m papers.case TIMELOOM DIRECTORY [--dilation 1]

Runs ``examples/ieee13/ieee13.toml`` twice, both runs at once, and prints a JSON object for each
figure: ``metric``, ``run`` (``attack`` or ``normal``) and ``value``; for curves also ``t_s``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from timeloom.results import Run

from .rows import ROOT

if TYPE_CHECKING:
    import pandas

SCENARIO = ROOT / "examples" / "ieee13" / "ieee13.toml"
RUNS = {"attack": [], "normal": ["--set", "attack.dos.enabled=false"]}
#: Interval of the printed points of curves, in virtual seconds.
EVERY_S = 5
#: Instants after which the minimum counts, as in the scenario's checks.
AFTER_ATTACK_S = 25
CURVES = {"bus_680_v": "grid.bus.680.v1", "bus_646_v": "grid.bus.646.v2"}
STORAGE = [f"grid.storage.{phase}.p" for phase in (1, 2, 3)]
WIND = [f"grid.generator.wind.s{phase}" for phase in (1, 2, 3)]


def main() -> None:
    parser = argparse.ArgumentParser(description="The voltage case with and without the attack, as lines of JSON")
    parser.add_argument("timeloom")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--dilation", type=float, default=1, help="wall seconds of a virtual second (default 1)")
    asked = parser.parse_args()
    running = {}
    for name, words in RUNS.items():
        command = [asked.timeloom, "run", str(SCENARIO), "--replace", "-o", str(asked.directory / name)]
        command += ["--set", f"time.dilation={asked.dilation}", *words]
        running[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    ended = {name: process.wait() for name, process in running.items()}
    for name, status in ended.items():
        # 4: the machine was late at times, which the line `trusted` reports.
        if status not in (0, 4):
            raise SystemExit(f"the run `{name}` ended with {status}: see {asked.directory / name}")
        report(name, Run(asked.directory / name))
        _say("trusted", name, int(status == 0))


def report(name: str, run: Run) -> None:
    """Prints the figures of a run."""
    signals = run.signals().ffill()
    sums = {"storage_kw": signals[STORAGE].sum(axis=1), "wind_kva": signals[WIND].sum(axis=1)}
    curves: dict[str, pandas.Series[float]] = {key: signals[signal] for key, signal in CURVES.items()} | sums
    for key, curve in curves.items():
        for t_s in range(EVERY_S, int(curve.index[-1]) + 1, EVERY_S):
            _say(key, name, curve[curve.index <= t_s].iloc[-1], t_s=t_s)
    for key in CURVES:
        late = curves[key][curves[key].index >= AFTER_ATTACK_S]
        _say(f"{key}_lowest", name, late.min(), at_s=late.idxmin())
    charging = sums["storage_kw"][sums["storage_kw"] < 0]
    if len(charging):
        _say("charging_from_s", name, charging.index[0])
        _say("charging_until_s", name, charging.index[-1])
    # Wall time of a run whose clock runs as fast as the machine's, and stands while the plant computes.
    virtual_s, paused_s = run.manifest.virtual_duration_ns * 1e-9, run.manifest.paused_total_ns * 1e-9
    _say("wall_over_virtual", name, (virtual_s + paused_s) / virtual_s, paused_s=paused_s)


def _say(metric: str, name: str, value: float, **more: float) -> None:
    rounded = {key: round(float(number), 4) for key, number in {"value": value, **more}.items()}
    print(json.dumps({"metric": metric, "run": name, **rounded}), flush=True)


if __name__ == "__main__":
    main()
