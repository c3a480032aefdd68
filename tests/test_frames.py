"""Frames move with the motion, are defined where a direction is, and keep still under noise."""

import dataclasses
import math

import pytest
import torch

from mocaps import geometry
from mocaps.config import ModelConfig, preset
from mocaps.data.trajectory20 import trajectory20
from mocaps.errors import InputError
from mocaps.frames import Frames, num_place_features
from mocaps.losses import objective
from mocaps.model import MCAE, MultiPointMCAE

SHAPES = [(2, 1), (3, 1), (2, 5), (3, 5)]


def walks(d, K, n=6, L=32, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(n, L, K, d, generator=draws, dtype=torch.float64).cumsum(1)


def similarity(d, seed=0, scale=3.7, mirror=False):
    """A random one, far away."""
    draws = torch.Generator().manual_seed(seed)
    Q = torch.linalg.qr(torch.randn(d, d, generator=draws, dtype=torch.float64))[0]
    if (torch.linalg.det(Q) < 0) != mirror:
        Q[:, -1] *= -1
    shift = 100 * torch.randn(d, 1, generator=draws, dtype=torch.float64)
    return torch.cat([scale * Q, shift], 1)


def moved(T, x):
    return geometry.apply(T, x.flatten(0, -2)).view_as(x)


@pytest.mark.parametrize(("d", "K"), SHAPES)
def test_frames_move_with_the_motion(d, K):
    x, T = walks(d, K), similarity(d)
    before, after = Frames.of(x, 8), Frames.of(moved(T, x), 8)
    assert before.defined.all()
    torch.testing.assert_close(after.local, before.local, rtol=0, atol=1e-11)
    torch.testing.assert_close(after.place, before.place, rtol=0, atol=1e-11)
    assert before.place.shape[-1] == num_place_features(d)
    for name in ("snippets", "whole"):
        expected = geometry.compose(T, getattr(before, name))
        torch.testing.assert_close(getattr(after, name), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("d", "K"), SHAPES)
def test_frames_put_back_give_the_motion(d, K):
    x = walks(d, K)
    frames = Frames.of(x, 8)
    back = geometry.apply(frames.snippets, frames.local.unflatten(1, (4, 8))).flatten(1, 2)
    torch.testing.assert_close(back.view(len(x), K, 32, d).transpose(1, 2), x)
    own, seen = frames.own()
    torch.testing.assert_close(
        geometry.apply(frames.whole, own).view(len(x), K, 32, d).transpose(1, 2), x
    )
    back = geometry.apply(seen.snippets, seen.local.unflatten(1, (4, 8))).flatten(1, 2)
    torch.testing.assert_close(back, own)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("reflections", [True, False])
def test_a_mirror_image_is_the_same_only_on_request(d, reflections):
    x = walks(d, 1)
    image = moved(similarity(d, mirror=True), x)
    a, b = (Frames.of(part, 8, reflections=reflections) for part in (x, image))
    assert torch.allclose(a.local, b.local, atol=1e-10) == reflections


def line(d):
    return torch.linspace(-1, 1, 32, dtype=torch.float64)[:, None] * torch.ones(d) + 5


def circle():
    t = torch.linspace(0, 2 * math.pi, 32, dtype=torch.float64)
    return torch.stack([t.cos(), t.sin()], -1)


@pytest.mark.parametrize(
    ("points", "defined"),
    [
        (torch.full((32, 2), 100.3, dtype=torch.float64), False),  # at rest
        (torch.zeros(32, 3, dtype=torch.float64), False),
        (line(2), True),
        (torch.cat([line(2)[::2], line(2).flip(0)[::2]]), True),  # out and back
        (line(3), False),  # nothing tells how it is rolled
        (circle(), True),
    ],
)
def test_where_a_direction_is_undefined_it_says_so(points, defined):
    for dtype in (torch.float32, torch.float64):
        frames = Frames.of(points[None, :, None].to(dtype), 8)
        assert frames.defined.tolist() == [defined]
        assert all(getattr(frames, f.name).isfinite().all() for f in dataclasses.fields(frames))


def angle_between(a, b):
    linear = a.whole[:, :, :-1].mT @ b.whole[:, :, :-1]
    return geometry.angle(torch.cat([linear, torch.zeros_like(linear[..., :1])], -1)).abs()


def test_frames_keep_still_under_noise_and_without_the_first_point():
    x = trajectory20("validation")[0][:2000].double()
    size = (x - x.mean(1, keepdim=True)).square().sum(-1).mean(1).sqrt()[:, None, None]
    frames = Frames.of(x.unsqueeze(2), 8)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    noisy = Frames.of((x + 0.02 * size * noise).unsqueeze(2), 8)
    late = x.clone()
    late[:, 0] = late[:, 1]  # what a tracker says that found the point one frame late
    late = Frames.of(late.unsqueeze(2), 8)
    for other in (noisy, late):
        off = angle_between(frames, other).rad2deg()
        assert off.quantile(0.95) < 10
    first = torch.atan2(*(x[:, 0] - x.mean(1)).T), torch.atan2(*(x[:, 1] - x.mean(1)).T)
    turned = (first[0] - first[1]).abs().rad2deg()
    turned = torch.minimum(turned, 360 - turned)
    # The direction of the first point alone, which others have used, is far less still.
    assert turned.median() > 3 * angle_between(frames, late).rad2deg().median()


def model_of(d, K, **settings):
    torch.manual_seed(0)
    config = dataclasses.replace(
        preset("equivariant").model,
        dimension=d,
        num_points=K,
        num_snippet_capsules=3,
        num_segment_capsules=5,
        **settings,
    )
    model = (MCAE(config) if K == 1 else MultiPointMCAE(config)).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p += 0.2 * torch.randn_like(p)
    return model


@pytest.mark.parametrize(("d", "K"), SHAPES)
def test_nu_stays_and_the_rest_moves_with_the_input(d, K):
    model, x, T = model_of(d, K), walks(d, K), similarity(d, scale=0.2)
    there = moved(T, x)
    if K == 1:
        x, there = x[:, :, 0], there[:, :, 0]
    with torch.no_grad():
        a, b = model(x), model(there)
        torch.testing.assert_close(model.embed(there), model.embed(x), rtol=0, atol=1e-10)
    assert a.defined.all()
    torch.testing.assert_close(b.segments.nu, a.segments.nu, rtol=0, atol=1e-10)
    torch.testing.assert_close(b.snippets.mu, a.snippets.mu, rtol=0, atol=1e-10)
    for found, expected in (
        (b.segments.B, a.segments.B),
        (b.snippets.A, a.snippets.A),
        (b.snippets_from_segments.A, a.snippets_from_segments.A),
    ):
        torch.testing.assert_close(found, geometry.compose(T, expected), rtol=0, atol=1e-9)
    for name in ("reconstruction", "reconstruction_from_segments"):
        expected = geometry.apply(T, getattr(a, name))
        torch.testing.assert_close(getattr(b, name), expected, rtol=0, atol=1e-9)


def test_the_model_is_the_plain_one_in_own_coordinates():
    """Snippets in their frames go through the plain encoder and decoder; frames put them back."""
    model, x = model_of(2, 1), walks(2, 1)[:, :, 0]
    frames = model.frames(x)
    plain = MCAE(dataclasses.replace(model.config, frame="none")).double().eval()
    plain.snippet.load_state_dict(model.snippet.state_dict())
    with torch.no_grad():
        own = plain(frames.local)
        output = model(x)
    torch.testing.assert_close(output.snippets.mu, own.snippets.mu)
    back = geometry.apply(frames.snippets, own.reconstruction.unflatten(1, (4, 8)))
    torch.testing.assert_close(output.reconstruction, back.flatten(1, 2))
    torch.testing.assert_close(
        output.snippets.A, geometry.compose(frames.snippets[:, :, None], own.snippets.A)
    )


@pytest.mark.parametrize("K", [1, 3])
def test_losses_do_not_know_where_the_motion_is(K):
    model, T = model_of(2, K).train(), similarity(2, scale=40.0)
    x = walks(2, K)
    views = [x, moved(T, x)]
    weights = preset("equivariant").loss
    found = [objective(model, v[:, :, 0] if K == 1 else v, weights)[0] for v in views]
    for term in dataclasses.fields(found[0]):
        a, b = (getattr(terms, term.name) for terms in found)
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"normalised_mixtures": False}, "normalised_mixtures: expected true in a frame"),
        ({"transformation": "squashed"}, "transformation: expected 'similarity' in a frame"),
        ({"planes": True}, "planes: expected false in a frame"),
        ({"frame": "none", "reflections": True}, "reflections: expected false without a frame"),
    ],
)
def test_what_would_break_the_promise_is_refused(settings, words):
    with pytest.raises(InputError, match=words):
        dataclasses.replace(ModelConfig(frame="snippets"), **settings)
