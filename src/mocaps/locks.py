"""Who trains into a directory. Imports no torch, so that a runner can look at many quickly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from mocaps.errors import InputError

LOCK = ".lock"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process trains into a directory; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with (path / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{path}: another process is training into it") from None
        yield


def is_locked(path: Path) -> bool:
    """Whether some process trains into a directory at this moment."""
    if not (path / LOCK).exists():
        return False
    try:
        with locked(path):
            return False
    except InputError:
        return True
