"""Disturbances: what should not change the identity of a motion, and the two views made of them.

Each takes (n, L, *points, d) and a generator, and disturbs every sequence in its own way. The paper
has four; ours say what else should not matter. What they do in time they do to all points alike;
how much, every sequence draws between nothing and the configuration's most.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mocaps.config import DisturbConfig
from mocaps.data import corrupt


def rotate(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """A turn of at most max_angle either way about the origin; in space, about x, y or z (roll,
    pitch or yaw)."""
    n, d = len(x), x.shape[-1]
    limit = math.radians(config.max_angle)
    angle = (2 * torch.rand(n, generator=generator) - 1).to(x) * limit
    cos, sin = angle.cos(), angle.sin()
    R = torch.eye(d, dtype=x.dtype, device=x.device).repeat(n, 1, 1)
    axis = torch.randint(3, (n,), generator=generator).to(x.device) if d == 3 else 2
    rows = torch.arange(n, device=x.device)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R[rows, i, i], R[rows, j, j], R[rows, i, j], R[rows, j, i] = cos, cos, -sin, sin
    return (x.flatten(1, -2) @ R.mT).view_as(x)


def smooth(x: Tensor, *_: object) -> Tensor:
    """A moving average over three steps; the ends see themselves twice."""
    padded = torch.cat([x[:, :1], x, x[:, -1:]], 1)
    return (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3


def jitter(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """Gaussian noise of deviation 1 on all steps of the points that it hits."""
    hit = _points(x, generator) < config.jitter_probability
    noise = torch.randn(x.shape, generator=generator).to(x)
    return x + hit * noise


def mask(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """All steps of the points that it hits at the origin."""
    return x * (_points(x, generator) >= config.mask_probability)


def stretch(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """Longer by a factor along a random direction, and shorter by it across."""
    n, d = len(x), x.shape[-1]
    direction = torch.nn.functional.normalize(torch.randn(n, d, generator=generator), dim=-1).to(x)
    k = config.max_stretch ** _amount(x, 1.0, generator)
    outer = direction[:, :, None] * direction[:, None]
    across = torch.eye(d, dtype=x.dtype, device=x.device) - outer
    k = k[:, None, None]
    return (x.flatten(1, -2) @ (k * outer + across * k ** (-1 / (d - 1)))).view_as(x)


def reverse(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """Half of them run backwards."""
    del config
    back = torch.rand(len(x), generator=generator).to(x.device) < 0.5
    return torch.where(_wide(back, x), x.flip(1), x)


def start(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """Closed ones begin elsewhere."""
    del config
    n, L = x.shape[:2]
    flat = x.flatten(2)
    shift = (torch.rand(n, generator=generator).to(x) * (L - 1)).long()
    shift = torch.where(_closed(x), shift, 0)
    # The last point is the first: it is one of L - 1 places on a circle.
    at = (torch.arange(L, device=x.device) + shift[:, None]) % (L - 1)
    at = torch.where(shift[:, None] > 0, at, torch.arange(L, device=x.device))
    return flat.gather(1, at[:, :, None].expand_as(flat)).view_as(x)


def trim(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """Open ones begin a little later and end a little earlier, at full length: where a track was
    cut out of a longer one is seldom exact."""
    amount = 1 - _amount(x, config.max_trim, generator)
    trimmed = corrupt.partial(x.flatten(2), amount, generator).view_as(x)
    return torch.where(_wide(_closed(x), x), x, trimmed)


def warp(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """Time runs at a speed that changes smoothly."""
    amount = _amount(x, config.max_warp, generator)
    return corrupt.warp(x.flatten(2), amount, generator).view_as(x)


def partial(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """A part of the course is seen, at full length."""
    amount = 1 - _amount(x, 1 - config.min_course, generator)
    return corrupt.partial(x.flatten(2), amount, generator).view_as(x)


def noise(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """Gaussian, in units of the motion's size."""
    amount = _amount(x, config.max_noise, generator)
    size = corrupt.size(x.flatten(2)) / math.prod(x.shape[2:-1]) ** 0.5  # of one of the points
    draws = torch.randn(x.shape, generator=generator).to(x)
    return x + draws * _wide(size[:, 0] * amount, x)


