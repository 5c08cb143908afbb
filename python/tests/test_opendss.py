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


def test_the_energy_does_not_depend_on_the_number_of_stops():
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


RADIAL = """Clear
New Circuit.c basekv=12.47 bus1=src pu=1.0
New Transformer.t phases=3 windings=2 buses=(src, low) kvs=(12.47, 4.16) kvas=(5000, 5000) xhl=5 %r=0.5
New Regcontrol.r transformer=t winding=2 vreg=122 band=2 ptratio=20 delay=2
New Line.tie bus1=low bus2=far length=1 units=km switch=y
New Line.main bus1=low bus2=mid length=1 units=km switch=y
New Relay.main MonitoredObj=Line.main SwitchedObj=Line.main type=current phasetrip=100 phaseinst=10 Shots=1 Delay=4
New Load.far bus1=far kv=4.16 kw=100 pf=1 model=1
New Load.mid bus1=mid kv=4.16 kw=1500 pf=0.8 model=1
New Capacitor.cap bus1=low kv=4.16 kvar=(300, 300) numsteps=2
New Capcontrol.cap capacitor=cap element=transformer.t terminal=1 type=voltage ptratio=60 onsetting=1 offsetting=2 delay=1
New Generator.g bus1=low kv=4.16 kw=100 pf=1 model=1
New Storage.s bus1=low kv=4.16 kwrated=500 kwhrated=100 kwhstored=20.02 %reserve=20 state=idling
New PVSystem.pv bus1=low kv=4.16 pmpp=100 irradiance=0.5 kva=120
Set voltagebases=[12.47 4.16]
CalcVoltageBases
Solve
Open Line.tie 1
Edit Capacitor.cap states=(1 1)
"""  # noqa: E501  # lines of the file that it makes


@pytest.fixture
def radial(tmp_path):
    """Controls of the model act: a relay, a tap changer, the switch of a capacitor."""
    (tmp_path / "radial.dss").write_text(RADIAL)
    config = {"model": "radial.dss", "directory": str(tmp_path), "control_mode": "time"}
    return Here(OpenDss(), config=config, step_ns=500 * MS)


def test_written_values_are_read_back_to_the_last_bit(radial):
    written = {"storage.s.kw": 51.8885498046875 / 3, "load.far.kw": 75.3741455078125, "generator.g.kw": 1e-7 / 3}
    radial.ask("write", values=written)
    assert radial.read(list(written)) == list(written.values())


def test_a_set_point_is_read_from_the_model_after_any_change(radial):
    names = ["line.tie.closed", "line.main.closed", "transformer.t.tap2", "capacitor.cap.steps"]
    before = radial.read(names)
    assert before[:2] == [0.0, 1.0], "the model opened one at its start"
    radial.ask("write", values={"vsource.source.pu": 0.95})
    radial.ask("advance", to_ns=20 * SECOND)
    after = radial.read([*names, "line.main.p", "bus.mid.v1"])
    assert after[:2] == [0.0, 0.0] and after[4] == pytest.approx(0, abs=1e-6) == pytest.approx(after[5], abs=1e-6)
    assert after[2] != before[2] and 0.9 <= after[2] <= 1.1, "the tap changer"
    assert before[3] == 2.0 > after[3], "the switch of the capacitor"
    # An empty storage discharges no further, whatever power was requested.
    radial.ask("write", values={"storage.s.kw": 400.0})
    assert radial.read(["storage.s.kw", "storage.s.kw_set"]) == [400.0, 400.0]
    radial.ask("advance", to_ns=40 * SECOND)
    kw, written, p_kw = radial.read(["storage.s.kw", "storage.s.kw_set", "storage.s.p"])
    assert written == 400.0 and kw <= 0.0 and kw == pytest.approx(p_kw, abs=1.0)


