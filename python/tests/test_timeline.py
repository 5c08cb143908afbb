"""Timelines in Python with a real daemon whose source is this machine's clock, declared to be
exact."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from timeloom.timeline import (
    Change,
    Degradation,
    ErrorCode,
    Mode,
    Order,
    Policy,
    Requirement,
    Schedule,
    Stamp,
    Status,
    Timeline,
    TimelineError,
    Timer,
    Woken,
)  # fmt: skip
from worlds import timeloom_binary

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
directory = "{directory}"
[[timeline]]
name = "cell"
tai_offset_s = 37
poll = {{ shortest = "20 ms", longest = "100 ms" }}
source = [{{ type = "system-clock", vouched_error = "0 ns" }}]
"""
PATIENCE_S = 120


def truth_ns() -> int:
    return time.time_ns() + 37_000_000_000


class Daemon:
    def __init__(self, directory: Path):
        self.directory = directory
        config = directory / "timelines.toml"
        config.write_text(CONFIG.format(directory=directory))
        self.process = subprocess.Popen([timeloom_binary(), "timeline", "serve", "--config", str(config)])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.timeline = Timeline("cell", directory=str(directory))
                if self.timeline.read().status == Status.OK:
                    return
            except TimelineError:
                pass
            assert time.monotonic() < deadline and self.process.poll() is None, "the daemon never got in step"
            time.sleep(0.01)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    yield made
    made.stop()


def test_readings_hold_true_time_and_compare(daemon: Daemon) -> None:
    timeline = daemon.timeline
    for _ in range(500):
        before, stamp, after = truth_ns(), timeline.read(), truth_ns()
        assert stamp.earliest_ns <= after and before <= stamp.latest_ns
        assert stamp.earliest_ns <= stamp.estimate_ns <= stamp.latest_ns
    first = timeline.read()
    assert first.compare(first) == Order.UNCERTAIN
    assert timeline.commit_wait(first).stamp.earliest_ns > first.latest_ns
    later = timeline.read()
    assert first.compare(later) == Order.BEFORE and later.compare(first) == Order.AFTER
    strict = [timeline.read_strict().estimate_ns for _ in range(500)]
    assert all(a < b for a, b in zip(strict, strict[1:], strict=False))
    earliest_ns, _, latest_ns = timeline.utc_ns(timeline.read())
    assert earliest_ns - 1_000_000_000 < time.time_ns() < latest_ns + 1_000_000_000
    ticks, event = timeline.event()
    assert timeline.convert(ticks).latest_ns >= event.earliest_ns
    with pytest.raises(TimelineError) as refused:
        timeline.convert(1)
    assert refused.value.args[0] == ErrorCode.DAEMON_FAILED


def test_a_stamp_can_be_made_of_its_parts_and_not_inverted(daemon: Daemon) -> None:
    read = daemon.timeline.read()
    copy = Stamp(read.timeline_high, read.timeline_low, read.status, read.earliest_ns, read.estimate_ns, read.latest_ns)
    assert copy.compare(read) == Order.UNCERTAIN
    other = Stamp(1, 2, Status.OK, 1, 2, 3)
    with pytest.raises(TimelineError) as refused:
        other.compare(read)
    assert refused.value.args[0] == ErrorCode.OTHER_TIMELINE
    void = Stamp(1, 2, Status.DISRUPTED)
    assert void.estimate_ns is None and "disrupted" in repr(void)
    assert other.compare(void) == Order.UNCERTAIN
    with pytest.raises(ValueError):
        Stamp(1, 2, Status.OK, 3, 2, 1)
    with pytest.raises(TypeError):
        read.compare(7)  # type: ignore[arg-type]  # which is tested


def test_waits_and_timers_are_never_early(daemon: Daemon) -> None:
    timeline = daemon.timeline
    target = truth_ns() + 3_000_000
    woken = timeline.wait_until(target)
    assert truth_ns() >= target and woken.stamp.earliest_ns >= target and woken.overshoot_ns >= 0
    before = truth_ns()
    timeline.sleep(2_000_000)
    assert truth_ns() - before >= 2_000_000
    schedule = Schedule(period_ns=5_000_000)
    begun = [timeline.wait_until_next_period(schedule).target_ns for _ in range(3)]
    assert all(ns % 5_000_000 == 0 for ns in begun) and begun[0] < begun[1] < begun[2]
    fired: queue.Queue[tuple[Woken, int]] = queue.Queue()
    first = truth_ns() + 3_000_000
    timer: Timer = timeline.timer(first, lambda woken: fired.put((woken, truth_ns())), period_ns=2_000_000)
    for _ in range(3):
        woken, at = fired.get(timeout=PATIENCE_S)
        assert woken.target_ns <= at and (woken.target_ns - first) % 2_000_000 == 0
    timer.cancel()
    while not fired.empty():
        fired.get()
    time.sleep(0.01)
    assert fired.empty(), "fired after it was cancelled"


