"""Disturbances do what they say, to whom they say."""

import dataclasses

import pytest
import torch

from mocaps.config import DisturbConfig
from mocaps.disturb import DISTURBANCES, view, views

CONFIG = DisturbConfig()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("d", [2, 3])
def test_rotate_keeps_distances_and_stays_within_its_angle(d):
    x = torch.randn(500, 8, 3, d)
    y = DISTURBANCES["rotate"](x, generator(), CONFIG)
    torch.testing.assert_close(y.norm(dim=-1), x.norm(dim=-1))
    cos = (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1))
    least = cos.clamp(-1, 1).arccos().rad2deg().amax((1, 2))
    assert 27 < least.max() < 30.01
    assert least.min() < 3


def test_rotate_in_space_meets_every_axis():
    axes = torch.eye(3)[None].expand(300, 3, 3)
    y = DISTURBANCES["rotate"](axes, generator(), CONFIG)
    still = (y - axes).norm(dim=-1) < 1e-6
    assert (still.sum(1) == 1).all()
    assert still.sum(0).min() > 70


def test_smooth_averages_three_steps():
    x = torch.tensor([0.0, 3.0, 0.0, 6.0])[None, :, None]
    y = DISTURBANCES["smooth"](x, generator(), CONFIG)
    assert y.flatten().tolist() == [1, 1, 3, 4]


@pytest.mark.parametrize(("name", "share"), [("jitter", 0.1), ("mask", 0.2)])
def test_jitter_and_mask_hit_whole_points(name, share):
    x = torch.ones(400, 6, 20, 3)
    hit = DISTURBANCES[name](x, generator(), CONFIG) != x
    points = hit.any(-1).any(1)
    assert points.float().mean() == pytest.approx(share, abs=0.02)
    assert torch.equal(hit.all(-1).all(1), points)


def test_each_sample_meets_one_disturbance_of_its_own():
    x = torch.randn(1000, 8, 2)
    seen = view(x, CONFIG, generator(), 64)
    smoothed = DISTURBANCES["smooth"](x, generator(), CONFIG)
    met_smooth = (seen == smoothed).all(-1).all(-1)
    turned = ((seen.norm(dim=-1) - x.norm(dim=-1)).abs() < 1e-5).all(-1)
    assert torch.equal(met_smooth, ~turned)
    assert 0.4 < met_smooth.float().mean() < 0.6


def test_modulo_gives_sample_i_the_function_i_mod_k():
    config = dataclasses.replace(CONFIG, draw="modulo")
    x = torch.randn(64 * 40, 8, 2)
    turned = (view(x, config, generator(), 64).norm(dim=-1) - x.norm(dim=-1)).abs().amax(-1) < 1e-5
    batches = turned.view(40, 32, 2)
    assert torch.equal(batches.all(1), batches.any(1))
    kinds = {tuple(pair) for pair in batches[:, 0].tolist()}
    assert kinds == {(True, True), (True, False), (False, True), (False, False)}


def test_views_are_two_of_every_batch_and_depend_on_the_generator_alone():
    x = torch.randn(3 * 16, 8, 2)
    a = views(x, CONFIG, generator(5), 16)
    assert a.shape == (3, 32, 8, 2)
    assert torch.equal(a, views(x, CONFIG, generator(5), 16))
    assert not torch.equal(a[:, :16], a[:, 16:])
    near = (a[:, :16] - x.view(3, 16, 8, 2)).norm() < (
        a[:, :16] - x.flip(0).view(3, 16, 8, 2)
    ).norm()
    assert near


OURS = ["stretch", "reverse", "start", "warp", "partial", "noise", "outliers", "missing", "gap"]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("shape", [(40, 32, 2), (40, 16, 3), (40, 32, 4, 2), (40, 32, 2, 3, 3)])
def test_ours_take_points_and_bodies_and_repeat_themselves(name, shape):
    x = torch.randn(shape, generator=generator(1)).cumsum(1)
    before = x.clone()
    y = DISTURBANCES[name](x, generator(), CONFIG)
    assert y.shape == x.shape
    assert y.isfinite().all()
    assert torch.equal(x, before)
    assert torch.equal(y, DISTURBANCES[name](x, generator(), CONFIG))
    if name != "start":  # a walk does not end where it began
        assert not torch.equal(y, x)


def test_stretch_keeps_area_and_stays_within_its_factor():
    x = torch.eye(2)[None].repeat(500, 1, 1)
    y = DISTURBANCES["stretch"](x, generator(), CONFIG)
    torch.testing.assert_close(torch.linalg.det(y), torch.ones(500))
    longest = torch.linalg.matrix_norm(y, 2)
    assert longest.min() >= 1
    assert 1.35 < longest.max() <= CONFIG.max_stretch + 1e-5


