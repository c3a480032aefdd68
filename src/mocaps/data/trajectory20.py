"""Trajectory20: an endless stream of labelled plane trajectories of 20 patterns, by index.

A trajectory is a pattern's curve, stretched, perhaps reversed, begun at a random point (closed) or
shortened at its ends (open), cut into L points at equal arc length, put with its first point on a
whole-number position of a frame of 128 x 128, turned about that point by an angle at which it fits
the frame, enlarged about that point, and mapped from [0, 128] to [-1, 1].

Samples come in blocks of ``BLOCK``. Inside a block each pattern is equally frequent, and all that
is random is drawn from a generator that is seeded with (seed, block): sample i is the same
whatever is asked for before, beside or after it.

Whether a trajectory fits is a question about its support function
``h(theta) = max_j <x_j - x_0, (cos theta, sin theta)>``: turned by phi, it reaches
``h(a - phi)`` towards the side a of the frame. With the angles on a grid that contains the four
sides, all extents at all angles are one table with a row of ``ANGLES`` entries a trajectory. Half
of its directions need no product, since ``max <x, -u> = -min <x, u>``.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mocaps.data.corrupt import check, corrupt
from mocaps.data.curves import CURVES, STEPS, curve_table

PATTERNS: tuple[str, ...] = tuple(curve.name for curve in CURVES)
CLOSED: tuple[bool, ...] = tuple(curve.closed for curve in CURVES)

BLOCK = 2000
FRAME = 128
ANGLES = 100
MAX_STRETCH = 1.4
MAX_CUT = STEPS * 5 // 100
MARGIN = 1.1
MAX_FACTOR = 8.0
ROUNDING = 1e-4  # less than this is no distance in a frame of 128

# No seed of a user's comes near these.
SPLIT_SEEDS = {"validation": 10**15 + 1, "test": 10**15 + 2, "labels": 10**15 + 3}
SPLIT_SIZE = 10_000


def generator(seed: int, block: int, *purpose: int) -> np.random.Generator:
    """A generator of its own for each (seed, block, purpose).

    It is numpy's because torch's on the CPU reads 32 bits of a seed only: streams would collide.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, *purpose)))


@dataclass(frozen=True)
class ShapeDraws:
    """What is random about the shapes of one block, whose rows are sorted by pattern."""

    stretch: Float[Tensor, " n"]  # k of (x k, y / k)
    reverse: Bool[Tensor, " n"]
    start: Int[Tensor, " n"]  # closed: the curve point to begin at
    cut: Int[Tensor, "n 2"]  # open: curve points that go at either end

    @classmethod
    def draw(cls, rng: np.random.Generator, n: int) -> "ShapeDraws":
        k = rng.uniform(1, MAX_STRETCH, n)
        return cls(
            stretch=torch.from_numpy(np.where(rng.random(n) < 0.5, k, 1 / k)).float(),
            reverse=torch.from_numpy(rng.random(n) < 0.5),
            start=torch.from_numpy(rng.integers(0, STEPS, n)),
            cut=torch.from_numpy(rng.integers(0, MAX_CUT + 1, (n, 2))),
        )

    def rows(self, index: Int[Tensor, " m"]) -> "ShapeDraws":
        return ShapeDraws(
            self.stretch[index], self.reverse[index], self.start[index], self.cut[index]
        )


@dataclass(frozen=True)
class PlaceDraws:
    """One attempt at a place for every row of a block, whether the row still needs it or not.

    That keeps each row's draws apart from the fate of the others.
    """

    position: Float[Tensor, "n 2"]
    angle: Float[Tensor, " n"]  # in [0, 1), the share of the fitting angles to skip
    factor: Float[Tensor, " n"]  # in [0, 1), between no enlargement and the largest

    @classmethod
    def draw(cls, rng: np.random.Generator, n: int) -> "PlaceDraws":
        return cls(
            position=torch.from_numpy(rng.integers(0, FRAME, (n, 2))).float(),
            angle=torch.from_numpy(rng.random(n, dtype=np.float32)),
            factor=torch.from_numpy(rng.random(n, dtype=np.float32)),
        )

    def rows(self, index: Int[Tensor, " m"]) -> "PlaceDraws":
        return PlaceDraws(self.position[index], self.angle[index], self.factor[index])


