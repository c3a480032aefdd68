"""How much of the labels a frozen representation holds: probes, and the floors beside them.

Every probe sees features only; none sends a gradient into the model. Accuracies are fractions.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

BUDGETS = (200, 2_000, 10_000)
NUM_SEEDS = 5
STRENGTHS = (1.0, 10.0, 100.0)
"""C of the logistic regression: small is strong."""
FEW = 1_000
"""Labels up to which every fifth is held out in turn."""
DISTANCES = ("cosine", "euclidean")


class OnlineProbe(nn.Linear):
    """A linear classifier trained along with the model, which never feels it."""

    def forward(self, input: Float[Tensor, "n features"]) -> Float[Tensor, "n classes"]:
        return super().forward(input.detach())


@dataclass(frozen=True)
class Score:
    """A mean accuracy over several draws of the labelled subset."""

    mean: float
    standard_error: float | None
    """None where there is one draw only: all labels."""
    draws: int

    @classmethod
    def of(cls, accuracies: Sequence[float]) -> Score:
        n = len(accuracies)
        error = float(np.std(accuracies, ddof=1)) / math.sqrt(n) if n > 1 else None
        return cls(float(np.mean(accuracies)), error, n)


def balanced_subset(y: Int[np.ndarray, " n"], budget: int, seed: int) -> Int[np.ndarray, " m"]:
    """Indices of `budget` samples, as equally many of each class as there are, drawn from a seed.

    Where the budget does not divide, the first classes of a random order get one more; where a
    class runs out, the others fill its place.
    """
    rank = _ranks(y, seed)
    priority = np.random.default_rng(seed).permutation(int(y.max()) + 1)[y]
    # All first members, then all second ones, and so on: each prefix is as balanced as can be.
    return np.sort(np.lexsort((priority, rank))[:budget])


def _ranks(y: Int[np.ndarray, " n"], seed: int) -> Int[np.ndarray, " n"]:
    """Of each sample, its place in a random order of its class."""
    rng = np.random.default_rng(seed)
    rank = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        rank[members] = rng.permutation(len(members))
    return rank


def subsets(
    y: Int[np.ndarray, " n"], budgets: Sequence[int] = BUDGETS, seeds: int = NUM_SEEDS
) -> dict[int, list[np.ndarray]]:
    """For each budget that the labels allow, the drawn subsets; one only when it takes all."""
    return {
        budget: [
            balanced_subset(y, budget, seed) for seed in range(seeds if budget < len(y) else 1)
        ]
        for budget in budgets
        if budget <= len(y)
    }


def standardised(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with the mean and deviation of `train` taken out; constant features become zero."""
    mean, deviation = train.mean(axis=0, dtype=np.float64), train.std(axis=0, dtype=np.float64)
    scale = np.where(deviation > 1e-12, deviation, np.inf)
    parts = ((part - mean) / scale for part in (train, test))
    train, test = (part.astype(np.float32) for part in parts)
    return train, test


def logistic_regression(
    train_x: Float[np.ndarray, "n features"],
    train_y: Int[np.ndarray, " n"],
    test_x: Float[np.ndarray, "m features"],
    test_y: Int[np.ndarray, " m"],
) -> float:
    """Accuracy of a multinomial logistic regression on standardised features.

    How much it is regularised is chosen among `STRENGTHS` on held-out fifths of the training
    labels (all five in turn where labels are few), and it is fitted again on all of them. With the
    library's C = 1 alone, Fourier magnitudes would stand at 81% with 200 labels where they can
    reach 93%: a floor has to be fair.
    """
    if len(np.unique(train_y)) == 1:  # nothing to separate
        return float(np.mean(test_y == train_y[0]))
    train, test = standardised(train_x, test_x)
    fold = _ranks(train_y, seed=0) % 5
    right = np.zeros(len(STRENGTHS))
    path = _path()
    for held_out in range(5 if len(train_y) <= FEW else 1):
        learn, choose = fold != held_out, fold == held_out
        if len(np.unique(train_y[learn])) < 2 or not choose.any():
            continue
        path = _path(train[learn], train_y[learn])
        right += [np.sum(m.predict(train[choose]) == train_y[choose]) for m in path]
    model = path[int(np.argmax(right))]  # of equals, the most regularised one
    return float(_fit(model, train, train_y).score(test, test_y))


