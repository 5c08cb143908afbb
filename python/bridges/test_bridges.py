"""Runs whose time and signals another simulator controls: real HELICS, real mosaik, and `timeloom
run` as users start it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine import Engine
from test_helics import free_port

from timeloom.control import runtime_directory
from timeloom.exchange import Exchange, Exchanged, ExchangeError

ROOT = Path(__file__).resolve().parents[2]
CASE = ROOT / "examples" / "cosim"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "TIMELOOM_PYTHON": sys.executable}
LONG_S = 180


def binary():
    """The last build, or the path in TIMELOOM_BINARY."""
    named = os.environ.get("TIMELOOM_BINARY")
    made = [Path(named)] if named else [ROOT / "target" / kind / "timeloom" for kind in ("debug", "release")]
    return str(max((path for path in made if path.exists()), key=lambda path: path.stat().st_mtime))


class Run:
    """The tank without its physics, stepped; ended with this object."""

    def __init__(self, directory, patience="60 s"):
        self.name = f"cosim-{os.getpid()}-{time.monotonic_ns()}"
        self.results = directory / "run"
        self.process = subprocess.Popen(
            [
                binary(), "run", str(CASE / "tank.toml"), "--name", self.name, "-o", str(self.results),
                "--json", "--set", f"simulation.plants.tank.config.name={self.name}",
                "--set", f"time.stepped.patience={patience}",
            ],
            env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end(self):
        out, err = self.process.communicate(timeout=LONG_S)
        return self.process.returncode, json.loads(out), err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate()


def helics_config(run, directory, port, **more):
    config = json.loads((CASE / "helics.json").read_text())
    config |= {
        "session": run.name,
        "exchange": run.name,
        "core_init": f"--federates=1 --brokerport={port}",
        "patience_s": 120.0,
    }
    path = directory / "helics.json"
    path.write_text(json.dumps(config | more))
    return path


def tank(port, *more):
    command = [sys.executable, str(CASE / "tank_helics.py"), "--port", str(port), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def bridge(config):
    command = [binary(), "bridge", "helics", str(config)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=LONG_S)


def levels(run):
    """The level as read by the program, and the final value reported by the other simulator."""
    log = (run.results / "logs" / "keep-level.log").read_text()
    return [float(line.split("level ")[1].split(" m")[0]) for line in log.splitlines() if "level " in line]


def test_a_federation_grants_a_run_its_time_and_values_cross(tmp_path):
    port = free_port()
    with Run(tmp_path) as run:
        other = tank(port)
        try:
            done = bridge(helics_config(run, tmp_path, port))
            assert done.returncode == 0, done.stderr
            assert done.stdout == "the run has ended at 20.000000000 s, after 400 steps\n"
            said, _ = other.communicate(timeout=LONG_S)
        finally:
            other.kill()
            other.wait()
        code, verdict, err = run.end()
    assert code == 0, err
    assert verdict["virtual_ns"] == 20_000_000_000
    seen = levels(run)
    # The program's inflow has filled the tank, which is computed elsewhere; and the program has
    # seen that.
    assert seen[0] == 1.0 and len(seen) > 90
    assert all(later >= sooner - 0.001 for sooner, later in zip(seen, seen[1:], strict=False))
    last = float(said.split("level ")[1].split(" m")[0])
    assert seen[-1] == pytest.approx(last, abs=0.01) and last > 1.4


def test_a_federate_that_does_not_answer_is_named_and_the_run_ends_by_its_granter(tmp_path):
    port = free_port()
    with Run(tmp_path, patience="15 s") as run:
        other = tank(port, "--hang-at", "2")
        try:
            done = bridge(helics_config(run, tmp_path, port, patience_s=15.0))
        finally:
            other.kill()
            other.wait()
        assert done.returncode == 1
        assert "did not reach 2." in done.stderr and "behind: tank" in done.stderr, done.stderr
        code, verdict, err = run.end()
    assert code == 1 and "granter" in verdict["culprit"], (verdict, err)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"subscribe": {"depth": {"key": "tank/level"}}}, "no input 'depth'; there are: level"),
        ({"publish": {"level": {"key": "x"}}}, "no output 'level'; there are: inflow"),
        ({"step_s": 0}, "step_s must be a number above 0"),
        ({"stride_s": 1}, "unknown keys: stride_s"),
    ],
)
def test_a_wrong_configuration_is_answered_with_the_valid_names(tmp_path, change, word):
    with Run(tmp_path) as run:
        done = bridge(helics_config(run, tmp_path, free_port(), **change))
        assert done.returncode == 1 and word in done.stderr, done.stderr


def world(run, *more):
    command = [sys.executable, str(CASE / "tank_mosaik.py"), binary(), "--session", run.name, "--exchange", run.name]
    return subprocess.run([*command, *more], env=ENVIRONMENT, capture_output=True, text=True, timeout=LONG_S)


def test_a_world_of_mosaik_grants_a_run_its_time_and_values_cross(tmp_path):
    with Run(tmp_path) as run:
        done = world(run)
        assert done.returncode == 0, done.stderr
        code, verdict, err = run.end()
    assert code == 0, err
    assert verdict["virtual_ns"] == 20_000_000_000
    seen = levels(run)
    assert seen[0] == 1.0 and seen[-1] > 1.4 and len(seen) > 90
    assert all(later >= sooner - 0.001 for sooner, later in zip(seen, seen[1:], strict=False))


def test_mosaik_without_requests_is_noticed_and_the_awaited_simulator_named(tmp_path):
    with Run(tmp_path, patience="15 s") as run:
        command = [sys.executable, str(CASE / "tank_mosaik.py"), binary()]
        command += ["--session", run.name, "--exchange", run.name, "--hang-at", "2", "--patience", "10"]
        with (tmp_path / "said").open("w+") as said:
            hangs = subprocess.Popen(command, env=ENVIRONMENT, stdout=said, stderr=said)
            try:
                code, verdict, err = run.end()
            finally:
                hangs.kill()
                hangs.wait()
            said.seek(0)
            text = said.read()
    assert "mosaik has sent no request for 10.0 s; the run is connected with: Tank-0" in text, text
    assert code == 1 and "granter" in verdict["culprit"], (verdict, err)


def exchange(name):
    config = {"name": name, "inputs": {"v": {"unit": "V", "initial": 3.0}}, "outputs": {"p": {"unit": "kW"}}}
    return Engine(Exchange(), config)


def test_an_exchange_keeps_directions_apart_and_goes_with_its_run():
    name = f"exchange-{os.getpid()}"
    engine = exchange(name)
    with Exchanged(name) as other:
        assert [(s.name, s.unit, s.writable) for s in [*other.inputs.values(), *other.outputs.values()]] == [
            ("v", "V", False), ("p", "kW", True),
        ]  # fmt: skip
        other.give({"v": 4.5})
        engine.write(p=7.0)
        assert engine.read("v", "p") == [4.5, 7.0]
        assert other.read(["p", "v"]) == {"p": 7.0, "v": 4.5}
        for wrong, word in [({"p": 1.0}, "the run writes it"), ({"q": 1.0}, "no signal 'q'"), ({"v": True}, "number")]:
            with pytest.raises(ExchangeError, match=word):
                other.give({"v": 9.0, **wrong})
        assert other.read(["v"]) == {"v": 4.5}, "all or none"
    with pytest.raises(AssertionError, match="another run exchanges signals"):
        exchange(name)
    engine.session._plant.close()
    assert not (runtime_directory() / f"{name}.exchange").exists()
    with pytest.raises(ExchangeError, match="no run exchanges"):
        Exchanged(name, wait_s=0.1)


def test_a_broker_that_dies_ends_the_bridge(tmp_path):
    port = free_port()
    with Run(tmp_path, patience="15 s") as run:
        # A level that is not reached for long: the run is killed before.
        other = tank(port, "--hang-at", "2")
        config = helics_config(run, tmp_path, port, patience_s=20.0)
        waits = subprocess.Popen(
            [binary(), "bridge", "helics", str(config)], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
        )
        try:
            # The granter is in this process, with the tank.
            deadline = time.monotonic() + LONG_S
            while not levels_so_far(run):
                assert time.monotonic() < deadline and waits.poll() is None
                time.sleep(0.05)
        finally:
            other.kill()
            other.wait()
        _, said = waits.communicate(timeout=LONG_S)
        assert waits.returncode == 1 and "the federation did not reach" in said, said
        code, verdict, err = run.end()
    assert code == 1 and "granter" in verdict["culprit"], (verdict, err)


def levels_so_far(run):
    return levels(run) if (run.results / "logs" / "keep-level.log").exists() else []
