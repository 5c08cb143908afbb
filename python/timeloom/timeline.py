"""Timelines: time with error bounds. Integer nanoseconds throughout.

::

    from timeloom.timeline import Requirement, Timeline

    timeline = Timeline("plant")
    stamp = timeline.read()              # stamp.earliest_ns <= true time <= stamp.latest_ns
    with timeline.bind(Requirement.within(50_000)) as binding:
        binding.subscribe(print)         # called when the clock is not good enough any more
        timeline.commit_wait(stamp)      # now it is in the past for every reader

The daemon is ``timeloom timeline serve``; a program that has only its page opens
``Timeline(page="/run/timelines/plant.page")`` and can read and wait. The extension module is built by ``make build``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from timeloom import _timeline
from timeloom._timeline import Error as TimelineError
from timeloom._timeline import Stamp, Timer

__all__ = [
    "Binding", "Change", "Degradation", "ErrorCode", "Mode", "Order", "Policy", "Requirement", "Schedule",
    "Stamp", "Status", "Timeline", "TimelineError", "Timer", "Woken",
]  # fmt: skip


class Status(IntEnum):
    """Trustworthiness of a reading. Only the middle three may have an interval."""

    NEVER_SYNCHRONISED = 0
    OK = 1
    SOURCE_LOST = 2
    DAEMON_DEAD = 3
    DISRUPTED = 4
    UNAUTHENTICATED = 5

    def __str__(self) -> str:
        return _timeline.status_text(int(self))


class Order(IntEnum):
    """Result of :meth:`Stamp.compare`."""

    BEFORE = -1
    UNCERTAIN = 0
    AFTER = 1


class ErrorCode(IntEnum):
    """The first argument of a :class:`TimelineError`; the second is the reason."""

    BAD_ARGUMENT = -1
    NO_DAEMON = -2
    REFUSED_PAGE = -3
    IMPOSSIBLE = -4
    VOID = -5
    DAEMON_FAILED = -6
    OTHER_TIMELINE = -7
    SYSTEM = -8
    UNPROVED = -11
    MALFORMED = -12


class Woken(NamedTuple):
    """Result of a wait."""

    target_ns: int
    #: The least lateness; never negative.
    overshoot_ns: int
    #: The reading that showed the target as reached.
    stamp: Stamp


@dataclass(frozen=True)
class Requirement:
    """Requirement of a program: maximum distance of true time before and after the estimate, and
    coarsest resolution of the clock."""

    below_ns: int
    above_ns: int
    resolution_ns: int

    @classmethod
    def within(cls, accuracy_ns: int) -> Requirement:
        return cls(accuracy_ns, accuracy_ns, max(accuracy_ns, 1))


@dataclass(frozen=True)
class Change:
    """Begin or end of a violation of a requirement."""

    met: bool
    status: Status
    #: Distances to both sides; ``None`` when the requirement is met, or there is no interval.
    below_ns: int | None
    above_ns: int | None
    reason: str


@dataclass
class Schedule:
    """Beginnings of periods at ``start_ns`` and whole periods from there."""

    period_ns: int
    start_ns: int = 0
    #: Last beginning that was waited for.
    last_ns: int | None = None


class Mode(IntEnum):
    """Permitted behaviour of a controller."""

    #: Safe stop, and the initial mode.
    STOPPED = 0
    #: Time is good again: rejoin the others with care, then call :meth:`Degradation.rejoined`.
    REJOINING = 1
    #: Act with the others, by the timeline.
    COORDINATED = 2
    #: End the move under way, begin none.
    HOLD = 3


@dataclass(frozen=True)
class Policy:
    """Conditions for changes of mode."""

    #: Requirement on readings while coordinated.
    keep: Requirement
    #: Requirement on readings on the way back; no looser.
    regain: Requirement
    #: Time in hold, before the safe stop.
    hold_for_ns: int = 2_000_000_000
    #: Time for which readings must be good, without a break, on the way back.
    steady_ns: int = 1_000_000_000
    #: Longest time without a reading.
    blind_after_ns: int = 100_000_000

    @classmethod
    def within(cls, accuracy_ns: int) -> Policy:
        """Leaves beyond ``accuracy_ns`` on either side, and returns within three quarters of it."""
        return cls(Requirement.within(accuracy_ns), Requirement.within(accuracy_ns // 4 * 3))


class Degradation(_timeline.Degradation):
    """Decides when a controller must leave the others because its time is not good enough, and when
    it may return.

    Pass it every reading and every change of the binding. It begins in :attr:`Mode.STOPPED`, reads no clock but
    ``time.monotonic_ns`` if no ``now_ns`` is given, and may be used by all threads. Each input returns the mode then
    in force; ``reason`` has its reason, ``next_wake_ns`` the time of the next change without an input.
    """

    def __new__(cls, policy: Policy, now_ns: int | None = None) -> Degradation:
        def lengths(needed: Requirement) -> tuple[int, int, int]:
            return needed.below_ns, needed.above_ns, needed.resolution_ns

        times = (policy.hold_for_ns, policy.steady_ns, policy.blind_after_ns)
        made = super().__new__(cls, _now(now_ns), lengths(policy.keep), lengths(policy.regain), *times)
        made.mode, made._one = Mode.STOPPED, threading.Lock()
        return made

    #: The present mode.
    mode: Mode
    #: Keeps the mode of the last input, from any thread.
    _one: threading.Lock

    def read(self, stamp: Stamp, now_ns: int | None = None) -> Mode:
        """Processes a reading of the timeline. One with a dead daemon is never good enough."""
        return self._give(self._read, now_ns, stamp)

    def told(self, change: Change, now_ns: int | None = None) -> Mode:
        """Processes a change reported by the binding's subscription."""
        return self._give(self._told, now_ns, change.met, change.status)

    def withdraw(self, now_ns: int | None = None) -> Mode:
        """Leaves for a reason of the program's own: a command that came too late, a peer that has
        left."""
        return self._give(self._withdraw, now_ns)

    def rejoined(self, now_ns: int | None = None) -> Mode:
        """Records that the program acts with the others again; only when rejoining."""
        return self._give(self._rejoined, now_ns)

    def wake(self, now_ns: int | None = None) -> Mode:
        """Processes the passing of time."""
        return self._give(self._wake, now_ns)

    def _give(self, take: Callable[..., int], now_ns: int | None, *what: object) -> Mode:
        with self._one:
            self.mode = Mode(take(_now(now_ns), *what))
            return self.mode


