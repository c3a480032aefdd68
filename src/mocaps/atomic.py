"""Files that appear whole or not at all: written beside their place, synced, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

SUFFIX = ".tmp"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the same directory that takes the place of `path` when all went well.

    Where anything fails, `path` is as it was and the temporary file is gone.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=SUFFIX, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~umask())  # mkstemp lets nobody else read
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def sync_directory(directory: Path) -> None:
    """A rename outlives a power cut only when its directory has reached the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path) -> None:
    """What a killed process was writing: nobody reads it."""
    for leftover in directory.glob(f".*{SUFFIX}"):
        leftover.unlink(missing_ok=True)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