def _path(x: np.ndarray | None = None, y: np.ndarray | None = None) -> list[LogisticRegression]:
    """A model at each of `STRENGTHS`, fitted where there is something to fit.

    Each starts where the one before it ended, which takes a fraction of the iterations.
    """
    from sklearn.linear_model import LogisticRegression

    model, path = LogisticRegression(max_iter=1_000, warm_start=True), []
    for strength in STRENGTHS:
        model.set_params(C=strength)
        if x is not None and y is not None:
            _fit(model, x, y)
        path.append(copy.copy(model))
    return path


def _fit(model: LogisticRegression, x: np.ndarray, y: np.ndarray) -> LogisticRegression:
    """Fits a model from where it stands, unless it knows other classes."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    if hasattr(model, "classes_") and not np.array_equal(model.classes_, np.unique(y)):
        model = type(model)(**model.get_params())
    # Products this small are slower on several threads, and very slow on a busy machine.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x, y)


def nearest_neighbour(
    train_x: Float[np.ndarray, "n features"],
    train_y: Int[np.ndarray, " n"],
    test_x: Float[np.ndarray, "m features"],
    test_y: Int[np.ndarray, " m"],
    distance: str,
) -> float:
    """Accuracy of the label of the nearest training sample.

    "cosine" compares the features as they are, "euclidean" standardised ones.
    """
    if distance not in DISTANCES:
        raise ValueError(f"expected a distance among {', '.join(DISTANCES)}, got {distance!r}")
    if distance == "euclidean":
        train_x, test_x = standardised(train_x, test_x)
    train = torch.as_tensor(train_x, dtype=torch.float32)
    test = torch.as_tensor(test_x, dtype=torch.float32)
    # |a - b|^2 = |a|^2 - 2 a.b + |b|^2, and |a|^2 moves no minimum; of unit vectors, |b|^2 neither.
    if distance == "cosine":
        train, test = (nn.functional.normalize(f, dim=1) for f in (train, test))
        offset = torch.zeros(len(train))
    else:
        offset = train.square().sum(dim=1) / 2
    rows = max(1, 20_000_000 // len(train))  # 80 MB of distances at a time
    nearest = [torch.addmm(-offset, part, train.T).argmax(dim=1) for part in test.split(rows)]
    return float(np.mean(train_y[torch.cat(nearest).numpy()] == test_y))


def logistic_by_budget(train_x, train_y, test_x, test_y, **choice) -> dict[int, Score]:
    """`logistic_regression` at each label budget, over draws of the labels."""
    return {
        budget: Score.of(
            [logistic_regression(train_x[i], train_y[i], test_x, test_y) for i in drawn]
        )
        for budget, drawn in subsets(train_y, **choice).items()
    }


def nearest_neighbour_by_budget(
    train_x, train_y, test_x, test_y, distance: str, **choice
) -> dict[int, Score]:
    """`nearest_neighbour` at each label budget, over draws of the labels."""
    return {
        budget: Score.of(
            [nearest_neighbour(train_x[i], train_y[i], test_x, test_y, distance) for i in drawn]
        )
        for budget, drawn in subsets(train_y, **choice).items()
    }


def raw_coordinates(x: Float[np.ndarray, "n length *points d"]) -> Float[np.ndarray, "n features"]:
    """The first floor: the numbers as they came."""
    return x.reshape(len(x), -1)


def fourier_magnitudes(
    x: Float[np.ndarray, "n length *points d"],
) -> Float[np.ndarray, "n features"]:
    """The second floor: what no place, size, direction or starting point of a closed curve moves.

    In the plane, magnitudes of the Fourier coefficients of x + iy. The coefficient of k = 0 is the
    place and goes; the rest is divided by its norm, the size; one of the L - 1 numbers follows
    from the others and goes too. In space, of each frequency the length of the vector of the
    three axes' coefficients, which no rotation moves.
    """
    by_point = np.moveaxis(x, 1, -2).reshape(len(x), -1, x.shape[1], x.shape[-1])
    if x.shape[-1] == 2:
        magnitude = np.abs(np.fft.fft(by_point[..., 0] + 1j * by_point[..., 1], axis=-1))[..., 1:]
    else:
        coefficients = np.fft.rfft(by_point, axis=-2)
        magnitude = np.linalg.norm(np.abs(coefficients), axis=-1)[..., 1:]
    size = np.linalg.norm(magnitude, axis=-1, keepdims=True)
    magnitude = magnitude / np.maximum(size, 1e-12)
    return magnitude[..., :-1].reshape(len(x), -1)
