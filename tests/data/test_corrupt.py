"""T20-C: each corruption does what its amount says, and nothing else."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mocaps.data.corrupt import (
    CORRUPTIONS,
    SEVERITIES,
    corrupt,
    fill,
    missing,
    noise,
    outliers,
    partial,
    resample,
    size,
    stretch,
    warp,
)
from mocaps.data.trajectory20 import BLOCK, Trajectory20, trajectory20

corruptions = pytest.mark.parametrize("corruption", CORRUPTIONS)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return Trajectory20(seed=0)[:1000][0]


def steps(n: int, length: int = 32) -> torch.Tensor:
    """Trajectories along the x axis whose first coordinate is the step's number."""
    time = torch.arange(length, dtype=torch.float32)
    return torch.stack([time, torch.zeros(length)], dim=1).repeat(n, 1, 1)


# What every corruption keeps


@corruptions
@pytest.mark.parametrize("shape", [(5, 32, 2), (3, 64, 3), (1, 10, 1), (0, 32, 2)])
def test_shape_and_type_stay(corruption, shape):
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(shape, dtype=dtype)
        for severity in (1, 5):
            seen = corrupt(x, corruption, severity, seeded())
            assert seen.shape == x.shape
            assert seen.dtype == dtype
            assert seen.isfinite().all()


@corruptions
def test_moves_with_the_trajectory(corruption, x):
    moved = corrupt(3 * x.double() + 7, corruption, 3, seeded())
    torch.testing.assert_close(moved, 3 * corrupt(x.double(), corruption, 3, seeded()) + 7)


@corruptions
def test_input_stays_as_it_was(corruption, x):
    before = x.clone()
    corrupt(x, corruption, 5, seeded())
    assert torch.equal(x, before)


@corruptions
def test_higher_severity_is_further_from_clean(corruption, x):
    away = [
        (corrupt(x, corruption, severity, seeded()) - x).square().mean().item()
        for severity in range(1, 6)
    ]
    assert away == sorted(away)
    assert len(set(away)) == 5
    assert (away[0] == 0) == (corruption == "all")  # each of its parts one severity lower


@corruptions
def test_each_trajectory_has_its_own_draws(corruption, x):
    same = x[:1].expand(50, -1, -1)
    seen = corrupt(same, corruption, 4, seeded())
    assert len(seen.flatten(1).unique(dim=0)) > 10


# Each amount


def test_noise_has_the_deviation_asked_for(x):
    relative = (noise(x, 0.15, seeded()) - x) / size(x)[:, :, None]
    assert relative.std().item() == pytest.approx(0.15, rel=0.02)
    assert relative.mean().item() == pytest.approx(0, abs=0.002)


def test_size_is_the_root_mean_square_distance_from_the_centroid():
    square = torch.tensor([[[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]]]) + 5
    assert size(square).item() == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("severity", range(1, 6))
def test_missing_points_are_as_many_as_asked_for(severity):
    x = torch.randn(200, 32, 2)
    share = SEVERITIES["missing"][1][severity - 1]
    changed = (missing(x, share, seeded()) != x).any(dim=2)
    assert (changed.sum(dim=1) == round(share * 32)).all()
    assert changed.float().mean(dim=0).std() < 0.1  # anywhere


@pytest.mark.parametrize(("severity", "gap"), [(1, 4), (2, 6), (3, 8), (4, 12), (5, 16)])
def test_missing_stretch_is_as_long_as_asked_for(severity, gap):
    x = torch.randn(500, 32, 2)
    changed = (corrupt(x, "stretch", severity, seeded()) != x).any(dim=2)
    assert (changed.sum(dim=1) == gap).all()
    first = changed.int().argmax(dim=1)
    for row, start in zip(changed, first.tolist(), strict=True):
        assert row[start : start + gap].all()
    assert first.aminmax() == (0, 32 - gap)


def test_missing_stretch_scales_with_the_length():
    x = torch.randn(50, 128, 2)
    assert ((stretch(x, 8 / 32, seeded()) != x).any(dim=2).sum(dim=1) == 32).all()


def test_warp_keeps_path_and_ends_and_bends_time():
    x = steps(3000)
    time = warp(x, 0.5, seeded())[..., 0]
    torch.testing.assert_close(time[:, [0, -1]], x[:, [0, -1], 0])
    log_speed = time.diff(dim=1).log()
    # The end is pinned, which takes the mean speed out: compare within a trajectory's middle.
    neighbours = (log_speed[:, 1:] - log_speed[:, :-1]).std()
    distant = (log_speed[:, 20:] - log_speed[:, :-20]).std()
    assert distant.item() == pytest.approx(0.5 * math.sqrt(2), rel=0.05)
    assert neighbours.item() == pytest.approx(0.5 * math.sqrt(2 / 9), rel=0.05)


