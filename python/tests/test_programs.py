"""The sensor and the controller as ordinary programs: real processes, real time, loopback."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from field_devices import Device
from worlds import CASE, own_address, program

METER = [500.0, 501.5, 502.25, 485.0, 128.0, 170.0]
EXPECTED_KW = (679 + 485 + 128 - 500.0, 1039 - 501.5, 1082 + 170 - 502.25)


@contextlib.contextmanager
def running(name: str, log: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    with log.open("ab") as output:
        process = subprocess.Popen([sys.executable, str(CASE / f"{name}.py"), *arguments], stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def device(*arguments) -> Iterator[Device]:
    made = Device(*arguments)
    try:
        yield made
    finally:
        made.close()


def eventually(condition: Callable[[], object], within_s: float = 120.0) -> object:
    end_s = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.02)
    return found


def measurement(sequence: int, age_s: float) -> bytes:
    loads = dict(zip(("692", "652", "611"), METER[3:], strict=True))
    message = {"seq": sequence, "sent_s": time.time() - age_s, "s_kva": METER[:3], "load_kw": loads}
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize("name", ["sensor", "controller", "make_profiles"])
def test_help_explains_and_no_program_knows_the_testbed(name: str):
    shown = subprocess.run([sys.executable, str(CASE / f"{name}.py"), "--help"], capture_output=True, text=True)
    assert shown.returncode == 0 and "usage:" in shown.stdout
    assert "timeloom" not in (CASE / f"{name}.py").read_text().lower()


def test_meter_readings_become_set_points_and_a_restart_is_survived(tmp_path: Path):
    listen = own_address()
    with (
        device(lambda: METER) as meter,
        device() as storage,
        running("sensor", tmp_path / "sensor.log", "--meter", meter.address, "--controller", listen),
    ):
        for _ in range(2):  # the second time the sensor has to notice, and reconnect
            storage.written.clear()
            with running("controller", tmp_path / "controller.log", "--listen", listen, "--storage", storage.address):
                eventually(lambda: len(storage.written) >= 3)
            assert storage.written[-1] == pytest.approx(EXPECTED_KW, abs=1e-3)
    assert "sent" in (tmp_path / "sensor.log").read_text()


def test_a_silent_connection_is_given_up(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as mute, device(lambda: METER) as meter:
        mute.settimeout(120.0)
        with running(
            "sensor",
            tmp_path / "log",
            "--meter",
            meter.address,
            "--silence-s",
            "0.4",
            "--controller",
            "127.0.0.1:%d" % mute.getsockname()[1],
        ):
            first, _ = mute.accept()
            second, _ = mute.accept()
            first.close()
            second.close()


def test_old_news_is_dropped_and_silence_holds_the_last_set_point(tmp_path: Path):
    listen = own_address()
    log = tmp_path / "log"
    with (
        device() as storage,
        running("controller", log, "--listen", listen, "--storage", storage.address, "--max-age-s", "0.5"),
    ):
        eventually(lambda: b"listening" in log.read_bytes())
        host, port = listen.split(":")
        with socket.create_connection((host, int(port)), timeout=120) as sensor:
            sensor.sendall(measurement(1, 0.0) + measurement(2, 5.0))
            answers = sensor.makefile()
            assert [answers.readline(), answers.readline()] == ["1\n", "2\n"]
            assert len(storage.written) == 1
            eventually(lambda: b"holding" in log.read_bytes())
            assert len(storage.written) == 1
            # Noise from a stranger ends that connection only.
            sensor.sendall(b'{"seq": 1e999}\n')
            assert answers.readline() == ""
        with socket.create_connection((host, int(port)), timeout=120) as sensor:
            sensor.sendall(measurement(3, 0.0))
            assert sensor.makefile().readline() == "3\n"
        assert len(storage.written) == 2


def test_the_rule_stays_within_the_rating():
    rule = program("controller").set_points_kw
    loads = {"692": 485.0, "652": 128.0, "611": 170.0}
    assert rule([0.0, 1039.0, 9000.0], loads) == [1292.0, 0.0, -2000.0]
