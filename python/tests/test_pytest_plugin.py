"""`timeloom.pytest_plugin`: a pytest of its own, with tests that use a virtual clock."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from worlds import ROOT, timeloom_binary

TESTS = """
import subprocess, sys, threading, time
import pytest

@pytest.fixture(scope="module")
def made_inside():
    return time.monotonic()

def test_an_hour_is_nothing(virtual_clock):
    before = time.monotonic()
    time.sleep(3600)
    assert time.monotonic() - before >= 3600
    assert virtual_clock.elapsed_s >= 3600

def test_a_child_and_a_thread_live_by_it_too(virtual_clock, made_inside):
    thread = threading.Thread(target=time.sleep, args=(600,))
    thread.start()
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"], check=True)
    thread.join()
    assert time.monotonic() - made_inside >= 600

@pytest.mark.virtual_time(start="2030-01-01T00:00:00Z")
@pytest.mark.parametrize("days", [1, 400], ids=["a day", "400::days"])
def test_the_date_is_chosen(virtual_clock, days):
    assert time.gmtime().tm_year == 2030
    time.sleep(86400 * days)
    assert time.gmtime().tm_year == 2030 + days // 366

def test_fails(virtual_clock):
    print("said before it failed")
    time.sleep(60)
    assert virtual_clock.elapsed_s < 60

@pytest.mark.skip(reason="not today")
def test_is_skipped(virtual_clock):
    pass

@pytest.mark.xfail(strict=True)
def test_is_expected_to_fail(virtual_clock):
    assert False

def test_ends_its_process(virtual_clock):
    import os
    os._exit(7)

@pytest.mark.virtual_time(speed=3)
def test_asks_for_an_unknown_setting(virtual_clock):
    pass

def test_outside():
    import os
    assert "TIMELOOM_PYTEST_SESSION" not in os.environ
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """The output of pytest for those tests, and its duration in real time."""
    directory = tmp_path_factory.mktemp("plugin")
    (directory / "test_time.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-v", "-rA", "-p", "timeloom.pytest_plugin", "-p", "no:cacheprovider"]
    environment = {**os.environ, "TIMELOOM_BINARY": timeloom_binary(), "PYTHONPATH": str(ROOT / "python")}
    began_s = time.monotonic()
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 1, "some of them fail: " + ended.stdout + ended.stderr
    return ended.stdout, time.monotonic() - began_s


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        ("test_an_hour_is_nothing", "PASSED"),
        ("test_a_child_and_a_thread_live_by_it_too", "PASSED"),
        ("test_the_date_is_chosen[a day]", "PASSED"),
        ("test_the_date_is_chosen[400::days]", "PASSED"),
        ("test_fails", "FAILED"),
        ("test_is_skipped", "SKIPPED"),
        ("test_is_expected_to_fail", "XFAIL"),
        ("test_ends_its_process", "FAILED"),
        ("test_asks_for_an_unknown_setting", "FAILED"),
        ("test_outside", "PASSED"),
    ],
)
def test_an_outcome_is_reported_as_if_it_had_run_here(output: tuple[str, float], test: str, outcome: str) -> None:
    assert re.search(rf"test_time\.py::{re.escape(test)} {outcome}", output[0]), output[0]


def test_a_year_of_waiting_took_no_year(output: tuple[str, float]) -> None:
    assert output[1] < 3600, "an hour of it is less than one test asks for"


def test_failures_report_the_reason(output: tuple[str, float]) -> None:
    text, _ = output
    assert "assert virtual_clock.elapsed_s < 60" in text and "said before it failed" in text
    assert "did not come to its end (status 7)" in text
    assert "knows start, skip, dilate and compute" in text and "speed" in text


def test_without_the_program_a_test_names_the_missing_program(tmp_path: Path) -> None:
    (tmp_path / "test_time.py").write_text("def test_it(virtual_clock):\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "timeloom.pytest_plugin", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "python")}
    environment.pop("TIMELOOM_BINARY", None)
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1 and "there is no `timeloom` on the PATH" in ended.stdout, ended.stdout
