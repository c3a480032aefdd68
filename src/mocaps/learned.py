"""What a model has learned of one motion: its rotation table, its translation table, a full turn.

As in the paper, the motion is first moved so that its centroid is at the origin, then turned by
theta or shifted, and of the segment capsules of highest nu the angle phi or the translation of B is
read. Angles are counter-clockwise, with y upwards. In space a motion is turned about the z axis,
and phi is B's turn about that axis: of all rotations about it, that nearest to B.

A full turn averages many motions. Of each and each capsule, phi(theta) is taken relative to phi(0);
these are averaged as directions (a circular mean), over a motion's capsules with nu(0) for weights,
over motions evenly, and then unwrapped along theta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mocaps import geometry
from mocaps.capsules import MCAEOutput
from mocaps.errors import InputError
from mocaps.look import capsules_of
from mocaps.model import MCAE, MultiPointMCAE
from mocaps.moves import size_of

THETAS = (-10.0, -5.0, 0.0, 5.0, 10.0)
SHIFTS = ((-0.2, 0.0), (-0.1, 0.0), (0.0, 0.0), (0.0, 0.1), (0.0, 0.2))
TURNS = tuple(float(theta) for theta in range(0, 361, 5))
TOP = 5
ROWS = 500  # folded sequences at a time


def centred(x: Float[Tensor, "n L *points d"]) -> Float[Tensor, "n L *points d"]:
    """Every motion with its centroid at the origin."""
    points = x.flatten(1, -2)
    return (points - points.mean(1, keepdim=True)).view_as(x)


def turned(x: Float[Tensor, "n L *points d"], degrees: float) -> Float[Tensor, "n L *points d"]:
    """Every motion turned about the origin; in space, about the z axis."""
    d, angle = x.shape[-1], torch.tensor(math.radians(degrees), dtype=torch.float64)
    still = torch.zeros_like(angle)
    R = geometry.matrix(geometry.rotation([angle] if d == 2 else [still, still, angle]))
    return x @ R.to(x).mT


def phi(B: Float[Tensor, "*batch d d1"]) -> Float[Tensor, "*batch"]:
    """Radians by which B turns in the plane of x and y.

    >>> phi(torch.tensor([[0.0, -2.0, 5.0], [2.0, 0.0, 7.0]])).rad2deg().item()
    90.0
    """
    return torch.atan2(B[..., 1, 0] - B[..., 0, 1], B[..., 0, 0] + B[..., 1, 1])


def rotation_table(
    model: nn.Module,
    x: Float[Tensor, "L *points d"],
    thetas: Sequence[float] = THETAS,
    *,
    top: int = TOP,
    point: int = 0,
) -> dict[str, Any]:
    """Of each theta the capsules of highest nu, in the order of their numbers, with phi in
    degrees; and which of them are the same at every theta."""
    moved = torch.cat([turned(centred(x[None]), theta) for theta in thetas])
    B, nu = _explained(model, moved, point)
    angles = phi(B).rad2deg()
    return _table(
        nu,
        top,
        [{"theta": theta} for theta in thetas],
        lambda i, k: {"phi": angles[i, k].item()},
    )


def translation_table(
    model: nn.Module,
    x: Float[Tensor, "L *points d"],
    shifts: Sequence[Sequence[float]] = SHIFTS,
    *,
    top: int = TOP,
    point: int = 0,
) -> dict[str, Any]:
    """The same for shifts in the plane of x and y, with the translation of B."""
    base = centred(x[None])
    more = [0.0] * (x.shape[-1] - 2)
    moved = torch.cat([base + torch.tensor([*shift, *more]).to(base) for shift in shifts])
    B, nu = _explained(model, moved, point)
    return _table(
        nu,
        top,
        [{"shift": list(shift)} for shift in shifts],
        lambda i, k: {"translation": B[i, k, :, -1].tolist()},
    )


def unit_of(x: Float[Tensor, "L *points d"], on_t20: bool) -> float:
    """What the shifts count in: 1 in Trajectory20's frame of [-1, 1], elsewhere the size of the
    motion."""
    return 1.0 if on_t20 else float(size_of(x[None])[0])


def _table(nu: Tensor, top: int, heads: list[dict[str, Any]], values: Any) -> dict[str, Any]:
    best = nu.argsort(dim=1, descending=True, stable=True)[:, :top].sort(dim=1).values.tolist()
    columns = [
        head | {"capsules": [{"k": k, "nu": nu[i, k].item()} | values(i, k) for k in ks]}
        for i, (head, ks) in enumerate(zip(heads, best, strict=True))
    ]
    return {"columns": columns, "repeating": sorted(set.intersection(*map(set, best)))}


def full_turn(
    model: nn.Module, x: Float[Tensor, "n L *points d"], angles: Sequence[float] = TURNS
) -> dict[str, Any]:
    """cos(nu(0), nu(theta)) and phi(theta) in degrees, the mean over the motions.

    `agreement` is the length of the mean direction: 1 where all capsules of all motions turn
    alike, 0 where they turn anyhow. `others` is the cosine between nu of different motions: where
    it is near 1, as with random weights, a cosine near 1 says little. Motions whose direction is
    undefined are left out.
    """
    cosines, directions, count = np.zeros(len(angles)), np.zeros(len(angles), dtype=complex), 0
    units = []
    points = len(model.fold(x[:1])) if isinstance(model, MultiPointMCAE) else 1
    for part in x.split(max(1, ROWS // points)):
        seen = _seen(model, centred(part))
        kept = seen.nu.isfinite().all(1) & seen.defined
        weight = seen.weight / seen.weight.sum(1, keepdim=True)
        for i, theta in enumerate(angles):
            after = _seen(model, turned(centred(part), theta))
            cosines[i] += torch.cosine_similarity(seen.nu, after.nu, dim=1)[kept].sum().item()
            apart = torch.polar(weight, after.phi - seen.phi).sum(1)
            directions[i] += apart[kept].sum().item()
        count += int(kept.sum())
        units.append(nn.functional.normalize(seen.nu[kept].double(), dim=1))
    if count == 0:
        raise InputError("expected motions whose direction is defined, got none to turn")
    mean = directions / count
    return {
        "theta": list(angles),
        "cosine": (cosines / count).tolist(),
        "phi": np.rad2deg(np.unwrap(np.angle(mean))).tolist(),
        "agreement": np.abs(mean).tolist(),
        "others": _between(torch.cat(units)),
        "sequences": count,
    }


def _between(units: Float[Tensor, "n features"]) -> float | None:
    """Mean cosine over all pairs of different rows: of all pairs, less each with itself."""
    n = len(units)
    return None if n < 2 else (units.sum(0).square().sum().item() - n) / (n * (n - 1))


class _Seen:
    """Of every motion: nu, and the capsules of all its points on one axis."""

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        n, output = len(x), _forward(model, x)
        B, nu = capsules_of(output)
        joined = isinstance(model, MultiPointMCAE)
        self.nu = model.join(output.representation, n) if joined else output.representation
        self.phi, self.weight = phi(B.double()).reshape(n, -1), nu.double().reshape(n, -1)
        defined = torch.ones(n) if output.defined is None else output.defined
        self.defined = defined.bool().reshape(n, -1).all(1)


def _seen(model: nn.Module, x: Tensor) -> _Seen:
    with torch.inference_mode():
        return _Seen(model, x)


def _explained(model: nn.Module, x: Tensor, point: int) -> tuple[Tensor, Tensor]:
    """B and nu of one point of every motion."""
    with torch.inference_mode():
        B, nu = capsules_of(_forward(model, x))
    B, nu = B.unflatten(0, (len(x), -1)), nu.unflatten(0, (len(x), -1))
    if not 0 <= point < B.shape[1]:
        raise InputError(f"--point: expected 0 to {B.shape[1] - 1}, got {point}")
    return B[:, point], nu[:, point]


def _forward(model: nn.Module, x: Tensor) -> MCAEOutput:
    if not isinstance(model, MCAE | MultiPointMCAE):
        raise InputError(f"expected a capsule model, got a {type(model).__name__}")
    return model(x, from_segments=False)