def _shapes(
    curve: Float[Tensor, "points 2"], closed: bool, draws: ShapeDraws, length: int
) -> Float[Tensor, "n length 2"]:
    """Trajectories of one pattern at equal arc length, relative to their first points."""
    steps = curve.diff(dim=0)
    # Squared length of a stretched step is (k^2, k^-2) . (dx^2, dy^2): one product for all.
    stretch = torch.stack([draws.stretch, 1 / draws.stretch], dim=1)
    arc = stretch.new_zeros(len(stretch), STEPS + 1)
    torch.cumsum((stretch.square() @ steps.square().T).sqrt_(), dim=1, out=arc[:, 1:])

    fraction = torch.linspace(0, 1, length, dtype=arc.dtype).expand(len(arc), length)
    fraction = torch.where(draws.reverse[:, None], 1 - fraction, fraction)
    if closed:
        total = arc[:, -1:]
        at = torch.addcmul(arc.gather(1, draws.start[:, None]), fraction, total)
        at = torch.where(at >= total, at - total, at)
        at[:, -1] = at[:, 0]  # to the last bit, not only to rounding
    else:
        first, last = draws.cut[:, :1], STEPS - draws.cut[:, 1:]
        at = torch.lerp(arc.gather(1, first), arc.gather(1, last), fraction)

    after = torch.searchsorted(arc, at, right=True).clamp_(1, STEPS)
    before = after - 1
    arc_before = arc.gather(1, before)
    weight = (at - arc_before).div_(arc.gather(1, after).sub_(arc_before))
    x = torch.addcmul(curve[before], weight[..., None], steps[before])
    return (x - x[:, :1]) * stretch[:, None]


