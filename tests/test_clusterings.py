import numpy as np
import pytest

from mocaps import clusterings
from mocaps.clusterings import cluster, matched
from mocaps.errors import InputError


def test_clusters_are_given_the_classes_that_make_most_right():
    clusters = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    y = np.array([1, 1, 0, 1, 1, 0, 2, 2])
    # Both 0 and 1 hold more of class 1, but one of them only may stand for it.
    classes = matched(clusters, y, 3)
    assert sorted(classes) == [0, 1, 2]
    assert classes[2] == 2
    assert np.mean(classes[clusters] == y) == 5 / 8


def test_clusters_without_a_class_are_never_right():
    assert list(matched(np.array([0, 0, 1, 2, 2]), np.array([0, 0, 0, 1, 1]), 3)) == [0, -1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kmeans", "dtw-kmeans", "k-shape"])
def test_a_clustering_repeats_from_its_seed(method, monkeypatch):
    pytest.importorskip("tslearn")
    few = clusterings.trajectory20

    def fewer(name, length):
        return [part[:400] for part in few(name, length)]

    monkeypatch.setattr(clusterings, "trajectory20", fewer)
    options = {"sequences": 200, "restarts": 1, "iterations": 3, "barycentre_iterations": 2}
    found = [cluster(method, seed=3, **options) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0]["train"]["sequences"] == 200
    assert found[0]["test"]["sequences"] == 400
    accuracy = found[0]["cluster_accuracy"]
    assert found[0]["cluster_accuracy_carried_over"] <= accuracy < 0.5


def test_an_unknown_clustering_is_refused():
    pytest.importorskip("tslearn")
    with pytest.raises(InputError, match="expected a clustering among"):
        cluster("means")
