"""What a trained model says of sequences: of arrays in memory, and of files of any length.

    nu              (n, features)             what each motion is
    B               (n, M, d+1, d+1)          segment template to sequence, homogeneous
    mu              (n, S, N)                 which snippet templates each snippet is made of
    A               (n, S, N, d+1, d+1)       snippet template to snippet, homogeneous
    reconstruction  (n, L, d)                 x_hat, from mu and A
    error           (n,)                      squared distance of x_hat from x, mean over time

A model of several points keeps them apart on an axis behind n, in all but nu: B is then
(n, K, M, d+1, d+1), with K the bodies times the planes times the points, in this order.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mocaps import atomic
from mocaps.config import Config
from mocaps.data import arrays
from mocaps.data.batches import input_shape
from mocaps.errors import InputError
from mocaps.geometry import homogeneous
from mocaps.model import MCAE, MultiPointMCAE

NAMES = ("nu", "B", "mu", "A", "reconstruction", "error")
ROWS = 512
"""Sequences at a time: 85,000 a second; 69,000 with 128 (the cost of a call shows), 64,000 with
2,048 and 50,000 with 4,096 (out of the cache), measured on a busy machine."""


def embed(
    model: nn.Module, x: Float[np.ndarray, "n ..."] | Tensor, rows: int = ROWS
) -> Float[np.ndarray, "n features"]:
    """The representation of every sequence of an array, in evaluation mode."""
    numbers = torch.as_tensor(x, dtype=torch.float32)
    with _evaluating(model):
        return torch.cat([model.embed(part) for part in numbers.split(rows)]).numpy()  # type: ignore[operator]


def explain(model: MCAE | MultiPointMCAE, x: Tensor) -> dict[str, Tensor]:
    """All arrays of the module's head for one batch."""
    output = model(x, from_segments=False)
    n = len(x)
    parts = {
        "mu": output.snippets.mu,
        "A": homogeneous(output.snippets.A),
        "reconstruction": output.reconstruction,
        "error": (output.reconstruction - _folded(model, x)).square().sum(-1).mean(-1),
    }
    if output.segments is not None:
        parts["B"] = homogeneous(output.segments.B)
    if isinstance(model, MultiPointMCAE):
        parts = {name: part.unflatten(0, (n, -1)) for name, part in parts.items()}
        return parts | {"nu": model.join(output.representation, n)}
    return parts | {"nu": output.representation}


def embed_file(
    model: nn.Module,
    config: Config,
    source: Path,
    out: Path,
    *,
    only: Sequence[str] = (),
    rows: int = ROWS,
    watch: Callable[[int, int], None] | None = None,
) -> dict[str, tuple[int, ...]]:
    """Reads `x` of an .npz file and writes the arrays of its sequences, in order, to another.

    Holds one batch in memory, however long the file is. `out` appears when all is written. Returns
    the shapes; `watch` receives the sequences done and their total after every batch.
    """
    names = _wanted(only, model)
    x = arrays.open_x(source)
    arrays.check_shape(source, x.shape, input_shape(config, x.shape))
    _check_out(out)
    with (
        tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as directory,
        atomic.replacing(out) as temporary,
        _evaluating(model),
    ):
        columns = _Columns(Path(directory), len(x))
        with columns:
            done = 0
            for batch in x.chunks(rows):
                part = torch.from_numpy(arrays.as_float32(batch, source, done))
                found = _found(model, part, names)
                for name in names:
                    columns.append(name, found[name].numpy())
                done += len(part)
                if watch:
                    watch(done, len(x))
        columns.zip_into(temporary)
    return columns.shapes


def _found(model: nn.Module, x: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
    # nu alone needs neither decoder, and is all that a baseline has.
    if names == ("nu",) or not isinstance(model, MCAE | MultiPointMCAE):
        return {"nu": model.embed(x)}  # type: ignore[operator]
    return explain(model, x)


class _Columns:
    """Arrays that grow in files of their own, and end as members of one .npz."""

    def __init__(self, directory: Path, count: int) -> None:
        self._directory, self._count = directory, count
        self._files: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def __enter__(self) -> _Columns:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files.values():
            file.close()

    def append(self, name: str, rows: np.ndarray) -> None:
        if name not in self._files:
            # All rows are known to come: the header can be written before them.
            self.shapes[name] = (self._count, *rows.shape[1:])
            self._files[name] = (self._directory / f"{name}.npy").open("wb")
            header = {"descr": rows.dtype.str, "fortran_order": False, "shape": self.shapes[name]}
            np.lib.format.write_array_header_2_0(self._files[name], header)
        self._files[name].write(np.ascontiguousarray(rows).data)

    def zip_into(self, path: Path) -> None:
        """Uncompressed, so that a reader can map them; each file goes once it is in."""
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name in self.shapes:
                member = self._directory / f"{name}.npy"
                with (
                    member.open("rb") as source,
                    archive.open(f"{name}.npy", "w", force_zip64=True) as target,
                ):
                    shutil.copyfileobj(source, target, 2**18)
                member.unlink()


def _wanted(only: Sequence[str], model: nn.Module) -> tuple[str, ...]:
    inner = model.mcae if isinstance(model, MultiPointMCAE) else model
    single_layer = isinstance(inner, MCAE) and inner.segment is None
    offered = tuple(name for name in NAMES if not (single_layer and name == "B"))
    if not isinstance(inner, MCAE):  # a baseline has no capsules to tell of
        offered = ("nu",)
    for name in only:
        if name not in offered:
            raise InputError(f"--only: expected arrays among {', '.join(offered)}, got {name!r}")
    return tuple(name for name in offered if name in only) if only else offered


def _check_out(out: Path) -> None:
    if not out.parent.is_dir():
        raise InputError(f"expected a directory {out.parent} to write {out.name} into, found none")
    if out.is_dir():
        raise InputError(f"expected a file to write at {out}, found a directory")


def _folded(model: MCAE | MultiPointMCAE, x: Tensor) -> Tensor:
    return model.fold(x) if isinstance(model, MultiPointMCAE) else x


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients within; the mode is as before afterwards."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)