def _support(x: Float[Tensor, "n length 2"]) -> Float[Tensor, "angles n"]:
    """How far points that begin at the origin reach towards each of ``ANGLES`` directions."""
    theta = torch.arange(ANGLES // 2, dtype=torch.float64) * (2 * torch.pi / ANGLES)
    cos, sin = theta.cos().float()[:, None], theta.sin().float()[:, None]
    high = x.new_zeros(ANGLES // 2, len(x))
    low, projection = high.clone(), high.clone()
    # Point after point in one small buffer: all projections at once would leave the cache.
    for px, py in x.permute(1, 2, 0).contiguous():
        torch.mul(cos, px, out=projection).addcmul_(sin, py)
        torch.maximum(high, projection, out=high)
        torch.minimum(low, projection, out=low)
    return torch.cat([high, -low])


def _reaches(support: Float[Tensor, "angles n"]) -> tuple[Float[Tensor, "angles n"], ...]:
    """Towards the sides +x, +y, -x, -y of the frame: the reach after a turn by *minus* each angle.

    Turned by -phi, the reach towards side a is h(a + phi): four windows on one table.
    """
    quarter = ANGLES // 4
    around = torch.cat([support, support[: 3 * quarter]])
    return tuple(around[side * quarter :][:ANGLES] for side in range(4))


def _fit(
    reaches: tuple[Float[Tensor, "angles n"], ...], draws: PlaceDraws
) -> tuple[Bool[Tensor, " n"], Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Whether any angle fits at the drawn position, which one is drawn, and the factor."""
    x, y = draws.position.unbind(dim=1)
    rooms = (FRAME - x, FRAME - y, x, y)
    fits = torch.ones_like(reaches[0], dtype=torch.bool)
    for reach, room in zip(reaches, rooms, strict=True):
        fits &= reach <= (room + ROUNDING) / MARGIN
    rank = fits.cumsum(dim=0, dtype=torch.int32)
    wanted = (draws.angle * rank[-1]).int() + 1
    angle = (rank < wanted).sum(dim=0).clamp_(max=ANGLES - 1)
    rows = torch.arange(len(angle))
    largest = torch.full_like(x, MAX_FACTOR)
    for reach, room in zip(reaches, rooms, strict=True):
        reach = reach[angle, rows]
        # A side that the curve does not go towards limits nothing, not even from the border.
        largest = torch.where(reach > ROUNDING, torch.minimum(largest, room / reach), largest)
    return fits[angle, rows], angle, 1 + draws.factor * (largest - 1)


def _place(x: Float[Tensor, "n length 2"], rng: np.random.Generator) -> Float[Tensor, "n length 2"]:
    """Turn, enlarge and move curves that begin at the origin into the frame [-1, 1]."""
    n = len(x)
    support = _support(x)
    position, factor = x.new_empty(n, 2), x.new_empty(n)
    angle = torch.empty(n, dtype=torch.long)
    open_rows = torch.arange(n)
    while len(open_rows):
        draws = PlaceDraws.draw(rng, n).rows(open_rows)
        found, angle_found, factor_found = _fit(_reaches(support.index_select(1, open_rows)), draws)
        done = open_rows[found]
        position[done] = draws.position[found]
        angle[done] = angle_found[found]
        factor[done] = factor_found[found]
        open_rows = open_rows[~found]

    # As complex numbers, turned and enlarged is one product.
    move = torch.polar(factor, angle.to(x) * (-2 * torch.pi / ANGLES))
    z = torch.view_as_complex(x) * move[:, None] + torch.view_as_complex(position)[:, None]
    # The largest factor touches the frame, up to rounding.
    return torch.view_as_real(z).mul_(2 / FRAME).sub_(1).clamp_(-1, 1)


def make_block(seed: int, block: int, length: int) -> tuple[Tensor, Tensor]:
    """Samples ``block * BLOCK`` up to the next block's first: x (BLOCK, length, 2) and y."""
    rng = generator(seed, block)
    order = torch.from_numpy(rng.permutation(BLOCK))
    draws = ShapeDraws.draw(rng, BLOCK)
    # Pattern by pattern, for then the tables stay in the cache.
    shapes = [
        _shapes(curve, closed, draws.rows(rows), length)
        for curve, closed, rows in zip(
            torch.from_numpy(curve_table()).float(),
            CLOSED,
            torch.arange(BLOCK).chunk(len(CURVES)),
            strict=True,
        )
    ]
    x = _place(torch.cat(shapes), rng)
    return x[order], order // (BLOCK // len(CURVES))


class Trajectory20:
    """The endless stream of labelled trajectories of a seed, addressed by index.

    ``stream[a:b]`` gives samples a up to b: x (b - a, length, 2) in [-1, 1] and their labels y.
    With a corruption and its severity (T20-C, see `mocaps.data.corrupt`) the same samples come
    corrupted, each in its own way, and some reach out of [-1, 1].

    >>> x, y = Trajectory20(length=32, seed=0)[64:128]
    >>> x.shape, y.shape
    (torch.Size([64, 32, 2]), torch.Size([64]))
    """

    def __init__(
        self,
        length: int = 32,
        seed: int = 0,
        *,
        corruption: str | None = None,
        severity: int = 0,
        device: str | torch.device = "cpu",
    ):
        if length < 2:
            raise ValueError(f"expected a length of 2 points or more, got {length}")
        if seed < 0:
            raise ValueError(f"expected a seed of 0 or more, got {seed}")
        if corruption is not None:
            check(corruption, severity)
        elif severity != 0:
            raise ValueError(f"expected a corruption along with severity {severity}, got none")
        self.length, self.seed = length, seed
        self.corruption, self.severity = corruption, severity
        self.device = torch.device(device)
        self._cached: tuple[int, tuple[Tensor, Tensor]] | None = None

    def __getitem__(self, span: slice) -> tuple[Float[Tensor, "n length 2"], Int[Tensor, " n"]]:
        if not isinstance(span, slice) or span.step not in (None, 1):
            raise ValueError(f"expected a slice without a step, got {span}")
        start, stop = span.start or 0, span.stop
        if stop is None or not 0 <= start <= stop:
            raise ValueError(f"expected a slice with 0 <= start <= stop, got {span}")
        parts = [
            tuple(
                part[max(start - first, 0) : stop - first] for part in self._block(first // BLOCK)
            )
            for first in range(start - start % BLOCK, max(stop, start + 1), BLOCK)
        ]
        x, y = zip(*parts, strict=True)  # copied even if one part, so callers may write into it
        return torch.cat(x), torch.cat(y)

    def _block(self, block: int) -> tuple[Tensor, Tensor]:
        """One block from the cache of the last one: batches in sequence make each block once."""
        if self._cached is None or self._cached[0] != block:
            x, y = make_block(self.seed, block, self.length)
            if self.corruption is not None:
                draws = torch.Generator().manual_seed(
                    int(generator(self.seed, block, 1).integers(2**63))
                )
                x = corrupt(x, self.corruption, self.severity, draws)
            self._cached = block, (x.to(self.device), y.to(self.device))
        return self._cached[1]


def trajectory20(
    split: str, length: int = 32, *, corruption: str | None = None, severity: int = 0
) -> tuple[Float[Tensor, "n length 2"], Int[Tensor, " n"]]:
    """The 10,000 fixed samples of "validation", "test" or "labels" (training data for probes)."""
    if split not in SPLIT_SEEDS:
        raise ValueError(f"expected a split out of {', '.join(SPLIT_SEEDS)}, got {split!r}")
    stream = Trajectory20(length, SPLIT_SEEDS[split], corruption=corruption, severity=severity)
    return stream[:SPLIT_SIZE]
