"""What a run learns from: batches addressed by step, and what it is validated on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mocaps.config import Config
from mocaps.data import arrays
from mocaps.data.trajectory20 import PATTERNS, Trajectory20, trajectory20
from mocaps.errors import InputError

HELD_OUT = 10  # one sequence in so many validates, of a file
MOST_HELD_OUT = 10_000
HELD_OUT_SEED = 2023  # of no run: all seeds of a run share their validation set

Take = Callable[[int, int], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class Batches:
    """A source of batches, and a validation set that is none of them."""

    take: Take
    """(start, stop) in samples -> x (stop - start, L, ...) and y, or None without labels. What is
    at a place depends on the place and the run's seed alone."""
    steps_per_epoch: int
    validation_x: Tensor
    validation_y: Tensor | None
    num_classes: int
    """0 without labels: then there is no probe, and validation is by the loss."""


def of(config: Config) -> Batches:
    """The batches that a configuration asks for."""
    check(config)
    if config.data.name == "t20":
        return of_trajectory20(config)
    x, y = labelled(Path(config.data.name))
    return of_arrays(x, y, config)


def check(config: Config) -> None:
    """Refuses what needs no look at the numbers to be refused."""
    model = config.model
    if config.data.name != "t20":
        path = Path(config.data.name)
        shape = arrays.open_x(path).shape
        arrays.check_shape(path, shape, input_shape(config, shape))
    elif model.dimension != 2 or model.num_points != 1 or model.planes:
        raise InputError(
            "data t20: expected a model of one point in the plane, got "
            f"dimension = {model.dimension}, num_points = {model.num_points}, "
            f"planes = {str(model.planes).lower()}"
        )


def of_trajectory20(config: Config) -> Batches:
    """The endless stream of Trajectory20; an epoch is `steps_per_epoch` batches of it."""
    stream = Trajectory20(config.model.length, config.train.seed)
    x, y = trajectory20("validation", config.model.length)
    return Batches(
        lambda start, stop: stream[start:stop],
        config.train.steps_per_epoch,
        x,
        y,
        len(PATTERNS),
    )


def of_arrays(x: np.ndarray, y: np.ndarray | None, config: Config) -> Batches:
    """Epochs over arrays, each in an order of its own; a tenth is held out for validation.

    An epoch takes each remaining sequence once, but for those that fill no whole batch.
    """
    learn, held_out = split(len(x))
    steps = len(learn) // config.train.batch_size
    if steps == 0:
        raise InputError(
            f"{config.data.name}: expected at least train.batch_size = {config.train.batch_size} "
            f"sequences to learn from, got {len(learn)} (and {len(held_out)} held out to validate)"
        )
    tensor_x = torch.from_numpy(x)
    tensor_y = None if y is None else torch.from_numpy(y)
    used = steps * config.train.batch_size
    order = _Orders(learn, used, config.train.seed)

    def take(start: int, stop: int) -> tuple[Tensor, Tensor | None]:
        index = order[start:stop]
        return tensor_x[index], None if tensor_y is None else tensor_y[index]

    return Batches(
        take,
        steps,
        tensor_x[held_out],
        None if tensor_y is None else tensor_y[held_out],
        0 if y is None else int(y.max()) + 1,
    )


def split(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices to learn from and indices held out, the same for every seed."""
    order = np.random.default_rng(HELD_OUT_SEED).permutation(count)
    held_out = min(max(count // HELD_OUT, 1), MOST_HELD_OUT)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def labelled(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """x of an .npz file, and y where there is one."""
    x = arrays.read_x(path)
    return x, arrays.read_y(path, len(x)) if arrays.has_labels(path) else None


def input_shape(config: Config, got: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """The shape of one sequence that the model reads: L, [bodies,] [K,] d."""
    model = config.model
    if model.num_points == 1 and not model.planes:
        return model.length, model.dimension
    bodies = got[2:3] if got is not None and len(got) == 5 else ()
    return model.length, *bodies, model.num_points, 3 if model.planes else model.dimension


class _Orders:
    """The order of the epochs, one after another, as one endless array of indices."""

    def __init__(self, indices: np.ndarray, used: int, seed: int) -> None:
        self._indices, self._used, self._seed = indices, used, seed
        self._cached: tuple[int, np.ndarray] | None = None

    def __getitem__(self, span: slice) -> np.ndarray:
        parts = []
        start = span.start
        while start < span.stop:
            epoch, at = divmod(start, self._used)
            parts.append(self._epoch(epoch)[at : at + span.stop - start])
            start += len(parts[-1])
        return np.concatenate(parts)

    def _epoch(self, epoch: int) -> np.ndarray:
        if self._cached is None or self._cached[0] != epoch:
            rng = np.random.default_rng([self._seed, epoch])
            self._cached = epoch, rng.permutation(self._indices)[: self._used]
        return self._cached[1]
