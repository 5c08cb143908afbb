"""Controllers and granters in Python against real sessions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from timeloom.control import Controller, Granter, Hold, Refused, SessionEnded, Standing
from worlds import ROOT, timeloom_binary

PATIENCE_S = 60
SLEEPER = """
import time
for count in range(5):
    time.sleep(0.07)
    print(time.time_ns(), flush=True)
"""
START_NS = 946_684_800 * 10**9  # 2000-01-01T00:00:00Z


class Session:
    """A Python program under `timeloom exec --stepped`."""

    def __init__(self, directory: Path, program: str, *options: str):
        self.name = f"grants-{os.getpid()}-{directory.name}"
        self.output = directory / "output"
        with self.output.open("wb") as output:
            command = [timeloom_binary(), "exec", "--name", self.name, "--start", "2000-01-01T00:00:00Z", *options]
            self.process = subprocess.Popen([*command, "--", sys.executable, "-c", program], stdout=output)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path, SLEEPER, "--stepped")
    yield session
    session.stop()


def test_a_program_sleeps_as_long_as_natively_while_the_simulator_computes(sleeper: Session) -> None:
    with Granter(sleeper.name, wait_s=PATIENCE_S) as granter:
        assert granter.standing.now_ns == 0 and not granter.standing.ended
        granted = 0
        while not granter.standing.ended:
            time.sleep(0.03)
            before = granter.standing.now_s
            standing = granter.grant(before + 0.1)
            # A session that ended while it was paused reports its end, and needs no grant for that.
            assert standing is granter.standing
            assert standing.grants == granted + 1 or (standing.ended and standing.grants == granted)
            granted = standing.grants
            assert standing.ended or standing.now_ns == round((before + 0.1) * 1e9)
    assert sleeper.process.wait(PATIENCE_S) == 0
    woken_ns = [int(line) - START_NS for line in sleeper.output.read_text().split()]
    assert len(woken_ns) == 5
    for earlier, later in zip([0, *woken_ns], woken_ns, strict=False):
        assert later - earlier >= 70_000_000, woken_ns
    # A wait that counted the simulator's computing would be 30 % longer; a busy machine adds an
    # arbitrary delay.
    assert woken_ns[-1] <= granter.standing.now_ns


def _at_rest(granter: Granter, at: Standing) -> Standing:
    """Lets time pass until no program is found computing."""
    while at.next_deadline_ns is None or at.next_deadline_ns <= at.now_ns:
        at = granter.grant_ns(at.now_ns + 10_000_000)
    return at


def test_the_next_deadline_is_where_the_program_goes_on(tmp_path: Path) -> None:
    session = Session(tmp_path, "import time; time.sleep(1000)", "--stepped")
    try:
        with Granter(session.name, wait_s=PATIENCE_S) as granter:
            at = _at_rest(granter, granter.standing)
            due_ns = at.next_deadline_ns
            assert 1000 * 10**9 <= due_ns <= at.now_ns + 1000 * 10**9
            at = granter.grant_ns(at.now_ns + 7)
            # A step this short may end before the program is back in its wait: then it is
            # computing.
            assert at.next_deadline_ns in (due_ns, at.now_ns)
            at = _at_rest(granter, at)
            assert at.next_deadline_ns == due_ns and at.next_deadline_s == due_ns / 1e9
    finally:
        session.stop()


def test_refusals_leave_the_session_where_it_is(sleeper: Session) -> None:
    with Granter(sleeper.name, wait_s=PATIENCE_S) as granter:
        granter.grant(0.02)
        with pytest.raises(Refused, match="in the past"):
            granter.grant(0.01)
        with pytest.raises(Refused, match="one granter only"):
            Granter(sleeper.name)
        assert granter.grant(0.021).now_ns == 21_000_000
    deadline = time.monotonic() + PATIENCE_S
    while True:  # the session must first notice that the other one has gone
        try:
            with Granter(sleeper.name) as other:
                assert (other.standing.now_ns, other.standing.grants) == (21_000_000, 2)
                return
        except Refused:
            assert time.monotonic() < deadline


def test_a_session_that_is_gone_says_so(sleeper: Session) -> None:
    with Granter(sleeper.name, wait_s=PATIENCE_S) as granter:
        sleeper.process.kill()
        with pytest.raises(SessionEnded):
            granter.grant(1)
    sleeper.process.wait(PATIENCE_S)
    with pytest.raises(SessionEnded, match="no session"):
        Granter("there-is-no-such-session", wait_s=0)


def test_a_session_that_runs_by_itself_needs_no_granter(tmp_path: Path) -> None:
    session = Session(tmp_path, "import time; time.sleep(1000)")
    try:
        with pytest.raises(Refused, match="does not advance by grants"):
            Granter(session.name, wait_s=PATIENCE_S)
    finally:
        session.stop()


def test_standings_in_seconds() -> None:
    assert Standing(1_500_000_000, 2_250_000_000, False, 3).now_s == 1.5
    assert Standing(1_500_000_000, 2_250_000_000, False, 3).next_deadline_s == 2.25
    assert Standing(0, None, True, 3).next_deadline_s is None


@pytest.fixture
def run(tmp_path: Path) -> Iterator[str]:
    """Name of a run of examples/hello that has begun."""
    command = [
        timeloom_binary(),
        "run",
        "examples/hello/hello.toml",
        "-o",
        str(tmp_path / "run"),
        "--set",
        "time.duration=1 h",
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        name = f"run-{process.pid}"
        wait_until_it_runs(name)
        yield name
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def wait_until_it_runs(name: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with Controller(name, wait_s=PATIENCE_S) as controller:
        while True:
            try:
                controller.pause()
                controller.resume()
                return
            except Refused:  # it is being prepared
                assert time.monotonic() < deadline
                time.sleep(0.02)


def test_a_session_is_paused_stepped_dilated_and_resumed(run: str) -> None:
    with Controller(run) as controller:
        at = controller.pause()
        assert at.paused and at.dilation == 1.0
        at_ns = at.now_ns
        assert controller.step(0.250000001).now_ns == at_ns + 250_000_001
        assert controller.run_until(at.now_s + 1).now_ns == pytest.approx(at_ns + 10**9, abs=1000)
        with pytest.raises(Refused, match="in the past"):
            controller.run_until(0)
        assert controller.dilate(0.5).dilation == 0.5
        assert not controller.resume().paused
        for change in (controller.leave, controller.join):
            with pytest.raises(Refused, match="no engines that can leave"):
                change("east")
        with pytest.raises(Refused, match="is running"):
            controller.step(1)
    with Controller(run) as another:
        before = another.state()
        assert another.state().now_ns > before.now_ns


def test_a_host_stands_while_the_session_goes_on(run: str) -> None:
    with Controller(run) as controller:
        at = controller.pause(hosts=["alice"])
        assert not at.paused and at.hosts["alice"].paused and not at.hosts["bob"].paused
        lived_ns = at.hosts["alice"].now_ns
        at = controller.step(0.01, hosts=["alice"])
        assert at.hosts["alice"].now_ns == lived_ns + 10_000_000 and at.hosts["alice"].paused
        assert at.hosts["alice"].now_s == at.hosts["alice"].now_ns / 1e9
        later = controller.state()
        while later.now_ns < at.now_ns + 50_000_000:
            later = controller.state()
        assert later.hosts["alice"].behind_ns > at.hosts["alice"].behind_ns
        assert later.hosts["bob"].behind_ns == 0
        with pytest.raises(Refused, match="there are: alice, bob"):
            controller.pause(hosts=["carol"])
        with pytest.raises(TypeError, match=r"\['bob'\]"):
            controller.pause(hosts="bob")
        at = controller.dilate(2, hosts=["bob"])
        assert at.hosts["bob"].dilation == 2 and at.dilation == 1
        assert not controller.resume(hosts=["alice"]).hosts["alice"].paused


RUN = """
schema = "timeloom/1"
name = "held"
time = { duration = "1000 s" }
[system.hosts.plc]
address = "10.0.0.1/24"
[[system.hosts.plc.programs]]
name = "plc"
run = ["/bin/sleep", "1000"]
"""


def test_holds_overlap_and_the_last_lets_go(tmp_path: Path) -> None:
    scenario = tmp_path / "held.toml"
    scenario.write_text(RUN)
    name = f"held-{os.getpid()}"
    run = subprocess.Popen([timeloom_binary(), "run", "--name", name, "-o", tmp_path / "run", scenario])
    try:
        with Controller(name, wait_s=PATIENCE_S) as testbed:

            def wait_until_after(instant_ns: int) -> None:
                due = time.monotonic() + PATIENCE_S
                while testbed.state().now_ns <= instant_ns:
                    assert time.monotonic() < due
                    time.sleep(0.01)

            wait_until_after(0)  # it is ready
            with Hold("one", name) as first:
                second = Hold("two", name)
                assert first.now_ns == second.now_ns > 0
                assert first.now_s == first.now_ns / 1e9
            assert testbed.state() == testbed.state()
            assert testbed.state().now_ns == second.now_ns, "the other still holds it"
            second.close()
            wait_until_after(second.now_ns)
        with pytest.raises(SessionEnded):
            Hold("none", f"{name}-other", wait_s=0.1)
    finally:
        run.terminate()
        run.wait(PATIENCE_S)


def test_a_session_without_a_bus_says_so(sleeper: Session) -> None:
    with pytest.raises(Refused, match="bus"):
        Hold("nothing", sleeper.name, wait_s=PATIENCE_S)
