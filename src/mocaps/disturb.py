"""Disturbances: what should not change the identity of a motion, and the two views made of them.

Each takes (n, L, *points, d) and a generator, and disturbs every sequence in its own way.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from mocaps.config import DisturbConfig


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


DISTURBANCES: dict[str, Callable[[Tensor, torch.Generator, DisturbConfig], Tensor]] = {
    "rotate": rotate,
    "smooth": smooth,
    "jitter": jitter,
    "mask": mask,
}


def view(
    x: Float[Tensor, "n L *points d"],
    config: DisturbConfig,
    generator: torch.Generator,
    batch_size: int,
) -> Float[Tensor, "n L *points d"]:
    """Every sequence met by one disturbance."""
    n, k = len(x), len(config.functions)
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
    return seen


def views(
    x: Float[Tensor, "n L *points d"],
    config: DisturbConfig,
    generator: torch.Generator,
    batch_size: int,
) -> Float[Tensor, "batches twice_batch L *points d"]:
    """Two views of several batches at once: of each, its first views and then its second."""
    both = [view(x, config, generator, batch_size) for _ in range(2)]
    return torch.cat([v.unflatten(0, (-1, batch_size)) for v in both], 1)


def _points(x: Tensor, generator: torch.Generator) -> Tensor:
    """An even number from [0, 1) for every point of every sequence, the same at all its steps."""
    shape = (x.shape[0], 1, *x.shape[2:-1], 1)
    return torch.rand(shape, generator=generator).to(x)
