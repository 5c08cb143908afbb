"""Tests that use a virtual clock: ``time.sleep(3600)`` in them returns at once.

    def test_a_token_expires(virtual_clock):
        token = make_token(lifetime_s=3600)
        time.sleep(3601)
        assert token.expired

pytest loads this plugin if ``timeloom`` is installed; else ``pytest -p timeloom.pytest_plugin``, or in a conftest.py
``pytest_plugins = ["timeloom.pytest_plugin"]``.

The clock of a running process cannot be replaced. So a test with ``virtual_clock`` is run by another pytest, in
``timeloom exec --skip``, and its outcome, output and failure are reported here as if it had run here. All of the test
runs there: its fixtures, of any scope, the threads and programs it starts. It does not see changes that another test
has made in this process. The machine's own time passes only while a program computes.

``@pytest.mark.virtual_time(...)`` sets options: ``start="2030-01-01T00:00:00Z"`` is the initial time of the clock,
``skip=False`` lets time pass as it does outside, ``dilate=F`` makes a virtual second F seconds long, ``compute="none"``
lets no time pass while a program computes.

The program is the ``timeloom`` that TIMELOOM_BINARY names, or that is on the PATH. Needs no root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

#: Set in the inner pytest: the name of its session.
_SESSION = "TIMELOOM_PYTEST_SESSION"
#: Likewise: the path of its reports.
_REPORTS = "TIMELOOM_PYTEST_REPORTS"

_MARK = "virtual_time"


class VirtualClock:
    """The clock of the test. ``time`` reads it, too; this is for data that ``time`` has no function
    for."""

    def __init__(self, session: str):
        #: Name of the session, for ``timeloom pause --name`` and
        #: :class:`timeloom.control.Controller`.
        self.session = session
        self._began_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the fixture was made."""
        return time.monotonic() - self._began_s


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A virtual clock for the test, which skips while all programs wait."""
    session = os.environ.get(_SESSION)
    if session is None:
        pytest.fail("virtual_clock must be asked for by the test itself, not by name while it runs", pytrace=False)
    return VirtualClock(session)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{_MARK}(start, skip, dilate, compute): how time passes in a test with virtual_clock"
    )
    if os.environ.get(_SESSION) is not None:
        config.pluginmanager.register(_Inside(config, Path(os.environ[_REPORTS])), "timeloom-inside")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Runs a test that requests the fixture in a session, and reports it as if it had run here."""
    if os.environ.get(_SESSION) is not None or "virtual_clock" not in getattr(item, "fixturenames", ()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _in_session(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _in_session(item: pytest.Item) -> Iterator[pytest.TestReport]:
    with tempfile.TemporaryDirectory(prefix="timeloom-pytest-") as scratch:
        reports = Path(scratch) / "reports"
        session = f"pytest-{os.getpid()}-{Path(scratch).name.rpartition('-')[2]}"
        try:
            command = [_binary(), "exec", "--quiet", "--name", session, *_options(item), "--", *_pytest(item)]
        except _Refused as why:
            yield _failed(item, str(why))
            return
        environment = {**os.environ, _SESSION: session, _REPORTS: str(reports)}
        ended = subprocess.run(
            command, env=environment, cwd=item.config.invocation_params.dir, capture_output=True, text=True
        )
        lines = reports.read_text().splitlines() if reports.exists() else []
        found = []
        for line in lines:
            data = json.loads(line)
            report = item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
            if isinstance(report, pytest.TestReport) and report.nodeid == item.nodeid:
                if isinstance(report.longrepr, list):  # of a test that was skipped; JSON knows no tuples
                    report.longrepr = tuple(report.longrepr)
                found.append(report)
        yield from found
        if not any(report.when == "teardown" for report in found):
            said = (ended.stdout + ended.stderr).strip()
            yield _failed(item, f"the test did not come to its end (status {ended.returncode}):\n{said}")


class _Refused(Exception):
    """A test cannot be run in a session, with the reason."""


def _options(item: pytest.Item) -> list[str]:
    mark = item.get_closest_marker(_MARK)
    asked, unnamed = (dict(mark.kwargs), mark.args) if mark is not None else ({}, ())
    options = ["--skip"] if asked.pop("skip", True) else []
    for name in ("start", "dilate", "compute"):
        if name in asked:
            options += [f"--{name}", str(asked.pop(name))]
    if asked or unnamed:
        raise _Refused(f"{_MARK} knows start, skip, dilate and compute, all by name; not {[*asked, *unnamed]}")
    return options


def _pytest(item: pytest.Item) -> Sequence[str]:
    """Runs this pytest again, for one test. Only its report counts, so nothing else is written or
    stored."""
    config = item.config
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "timeloom.pytest_plugin", "--rootdir", str(config.rootpath)]
    file = ["-c", str(config.inipath)] if config.inipath is not None else []
    kept = []
    if config.getoption("capture") == "no":
        kept.append("-s")
    if config.getoption("runxfail"):
        kept.append("--runxfail")
    # An id is relative to the root directory, and may have a "::" or a blank in a parameter.
    path, _, rest = item.nodeid.partition("::")
    return [sys.executable, "-m", "pytest", *quiet, *file, *kept, f"{config.rootpath / path}::{rest}"]


def _binary() -> str:
    binary = os.environ.get("TIMELOOM_BINARY") or shutil.which("timeloom")
    if binary is None:
        raise _Refused("there is no `timeloom` on the PATH; install it, or let TIMELOOM_BINARY name it")
    return binary


def _failed(item: pytest.Item, why: str) -> pytest.TestReport:
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")


class _Inside:
    """Plugin in the session: writes each report as a line, for the pytest outside."""

    def __init__(self, config: pytest.Config, path: Path):
        self._config, self._path = config, path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data: dict[str, Any] = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._path.open("a") as file:
            file.write(json.dumps(data) + "\n")
