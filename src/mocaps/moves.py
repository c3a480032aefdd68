"""Ways to move a motion by a similarity G: turned, enlarged, shifted, and all three at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mocaps import geometry

ROTATIONS, SCALES, TRANSLATIONS, COMPOSED = 36, 8, 8, 8  # 36: every ten degrees
SMALLEST, LARGEST, FARTHEST = 0.1, 10.0, 100.0
KINDS = ("rotation", "scale", "translation", "composed")


@dataclass(frozen=True)
class Move:
    """One way to move every sequence."""

    kind: str
    amount: float
    """Degrees, a factor, or sizes; of a composed move the number of its draw."""
    G: Float[Tensor, "n d d1"]
    """The similarity that does it; its centre and its direction are each sequence's own."""

    def __call__(self, x: Float[Tensor, "n L *points d"]) -> Float[Tensor, "n L *points d"]:
        return geometry.apply(self.G, x.flatten(1, -2)).view_as(x)


def moves(
    x: Float[Tensor, "n L *points d"], *, rotations: int = ROTATIONS, seed: int = 0
) -> list[Move]:
    """Rotations over the whole circle (in space about random axes), scales 0.1 to 10,
    translations of up to 100 sizes in random directions, and draws of all three at once, whose
    translation counts in sizes of the enlarged sequence."""
    points = x.double().flatten(1, -2)
    n, _, d = points.shape
    centre, size = points.mean(1), size_of(x)[:, None]
    random = torch.Generator().manual_seed(seed)

    def move(kind: str, amount: float, linear: Tensor, shift: Tensor) -> Move:
        t = centre + shift - (linear @ centre[..., None])[..., 0]
        return Move(kind, amount, torch.cat([linear, t[..., None]], -1))

    still, unit = torch.zeros(n, d).double(), torch.eye(d).double().expand(n, d, d)
    made = [
        move("rotation", degrees, _turned_by(math.radians(degrees), n, d, random), still)
        for degrees in (360 * k / rotations for k in range(1, rotations))
    ]
    made += [
        move("scale", factor, factor * unit, still)
        for factor in np.geomspace(SMALLEST, LARGEST, SCALES).tolist()
    ]
    made += [
        move("translation", sizes, unit, sizes * size * _directions(n, d, random))
        for sizes in np.geomspace(SMALLEST, FARTHEST, TRANSLATIONS).tolist()
    ]
    for k in range(COMPOSED):
        factor = _log_uniform(SMALLEST, LARGEST, n, random)
        sizes = _log_uniform(SMALLEST, FARTHEST, n, random)
        linear = factor[..., None] * _any_rotation(n, d, random)
        made.append(move("composed", k, linear, sizes * factor * size * _directions(n, d, random)))
    return made


def size_of(x: Float[Tensor, "n L *points d"]) -> Float[Tensor, " n"]:
    """The root mean square distance of a sequence's points from their centroid, in double."""
    points = x.double().flatten(1, -2)
    return (points - points.mean(1, keepdim=True)).square().sum(-1).mean(1).sqrt()


def _turned_by(angle: float, n: int, d: int, random: torch.Generator) -> Float[Tensor, "n d d"]:
    """A rotation by this angle; in space, for each sequence about an axis of its own."""
    if d == 2:
        theta = [torch.full((n,), angle, dtype=torch.float64)]
    else:
        theta = list((angle * _directions(n, d, random)).unbind(-1))
    return geometry.matrix(geometry.rotation(theta))


def _any_rotation(n: int, d: int, random: torch.Generator) -> Float[Tensor, "n d d"]:
    """Evenly from all of them."""
    if d == 2:
        theta = [2 * math.pi * torch.rand(n, generator=random).double()]
    else:  # a unit quaternion, as a rotation vector
        q = _directions(n, 4, random)
        sine = q[:, 1:].norm(dim=1, keepdim=True)
        theta = list((2 * torch.atan2(sine, q[:, :1]) * q[:, 1:] / sine).unbind(-1))
    return geometry.matrix(geometry.rotation(theta))


def _directions(n: int, d: int, random: torch.Generator) -> Float[Tensor, "n d"]:
    return nn.functional.normalize(torch.randn(n, d, generator=random, dtype=torch.float64), dim=1)


def _log_uniform(low: float, high: float, n: int, random: torch.Generator) -> Tensor:
    u = torch.rand(n, 1, generator=random, dtype=torch.float64)
    return (math.log(low) + u * math.log(high / low)).exp()
