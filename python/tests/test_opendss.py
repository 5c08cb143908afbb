"""The adapter on the modified circuit: energy, clock, signs, writes, refusals."""

import os
from pathlib import Path

import pytest

from timeloom.client import PlantFailed
from timeloom.opendss import OpenDss
from worlds import CASE, CASE_CONFIG, MS, SECOND, SET_POINTS, Here, opendss_process


def grid(**config) -> Here:
    return Here(OpenDss(), config={**CASE_CONFIG, **config})


def without_profiles() -> Here:
    return grid(profiles={})


def test_storage_energy_integrates_in_both_directions():
    here = without_profiles()
    for kw, efficiency in ((500.0, 1 / 0.9), (-300.0, 0.9)):  # the engine's default efficiencies
        here.ask("write", values={name: kw for name in SET_POINTS})
        before_kwh = here.read(["storage.3.stored_kwh"])[0]
        start_ns = here.session._plant.t_ns
        here.ask("advance", to_ns=start_ns + 36 * SECOND)
        p_kw, after_kwh = here.read(["storage.3.p", "storage.3.stored_kwh"])
        assert p_kw == pytest.approx(kw, rel=0.02)
        assert after_kwh - before_kwh == pytest.approx(-p_kw * 0.01 * efficiency, rel=0.03)


def test_the_energy_does_not_depend_on_how_often_the_engine_stops():
    stored = []
    for piece_ns in (7 * MS, 90 * MS, 1800 * MS):
        here = without_profiles()
        here.ask("write", values={"storage.1.kw": 900.0})
        for t_ns in range(piece_ns, 1800 * MS + 1, piece_ns):
            here.ask("advance", to_ns=t_ns)
        here.ask("advance", to_ns=1800 * MS)
        here.read(["bus.680.v1"])
        stored.append(here.read(["storage.1.stored_kwh"])[0])
    assert stored[0] == pytest.approx(stored[1], abs=1e-6) == pytest.approx(stored[2], abs=1e-6)


def test_the_clock_of_the_engine_is_ours_and_advances_once():
    plant = OpenDss()
    here = Here(plant, config=CASE_CONFIG, t_ns=SECOND)
    here.ask("advance", to_ns=3 * SECOND + 1)
    here.ask("write", values={"storage.1.kw": 100.0})
    here.read(["bus.680.v1"])
    assert plant._solution.dblHour * 3600 == pytest.approx(3.000000001, abs=1e-6)


def test_a_write_is_felt_at_its_own_instant():
    here = grid()
    here.ask("advance", to_ns=SECOND)
    before_v = here.read(["bus.675.v1"])[0]
    here.ask("write", values={"storage.1.kw": 1500.0})
    after_v, p_kw = here.read(["bus.675.v1", "storage.1.p"])
    assert p_kw == pytest.approx(1500, rel=0.01) and after_v > before_v + 20


def test_profiles_move_their_set_points_and_cannot_be_written():
    here = grid()
    here.ask("advance", to_ns=18_600 * MS)
    kw, p_kw, q_kvar, s1_kva = here.read([f"generator.wind.{what}" for what in ("kw", "p", "q", "s1")])
    assert kw == pytest.approx(3680, abs=20) == pytest.approx(p_kw, abs=20)
    assert q_kvar / p_kw == pytest.approx((1 / 0.81 - 1) ** 0.5, rel=0.01)  # power factor 0.9
    assert s1_kva == pytest.approx(kw / 0.9 / 3, rel=0.01)
    writable = {signal["name"] for signal in here.init["signals"] if signal["writable"]}
    assert set(SET_POINTS) <= writable and "generator.wind.kw" not in writable


def test_signs_follow_the_reader():
    here = without_profiles()
    load, source, line = here.read(["load.671.p", "vsource.source.p", "line.650_632.p"])
    assert load == pytest.approx(1155, rel=0.01)
    assert source == pytest.approx(line, rel=1e-3) and source > 0
    dynamic_kw = here.read(["load.611.kw", "load.611.p3"])
    assert dynamic_kw[1] == pytest.approx(dynamic_kw[0], rel=0.1)  # a current load at a low voltage


def test_a_line_can_be_opened_and_closed():
    here = without_profiles()
    closed_v = here.read(["bus.680.v1"])[0]
    here.ask("write", values={"line.671_680.closed": 0.0})
    assert here.read(["bus.680.v1"])[0] < 1.0
    here.ask("write", values={"line.671_680.closed": 1.0})
    assert here.read(["bus.680.v1"])[0] == pytest.approx(closed_v, abs=0.1)


def test_expose_limits_what_is_offered():
    names = {signal["name"] for signal in grid(expose=["bus.680.*"]).init["signals"]}
    assert names == {"bus.680.v1", "bus.680.v2", "bus.680.v3", *CASE_CONFIG["profiles"]}


def test_no_two_runs_differ():
    def samples():
        record = ["bus.680.v1", "storage.1.stored_kwh"]
        here = Here(OpenDss(), config=CASE_CONFIG, record=record, record_every_ns=50 * MS)
        return here.ask("advance", to_ns=5 * SECOND)["samples"]

    assert samples() == samples()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "absent.dss"}, "no model file"),
        ({"model": None}, "model must be a text"),
        ({"model": "README.md"}, "does not compile"),
        ({"commands": ["new line.x bus1=nowhere linecode=none"]}, "does not compile"),
        ({"control_mode": "magic"}, "control_mode"),
        ({"profiles": {"bus.680.v1": "wind.csv"}}, "not a set point|no column"),
        ({"profiles": {"storage.9.kw": "wind.csv"}}, "not a set point"),
        ({"profiles": {"storage.1.kw": {"csv": "wind.csv", "interpolation": "cubic"}}}, "interpolation"),
        ({"modle": "x"}, "unknown configuration key 'modle'"),
    ],
)
def test_a_wrong_configuration_is_answered_in_words(change, message):
    with pytest.raises(AssertionError, match=message):
        grid(**change)


def test_as_a_process_and_without_moving_from_its_folder():
    with opendss_process() as plant:
        folder = os.getcwd()
        relative = Path(os.path.relpath(CASE, folder))
        plant.init({**CASE_CONFIG, "directory": str(relative)}, record=["bus.680.v1"])
        assert len(plant.advance(SECOND)["samples"]) == 11
        with pytest.raises(PlantFailed, match="not writable"):
            plant.write({"generator.wind.kw": 1.0})
        assert os.readlink(f"/proc/{plant.process.pid}/cwd") == folder
        assert plant.stop() == 0
