"""Files of a run directory, opened as ``timeloom`` itself opens them. Called by :mod:`timeloom.results`.

A run directory may come from another user: a name in it may be a symbolic link to another file, a FIFO that never
answers, or a document of terabytes. Each part of a name is therefore opened from a descriptor of the folder before it,
no link is followed, and only regular files are read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

#: Maximum length of documents that are read, in bytes: of JSON and of TOML.
JSON_BYTES = 16 << 20
SCENARIO_BYTES = 4 << 20

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "a symbolic link, and none is followed in a run directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


class StrangeFile(OSError):
    """An entry of a run directory is not of the expected type; the text says what it is."""


@contextmanager
def _folder_of(directory: Path, name: str) -> Iterator[tuple[int, str]]:
    """Yields the descriptor of the folder that contains ``name``, and the last part of the name."""
    *folders, last = name.split("/")
    descriptor = os.open(directory, _FOLDER)
    try:
        for folder in folders:
            _check(descriptor, folder, stat.S_IFDIR, directory / name)
            below = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor, last
    finally:
        os.close(descriptor)


def _check(folder: int, name: str, wanted: int, path: Path) -> None:
    found = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    if found != wanted:
        raise StrangeFile(f"it is {_KINDS.get(found, 'no regular file')} ({path})")


def opened(directory: Path, name: str) -> BinaryIO:
    """Opens a regular file for reading; ``name`` is ``FILE`` or ``FOLDER/FILE``.

    Raises:
        OSError: there is none, or the name is that of something else.
    """
    with _folder_of(directory, name) as (folder, last):
        # Checked before the open, which may have side effects, and again after it.
        _check(folder, last, stat.S_IFREG, directory / name)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(last, flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StrangeFile(f"it is no regular file ({directory / name})")
    return os.fdopen(descriptor, "rb")


def text(directory: Path, name: str, most: int) -> str:
    """Returns the text of a document of at most ``most`` bytes.

    Raises:
        OSError: it cannot be opened, or is longer.
        ValueError: it is not UTF-8.
    """
    with opened(directory, name) as file:
        too_long = os.fstat(file.fileno()).st_size > most
        content = b"" if too_long else file.read(most + 1)
    if too_long or len(content) > most:
        raise StrangeFile(f"it has more than {most >> 20} MiB ({directory / name})")
    return content.decode()


def names(directory: Path, folder: str, ending: str) -> dict[str, str]:
    """Returns the regular files in a folder, sorted: ``FOLDER/FILE`` by name without ``ending``."""
    try:
        with _folder_of(directory, f"{folder}/x") as (descriptor, _):
            entries = sorted(entry.name for entry in os.scandir(descriptor) if entry.is_file(follow_symlinks=False))
    except OSError:
        return {}
    return {name.removesuffix(ending): f"{folder}/{name}" for name in entries if name.endswith(ending)}


def has(directory: Path, name: str) -> bool:
    """Returns true if there is a regular file of this name."""
    try:
        with _folder_of(directory, name) as (folder, last):
            return stat.S_ISREG(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
