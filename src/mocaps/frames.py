"""Frames that move with the motion: what is read in them cannot depend on place, size or direction.

Every snippet has a frame of its own: its centroid, its size, and its direction. The whole has one
too: its centroid, its size, and the direction of its first snippet. A frame is a similarity G,
(d, d + 1), from own coordinates to the world's; when the input is moved by a similarity T, every
frame becomes T G, so own coordinates G^-1 x stay, and whatever is put back by G moves with T.

A direction is a sum of vectors that turn with the motion (any such sum turns with it too): the
first cosine moment over time, which is the slope with the ends at full weight and noise averaged
over all steps; where several points belong to a body, the same over the points, which is how they
lie; and a little of the whole's, for a snippet that rests. In space a second such vector, made
orthogonal, settles the roll about the first. No single point, nor the first frame, decides.

What tells of the place of a snippet without saying where the motion is: the turn and the shift to
the next snippet (after the last comes the first) in the snippet's own frame, and its size and its
centroid's distance from the whole's, in units of the whole's size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mocaps import geometry

RESTING = 0.05
"""Of the whole's size: a snippet smaller than that is not enlarged to full size, noise and all."""
LITTLE = 0.05
"""How much the whole's direction counts in a snippet's."""
UNDEFINED = 1e-4
"""Of the whole's size: a direction shorter than that is none."""


def num_place_features(d: int) -> int:
    """Turn (all but the last column of a rotation), shift, size and distance."""
    return d * (d - 1) + d + 2


@dataclass(frozen=True)
class Frames:
    """Motions in frames of their own, and where the frames are."""

    local: Float[Tensor, "n L d"]
    """Each snippet in its own frame."""
    place: Float[Tensor, "n S features"]
    """What of the snippets' places no similarity changes."""
    snippets: Float[Tensor, "n S d d1"]
    """G of every snippet."""
    whole: Float[Tensor, "n d d1"]
    defined: Bool[Tensor, " n"]
    """False where a direction is truly undefined: a motion at rest; in space, a straight line."""

    @staticmethod
    def of(
        x: Float[Tensor, "n L K d"], snippet_length: int, *, reflections: bool = False
    ) -> Frames:
        """The frames of bodies of K points, each point a row of its own: n K rows."""
        K = x.shape[2]
        with torch.no_grad():
            local, *shared = _of_bodies(x, snippet_length, reflections)
        if K > 1:
            shared = [part.repeat_interleave(K, 0) for part in shared]
        return Frames(local.transpose(1, 2).flatten(0, 1), *shared)

    def own(self) -> tuple[Float[Tensor, "n L d"], Frames]:
        """The motions in the frame of the whole, and the same frames seen from there."""
        S = self.snippets.shape[1]
        inverse = _inverse(self.whole)
        snippets = geometry.compose(inverse[:, None], self.snippets)
        x = geometry.apply(snippets, self.local.unflatten(1, (S, -1)))
        identity = torch.eye(x.shape[-1], x.shape[-1] + 1, dtype=x.dtype, device=x.device)
        whole = identity.expand_as(self.whole)
        return x.flatten(1, 2), replace(self, snippets=snippets, whole=whole)


def _of_bodies(x: Float[Tensor, "n L K d"], l: int, reflections: bool) -> tuple[Tensor, ...]:
    """Local coordinates, place, the snippets' frames, the whole's, and whether it is defined."""
    n, L, K, d = x.shape
    S = L // l
    centre = x.mean((1, 2))
    y = x - centre[:, None, None]
    size = y.square().sum(-1).mean((1, 2)).sqrt()
    # A mean of equal numbers is one of them up to rounding only.
    rests = size <= 16 * torch.finfo(x.dtype).eps * x.abs().amax((1, 2, 3))
    size = torch.where(rests, torch.ones_like(size), size)
    y = torch.where(rests[:, None, None, None], 0.0, y / size[:, None, None, None])

    parts = y.view(n, S, l, K, d)
    c = parts.mean((2, 3))
    z = parts - c[:, :, None, None]
    own_size = (z.square().sum(-1).mean((2, 3)) + RESTING**2).sqrt()
    along = _moments(z.flatten(0, 1), d).unflatten(1, (n, S))
    of_whole = _moments(y, d)
    handed = _handedness(y) if reflections else None
    R, found = _rotations(along, of_whole, c, handed)

    local = ((z @ R[:, :, None]) / own_size[:, :, None, None, None]).reshape(n, L, K, d)
    G = torch.cat([own_size[:, :, None, None] * R, c.unsqueeze(-1)], -1)
    place = torch.cat(
        [
            (R.mT @ R.roll(-1, 1))[..., :-1].flatten(2),
            ((c.roll(-1, 1) - c).unsqueeze(2) @ R).squeeze(2),
            own_size.log().unsqueeze(-1),
            c.norm(dim=-1, keepdim=True),
        ],
        -1,
    )
    whole = torch.cat([size[:, None, None] * R[:, 0], centre.unsqueeze(-1)], -1)
    to_world = torch.cat([size[:, None, None] * torch.eye(d).to(x), centre.unsqueeze(-1)], -1)
    snippets = geometry.compose(to_world[:, None], G)
    return local, place, snippets, whole, ~rests & found[:, 0]


