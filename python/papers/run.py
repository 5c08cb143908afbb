"""Runs the commands of the rows, and stores their outputs."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import machine, outputs
from .rows import ROOT, Command, Rows, shown

#: Directory of files that commands write.
SCRATCH = ROOT / "runs" / "papers"
#: Number of lines of standard error that are stored.
LAST_ERRORS = 12
#: A command may take so many times as long as the rows state, before it is ended.
PATIENCE = 4


def run_all(rows: Rows, timeloom: Path, quick: bool, names: Sequence[str]) -> list[str]:
    """Runs the named commands, or all that have a row; returns the names of those that failed."""
    used = {cell.command for row in rows.rows for cell in row.cells if cell.command}
    failed = []
    for name in names or [name for name in rows.commands if name in used]:
        command = rows.commands[name]
        if quick and not command.quick:
            print(f"papers: {name} takes too long for a quick run and is left out", flush=True)
            continue
        print(f"papers: {name}: {shown(command.quick if quick else command.words)}", flush=True)
        output = run(command, timeloom, quick)
        outputs.store(output)
        if output["exit"] != 0:
            print(f"papers: {name} ended with {output['exit']}: {' / '.join(output['errors'][-2:])}", file=sys.stderr)
            failed.append(name)
    return failed


def run(command: Command, timeloom: Path, quick: bool, scratch: Path = SCRATCH) -> dict[str, Any]:
    """Runs a command once; returns its stamped output. Files that it writes are in ``scratch``."""
    directory = scratch / command.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    words = command.quick if quick else command.words
    real = [_word(word, timeloom, directory) for word in words]
    state = {**machine.about(), "wake_up": machine.lateness(), "load_before": round(os.getloadavg()[0], 2)}
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    watch, begun = machine.Watch(), time.monotonic()
    code, said, errors = _executed(real, command.minutes * 60 * PATIENCE)
    state |= watch.shares()
    state["load_after"] = round(os.getloadavg()[0], 2)
    output: dict[str, Any] = {
        "command": command.name,
        "run": words,
        # A command without a shorter form is run as a whole.
        "quick": words != command.words,
        "date": date,
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/papers")),
        "seconds": round(time.monotonic() - begun, 1),
        "exit": code,
        "machine": state,
        "versions": {version: _version(version) for version in command.versions},
        "errors": [_clean(line) for line in errors.splitlines()[-LAST_ERRORS:]],
    }
    if command.json:
        output["records"] = _records(said)
    else:
        output["text"] = [_clean(line) for line in said.splitlines()]
    if command.files:
        found = sorted(path for pattern in command.files for path in directory.glob(pattern))
        output["files"] = {path.name: path.read_text() for path in found}
    return output


def _word(word: str, timeloom: Path, directory: Path) -> str:
    if word == "timeloom":
        return str(timeloom)
    if word == "python":
        return sys.executable
    return word.replace("{out}", str(directory))


def _executed(words: list[str], patience_s: float) -> tuple[int, str, str]:
    """Runs it in a process group of its own; returns exit status, output and errors."""
    modules = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": modules}
    try:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return 127, "", f"{words[0]} cannot be started: {error.strerror}"
    try:
        said, errors = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        said, errors = _ended(process)
        return 124, said, f"{errors}\nended after {patience_s:.0f} s"
    return process.returncode, said, errors


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Ends a process with its group; returns what it has printed."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        return process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()


def _records(text: str) -> list[dict[str, Any]]:
    """The JSON objects among the lines; what a command prints otherwise is left out."""
    found = []
    for line in text.splitlines():
        try:
            record = json.loads(_clean(line))
        except ValueError:
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


def _clean(line: str) -> str:
    """A line without the paths of this machine."""
    return line.replace(f"{ROOT}/", "").replace(str(ROOT), ".").rstrip()


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _version(words: str) -> str:
    """The first line of what a program prints about its version."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    try:
        done = subprocess.run(
            words.split(),
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "not installed"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"