def test_bindings_and_violations(daemon: Daemon) -> None:
    timeline = daemon.timeline
    changes: queue.Queue[Change] = queue.Queue()
    binding = timeline.bind(Requirement.within(10_000_000_000))
    binding.subscribe(changes.put)
    assert changes.get(timeout=PATIENCE_S).met
    binding.accuracy_ns = 9_000_000_000
    binding.resolution_ns = 1_000
    assert binding.requirement == Requirement(9_000_000_000, 9_000_000_000, 1_000)
    with pytest.raises(TimelineError) as impossible:
        timeline.bind(Requirement.within(1))
    assert impossible.value.args[0] == ErrorCode.IMPOSSIBLE and "possible are" in impossible.value.args[1]
    daemon.stop()
    change = changes.get(timeout=PATIENCE_S)
    assert not change.met and change.status == Status.DAEMON_DEAD and change.below_ns is None
    binding.unbind()
    binding.unbind()
    with pytest.raises(TimelineError):
        _ = binding.requirement


def test_a_page_alone_is_read_and_others_are_refused(daemon: Daemon, tmp_path: Path) -> None:
    page = Timeline(page=str(tmp_path / "cell.page"))
    page.sleep(1)
    with (tmp_path / "cell.page").open("rb") as file:
        assert Timeline(fd=file.fileno()).read().status == Status.OK
    with pytest.raises(TimelineError) as refused:
        page.bind(Requirement.within(1_000_000))
    assert refused.value.args[0] == ErrorCode.NO_DAEMON
    refusals: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"page": "/dev/null"}, ErrorCode.REFUSED_PAGE),
        ({"name": "a/b"}, ErrorCode.BAD_ARGUMENT),
        ({}, ErrorCode.BAD_ARGUMENT),
    ]
    for wrong, code in refusals:
        with pytest.raises(TimelineError) as refused:
            Timeline(**wrong)
        assert refused.value.args[0] == code


def test_threads_share_a_timeline(daemon: Daemon) -> None:
    seen: list[int] = []

    def read() -> None:
        seen.extend(daemon.timeline.read_strict().estimate_ns for _ in range(2_000))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 8_000, "two readings alike"


def test_the_example(daemon: Daemon) -> None:
    environment = {"TIMELOOM_TIMELINES": str(daemon.directory), "PYTHONPATH": str(ROOT / "python")}
    example = ROOT / "examples" / "timeline" / "python" / "lease.py"
    done = subprocess.run(
        [sys.executable, example, "cell"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the lease is over" in done.stdout and "the clock is good" in done.stdout


def test_a_controller_leaves_when_its_daemon_dies_and_its_policy_is_checked(tmp_path: Path) -> None:
    made = Daemon(tmp_path)
    loose = Requirement.within(10_000_000_000)
    machine = Degradation(Policy(loose, Requirement.within(9_000_000_000), steady_ns=0, blind_after_ns=10**13))
    assert machine.mode == Mode.STOPPED and machine.next_wake_ns is None
    changes: queue.Queue[Mode] = queue.Queue()
    with made.timeline.bind(loose) as binding:
        binding.subscribe(lambda change: changes.put(machine.told(change)))
        assert changes.get(timeout=PATIENCE_S) == Mode.STOPPED
        assert machine.read(made.timeline.read()) == Mode.REJOINING
        assert machine.rejoined() == Mode.COORDINATED
        made.process.kill()
        made.process.wait(PATIENCE_S)
        assert changes.get(timeout=PATIENCE_S) in (Mode.HOLD, Mode.STOPPED)
    with pytest.raises(TimelineError, match="looser"):
        Degradation(Policy(Requirement.within(5), Requirement.within(6)))


def test_a_controller_follows_its_readings_without_bindings() -> None:
    ms = 1_000_000
    machine = Degradation(Policy.within(100_000), 0)
    good = Stamp(0, 1, Status.OK, -50_000, 0, 50_000)
    for at_ms in range(0, 1000, 50):
        assert machine.read(good, at_ms * ms) == Mode.STOPPED
    assert machine.next_wake_ns == 1000 * ms
    assert machine.wake(1000 * ms) == Mode.REJOINING and machine.reason == "good for long enough"
    assert machine.rejoined(1001 * ms) == Mode.COORDINATED
    dead = Stamp(0, 1, Status.DAEMON_DEAD, -50_000, 0, 50_000)
    assert machine.read(dead, 1010 * ms) == Mode.HOLD and machine.reason == "daemon dead"
    assert machine.withdraw(1020 * ms) == Mode.HOLD
    assert machine.wake(3010 * ms) == Mode.STOPPED