def outliers(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """Some points of each track one size off."""
    points, back = _tracks(x)
    amount = _amount(points, config.max_outliers + 1.0, generator).floor()
    return back(corrupt.outliers(points, amount, generator))


def missing(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """A share of the points of each track is unseen, here and there; filled in linearly."""
    points, back = _tracks(x)
    amount = _amount(points, config.max_missing, generator)
    return back(corrupt.missing(points, amount, generator))


def gap(x: Tensor, generator: torch.Generator, config: DisturbConfig) -> Tensor:
    """Likewise, points in a row."""
    amount = _amount(x, config.max_gap, generator)
    return corrupt.stretch(x.flatten(2), amount, generator).view_as(x)


DISTURBANCES: dict[str, Callable[[Tensor, torch.Generator, DisturbConfig], Tensor]] = {
    "rotate": rotate,
    "smooth": smooth,
    "jitter": jitter,
    "mask": mask,
    "stretch": stretch,
    "reverse": reverse,
    "start": start,
    "trim": trim,
    "warp": warp,
    "partial": partial,
    "noise": noise,
    "outliers": outliers,
    "missing": missing,
    "gap": gap,
}


def view(
    x: Float[Tensor, "n L *points d"],
    config: DisturbConfig,
    generator: torch.Generator,
    batch_size: int,
) -> Float[Tensor, "n L *points d"]:
    """Every sequence met by one disturbance, or by one after another; see `DisturbConfig`."""
    n, k = len(x), len(config.functions)
    if config.draw == "in turn":
        for name in config.functions:
            x = DISTURBANCES[name](x, generator, config)
        return _sometimes(x, config, generator)
    if config.draw == "modulo":
        # The released code's draw, batch by batch: k functions with replacement, sample i meets
        # the one at i mod k.
        drawn = torch.randint(k, (math.ceil(n / batch_size), k), generator=generator)
        place = torch.arange(batch_size) % k
        choice = drawn[:, place].flatten()[:n]
    else:
        choice = torch.randint(k, (n,), generator=generator)
    seen = x.clone()
    for index, name in enumerate(config.functions):
        rows = (choice == index).nonzero()[:, 0].to(x.device)
        seen[rows] = DISTURBANCES[name](x[rows], generator, config)
    return _sometimes(seen, config, generator)


def views(
    x: Float[Tensor, "n L *points d"],
    config: DisturbConfig,
    generator: torch.Generator,
    batch_size: int,
) -> Float[Tensor, "batches twice_batch L *points d"]:
    """Two views of several batches at once: of each, its first views and then its second."""
    spare = config.spoiled == "second view"
    first = dataclasses.replace(config, sometimes=()) if spare else config
    both = [view(x, each, generator, batch_size) for each in (first, config)]
    return torch.cat([v.unflatten(0, (-1, batch_size)) for v in both], 1)


def _sometimes(x: Tensor, config: DisturbConfig, generator: torch.Generator) -> Tensor:
    """One after another, each on a share of the sequences."""
    for name in config.sometimes:
        met = torch.rand(len(x), generator=generator) < config.share
        rows = met.nonzero()[:, 0].to(x.device)
        seen = x.clone()
        seen[rows] = DISTURBANCES[name](x[rows], generator, config)
        x = seen
    return x


def _closed(x: Tensor) -> Bool[Tensor, " n"]:
    """Which end where they began, to within half a step."""
    flat = x.flatten(2)
    gap, step = (flat[:, -1] - flat[:, 0]).norm(dim=-1), flat.diff(dim=1).norm(dim=-1).mean(1)
    return gap <= 0.5 * step


def _amount(x: Tensor, most: float, generator: torch.Generator) -> Float[Tensor, " n"]:
    return torch.rand(len(x), generator=generator).to(x) * most


def _wide(values: Tensor, x: Tensor) -> Tensor:
    """One value a sequence, ready to meet all its numbers."""
    return values.view(-1, *[1] * (x.ndim - 1))


def _tracks(x: Tensor) -> tuple[Float[Tensor, "m L d"], Callable[[Tensor], Tensor]]:
    """Each point of each sequence as a track of its own, and the way back."""
    if x.ndim == 3:
        return x, lambda tracks: tracks
    points = x.flatten(2, -2).transpose(1, 2)
    shape = points.shape
    return points.flatten(0, 1), lambda t: t.view(shape).transpose(1, 2).reshape(x.shape)


def _points(x: Tensor, generator: torch.Generator) -> Tensor:
    """An even number from [0, 1) for every point of every sequence, the same at all its steps."""
    shape = (x.shape[0], 1, *x.shape[2:-1], 1)
    return torch.rand(shape, generator=generator).to(x)
