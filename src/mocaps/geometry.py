"""Transformations of the plane and of space.

A transformation T is its first d rows, (..., d, d + 1) = [linear | translation]: it takes a point
p to linear p + translation. From free parameters (s, t, theta), the appendix's similarity is

    T = [ sigmoid(s) R(theta) | clamp(t, +-limit) ]

with R the rotation by theta in two dimensions and exp(skew(theta)) in three: always orthonormal,
and smooth everywhere. The released code squashes the finished matrix once more (`squash`).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad


def num_rotation_parameters(d: int) -> int:
    """One angle in the plane, a rotation vector in space."""
    return d * (d - 1) // 2


def num_similarity_parameters(d: int) -> int:
    """s, t, theta."""
    return 1 + d + num_rotation_parameters(d)


def rotation(theta: Float[Tensor, "*batch r"]) -> Float[Tensor, "*batch d d"]:
    """The rotation by an angle (r = 1), or about a rotation vector by its length (r = 3).

    >>> rotation(torch.tensor([math.pi / 2])).round(decimals=6).abs().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if theta.shape[-1] == 1:
        cos, sin = theta[..., 0].cos(), theta[..., 0].sin()
        return torch.stack([cos, -sin, sin, cos], -1).unflatten(-1, (2, 2))
    # Rodrigues: R = I + sinc K + (1 - cos) / angle^2 K^2, both factors smooth at zero.
    squared = (theta * theta).sum(-1)[..., None, None]
    small = squared < 1e-8
    angle = torch.where(small, torch.ones_like(squared), squared).sqrt()
    first = torch.where(small, 1 - squared / 6, angle.sin() / angle)
    half = (angle / 2).sin() / angle
    second = torch.where(small, 0.5 - squared / 24, 2 * half * half)
    K = skew(theta)
    return torch.eye(3, dtype=theta.dtype, device=theta.device) + first * K + second * (K @ K)


def skew(v: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3 3"]:
    """The matrix of the cross product with v."""
    x, y, z = v.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))


def similarity(
    s: Float[Tensor, "*batch"],
    t: Float[Tensor, "*batch d"],
    theta: Float[Tensor, "*batch r"],
    limit: float,
) -> Float[Tensor, "*batch d d1"]:
    """The appendix's similarity."""
    scale, t = s.sigmoid(), t.clamp(-limit, limit)
    if t.shape[-1] == 2:  # the general line below, in half the kernels
        angle = theta[..., 0]
        cos, sin = scale * angle.cos(), scale * angle.sin()
        tx, ty = t.unbind(-1)
        return torch.stack([cos, -sin, tx, sin, cos, ty], -1).unflatten(-1, (2, 3))
    return torch.cat([scale[..., None, None] * rotation(theta), t.unsqueeze(-1)], -1)


def squash(T: Float[Tensor, "*batch 2 3"], limit: float) -> Float[Tensor, "*batch 2 3"]:
    """The released code's bound: diagonal d to 2 sigmoid(d), everything else clamped."""
    diagonal = torch.eye(2, 3, dtype=torch.bool, device=T.device)
    return torch.where(diagonal, 2 * T.sigmoid(), T.clamp(-limit, limit))


def squashed_similarity(
    s: Float[Tensor, "*batch"],
    t: Float[Tensor, "*batch 2"],
    theta: Float[Tensor, "*batch 1"],
    limit: float,
) -> Float[Tensor, "*batch 2 3"]:
    """The released code's snippet transformation: a similarity, squashed: no longer one."""
    scale, angle = 2 * s.sigmoid(), 2 * math.pi * theta[..., 0]
    cos, sin = scale * angle.cos(), scale * angle.sin()
    tx, ty = t.unbind(-1)
    return squash(torch.stack([cos, -sin, tx, sin, cos, ty], -1).unflatten(-1, (2, 3)), limit)


def homogeneous(T: Float[Tensor, "*batch d d1"]) -> Float[Tensor, "*batch d1 d1"]:
    """The square matrix: the row (0, ..., 0, 1) put back."""
    last = torch.zeros_like(T[..., :1, :])
    last[..., -1] = 1
    return torch.cat([T, last], -2)


def apply(T: Float[Tensor, "*batch d d1"], p: Float[Tensor, "*batch n d"]) -> Tensor:
    """Points moved."""
    return p @ T[..., :-1].mT + T[..., None, :, -1]


def compose(T: Float[Tensor, "*batch d d1"], U: Float[Tensor, "*batch d d1"]) -> Tensor:
    """First U, then T."""
    moved = T[..., :-1] @ U
    return moved + pad(T[..., -1:], (U.shape[-1] - 1, 0))


def inverse(T: Float[Tensor, "*batch d d1"]) -> Float[Tensor, "*batch d d1"]:
    """What undoes T."""
    linear = torch.linalg.inv(T[..., :-1])
    return torch.cat([linear, -linear @ T[..., -1:]], -1)


def scale(T: Float[Tensor, "*batch d d1"]) -> Float[Tensor, "*batch"]:
    """How much T enlarges: the d-th root of |det|."""
    return torch.linalg.det(T[..., :-1]).abs() ** (1 / T.shape[-2])


def angle(T: Float[Tensor, "*batch d d1"]) -> Float[Tensor, "*batch"]:
    """Radians by which T turns: signed in the plane, the length of the rotation vector in space.

    Of the rotation nearest to the linear part, so that it is defined for the released code's
    matrices too.

    >>> T = similarity(torch.zeros(()), torch.zeros(2), torch.tensor([0.5]), 1.5)
    >>> round(angle(T).item(), 4)
    0.5
    """
    a = T[..., :-1]
    if T.shape[-2] == 2:
        return torch.atan2(a[..., 1, 0] - a[..., 0, 1], a[..., 0, 0] + a[..., 1, 1])
    U, _, Vh = torch.linalg.svd(a)
    flip = torch.ones_like(a[..., 0])
    flip[..., -1] = torch.linalg.det(U @ Vh).sign()
    R = (U * flip[..., None, :]) @ Vh
    axis = torch.stack(
        [R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]], -1
    )
    trace = R.diagonal(dim1=-2, dim2=-1).sum(-1)
    return torch.atan2(axis.norm(dim=-1), trace - 1)
