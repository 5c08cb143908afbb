"""The stock feeder against the voltages published for it."""

import csv

from timeloom.opendss import OpenDss
from worlds import CASE, Here

TOLERANCE_PU = 0.002
LINE_TO_NEUTRAL_V = {"634": 480 / 3**0.5}  # all others: 4.16 kV


def test_voltages_agree_with_the_published_ones():
    grid = Here(OpenDss(), config={"directory": str(CASE), "model": "stock.dss"})
    lines = [line for line in (CASE / "published_voltages.csv").read_text().splitlines() if line[0] != "#"]
    published = {
        f"bus.{row['bus']}.v{phase}": (float(row[letter]), LINE_TO_NEUTRAL_V.get(row["bus"], 4160 / 3**0.5))
        for row in csv.DictReader(lines)
        for phase, letter in enumerate("abc", start=1)
        if row[letter]
    }
    assert len(published) == 35
    ours_v = grid.read(list(published))
    errors_pu = {name: abs(v / base_v - pu) for v, (name, (pu, base_v)) in zip(ours_v, published.items(), strict=True)}
    worst = max(errors_pu, key=errors_pu.__getitem__)
    assert errors_pu[worst] <= TOLERANCE_PU, (worst, errors_pu[worst])


def test_the_substation_delivers_the_published_power():
    # Published total of the feeder at bus 650: 3577.2 kW and 1724.7 kvar.
    grid = Here(OpenDss(), config={"directory": str(CASE), "model": "stock.dss"})
    p_kw, q_kvar = grid.read(["vsource.source.p", "vsource.source.q"])
    assert abs(p_kw - 3577.2) < 5 and abs(q_kvar - 1724.7) < 5