def test_reverse_turns_half_of_them_round():
    x = torch.arange(8.0)[None, :, None].expand(400, -1, 2)
    first = DISTURBANCES["reverse"](x, generator(), CONFIG)[:, 0, 0]
    assert set(first.tolist()) == {0.0, 7.0}
    assert 0.4 < (first == 7).float().mean() < 0.6


def test_start_moves_along_closed_curves_only():
    t = torch.linspace(0, 2 * torch.pi, 33)
    circle = torch.stack([t.cos(), t.sin()], -1).expand(300, -1, -1)
    line = torch.stack([t, t], -1).expand(300, -1, -1)
    seen = DISTURBANCES["start"](circle, generator(), CONFIG)
    torch.testing.assert_close(seen.norm(dim=-1), torch.ones(300, 33))
    torch.testing.assert_close(seen[:, 0], seen[:, -1])
    step = circle.diff(dim=1).norm(dim=-1)
    torch.testing.assert_close(seen.diff(dim=1).norm(dim=-1), step)
    assert len(seen[:, 0].unique(dim=0)) > 20
    assert torch.equal(DISTURBANCES["start"](line, generator(), CONFIG), line)


def test_trim_cuts_the_ends_of_open_courses_only():
    line = torch.linspace(0, 1, 32)[None, :, None] * torch.tensor([3.0, 1.0])
    circle = torch.linspace(0, 2 * torch.pi, 32)
    circle = torch.stack([circle.cos(), circle.sin()], -1)[None]
    x = torch.cat([line.expand(200, 32, 2), circle.expand(200, 32, 2)])
    y = DISTURBANCES["trim"](x, generator(), CONFIG)
    assert torch.equal(y[200:], x[200:])
    first, last = y[:200, 0, 1], y[:200, -1, 1]
    left = last - first
    assert first.min() >= 0
    assert last.max() <= 1 + 1e-6
    assert 1 - CONFIG.max_trim <= left.min() < 1 - 0.9 * CONFIG.max_trim
    assert (first > 0).all()
    assert (last < 1).float().mean() > 0.99
    torch.testing.assert_close(y[:200].diff(dim=1)[..., 1], (left / 31)[:, None].expand(200, 31))


@pytest.mark.parametrize("name", ["warp", "partial", "gap"])
def test_what_happens_in_time_happens_to_all_points_alike(name):
    x = torch.randn(30, 32, 1, 2, generator=generator(1)).cumsum(1)
    both = torch.cat([x, x], 2)
    y = DISTURBANCES[name](both, generator(), CONFIG)
    torch.testing.assert_close(y[:, :, 0], y[:, :, 1])


def test_noise_counts_in_the_motions_size():
    x = torch.randn(300, 32, 2, generator=generator(1)).cumsum(1)
    small = DISTURBANCES["noise"](0.01 * x, generator(), CONFIG)
    large = DISTURBANCES["noise"](x, generator(), CONFIG)
    torch.testing.assert_close(small, 0.01 * large)
    size = (x - x.mean(1, keepdim=True)).square().sum(-1).mean(1).sqrt()
    deviation = (large - x).square().mean((1, 2)).sqrt() / size
    assert deviation.max() < 1.5 * CONFIG.max_noise
    assert deviation.mean() == pytest.approx(CONFIG.max_noise / 2, rel=0.15)


def test_in_turn_all_meet_the_functions_and_a_share_the_others():
    x = torch.randn(2000, 32, 2, generator=generator(1)).cumsum(1)
    config = dataclasses.replace(
        CONFIG, draw="in turn", functions=("reverse",), sometimes=("noise",), share=0.25
    )
    y = view(x, config, generator(), 64)
    noisy = ~((y == x) | (y == x.flip(1))).all(-1).all(-1)
    assert 0.2 < noisy.float().mean() < 0.3
    without = view(x, dataclasses.replace(config, share=0.0), generator(), 64)
    assert ((without == x) | (without == x.flip(1))).all()


@pytest.mark.parametrize("spoiled", ["both views", "second view"])
def test_a_spared_view_meets_nothing_that_spoils(spoiled):
    config = dataclasses.replace(
        CONFIG,
        draw="in turn",
        functions=("reverse",),
        sometimes=("noise",),
        share=1.0,
        spoiled=spoiled,
    )
    x = torch.randn(64, 8, 2)
    first, second = views(x, config, generator(), 32).view(2, 2, 32, 8, 2).transpose(0, 1)
    x = x.view(2, 32, 8, 2)
    whole = [((seen == x) | (seen == x.flip(2))).flatten(2).all(-1) for seen in (first, second)]
    assert whole[0].all() if spoiled == "second view" else not whole[0].any()
    assert not whole[1].any()