@pytest.mark.parametrize("share", SEVERITIES["partial"][1])
def test_partial_view_shows_the_share_asked_for(share):
    time = partial(steps(1000), share, seeded())[..., 0]
    torch.testing.assert_close(time[:, -1] - time[:, 0], torch.full((1000,), 31 * share))
    torch.testing.assert_close(time.diff(dim=1), torch.full((1000, 31), share), atol=1e-4, rtol=0)
    assert time[:, 0].min() < 0.1
    assert time[:, -1].max() > 30.9


@pytest.mark.parametrize("count", range(1, 6))
def test_outliers_are_thrown_by_one_size(count, x):
    thrown = (outliers(x, count, seeded()) - x).norm(dim=2)
    hit = thrown > 1e-6
    assert (hit.sum(dim=1) == count).all()
    torch.testing.assert_close(thrown[hit], size(x).expand_as(hit)[hit])


def test_all_is_warp_noise_and_stretch_one_severity_lower(x):
    draws = seeded()
    expected = stretch(noise(warp(x, 0.5, draws), 0.1, draws), 8 / 32, draws)
    assert torch.equal(corrupt(x, "all", 4, seeded()), expected)


@pytest.mark.parametrize("meet", [noise, missing, stretch, warp, partial, outliers])
def test_amount_may_be_one_for_each_trajectory(meet, x):
    amounts = torch.tensor([0.25, 0.5]).repeat(500)
    if meet is outliers:
        amounts = amounts * 4
    mixed = meet(x, amounts, seeded())
    for first in (0, 1):
        alone = meet(x, amounts[first].item(), seeded())
        torch.testing.assert_close(mixed[first::2], alone[first::2])


# Filling in and resampling


def naive_fill(points: list[float], seen: list[bool]) -> list[float]:
    known = [i for i, is_seen in enumerate(seen) if is_seen]
    filled = []
    for i in range(len(points)):
        before = max((k for k in known if k <= i), default=known[0])
        after = min((k for k in known if k >= i), default=known[-1])
        if before >= after:
            filled.append(points[before])
        else:
            share = (i - before) / (after - before)
            filled.append((1 - share) * points[before] + share * points[after])
    return filled


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(-9, 9), st.booleans()), min_size=2, max_size=20))
def test_fill_agrees_with_naive_loop(steps):
    points, seen = map(list, zip(*steps, strict=True))
    seen[len(seen) // 2] = True
    filled = fill(torch.tensor(points, dtype=torch.float64)[None, :, None], torch.tensor([seen]))
    expected = torch.tensor(naive_fill(points, seen), dtype=torch.float64)
    torch.testing.assert_close(filled[0, :, 0], expected)


def test_fill_holds_the_nearest_seen_point_at_the_ends():
    x = steps(1, 6)
    filled = fill(x, torch.tensor([[False, True, False, False, True, False]]))
    assert filled[0, :, 0].tolist() == [1, 1, 2, 3, 4, 4]


def test_fill_wants_a_seen_point():
    with pytest.raises(ValueError, match="expected a seen point in every trajectory"):
        fill(steps(2, 4), torch.tensor([[True] * 4, [False] * 4]))


def test_resample_at_the_steps_is_the_trajectory(x):
    assert torch.equal(resample(x, torch.arange(32.0).expand(len(x), -1)), x)


# In the stream


@corruptions
def test_corrupted_stream_depends_on_seed_index_corruption_and_severity_alone(corruption):
    def stream(**more):
        return Trajectory20(seed=3, corruption=corruption, **more)

    whole, labels = stream(severity=3)[: BLOCK + 50]
    clean, clean_labels = Trajectory20(seed=3)[: BLOCK + 50]
    assert torch.equal(labels, clean_labels)
    assert not torch.equal(whole, clean)
    assert torch.equal(
        stream(severity=3)[BLOCK - 10 : BLOCK + 10][0], whole[BLOCK - 10 : BLOCK + 10]
    )
    assert not torch.equal(stream(severity=4)[:50][0], whole[:50])
    # The blocks' draws are their own.
    assert not torch.equal(whole[:50] - clean[:50], (whole - clean)[BLOCK : BLOCK + 50])


def test_splits_come_corrupted():
    x, y = trajectory20("test", corruption="noise", severity=2)
    clean, labels = trajectory20("test")
    assert torch.equal(y, labels)
    relative = (x - clean) / size(clean)[:, :, None]
    assert relative.std().item() == pytest.approx(0.05, rel=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"corruption": "nose", "severity": 1}, "expected a corruption out of noise, .*got 'nose'"),
        ({"corruption": "noise"}, "expected a severity from 1 to 5, got 0"),
        ({"corruption": "noise", "severity": 6}, "expected a severity from 1 to 5, got 6"),
        ({"severity": 2}, "expected a corruption along with severity 2, got none"),
    ],
)
def test_misuse_is_a_clear_error(wrong, message):
    with pytest.raises(ValueError, match=message):
        Trajectory20(**wrong)
