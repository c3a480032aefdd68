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
