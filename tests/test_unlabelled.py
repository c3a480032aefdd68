import numpy as np
import pytest
import torch

from mocaps import probe, unlabelled
from mocaps.unlabelled import matched


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


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


def blobs(n, seed, spread=0.01):
    """Four classes far apart on a square, numbered with gaps, in a random order."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.arange(n) % 4)
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    y = np.array([0, 7, 2, 5])[group]
    return corners[group] + spread * rng.normal(size=(n, 2)), y


@pytest.mark.parametrize("geometry", probe.DISTANCES)
def test_groups_far_apart_are_found_without_a_label(geometry):
    (train, _), (test, y) = blobs(80, seed=1), blobs(60, seed=2)
    assert unlabelled.clusters(train, test, y, geometry) == probe.Score(1.0, 0.0, 3)
    mixed = np.random.default_rng(0).permutation(y)
    assert unlabelled.clusters(train, test, mixed, geometry).mean < 0.5


def test_cosine_groups_by_direction_alone_once_centred():
    """Two directions at any length, far from the origin: groups of length would halve them."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    length = np.where(rng.random(200) < 0.5, 0.1, 4.0)
    x = np.stack([length * (2 * y - 1), np.zeros(200)], axis=1) + 100.0
    assert unlabelled.clusters(x, x, y, "cosine").mean == 1
    assert unlabelled.clusters(x, x, y, "euclidean").mean < 0.9


def test_clusters_repeat_from_their_seeds_and_know_their_geometries():
    x, y = blobs(50, seed=3, spread=2.0)
    found = [unlabelled.clusters(x, x, y, "cosine") for _ in range(2)]
    assert found[0] == found[1]
    with pytest.raises(ValueError, match=r"expected a geometry among cosine, euclidean, got 'x'"):
        unlabelled.clusters(x, x, y, "x")


def test_one_label_each_is_one_neighbour_a_class(monkeypatch):
    (train, train_y), test = blobs(80, seed=1), blobs(60, seed=2)
    seen = []

    def watched(x, y, *rest):
        seen.append(sorted(y))
        return probe.nearest_neighbour(x, y, *rest)

    monkeypatch.setattr(unlabelled, "nearest_neighbour", watched)
    score = unlabelled.one_label_each(train, train_y, *test, "cosine")
    assert score == probe.Score(1.0, 0.0, 20)
    assert seen == [[0, 2, 5, 7]] * 20
