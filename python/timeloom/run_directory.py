"""The directory of a run: checks of its kind and completeness, and its two JSON files.

Called by :mod:`timeloom.results`, the interface for programs.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from . import run_files

#: Files that every finished run has.
TABLES = ("signals", "events", "clock", "labels")


class RunError(Exception):
    """A run cannot be read; the text names it and states the fix."""


class NotARun(RunError):
    """The directory is missing, or is not a run."""

    def __init__(self, path: Path, why: str):
        super().__init__(f"{path} is not a run directory: {why}. `timeloom run SCENARIO -o DIR` makes one")


class Unfinished(RunError):
    """Its tables are not written yet."""

    def __init__(self, path: Path, running: bool):
        self.running = running
        super().__init__(
            f"{path} is of a run that still goes on: read it when it has ended"
            if running
            else f"{path} is of a run that was killed before its end: `timeloom report {path}` makes it whole"
        )


class OlderLayout(RunError):
    """Another version of Timeloom wrote it."""

    def __init__(self, path: Path, what: str):
        super().__init__(f"{path} was written by another version of Timeloom: {what}. Run its scenario again")


def opened(path: Path) -> Path:
    """Returns the directory, after a check that it is that of a finished run."""
    if not path.is_dir():
        raise NotARun(path, "there is no such directory" if not path.exists() else "it is a file")
    if (path / "journal").is_dir():
        raise Unfinished(path, running=_is_locked(path))
    missing = [f"{table}.parquet" for table in TABLES if not run_files.has(path, f"{table}.parquet")]
    if not run_files.has(path, "manifest.json"):
        raise NotARun(path, "it has no manifest.json")
    if len(missing) == len(TABLES):
        raise NotARun(path, "it has no tables")
    if missing:
        raise OlderLayout(path, f"it has no {' and no '.join(missing)}")
    return path


def _is_locked(path: Path) -> bool:
    """Returns true if a process writes the run: the kernel releases its lock when it ends, for any
    reason."""
    try:
        with run_files.opened(path, "journal/lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True)
class Manifest:
    """Programs, versions, machine, and the end of a run. Durations in nanoseconds, instants in RFC
    3339."""

    name: str
    timeloom_version: str
    #: ``done``, ``failed`` or ``interrupted``.
    outcome: str
    #: Cause of the end, if it was not the planned one.
    culprit: str | None
    started: str
    ended: str | None
    #: Civil time at virtual zero, as seen by programs.
    session_start: str | None
    seed: int
    scenario_sha256: str
    #: Programs by path, each with the SHA-256 of its file.
    programs: dict[str, str]
    virtual_duration_ns: int
    wall_duration_ns: int
    paused_total_ns: int
    pauses: int
    #: Limitations of the run, in sentences.
    degraded_modes: Sequence[str]
    #: Reasons why results of checks are not trustworthy, in sentences; empty for a trustworthy run.
    untrusted: Sequence[str]
    #: The file unchanged; its keys are in docs/results.md.
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Reads that of a run.

        Raises:
            OlderLayout: it lacks a key that every manifest has.
        """
        raw = _json(path, "manifest.json")
        try:
            return cls(
                name=raw["name"],
                timeloom_version=raw["timeloom_version"],
                outcome=raw["outcome"],
                culprit=raw.get("culprit"),
                started=raw["started"],
                ended=raw.get("ended"),
                session_start=raw.get("session_start"),
                seed=raw["seed"],
                scenario_sha256=raw["scenario_sha256"],
                programs={program["path"]: program["sha256"] for program in raw.get("programs", [])},
                virtual_duration_ns=raw.get("virtual_duration_ns", 0),
                wall_duration_ns=raw.get("wall_duration_ns", 0),
                paused_total_ns=raw.get("paused_total_ns", 0),
                pauses=raw.get("pauses", 0),
                degraded_modes=tuple(raw.get("degraded_modes", [])),
                untrusted=tuple(raw.get("untrusted", [])),
                raw=raw,
            )
        except (KeyError, TypeError) as missing:
            raise OlderLayout(path, f"its manifest.json has no {missing}") from None

    @property
    def session_start_ns(self) -> int:
        """Civil time at virtual zero, in nanoseconds since 1970."""
        if self.session_start is None:
            raise RunError("the manifest does not say when the session began: the run failed before that")
        return civil_ns(self.session_start)


@dataclass(frozen=True)
class Check:
    """One check of the scenario, after the run."""

    name: str
    passed: bool
    #: In the unit of the expression, or text, or nothing.
    measured: float | str | None
    expression: str
    explanation: str
    #: ``False`` if it does not apply to this run; it then counts neither way.
    applies: bool

    @classmethod
    def read(cls, path: Path) -> Sequence[Check]:
        """Reads all of a run; none, if it failed before they were made."""
        if not run_files.has(path, "checks.json"):
            return ()
        try:
            return tuple(cls(**{key: each[key] for key in cls.__annotations__}) for each in _json(path, "checks.json"))
        except (KeyError, TypeError) as missing:
            raise OlderLayout(path, f"its checks.json has no {missing}") from None


def civil_ns(text: str) -> int:
    """Converts RFC 3339 in UTC, to the nanosecond, to nanoseconds since 1970."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(whole + "+00:00").timestamp())
    return seconds * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)


def _json(path: Path, name: str) -> Any:
    try:
        return json.loads(run_files.text(path, name, run_files.JSON_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path / name} cannot be read: {error}") from None
