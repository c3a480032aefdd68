"""Tracks in .npz files: `x` (n, L, d) or (n, L, K, d), perhaps labels `y` (n,); read and checked.

Nothing is ever unpickled. An array that is stored without compression is mapped from its place in
the archive, so that a file larger than the memory can be read; a compressed one is read as a
stream, from front to back.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from mocaps import atomic
from mocaps.errors import InputError

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, struct.error)


@dataclass(frozen=True)
class Member:
    """One array of an .npz file: what is known of it before its numbers are read."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    _fortran: bool
    _offset: int | None  # in the file, of the first number; None for a compressed member

    def __len__(self) -> int:
        return self.shape[0]

    def chunks(self, rows: int) -> Iterator[np.ndarray]:
        """The rows in order, so many at a time."""
        if self._offset is not None:
            array = self.mapped()
            for start in range(0, len(self), rows):
                yield array[start : start + rows]
        elif self._fortran:  # columns first: the rows of a stream end only with it
            array = self.read()
            yield from (array[start : start + rows] for start in range(0, len(self), rows))
        else:
            yield from self._streamed(rows)

    def mapped(self) -> np.ndarray:
        order = "F" if self._fortran else "C"
        return np.memmap(self.path, self.dtype, "r", self._offset or 0, self.shape, order)

    def read(self) -> np.ndarray:
        """The whole array in memory."""
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                return archive[self.name]
        except _BROKEN as error:
            raise _unreadable(self.path, error) from None

    def _streamed(self, rows: int) -> Iterator[np.ndarray]:
        row_shape = self.shape[1:]
        row_bytes = int(np.prod(row_shape, dtype=np.int64)) * self.dtype.itemsize
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{self.name}.npy") as file:
                _read_header(file)
                for start in range(0, len(self), rows):
                    count = min(rows, len(self) - start)
                    data = file.read(count * row_bytes)
                    yield np.frombuffer(data, self.dtype).reshape(count, *row_shape)
        except _BROKEN as error:
            raise _unreadable(self.path, error) from None


def open_member(path: Path, name: str) -> Member:
    """The array `name` of an .npz file, its numbers not yet read."""
    _must_exist(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = [entry.removesuffix(".npy") for entry in archive.namelist()]
            if name not in names:
                found = ", ".join(names) or "none"
                raise InputError(f"{path}: expected an array {name!r}, found {found}")
            info = archive.getinfo(f"{name}.npy")
            with archive.open(info) as file:
                shape, fortran, dtype = _read_header(file)
                header_size = file.tell()
    except InputError:
        raise
    except _BROKEN as error:
        raise _unreadable(path, error) from None
    if dtype.hasobject:
        raise InputError(
            f"{path}: expected numbers in {name!r}, got Python objects, which are never unpickled"
        )
    stored = info.compress_type == zipfile.ZIP_STORED
    offset = _data_offset(path, info) + header_size if stored else None
    member = Member(path, name, shape, dtype, fortran, offset)
    _must_hold(member)
    return member


def open_x(path: Path) -> Member:
    """`x` of an .npz file, its type and number of axes checked, its numbers not yet."""
    member = open_member(path, "x")
    if member.dtype.kind not in "fiu":
        raise InputError(f"{path}: expected real numbers in 'x', got {member.dtype}")
    if len(member.shape) not in (3, 4):
        raise InputError(
            f"{path}: expected 'x' of shape (n, L, d), or (n, L, K, d) for K points, "
            f"got {member.shape}"
        )
    if 0 in member.shape:
        raise InputError(f"{path}: expected at least one sequence in 'x', got {member.shape}")
    return member


def check_shape(where: object, got: Sequence[int], expected: Sequence[int]) -> None:
    """Refuses sequences that a model was not made for."""
    if tuple(got[1:]) != tuple(expected):
        wanted = ", ".join(map(str, ("n", *expected)))
        raise InputError(f"{where}: the model expects 'x' of shape ({wanted}), got {tuple(got)}")


def as_float32(rows: np.ndarray, where: object, first: int = 0) -> np.ndarray:
    """Rows ready for a tensor, or a sentence that names the first number that is none."""
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(rows, dtype=np.float32)
    # One sum is ten times quicker than a look at every number; infinities and NaN survive it.
    if not np.isfinite(rows.sum(dtype=np.float64)):
        bad = np.argwhere(~np.isfinite(rows))
        sequence, frame, *rest = (int(i) for i in bad[0])
        value = rows[tuple(bad[0])]
        point = f", point {rest[0]}" if len(rest) == 2 else ""
        raise InputError(
            f"{where}: expected finite numbers in 'x', got {value} "
            f"in sequence {first + sequence}, frame {frame}{point}"
        )
    return rows if rows.flags.writeable else rows.copy()


def read_x(path: Path) -> np.ndarray:
    """All of `x` as float32, checked."""
    return as_float32(open_x(path).read(), path)


def read_y(path: Path, count: int) -> np.ndarray:
    """Labels `y` as int64, one for each of `count` sequences."""
    member = open_member(path, "y")
    if member.dtype.kind not in "iu":
        raise InputError(f"{path}: expected whole numbers in 'y', got {member.dtype}")
    if member.shape != (count,):
        raise InputError(
            f"{path}: expected 'y' of shape ({count},), a label for each sequence of 'x', "
            f"got {member.shape}"
        )
    y = member.read().astype(np.int64)
    if y.min() < 0:
        raise InputError(f"{path}: expected labels from 0 in 'y', got {int(y.min())}")
    return y


def has_labels(path: Path) -> bool:
    _must_exist(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return "y.npy" in archive.namelist()
    except _BROKEN as error:
        raise _unreadable(path, error) from None


def _must_exist(path: Path) -> None:
    if not path.exists():
        raise InputError(f"expected a file at {path}, found none")
    if path.is_dir():
        raise InputError(f"expected an .npz file at {path}, found a directory")


def _must_hold(member: Member) -> None:
    """The archive must be as long as the array's header says."""
    if member._offset is None:
        return
    size = int(np.prod(member.shape, dtype=np.int64)) * member.dtype.itemsize
    if member.path.stat().st_size < member._offset + size:
        raise InputError(f"{member.path}: expected {size} bytes in {member.name!r}, found fewer")


def _unreadable(path: Path, error: BaseException) -> InputError:
    if isinstance(error, PermissionError):
        return InputError(f"{path}: not allowed to read it")
    return InputError(
        f"{path}: expected an .npz file, found a damaged or a different one ({error})"
    )


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: behind its local header, whose two last fields vary."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
    name_length, extra_length = struct.unpack("<HH", local[26:30])
    return info.header_offset + 30 + name_length + extra_length


def write(path: Path, **named: np.ndarray) -> None:
    """An .npz file, whole or not at all, uncompressed so that it can be mapped."""
    if not path.parent.is_dir():
        raise InputError(f"expected a directory {path.parent} to write {path.name} into")
    with atomic.replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **named)  # type: ignore[arg-type]