def _now(now_ns: int | None) -> int:
    return time.monotonic_ns() if now_ns is None else now_ns


class Binding(_timeline.Binding):
    """Created by :meth:`Timeline.bind`; ends with :meth:`unbind`, ``with``, or when it is
    garbage-collected."""

    @property
    def requirement(self) -> Requirement:
        return Requirement(*self._requirement())

    @requirement.setter
    def requirement(self, needed: Requirement) -> None:
        self._set_requirement(needed.below_ns, needed.above_ns, needed.resolution_ns)

    @property
    def accuracy_ns(self) -> int:
        """Accuracy of the tighter side; setting it sets both."""
        needed = self.requirement
        return min(needed.below_ns, needed.above_ns)

    @accuracy_ns.setter
    def accuracy_ns(self, accuracy_ns: int) -> None:
        self.requirement = replace(self.requirement, below_ns=accuracy_ns, above_ns=accuracy_ns)

    @property
    def resolution_ns(self) -> int:
        return self.requirement.resolution_ns

    @resolution_ns.setter
    def resolution_ns(self, resolution_ns: int) -> None:
        self.requirement = replace(self.requirement, resolution_ns=resolution_ns)

    def subscribe(self, told: Callable[[Change], object]) -> None:
        """Call ``told`` from another thread whenever the requirement ceases or begins to be met:
        edges only, the first at once. The end of the daemon is reported too, and nothing after
        it."""

        def translate(met: bool, status: int, below_ns: int, above_ns: int, reason: str) -> None:
            bounded = below_ns >= 0
            told(Change(met, Status(status), below_ns if bounded else None, above_ns if bounded else None, reason))

        self._subscribe(translate)

    def __enter__(self) -> Binding:
        return self

    def __exit__(self, *_: object) -> None:
        self.unbind()


class Timeline(_timeline.Timeline):
    """An open timeline; any number of threads may use it.

    ``Timeline("plant")`` asks the daemon, in ``directory`` if that is not the usual one; ``Timeline(page=path)`` and
    ``Timeline(fd=number)`` take the page alone. ``read()``, ``read_strict()``, ``event()`` and ``convert(ticks)`` are
    the extension's.

    Raises:
        TimelineError: here and in all methods, with an :class:`ErrorCode` and the reason.
    """

    def bind(self, needed: Requirement) -> Binding:
        """Sets the program's requirement: the daemon then polls its sources as often as that
        takes."""
        return self._bind(Binding, needed.below_ns, needed.above_ns, needed.resolution_ns)

    def wait_until(self, target_ns: int) -> Woken:
        """Wait until the timeline has certainly reached ``target_ns``."""
        return Woken(*self._wait_until(target_ns))

    def sleep(self, length_ns: int) -> Woken:
        """Wait until ``length_ns`` has certainly passed."""
        return Woken(*self._sleep(length_ns))

    def commit_wait(self, stamp: Stamp) -> Woken:
        """Wait until ``stamp`` is certainly in the past, for every reader of the timeline."""
        return Woken(*self._commit_wait(stamp))

    def wait_until_next_period(self, schedule: Schedule) -> Woken:
        """Wait for the next beginning; those that passed meanwhile are skipped."""
        woken = Woken(*self._next_period(schedule.period_ns, schedule.start_ns, schedule.last_ns))
        schedule.last_ns = woken.target_ns
        return woken

    def timer(
        self,
        first_ns: int,
        fire: Callable[[Woken], object],
        period_ns: int = 0,
        lost: Callable[[TimelineError], object] | None = None,
    ) -> Timer:
        """Call ``fire`` from another thread at ``first_ns`` and every period from there; ``lost``
        when the timeline loses its interval, which ends the timer. It is cancelled when it is
        garbage-collected."""

        def translate(result: int, what: tuple[int, int, Stamp] | str) -> None:
            if isinstance(what, tuple):
                fire(Woken(*what))
            elif lost is not None:
                lost(TimelineError(result, what))

        return self._timer(first_ns, period_ns, translate)

    def utc_ns(self, stamp: Stamp) -> tuple[int, int, int] | None:
        """Returns earliest, estimate and latest of ``stamp`` as UTC, with today's difference from
        TAI; ``None`` if there is no interval or the difference is unknown."""
        offset_s = self.tai_offset_s
        earliest_ns, estimate_ns, latest_ns = stamp.earliest_ns, stamp.estimate_ns, stamp.latest_ns
        if offset_s is None or earliest_ns is None or estimate_ns is None or latest_ns is None:
            return None
        shift_ns = offset_s * 1_000_000_000
        return (earliest_ns - shift_ns, estimate_ns - shift_ns, latest_ns - shift_ns)