def _moments(x: Float[Tensor, "n time K d"], count: int) -> Float[Tensor, "count n d"]:
    """Cosine moments over time, of the mean of the points, and over the points, of their means."""
    found = _cosines(x.shape[1], count).to(x) @ x.mean(2)
    if x.shape[2] > 1:
        found = found + _cosines(x.shape[2], count).to(x) @ x.mean(1)
    return found.transpose(0, 1)


def _cosines(size: int, count: int) -> Float[Tensor, "count size"]:
    """The first cosines beyond the constant one, so that no shift is seen; the first one rises."""
    at = (torch.arange(size, dtype=torch.float64) + 0.5) * (math.pi / size)
    order = torch.arange(1, count + 1, dtype=torch.float64)
    return -(order[:, None] * at).cos() * (2 / size)


def _rotations(
    along: Float[Tensor, "d n S d"],
    of_whole: Float[Tensor, "d n d"],
    c: Float[Tensor, "n S d"],
    handed: Float[Tensor, " n"] | None,
) -> tuple[Float[Tensor, "n S d d"], Bool[Tensor, "n S"]]:
    """The rotation of every snippet's frame, and whether it is defined."""
    d = c.shape[-1]
    # The second moment comes in where the first alone vanishes: a way out and back.
    direction = (of_whole[0] + 0.5 * of_whole[1])[:, None]
    first, found = _unit(along[0] + LITTLE * direction)
    sign = torch.ones_like(first[..., 0]) if handed is None else handed[:, None].expand(c.shape[:2])
    if d == 2:
        second = torch.stack([-first[..., 1], first[..., 0]], -1)
        return torch.stack([first, sign.unsqueeze(-1) * second], -1), found
    # A straight snippet has no second moment, but a place beside the whole's centroid.
    second = along[1] + 0.5 * c + LITTLE * of_whole[1][:, None]
    second, bent = _unit(second - (second * first).sum(-1, keepdim=True) * first, avoid=first)
    third = sign.unsqueeze(-1) * torch.linalg.cross(first, second)
    return torch.stack([first, second, third], -1), found & bent


def _unit(
    v: Float[Tensor, "*n d"], avoid: Float[Tensor, "*n d"] | None = None
) -> tuple[Float[Tensor, "*n d"], Bool[Tensor, "*n"]]:
    """v at length one; where it has none, an axis (orthogonal to `avoid`), and False."""
    length = v.norm(dim=-1)
    found = length > UNDEFINED
    axis = torch.zeros_like(v)
    if avoid is None:
        axis[..., 0] = 1
    else:
        # The axis that lies least along `avoid`, made orthogonal to it.
        axis.scatter_(-1, avoid.abs().argmin(-1, keepdim=True), 1.0)
        axis = axis - (axis * avoid).sum(-1, keepdim=True) * avoid
        axis = axis / axis.norm(dim=-1, keepdim=True)
    return torch.where(found.unsqueeze(-1), v / length.clamp(min=UNDEFINED)[..., None], axis), found


def _handedness(y: Float[Tensor, "n L K d"]) -> Float[Tensor, " n"]:
    """A sign that a mirror turns: of the area swept in the plane, of a volume in space."""
    if y.shape[-1] == 2:
        a, b = y, y.roll(-1, 1)
        swept = (a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]).sum((1, 2))
    else:
        swept = torch.linalg.det(_moments(y, 3).transpose(0, 1))
    return torch.where(swept < 0, -1.0, 1.0).to(y)


def _inverse(T: Float[Tensor, "n d d1"]) -> Float[Tensor, "n d d1"]:
    """Of a similarity (s R | t), or one with a reflection: (R' / s | -R' t / s)."""
    linear = T[..., :-1].mT / T[..., :-1].square().sum((-2, -1), keepdim=True) * T.shape[-2]
    return torch.cat([linear, -linear @ T[..., -1:]], -1)
