"""Transformations of the plane and of space.

A transformation T is its first d rows, (..., d, d + 1) = [linear | translation]: it takes a point
p to linear p + translation. From free parameters (s, t, theta), the appendix's similarity is

    T = [ sigmoid(s) R(theta) | clamp(t, +-limit) ]

with R the rotation by theta in two dimensions and exp(skew(theta)) in three: always orthonormal,
and smooth everywhere. The released code squashes the finished matrix once more (`squash`).

The model holds parameters apart, each a tensor of its own, so what makes a transformation works on
entries: rows of tensors, which `matrix` stacks wherever the caller wants the two axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

Entries = Sequence[Sequence[Tensor]]
"""T[row][column], each over all capsules and samples."""


def num_rotation_parameters(d: int) -> int:
    """One angle in the plane, a rotation vector in space."""
    return d * (d - 1) // 2


def num_similarity_parameters(d: int) -> int:
    """s, t, theta."""
    return 1 + d + num_rotation_parameters(d)


def rotation(theta: Sequence[Tensor]) -> Entries:
    """The rotation by an angle, or about a rotation vector by its length."""
    if len(theta) == 1:
        cos, sin = theta[0].cos(), theta[0].sin()
        return [[cos, -sin], [sin, cos]]
    # Rodrigues: R = (1 - b |v|^2) I + b v v' + a skew(v), a = sin / angle and
    # b = (1 - cos) / angle^2, both smooth at zero.
    x, y, z = theta
    squared = x * x + y * y + z * z
    small = squared < 1e-8
    length = squared.where(~small, torch.ones_like(squared)).sqrt()
    a = torch.where(small, 1 - squared / 6, length.sin() / length)
    half = (length / 2).sin() / length
    b = torch.where(small, 0.5 - squared / 24, 2 * half * half)
    rest = 1 - b * squared
    return [
        [rest + b * x * x, b * x * y - a * z, b * x * z + a * y],
        [b * x * y + a * z, rest + b * y * y, b * y * z - a * x],
        [b * x * z - a * y, b * y * z + a * x, rest + b * z * z],
    ]


def similarity(parameters: Sequence[Tensor], limit: float, d: int) -> Entries:
    """The appendix's similarity from s, the d of t, and theta."""
    s, t, theta = parameters[0], parameters[1 : 1 + d], parameters[1 + d :]
    scale = s.sigmoid()
    R = rotation(theta)
    if d == 2:  # its two rows share their products
        cos, sin = scale * R[0][0], scale * R[1][0]
        linear = [[cos, -sin], [sin, cos]]
    else:
        linear = [[scale * entry for entry in row] for row in R]
    return [[*row, ti.clamp(-limit, limit)] for row, ti in zip(linear, t, strict=True)]


def squash(T: Entries, limit: float) -> Entries:
    """The released code's bound: diagonal d to 2 sigmoid(d), everything else clamped."""
    return [
        [2 * e.sigmoid() if i == j else e.clamp(-limit, limit) for j, e in enumerate(row)]
        for i, row in enumerate(T)
    ]


def squashed_similarity(parameters: Sequence[Tensor], limit: float) -> Entries:
    """The released code's snippet transformation: a similarity, squashed: no longer one."""
    s, tx, ty, theta = parameters
    scale, turn = 2 * s.sigmoid(), 2 * math.pi * theta
    cos, sin = scale * turn.cos(), scale * turn.sin()
    return squash([[cos, -sin, tx], [sin, cos, ty]], limit)


def matrix(T: Entries) -> Float[Tensor, "*batch d d1"]:
    """The entries as one tensor, (..., row, column).

    >>> T = similarity([torch.zeros(()), torch.ones(()), torch.zeros(()), torch.zeros(())], 1.5, 2)
    >>> matrix(T).tolist()
    [[0.5, -0.0, 1.0], [0.0, 0.5, 0.0]]
    """
    return torch.stack([torch.stack(list(row), -1) for row in T], -2)


def homogeneous(T: Float[Tensor, "*batch d d1"]) -> Float[Tensor, "*batch d1 d1"]:
    """The square matrix: the row (0, ..., 0, 1) put back."""
    last = torch.zeros_like(T[..., :1, :])
    last[..., -1] = 1
    return torch.cat([T, last], -2)


def apply(T: Float[Tensor, "*#batch d d1"], p: Float[Tensor, "*#batch n d"]) -> Tensor:
    """Points moved."""
    return p @ T[..., :-1].mT + T[..., None, :, -1]


def compose(T: Float[Tensor, "*#batch d d1"], U: Float[Tensor, "*#batch d d1"]) -> Tensor:
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
