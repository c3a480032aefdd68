"""Trajectory20 against loops from its definition, its promises, and the authors' samples."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from data import naive_trajectory20 as naive
from hypothesis import given, settings
from hypothesis import strategies as st

from mocaps.data.curves import CURVES, STEPS, curve_table
from mocaps.data.trajectory20 import (
    BLOCK,
    CLOSED,
    FRAME,
    MARGIN,
    PATTERNS,
    SPLIT_SIZE,
    PlaceDraws,
    ShapeDraws,
    Trajectory20,
    _place,
    _shapes,
    generator,
    make_block,
    trajectory20,
)

PER_PATTERN = BLOCK // len(PATTERNS)
REFERENCE = Path("/work/shared/data/authors_t20_reference.npz")
patterns = pytest.mark.parametrize("label", range(20), ids=PATTERNS)


# The curves


@patterns
def test_curve_is_the_formula(label):
    ours = curve_table()[label]
    path = np.array(naive.curve_points(PATTERNS[label]))
    # The table puts a polygon's corners on points, which moves points along the sides.
    assert np.abs(ours - path).max() < (0.5 if PATTERNS[label] in naive.POLYGONS else 1e-2)


@patterns
def test_curve_has_no_jumps_and_is_closed_if_it_says_so(label):
    points = curve_table()[label]
    assert points.shape == (STEPS + 1, 2)
    assert np.linalg.norm(np.diff(points, axis=0), axis=1).max() < 2  # of 50 across
    gap = np.linalg.norm(points[-1] - points[0])
    assert gap < 1e-9 if CLOSED[label] else gap > 10


def test_every_curve_fills_a_box_of_about_fifty():
    size = np.ptp(curve_table(), axis=1)
    assert (size.max(axis=1) > 45).all()
    assert size.max() < 55
    assert sum(CLOSED) == 9
    assert tuple(sorted(CLOSED, reverse=True)) == CLOSED  # the closed ones come first


# The sampler against the loops


@pytest.mark.parametrize("length", [32, 50])
def test_agrees_with_naive_loops(length):
    seed, block = 7, 3
    x, y = make_block(seed, block, length)
    rng = generator(seed, block)
    order = rng.permutation(BLOCK)
    shapes = ShapeDraws.draw(rng, BLOCK)
    attempts = [PlaceDraws.draw(rng, BLOCK) for _ in range(20)]
    for row in range(0, BLOCK, 23):
        label = row // PER_PATTERN
        shape = naive.shape(
            [(px, py) for px, py in curve_table()[label]],
            CURVES[label].closed,
            shapes.stretch[row].item(),
            bool(shapes.reverse[row]),
            int(shapes.start[row]),
            tuple(shapes.cut[row].tolist()),
            length,
        )
        places = [(tuple(a.position[row].tolist()), *_floats(a, row)) for a in attempts]
        expected = torch.tensor(naive.place(shape, places), dtype=torch.float32)
        (where,) = np.flatnonzero(order == row)
        assert y[where] == label
        torch.testing.assert_close(x[where], expected, atol=2e-4, rtol=0)


def _floats(draws: PlaceDraws, row: int) -> tuple[float, float]:
    return draws.angle[row].item(), draws.factor[row].item()


# What every sample keeps


@pytest.mark.parametrize("length", [2, 32, 64, 128, 256])
def test_samples_are_float32_in_the_frame(length):
    x, y = Trajectory20(length, seed=1)[: BLOCK // 2]
    assert x.shape == (BLOCK // 2, length, 2)
    assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
    assert x.abs().max() <= 1


def test_labels_are_balanced_in_every_block_and_shuffled():
    _, y = Trajectory20(seed=2)[: 2 * BLOCK]
    for part in y.split(BLOCK):
        assert (part.bincount(minlength=20) == PER_PATTERN).all()
        assert (part.diff() == 0).float().mean() < 0.1
    assert not torch.equal(*y.split(BLOCK))


def test_closed_curves_end_where_they_start_and_open_ones_do_not():
    x, y = Trajectory20(seed=3)[:BLOCK]
    gap = (x[:, -1] - x[:, 0]).norm(dim=1)
    closed = torch.tensor(CLOSED)[y]
    assert gap[closed].max() == 0
    assert gap[~closed].min() > 0.1


@patterns
def test_points_lie_at_equal_arc_length(label):
    draws = ShapeDraws.draw(np.random.default_rng(label), 20)
    curve = torch.from_numpy(curve_table()[label]).float()
    fine = _shapes(curve, CLOSED[label], draws, 31 * 200 + 1)
    coarse = _shapes(curve, CLOSED[label], draws, 32)
    torch.testing.assert_close(fine[:, ::200], coarse, atol=1e-2, rtol=0)
    lengths = fine.diff(dim=1).norm(dim=2).unflatten(1, (31, 200)).sum(dim=2)
    assert (lengths.amin(dim=1) / lengths.amax(dim=1)).min() > 0.97


def test_start_is_on_a_whole_number_position_anywhere_in_the_frame():
    x, _ = Trajectory20(seed=4)[:BLOCK]
    start = (x[:, 0] + 1) * FRAME / 2
    assert torch.equal(start, start.round())
    for side in (start.amin(dim=0), FRAME - start.amax(dim=0)):
        assert (side < 6).all()


# The places


def test_placing_turns_by_multiples_of_3_6_degrees_and_enlarges_up_to_the_frame():
    shape = torch.tensor([[0.0, 0.0], [30.0, 0.0], [30.0, 10.0], [5.0, -20.0]]).expand(4000, 4, 2)
    placed = (_place(shape, np.random.default_rng(0)) + 1) * FRAME / 2
    moved = torch.view_as_complex((placed - placed[:, :1])[:, 1].contiguous()) / 30
    factor, angle = moved.abs(), moved.angle().rad2deg() / 3.6
    assert (angle - angle.round()).abs().max() < 1e-3
    counts = (angle.round().long() % 100).bincount(minlength=100)
    assert counts.min() > 10  # of 40 on average
    assert factor.min() >= 1 - 1e-5
    assert factor.max() < 8
    # At a factor of MARGIN the shape is inside, whatever factor was drawn.
    reached = placed[:, :1] + (placed - placed[:, :1]) * (MARGIN / factor)[:, None, None]
    assert reached.min() > -1e-3
    assert reached.max() < FRAME + 1e-3


def test_small_shapes_turn_evenly_and_are_enlarged_evenly_up_to_eight():
    shape = torch.tensor([[0.0, 0.0], [0.1, 0.0]]).expand(20_000, 2, 2)
    placed = _place(shape, np.random.default_rng(0))
    moved = torch.view_as_complex((placed[:, 1] - placed[:, 0]).contiguous()) * FRAME / 2 / 0.1
    turns = (moved.angle().rad2deg() / 3.6).round().long() % 100
    assert turns.bincount(minlength=100).float().std() < 3 * 200**0.5
    inner = moved.abs()[(placed[:, 0].abs() < 0.9).all(dim=1)]
    assert inner.min() == pytest.approx(1, abs=0.01)
    assert inner.max() == pytest.approx(8, abs=0.01)
    assert inner.mean() == pytest.approx(4.5, abs=0.1)


def test_shape_draws_cover_their_ranges():
    draws = ShapeDraws.draw(np.random.default_rng(0), 20_000)
    logs = draws.stretch.log()
    assert logs.abs().max() <= np.log(1.4)
    assert (logs > 0).float().mean() == pytest.approx(0.5, abs=0.02)
    assert draws.reverse.float().mean() == pytest.approx(0.5, abs=0.02)
    assert draws.start.aminmax() == (0, STEPS - 1)
    assert draws.cut.aminmax() == (0, 32)  # 5% of 640


# A sample depends on (seed, index, length) alone


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 3 * BLOCK), st.integers(0, BLOCK + 100))
def test_any_slice_is_cut_from_one_stream(start, size):
    x, y = WHOLE
    part_x, part_y = STREAM[start : start + size]
    assert torch.equal(part_x, x[start : start + size])
    assert torch.equal(part_y, y[start : start + size])


STREAM = Trajectory20(seed=5)
WHOLE = Trajectory20(seed=5)[: 4 * BLOCK + 100]


@pytest.mark.parametrize("batch", [64, 100, 999])
def test_batch_size_changes_nothing(batch):
    stream, stop = Trajectory20(seed=5), 2 * BLOCK
    ends = [*range(0, stop, batch), stop]
    parts = [stream[a:b][0] for a, b in pairwise(ends)]
    assert torch.equal(torch.cat(parts), WHOLE[0][:stop])


def test_seeds_and_blocks_differ():
    first = make_block(0, 0, 32)[0]
    for other in (make_block(1, 0, 32)[0], make_block(0, 1, 32)[0], make_block(2**32, 0, 32)[0]):
        assert not torch.isclose(first, other).all(dim=(1, 2)).any()


def test_threads_and_default_type_change_nothing():
    threads, expected = torch.get_num_threads(), make_block(0, 0, 32)[0]
    try:
        torch.set_num_threads(threads % 2 + 1)
        torch.set_default_dtype(torch.float64)
        assert torch.equal(make_block(0, 0, 32)[0], expected)
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(torch.float32)


def test_far_samples_cost_no_more():
    x, _ = Trajectory20(seed=0)[10**12 : 10**12 + 3]
    assert x.shape == (3, 32, 2)


def test_caller_may_change_a_batch_without_changing_the_stream():
    stream = Trajectory20(seed=5)
    stream[:10][0].zero_()
    assert torch.equal(stream[:10][0], WHOLE[0][:10])


# The fixed sets


def test_splits_are_fixed_balanced_and_apart():
    sets = {split: trajectory20(split) for split in ("validation", "test", "labels")}
    for split, (x, y) in sets.items():
        assert x.shape == (SPLIT_SIZE, 32, 2)
        assert (y.bincount() == SPLIT_SIZE // 20).all()
        assert torch.equal(x, trajectory20(split)[0])
    rows = torch.cat([x.flatten(1) for x, _ in sets.values()])
    assert len(rows.unique(dim=0)) == 3 * SPLIT_SIZE


# What is wrong is said


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: trajectory20("train"), "expected a split out of validation, test, labels, got 't"),
        (lambda: Trajectory20(1), "expected a length of 2 points or more, got 1"),
        (lambda: Trajectory20(seed=-1), "expected a seed of 0 or more, got -1"),
        (lambda: Trajectory20()[0:10:2], "expected a slice without a step"),
        (lambda: Trajectory20()[5:], "expected a slice with 0 <= start <= stop"),
        (lambda: Trajectory20()[-5:5], "expected a slice with 0 <= start <= stop"),
        (lambda: Trajectory20()[7:5], "expected a slice with 0 <= start <= stop"),
    ],
)
def test_misuse_is_a_clear_error(call, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        call()


# The authors' samples


def _misfit(x: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """What is left of each x, relative to its size, by the best similarity of each candidate."""
    x, z = (torch.view_as_complex(p - p.mean(dim=1, keepdim=True)) for p in (x, candidates))
    x, z = (p / p.norm(dim=1, keepdim=True) for p in (x, z))
    return (1 - (x @ z.mH).abs().square()).clamp(min=0).sqrt()


@pytest.mark.skipif(not REFERENCE.exists(), reason=f"{REFERENCE} is not here")
def test_the_authors_samples_are_ours():
    with np.load(REFERENCE) as reference:
        x, y = torch.from_numpy(reference["x"]).float(), torch.from_numpy(reference["label"])
    draws = ShapeDraws.draw(np.random.default_rng(0), 8000)
    misfits = torch.stack(
        [
            _misfit(x, _shapes(torch.from_numpy(points).float(), closed, draws, 32)).amin(dim=1)
            for points, closed in zip(curve_table(), CLOSED, strict=True)
        ]
    )
    assert torch.equal(misfits.argmin(dim=0), y)
    # The authors take the nearest curve point, up to 1 of 50 away: no fit is exact.
    assert misfits.amin(dim=0).max() < 0.03
    start = (x[:, 0] + 1) * FRAME / 2
    assert torch.equal(start, start.round())
