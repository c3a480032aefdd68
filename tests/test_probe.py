import numpy as np
import pytest
import torch

from mocaps import probe
from mocaps.data.trajectory20 import Trajectory20


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def blobs(n, seed=0, classes=4, features=5, noise=0.3):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(classes, features))
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return centres[y] + noise * rng.normal(size=(n, features)), y


def test_the_online_probe_owns_the_detach():
    nu = torch.randn(8, 5, requires_grad=True)
    online = probe.OnlineProbe(5, 3)
    online(nu).square().sum().backward()
    assert nu.grad is None
    assert online.weight.grad is not None


@pytest.mark.parametrize("budget", [4, 10, 40, 99])
def test_subsets_are_balanced_and_drawn_from_the_seed(budget):
    y = np.repeat([0, 1, 2, 5], [50, 50, 50, 50])
    drawn = probe.balanced_subset(y, budget, seed=3)
    counts = np.bincount(y[drawn], minlength=6)[[0, 1, 2, 5]]
    assert len(drawn) == len(set(drawn)) == budget
    assert counts.max() - counts.min() <= 1
    assert np.array_equal(drawn, probe.balanced_subset(y, budget, seed=3))
    assert not np.array_equal(drawn, probe.balanced_subset(y, budget, seed=4))


def test_a_class_that_runs_out_is_filled_up_by_the_others():
    y = np.array([0] * 3 + [1] * 50)
    assert np.bincount(y[probe.balanced_subset(y, 20, seed=0)]).tolist() == [3, 17]


def test_budgets_above_the_labels_are_left_out_and_all_labels_are_one_draw():
    drawn = probe.subsets(np.arange(40) % 4, budgets=(8, 40, 41), seeds=3)
    assert {budget: len(sets) for budget, sets in drawn.items()} == {8: 3, 40: 1}


def test_probes_solve_what_is_separable_and_guess_what_is_noise():
    train, test = blobs(200), blobs(400, seed=1)
    noise, noise_y = np.random.default_rng(2).normal(size=(400, 5)), np.arange(400) % 4
    assert probe.logistic_regression(*train, *test) > 0.9
    assert probe.logistic_regression(*train, noise, noise_y) < 0.4
    for distance in probe.DISTANCES:
        assert probe.nearest_neighbour(*train, *test, distance) > 0.85


def test_nearest_neighbour_is_the_plain_search():
    (train_x, train_y), (test_x, test_y) = blobs(60, noise=2), blobs(50, seed=1, noise=2)
    a, b = probe.standardised(train_x, test_x)
    distance = ((b[:, None] - a[None]) ** 2).sum(-1)
    expected = np.mean(train_y[distance.argmin(1)] == test_y)
    assert probe.nearest_neighbour(train_x, train_y, test_x, test_y, "euclidean") == expected
    unit = [f / np.linalg.norm(f, axis=1, keepdims=True) for f in (train_x, test_x)]
    expected = np.mean(train_y[(unit[1] @ unit[0].T).argmax(1)] == test_y)
    assert probe.nearest_neighbour(train_x, train_y, test_x, test_y, "cosine") == expected
    with pytest.raises(ValueError, match=r"expected a distance among cosine, euclidean, got 'x'"):
        probe.nearest_neighbour(train_x, train_y, test_x, test_y, "x")


def test_standardising_uses_the_training_features_alone_and_survives_constants():
    train = np.array([[1.0, 5.0], [3.0, 5.0]])
    a, b = probe.standardised(train, np.array([[5.0, 7.0]]))
    assert a.tolist() == [[-1, 0], [1, 0]]
    assert b.tolist() == [[3, 0]]


def test_one_class_and_a_class_with_one_member_can_be_fitted():
    x, y = blobs(41, classes=4)
    assert probe.logistic_regression(x, np.zeros(41, int), x, np.zeros(41, int)) == 1
    y = np.where(np.arange(41) == 40, 9, y)
    assert probe.logistic_regression(x, y, x, y) > 0.8


def test_the_standard_error_is_over_draws():
    score = probe.Score.of([0.5, 0.7])
    assert score.mean == pytest.approx(0.6)
    assert score.standard_error == pytest.approx(0.1)
    assert probe.Score.of([0.5]) == probe.Score(0.5, None, 1)


def turned(x, angle, size, shift):
    c, s = np.cos(angle), np.sin(angle)
    return size * x @ np.array([[c, s], [-s, c]]) + shift


def test_fourier_magnitudes_do_not_feel_place_size_direction_or_start():
    x = Trajectory20(seed=1)[:50][0].double().numpy()
    features = probe.fourier_magnitudes(x)
    assert features.shape == (50, 30)
    moved = probe.fourier_magnitudes(turned(x, 1.1, 0.3, [0.2, -0.7]))
    np.testing.assert_allclose(features, moved, atol=1e-9)
    np.testing.assert_allclose(features, probe.fourier_magnitudes(np.roll(x, 5, axis=1)), atol=1e-9)


def test_fourier_magnitudes_in_space_and_of_several_points():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 16, 4, 3))
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    features = probe.fourier_magnitudes(x)
    np.testing.assert_allclose(
        features, probe.fourier_magnitudes(2 * x @ rotation + 1.0), atol=1e-9
    )
    assert features.shape[0] == 6


def test_the_floors_of_facts():
    """facts.md: Fourier magnitudes 95 / 99.5%, raw coordinates 13.5 / 16.8%, raw 1-NN 18 / 37%."""
    (x, y), (test_x, test_y) = (
        tuple(t.numpy() for t in Trajectory20(seed=seed)[:n]) for seed, n in ((1, 2000), (2, 2000))
    )
    few = probe.balanced_subset(y, 200, seed=0)
    for kind, accuracies in {
        probe.fourier_magnitudes: (0.93, 0.995),
        probe.raw_coordinates: (0.16, 0.18),
    }.items():
        train, test = kind(x), kind(test_x)
        found = (
            probe.logistic_regression(train[few], y[few], test, test_y),
            probe.logistic_regression(train, y, test, test_y),
        )
        assert found == pytest.approx(accuracies, abs=0.06)
    raw = probe.raw_coordinates(x), y, probe.raw_coordinates(test_x), test_y
    assert probe.nearest_neighbour(*raw, "euclidean") == pytest.approx(0.37, abs=0.03)
