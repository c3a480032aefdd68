"""The paper's clusterings of Trajectory20: k-means, k-means under DTW, and k-Shape, by tslearn.

They learn nothing that could be probed. Each is fitted on the set "labels" without its labels, and
says of every motion of the set "test" which cluster it belongs to. Their accuracy is, as usual for
clusterings, the share that is right when the Hungarian method gives every cluster the class that
makes most of the test set right: it knows the answers, which a probe does not. So two more
accuracies are told: the same on the set that was fitted, and that of the classes found there when
they are carried over to the test set.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mocaps.data.trajectory20 import trajectory20
from mocaps.errors import InputError
from mocaps.probe import balanced_subset
from mocaps.unlabelled import matched


def cluster(
    method: str,
    *,
    clusters: int = 20,
    sequences: int = 10_000,
    restarts: int = 1,
    iterations: int = 50,
    barycentre_iterations: int = 100,
    length: int = 32,
    seed: int = 0,
) -> dict[str, Any]:
    """Accuracy of a clustering of Trajectory20, a fraction, ready for JSON."""
    x, y = (part.numpy() for part in trajectory20("labels", length))
    drawn = balanced_subset(y, sequences, seed)
    x, y = x[drawn].astype(np.float64), y[drawn]
    test_x, test_y = (part.numpy() for part in trajectory20("test", length))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tslearn's: of what is not installed, of empty clusters
        model = _model(method, clusters, restarts, iterations, barycentre_iterations, seed)
        found = model.fit_predict(_prepared(method, x))
        test = _predicted(method, model, test_x.astype(np.float64))
    classes = matched(found, y, clusters)
    test_classes = matched(test, test_y, clusters)
    return {
        "cluster_accuracy": float(np.mean(test_classes[test] == test_y)),
        "cluster_accuracy_fitted": float(np.mean(classes[found] == y)),
        "cluster_accuracy_carried_over": float(np.mean(classes[test] == test_y)),
        "iterations": int(model.n_iter_),
        "train": {"name": "t20 labels", "sequences": len(y)},
        "test": {"name": "t20 test", "sequences": len(test_y)},
    }


def _model(
    method: str,
    clusters: int,
    restarts: int,
    iterations: int,
    barycentre_iterations: int,
    seed: int,
) -> Any:
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    try:
        from tslearn.clustering import KShape, TimeSeriesKMeans
    except ImportError:
        raise InputError(
            "expected tslearn for a clustering, found none; "
            "install it with: pip install 'mocaps[clusterings]'"
        ) from None
    common: dict[str, Any] = {"max_iter": iterations, "n_init": restarts, "random_state": seed}
    if method == "k-shape":
        return KShape(clusters, **common)
    if method == "dtw-kmeans":
        return TimeSeriesKMeans(
            clusters, metric="dtw", max_iter_barycenter=barycentre_iterations, **common
        )
    if method != "kmeans":
        raise InputError(f"expected a clustering among kmeans, dtw-kmeans, k-shape, got {method!r}")
    return TimeSeriesKMeans(clusters, metric="euclidean", **common)


def _prepared(method: str, x: Float[np.ndarray, "n L d"]) -> Float[np.ndarray, "n L d"]:
    """k-Shape wants each axis of each sequence at mean zero and deviation one."""
    if method != "k-shape":
        return x
    from tslearn.preprocessing import TimeSeriesScalerMeanVariance

    return TimeSeriesScalerMeanVariance().fit_transform(x)


def _predicted(method: str, model: Any, x: Float[np.ndarray, "n L d"]) -> Int[np.ndarray, " n"]:
    if method == "k-shape":
        # tslearn 0.10 divides what it predicts by the norms of what it was fitted on.
        model.norms_ = np.linalg.norm(_prepared(method, x), axis=(1, 2))
    return model.predict(x)
