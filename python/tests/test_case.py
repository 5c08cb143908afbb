"""The case of the paper, section 5, in pure simulation: the plant and the controller's rule, no network.

The rule runs every 100 ms; an attack stops it at 22.5 s, as cutting the line does. The programs of
the example add transport and their own clocks to the same rule; what holds here must hold there.
"""

from dataclasses import dataclass

import pytest

from timeloom.opendss import OpenDss
from worlds import CASE_CONFIG, METER, MS, SECOND, SET_POINTS, Here, program

ATTACK_NS = 22_500 * MS
END_NS = 90 * SECOND
RECORD = ["bus.680.v1", "bus.680.v2", "bus.680.v3", "bus.646.v2", "storage.1.p", "storage.2.p", "storage.3.p"]


@dataclass(frozen=True)
class Run:
    t_s: list[float]
    v680a_v: list[float]
    storage_kw: list[float]

    def between(self, series: list[float], start_s: float, end_s: float) -> list[float]:
        return [value for t_s, value in zip(self.t_s, series, strict=True) if start_s <= t_s <= end_s]


def closed_loop(step_ns: int, attack_ns: int | None) -> Run:
    rule = program("controller").set_points_kw
    grid = Here(OpenDss(), config=CASE_CONFIG, seed=7, step_ns=step_ns, record=RECORD, record_every_ns=100 * MS)
    samples = []
    for t_ns in range(0, END_NS, 100 * MS):
        samples += grid.ask("advance", to_ns=t_ns)["samples"]
        if attack_ns is None or t_ns < attack_ns:
            *s_kva, load_692, load_652, load_611 = grid.read(METER)
            kw = rule(s_kva, {"692": load_692, "652": load_652, "611": load_611})
            grid.ask("write", values=dict(zip(SET_POINTS, kw, strict=True)))
    samples += grid.ask("advance", to_ns=END_NS)["samples"]
    return Run(
        [sample["t_ns"] * 1e-9 for sample in samples],
        [sample["values"][0] for sample in samples],
        [sum(sample["values"][4:7]) for sample in samples],
    )


@pytest.fixture(scope="module", params=[10, 100], ids=["10ms", "100ms"])
def runs(request) -> tuple[Run, Run]:
    return closed_loop(request.param * MS, None), closed_loop(request.param * MS, ATTACK_NS)


def test_the_storage_charges_in_the_gust_and_only_there(runs):
    # The paper: charges between 18 and 21 s. Its authors' own profile: 14.3 to 21.3 s. Ours: 16.4 to 21.4 s.
    for run in runs:
        charging_s = [t_s for t_s, kw in zip(run.t_s, run.storage_kw, strict=True) if kw < 0]
        assert 16 <= charging_s[0] <= 17 and 20.8 <= charging_s[-1] <= 22
        assert len(charging_s) > 40  # without a break


def test_without_an_attack_the_voltage_stays_near_2400_v(runs):
    calm, _ = runs
    assert min(calm.v680a_v) > 2370 and max(calm.v680a_v) < 2410


def test_under_attack_the_voltage_sags_with_the_wind(runs):
    # The paper: 2320 V, 3.33 % below 2400 V. Ours: 2321 V near 47 s.
    _, cut = runs
    after_v = cut.between(cut.v680a_v, 25.0, 90.0)
    assert 2290 < min(after_v) < 2345
    assert sum(v < 2370 for v in after_v) > len(after_v) / 2  # no short dip


def test_the_cut_freezes_the_storage_while_it_discharges(runs):
    calm, cut = runs
    frozen_kw = cut.between(cut.storage_kw, 22.6, 90.0)
    assert max(frozen_kw) - min(frozen_kw) < 5 and 0 < frozen_kw[0] < 1000
    assert calm.between(calm.v680a_v, 0, 22.5) == cut.between(cut.v680a_v, 0, 22.5)


def test_a_coarser_step_gives_the_same_run():
    fine, coarse = (closed_loop(step_ms * MS, ATTACK_NS) for step_ms in (10, 100))
    assert coarse.v680a_v == pytest.approx(fine.v680a_v, abs=0.1)
    assert coarse.storage_kw == pytest.approx(fine.storage_kw, abs=1.0)
