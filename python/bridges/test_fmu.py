"""A plant that is an FMU, of FMI 2 and of FMI 3: the real reader and loader, and a real shared library."""

import math
import subprocess
import zipfile
from pathlib import Path

import pytest
from engine import STEP_NS, Engine

from timeloom.fmu import Unit

HERE = Path(__file__).parent


def engine_of(config, record=()):
    return Engine(Unit(), config, record)


SECOND = """<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName="lag" guid="{{lag}}">
  <CoSimulation modelIdentifier="lag" canHandleVariableCommunicationStepSize="{variable}"/>
  <UnitDefinitions><Unit name="m"/></UnitDefinitions>
  <ModelVariables>
    <ScalarVariable name="u" valueReference="0" causality="input" variability="continuous"><Real start="0"/></ScalarVariable>
    <ScalarVariable name="x[1]" valueReference="1" causality="output" variability="continuous"><Real unit="m"/></ScalarVariable>
    <ScalarVariable name="T" valueReference="2" causality="parameter" variability="fixed"><Real start="1"/></ScalarVariable>
    <ScalarVariable name="k" valueReference="3" causality="parameter" variability="tunable"><Real start="1"/></ScalarVariable>
    <ScalarVariable name="steps" valueReference="9" causality="local" variability="discrete"><Integer/></ScalarVariable>
  </ModelVariables>
  <ModelStructure><Outputs><Unknown index="2"/></Outputs></ModelStructure>
</fmiModelDescription>
"""  # noqa: E501  # lines of the file that it makes

THIRD = """<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="3.0" modelName="lag" instantiationToken="{{lag}}">
  <CoSimulation modelIdentifier="lag" canHandleVariableCommunicationStepSize="{variable}"/>
  <UnitDefinitions><Unit name="m"/></UnitDefinitions>
  <ModelVariables>
    <Float64 name="time" valueReference="8" causality="independent" variability="continuous"/>
    <Float64 name="u" valueReference="0" causality="input" start="0"/>
    <Float64 name="x[1]" valueReference="1" causality="output" unit="m"/>
    <Float64 name="T" valueReference="2" causality="parameter" variability="fixed" start="1"/>
    <Float64 name="k" valueReference="3" causality="parameter" variability="tunable" start="1"/>
  </ModelVariables>
  <ModelStructure><Output valueReference="1"/></ModelStructure>
</fmiModelDescription>
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    built = tmp_path_factory.mktemp("lag") / "lag.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", built, HERE / "lag.c", "-lm"], check=True)
    return built


def fmu(library, folder, version, variable="true"):
    path = folder / f"lag{version}.fmu"
    place = {2: "linux64", 3: "x86_64-linux"}[version]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", {2: SECOND, 3: THIRD}[version].format(variable=variable))
        archive.write(library, f"binaries/{place}/lag.so")
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_a_model_moves_as_its_equation_says(library, tmp_path, version):
    engine = engine_of(
        {"fmu": str(fmu(library, tmp_path, version)), "start": {"T": 0.5}, "names": {"x": "x[1]"}}, ["x"]
    )
    assert [(s["name"], s["unit"], s["writable"]) for s in engine.signals] == [
        ("u", "", True),
        ("T", "", False),
        ("k", "", True),
        ("x", "m", False),
    ]
    engine.write(u=2.0, k=3.0)
    # Not a multiple of the step: the FMU takes any.
    samples = engine.advance(123_456_789)["samples"]
    (x,) = engine.read("x")
    assert x == pytest.approx(6.0 * (1 - math.exp(-0.123456789 / 0.5)), rel=1e-9)
    assert [s["t_ns"] for s in samples] == list(range(0, 123_456_789, STEP_NS))
    assert samples[5]["values"][0] == pytest.approx(6.0 * (1 - math.exp(-0.05 / 0.5)), rel=1e-9)
    engine.write(u=0.0)
    engine.advance(623_456_789)
    assert engine.read("x")[0] == pytest.approx(x * math.exp(-1), rel=1e-9)
    assert engine.ask("stop") == {}


@pytest.mark.parametrize("version", [2, 3])
def test_equal_steps_are_kept_equal(library, tmp_path, version):
    """Between two steps it returns the last values; writes in between take effect from there on."""
    path = fmu(library, tmp_path, version, variable="false")
    engine = engine_of({"fmu": str(path)})
    engine.write(u=1.0)
    engine.advance(STEP_NS + 4_000_000)
    after_one = 1 - math.exp(-0.01)
    assert engine.read("x[1]") == [pytest.approx(after_one, rel=1e-9)]
    engine.advance(2 * STEP_NS)
    assert engine.read("x[1]") == [pytest.approx(1 - math.exp(-0.02), rel=1e-9)]


@pytest.mark.parametrize("version", [2, 3])
def test_a_model_that_fails_says_when(library, tmp_path, version):
    engine = engine_of({"fmu": str(fmu(library, tmp_path, version)), "start": {"T": -1.0}})
    answer = engine.try_to("advance", to_ns=STEP_NS)
    assert "fails at 0.0 s" in answer["error"]["message"]


def test_a_model_that_asks_to_end_says_when(library, tmp_path):
    engine = engine_of({"fmu": str(fmu(library, tmp_path, 3))})
    engine.write(u=2000.0)
    answer = engine.try_to("advance", to_ns=STEP_NS)
    assert "asks to end at 0.01 s" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({}, "config.fmu"),
        ({"fmu": "/nowhere.fmu"}, "/nowhere.fmu"),
        ({"fmu": "THERE", "start": {"y": 1}}, "no such variable"),
        ({"fmu": "THERE", "names": {"y": "y[3]"}}, "no such variable"),
        ({"fmu": "THERE", "start": 7}, "config.start"),
    ],
)
def test_wrong_configurations_are_refused_with_the_reason(library, tmp_path, config, word):
    if config.get("fmu") == "THERE":
        config = config | {"fmu": str(fmu(library, tmp_path, 2))}
    with pytest.raises(AssertionError, match=word):
        engine_of(config)