FEEDER = """Clear
New Circuit.c basekv=4.16 bus1=src pu=1.0
New Line.main bus1=src bus2=low length=1 units=km
New Load.l bus1=low kv=4.16 kw=1600 pf=1 model=1
New Generator.g bus1=low kv=4.16 kw=100 pf=1 model=1
New Storage.s bus1=low kv=4.16 kwrated=500 kwhrated=500 kwhstored=400 state=idling
New PVSystem.pv bus1=low kv=4.16 pmpp=100 irradiance=0.5 kva=120
New XYcurve.cut npts=4 xarray=(0 0.5 0.6 2) yarray=(1 1 0.2 0.2)
Set maxcontroliter=100
CONTROLLER
Set voltagebases=[4.16]
CalcVoltageBases
Solve
"""


def controlled(directory: Path, controller: str) -> Here:
    (directory / "feeder.dss").write_text(FEEDER.replace("CONTROLLER", controller))
    config = {"model": "feeder.dss", "directory": str(directory), "control_mode": "time"}
    return Here(OpenDss(), config=config, step_ns=SECOND)


@pytest.mark.parametrize(
    ("element", "controller"),
    [
        ("generator.g", "New GenDispatcher.d genlist=(g) kwlimit=900 kwband=50"),
        (
            "storage.s",
            "New StorageController.d elementlist=(s) modedischarge=peakshave kwtarget=1200 "
            "modecharge=peakshavelow kwtargetlow=100",
        ),
    ],
    ids=("generator", "storage"),
)
def test_a_set_point_under_a_controller_is_read_from_the_model(tmp_path, element, controller):
    controller += " element=line.main terminal=1"
    name = f"{element}.kw"
    names = [name, f"{name}_set", f"{element}.p"]
    shown = {}
    for control in ("", controller):
        here = controlled(tmp_path, control)
        here.ask("write", values={name: 60.0})
        here.ask("advance", to_ns=30 * SECOND)
        *shown[control], p_kw = here.read(names)
        assert shown[control][0] == pytest.approx(p_kw, rel=0.01), "the value that the model solves"
    assert shown[""] == [60.0, 60.0]
    kw, written = shown[controller]
    assert written == 60.0 and kw > 150.0, "the controller dispatches, and writes no set point"


def test_an_inverter_under_a_controller_shows_the_power_of_the_model(tmp_path):
    """The set point of a photovoltaic system is its irradiance, which no controller changes."""
    controller = "New InvControl.i derlist=(PVSystem.pv) mode=voltwatt voltwatt_curve=cut"
    names = ["pvsystem.pv.irradiance", "pvsystem.pv.irradiance_set", "pvsystem.pv.p"]
    shown = {}
    for control in ("", controller):
        here = controlled(tmp_path, control)
        here.ask("write", values={names[0]: 0.8})
        here.ask("advance", to_ns=30 * SECOND)
        *irradiance, shown[control] = here.read(names)
        assert irradiance == [0.8, 0.8]
    assert shown[""] == pytest.approx(80, rel=0.02)
    assert shown[controller] == pytest.approx(20, rel=0.1), "a fifth of its rating, by the curve"


def test_each_writable_signal_has_the_written_value_and_a_second_name(radial):
    values = {
        "line.tie.closed": 1.0,
        "load.far.kw": 123.456789012345,
        "generator.g.kw": 234.567890123456,
        "storage.s.kw": -56.7890123456,
        "pvsystem.pv.irradiance": 0.987654321,
        "vsource.source.pu": 1.0123456789,
        "capacitor.cap.steps": 1.0,
        "transformer.t.tap1": 0.9875,
        "transformer.t.tap2": 1.025,
        "line.main.closed": 0.0,
        "load.mid.kw": 900.0,
    }
    writable = {signal["name"] for signal in radial.init["signals"] if signal["writable"]}
    assert writable == {*values, *(f"{name}_set" for name in values)}
    for suffix in ("", "_set"):
        for name, value in values.items():
            radial.ask("write", values={f"{name}{suffix}": value})
            assert radial.read([name, f"{name}_set"]) == pytest.approx([value, value], rel=1e-9), name
            # Another value, so that the second name has something to change.
            radial.ask("write", values={name: 0.0 if name.endswith(("closed", "steps")) else value * 1.01})


def test_a_number_of_steps_that_a_capacitor_does_not_have_is_refused(radial):
    with pytest.raises(AssertionError, match="2 steps"):
        radial.ask("write", values={"capacitor.cap.steps": 3.0})


def test_expose_limits_the_offered_signals():
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
