"""How much a frozen representation says with one label a class, and with none at all.

Every probe here sees features only. Accuracies are fractions.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from mocaps.probe import DISTANCES, Score, balanced_subset, nearest_neighbour, standardised

DRAWS = 20
"""Of one label a class: so few labels differ much from draw to draw."""
SEEDS = 3
STARTS = 20
"""Of k-means; the best by its own measure, which knows no labels."""
MOST = 10_000
"""Sequences that k-means is fitted on: more would move its centres no more."""


def matched(
    clusters: Int[np.ndarray, " n"], y: Int[np.ndarray, " n"], count: int
) -> Int[np.ndarray, " count"]:
    """Of each cluster, the class it stands for: one to one, as many right as can be.

    A cluster without a class, where there are more clusters than classes, stands for -1.
    """
    table = np.zeros((count, int(y.max()) + 1), dtype=np.int64)
    np.add.at(table, (clusters, y), 1)
    rows, columns = linear_sum_assignment(table, maximize=True)
    classes = np.full(count, -1)
    classes[rows] = columns
    return classes


def one_label_each(
    train_x: Float[np.ndarray, "n features"],
    train_y: Int[np.ndarray, " n"],
    test_x: Float[np.ndarray, "m features"],
    test_y: Int[np.ndarray, " m"],
    distance: str,
    draws: int = DRAWS,
) -> Score:
    """`nearest_neighbour` among one labelled sample of each class, over draws of them."""
    found = []
    for seed in range(draws):
        drawn = balanced_subset(train_y, len(np.unique(train_y)), seed)
        found.append(nearest_neighbour(train_x[drawn], train_y[drawn], test_x, test_y, distance))
    return Score.of(found)


def clusters(
    train_x: Float[np.ndarray, "n features"],
    test_x: Float[np.ndarray, "m features"],
    test_y: Int[np.ndarray, " m"],
    geometry: str,
    seeds: int = SEEDS,
) -> Score:
    """Accuracy of k-means on `test_x`, fitted on `train_x`, into as many groups as classes.

    The groups meet the classes of the test set by the Hungarian method, which knows the answers;
    nothing before does. "euclidean" clusters standardised features, "cosine" features that are
    centred and then of length one. Centred, because activations are all positive: without it
    what all sequences share takes nearly all of the length, and the directions hardly differ.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    train, test = _prepared(train_x, test_x, geometry)
    train = train[:: -(-len(train) // MOST)]
    count = min(len(np.unique(test_y)), len(train))
    options: dict[str, Any] = {"n_init": STARTS}
    found = []
    # As in `probe`: several threads are slower on products this small.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than groups
        for seed in range(seeds):
            model: Any = KMeans(count, **options, random_state=seed)
            groups = model.fit(train).predict(test)
            found.append(float(np.mean(matched(groups, test_y, count)[groups] == test_y)))
    return Score.of(found)


def _prepared(
    train: np.ndarray, test: np.ndarray, geometry: str
) -> tuple[Float[np.ndarray, "n features"], Float[np.ndarray, "m features"]]:
    """Both as k-means is to see them, with what `train` alone says."""
    if geometry not in DISTANCES:
        raise ValueError(f"expected a geometry among {', '.join(DISTANCES)}, got {geometry!r}")
    if geometry == "euclidean":
        return standardised(train, test)
    mean = train.mean(axis=0, dtype=np.float64)
    centred = [part - mean for part in (train, test)]
    lengths = [np.linalg.norm(part, axis=1, keepdims=True) for part in centred]
    train, test = (
        (part / np.maximum(length, 1e-12)).astype(np.float32)
        for part, length in zip(centred, lengths, strict=True)
    )
    return train, test
