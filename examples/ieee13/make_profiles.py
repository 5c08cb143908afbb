"""Writes wind.csv and load_*.csv: the weather and the consumers of the case, from one seed.

Nothing here is measured. The shapes serve the case: the wind stays between about 1.2 and 3.7 MW over
90 s and has one strong gust that peaks near 18.7 s, so that the generator exceeds what the grid needs
between about 16 and 21 s (the storage charges) and falls below it afterwards. Where the communication
is cut at 22.5 s, the gust is nearly over: what follows is a deficit that the frozen storage no
longer covers.

    python make_profiles.py        # writes into its own folder; same seed, same files
"""

import argparse
import math
import random
from pathlib import Path

DURATION_S = 90.0
WIND_STEP_S = 0.1
LOAD_STEP_S = 1.0

WIND_MIN_KW, WIND_MAX_KW = 1200.0, 3700.0
WIND_MEAN_KW = 1900.0
GUST_PEAK_S = 18.7
GUST_RISE_S, GUST_FALL_S = 3.0, 4.0  # standard deviations of the two flanks

# Name of the load: mean kW, half range kW.
LOADS = {"692": (485.0, 60.0), "652": (128.0, 15.0), "611": (170.0, 20.0)}


def wind_kw(rng: random.Random) -> list[float]:
    """Slow swells with random phases, a small turbulence, and the gust on top."""
    swells = [(rng.uniform(0.6, 1.0), period_s, rng.uniform(0, 2 * math.pi)) for period_s in (37.0, 23.0, 13.0, 7.9)]
    weight = sum(amplitude for amplitude, _, _ in swells)
    turbulence_kw = 0.0
    series = []
    for k in range(round(DURATION_S / WIND_STEP_S) + 1):
        t_s = k * WIND_STEP_S
        swell = sum(a * math.sin(2 * math.pi * t_s / period_s + phase) for a, period_s, phase in swells) / weight
        # First-order turbulence: correlated over about 2 s, a few kW wide.
        turbulence_kw += -turbulence_kw * WIND_STEP_S / 2.0 + rng.gauss(0, 4.0)
        width_s = GUST_RISE_S if t_s < GUST_PEAK_S else GUST_FALL_S
        gust = math.exp(-0.5 * ((t_s - GUST_PEAK_S) / width_s) ** 2)
        calm_kw = WIND_MEAN_KW + 900.0 * swell + turbulence_kw
        series.append(calm_kw * (1 - gust) + (WIND_MAX_KW - 15.0 + turbulence_kw) * gust)
    return [min(max(kw, WIND_MIN_KW), WIND_MAX_KW) for kw in series]


def load_kw(rng: random.Random, mean_kw: float, half_range_kw: float) -> list[float]:
    """A bounded walk: each second a small push, drawn back to the mean."""
    kw = mean_kw
    series = []
    for _ in range(round(DURATION_S / LOAD_STEP_S) + 1):
        series.append(kw)
        kw += rng.gauss(0, half_range_kw / 8) - 0.02 * (kw - mean_kw)
        kw = min(max(kw, mean_kw - half_range_kw), mean_kw + half_range_kw)
    return series


def write(path: Path, step_s: float, series: list[float], seed: int) -> None:
    lines = [f"# Written by make_profiles.py, seed {seed}; invented, not measured.", "t_s,kw"]
    lines += [f"{k * step_s:.1f},{kw:.2f}" for k, kw in enumerate(series)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the wind and load profiles of the 13-bus case.")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--directory", type=Path, default=Path(__file__).parent, help="where to write")
    options = parser.parse_args()
    # One stream per file, so that a change to one leaves the others as they are.
    write(options.directory / "wind.csv", WIND_STEP_S, wind_kw(random.Random(f"{options.seed}/wind")), options.seed)
    for name, (mean_kw, half_range_kw) in LOADS.items():
        series = load_kw(random.Random(f"{options.seed}/{name}"), mean_kw, half_range_kw)
        write(options.directory / f"load_{name}.csv", LOAD_STEP_S, series, options.seed)


if __name__ == "__main__":
    main()
