"""T20-C: what happens to tracks in practice, at five severities, and drawn per trajectory.

A corruption takes x (n, L, d), an amount (a number, or one for each trajectory) and a generator,
whose draws do not depend on the amount: a higher severity is more of the same. A trajectory's size
is the root mean square distance of its points from their centroid.

- noise: Gaussian, of so many sizes on each axis.
- missing: this share of the points is unseen; filled in linearly.
- stretch: the same for points in a row.
- warp: time runs at speed exp(g), g smooth over ``WARP_STEPS`` steps with this deviation.
- partial: only this share of the course is seen, at full length.
- outliers: so many points lie one size off, in a random direction.
- all: warp, then noise, then a missing stretch, each one severity lower (so nothing at severity 1).
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

WARP_STEPS = 9
Amount = float | int | Float[Tensor, " n"]


def noise(x: Float[Tensor, "n L d"], amount: Amount, generator: torch.Generator) -> Tensor:
    draws = torch.randn(x.shape, generator=generator).to(x)
    return x + draws * (size(x) * _per_row(amount, x))[:, :, None]


def missing(x: Float[Tensor, "n L d"], amount: Amount, generator: torch.Generator) -> Tensor:
    return fill(x, _rank(x, generator) >= _count(amount, x))


def stretch(x: Float[Tensor, "n L d"], amount: Amount, generator: torch.Generator) -> Tensor:
    length, step = _count(amount, x), torch.arange(x.shape[1], device=x.device)
    first = (_uniform(x, generator) * (x.shape[1] - length + 1)).floor()
    return fill(x, (step < first) | (step >= first + length))


def warp(x: Float[Tensor, "n L d"], amount: Amount, generator: torch.Generator) -> Tensor:
    white = torch.randn(len(x), x.shape[1] - 1 + WARP_STEPS - 1, generator=generator).to(x)
    # The mean of WARP_STEPS independent numbers of deviation one has deviation WARP_STEPS^-1/2.
    smooth = F.avg_pool1d(white[:, None], WARP_STEPS, stride=1)[:, 0] * WARP_STEPS**0.5
    time = F.pad((_per_row(amount, x) * smooth).exp().cumsum(dim=1), (1, 0))
    return resample(x, time * ((x.shape[1] - 1) / time[:, -1:]))


def partial(x: Float[Tensor, "n L d"], amount: Amount, generator: torch.Generator) -> Tensor:
    share = _per_row(amount, x)
    window = torch.linspace(0, 1, x.shape[1], device=x.device, dtype=x.dtype) * share
    return resample(x, (window + _uniform(x, generator) * (1 - share)) * (x.shape[1] - 1))


def outliers(x: Float[Tensor, "n L d"], amount: Amount, generator: torch.Generator) -> Tensor:
    hit = _rank(x, generator) < _per_row(amount, x)
    direction = F.normalize(torch.randn(x.shape, generator=generator).to(x), dim=-1)
    return x + direction * (hit * size(x))[:, :, None]


Corruption = Callable[[Tensor, Amount, torch.Generator], Tensor]

# The amounts of severities 1 to 5. Points and steps are shares, so that they mean the same at
# any length; 4, 6, 8, 12 and 16 steps of 32 are missing in a stretch.
SEVERITIES: dict[str, tuple[Corruption, tuple[float, ...]]] = {
    "noise": (noise, (0.02, 0.05, 0.1, 0.15, 0.2)),
    "missing": (missing, (0.1, 0.2, 0.3, 0.4, 0.5)),
    "stretch": (stretch, (4 / 32, 6 / 32, 8 / 32, 12 / 32, 16 / 32)),
    "warp": (warp, (0.1, 0.25, 0.5, 0.75, 1.0)),
    "partial": (partial, (0.95, 0.9, 0.85, 0.75, 0.6)),
    "outliers": (outliers, (1, 2, 3, 4, 5)),
}
ALL = ("warp", "noise", "stretch")
CORRUPTIONS: tuple[str, ...] = (*SEVERITIES, "all")


def corrupt(
    x: Float[Tensor, "n L d"], corruption: str, severity: int, generator: torch.Generator
) -> Float[Tensor, "n L d"]:
    """Every trajectory met by the corruption of that name, in its own way."""
    check(corruption, severity)
    if corruption != "all":
        meet, amounts = SEVERITIES[corruption]
        return meet(x, amounts[severity - 1], generator)
    for part in ALL if severity > 1 else ():
        x = corrupt(x, part, severity - 1, generator)
    return x


def check(corruption: str, severity: int) -> None:
    if corruption not in CORRUPTIONS:
        raise ValueError(
            f"expected a corruption out of {', '.join(CORRUPTIONS)}, got {corruption!r}"
        )
    if severity not in range(1, 6):
        raise ValueError(f"expected a severity from 1 to 5, got {severity!r}")


def size(x: Float[Tensor, "n L d"]) -> Float[Tensor, "n 1"]:
    """Root mean square distance of the points from their centroid."""
    return (x - x.mean(dim=1, keepdim=True)).square().sum(dim=2).mean(dim=1, keepdim=True).sqrt()


def fill(x: Float[Tensor, "n L d"], seen: Bool[Tensor, "n L"]) -> Float[Tensor, "n L d"]:
    """Unseen points on the line between the seen ones around them; at an end, on the nearest."""
    if not seen.any(dim=1).all():
        raise ValueError("expected a seen point in every trajectory, got one without")
    last = x.shape[1] - 1
    step = torch.arange(last + 1, device=x.device).expand(seen.shape)
    before = torch.where(seen, step, -1).cummax(dim=1).values
    after = torch.where(seen, step, last + 1).flip(1).cummin(dim=1).values.flip(1)
    before, after = torch.where(before < 0, after, before), torch.where(after > last, before, after)
    weight = (step - before) / (after - before).clamp(min=1)
    return torch.lerp(_at(x, before), _at(x, after), weight[:, :, None].to(x))


def resample(x: Float[Tensor, "n L d"], at: Float[Tensor, "n m"]) -> Float[Tensor, "n m d"]:
    """The trajectories at these times, in steps from 0 to L - 1, linear between the points."""
    before = at.floor().long().clamp_(0, x.shape[1] - 2)
    return torch.lerp(_at(x, before), _at(x, before + 1), (at - before)[:, :, None])


def _at(x: Float[Tensor, "n L d"], index: Int[Tensor, "n m"]) -> Float[Tensor, "n m d"]:
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[2]))


def _per_row(amount: Amount, x: Tensor) -> Float[Tensor, "n 1"]:
    return torch.as_tensor(amount).to(x).expand(len(x))[:, None]


def _count(share: Amount, x: Tensor) -> Float[Tensor, "n 1"]:
    return (_per_row(share, x) * x.shape[1]).round()


def _uniform(x: Tensor, generator: torch.Generator) -> Float[Tensor, "n 1"]:
    return torch.rand(len(x), 1, generator=generator).to(x)


def _rank(x: Tensor, generator: torch.Generator) -> Int[Tensor, "n L"]:
    """The points of every trajectory in an order of their own."""
    return torch.rand(x.shape[:2], generator=generator).to(x.device).argsort().argsort()
