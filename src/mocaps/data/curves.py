"""The 20 patterns of Trajectory20 as a table of plane curves.

Each pattern is a polyline of ``STEPS`` equal steps of its parameter t, in units of which the
frame that trajectories live in has 128 a side. A curve of several branches spends on each the
share of steps that the branch has of the whole parameter range, so that t keeps its speed.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import abs, cos, pi, sin, sqrt, tanh

STEPS = 640

Array = np.ndarray
Points = Float64[np.ndarray, "steps+1 2"]


class Curve(NamedTuple):
    """A pattern: its name, whether its end is its start, and its points."""

    name: str
    closed: bool
    points: Callable[[], Points]


def _steps_by_share(lengths: list[float]) -> list[int]:
    """Split ``STEPS`` into whole numbers that stand to each other as ``lengths`` do."""
    ends = np.rint(STEPS * np.cumsum(lengths) / np.sum(lengths)).astype(int)
    return np.diff(ends, prepend=0).tolist()


def _polygon(*corners: tuple[float, float]) -> Callable[[], Points]:
    """The closed polygon at constant speed, to the step that each corner needs for itself."""

    def points() -> Points:
        loop = np.array([*corners, corners[0]], dtype=float)
        counts = _steps_by_share(np.linalg.norm(np.diff(loop, axis=0), axis=1).tolist())
        sides = [
            start + (end - start) * np.arange(count)[:, None] / count
            for start, end, count in zip(loop[:-1], loop[1:], counts, strict=True)
        ]
        return np.concatenate([*sides, loop[-1:]])

    return points


def _branches(
    *branches: tuple[float, float, Callable[[Array], tuple[Array, Array]]],
) -> Callable[[], Points]:
    """The curve that runs through each (from t, to t, curve of t) in turn."""

    def points() -> Points:
        counts = _steps_by_share([float(abs(stop - start)) for start, stop, _ in branches])
        pieces = [
            np.stack(curve(np.linspace(start, stop, count + 1)), axis=1)
            for (start, stop, curve), count in zip(branches, counts, strict=True)
        ]
        # Branches meet: the last point of one is the first of the next.
        return np.concatenate([*(piece[:-1] for piece in pieces[:-1]), pieces[-1]])

    return points


def _hippopede(t: Array) -> tuple[Array, Array]:
    r = sqrt(38 * (10 - 9.5 * sin(t) ** 2))
    return 1.25 * r * cos(t), 2.5 * r * sin(t)


def _heart(t: Array) -> tuple[Array, Array]:
    y = 13 * cos(t) - 5 * cos(2 * t) - 2 * cos(3 * t) - cos(4 * t)
    return 25 * sin(t) ** 3, 1.7287 * y


def _root(square: Array) -> Array:
    """A square root that forgives the rounding of a branch's end, where the square is zero."""
    return sqrt(np.maximum(square, 0))


def _bell(sign: int) -> Callable[[Array], tuple[Array, Array]]:
    return lambda t: (17.4830 * t, sign * 10.1255 * _root(t**3 + 2))


def _cubic_1(sign: int) -> Callable[[Array], tuple[Array, Array]]:
    return lambda t: (12.5 * t, sign * 12.5 * _root(t**3 - 3 * t + 2))


def _cubic_2(t: Array) -> tuple[Array, Array]:
    return 8.3333 * (-(t**2) + 6 * t - 1) / (t**2 + 1), 2.0833 * t


def _cubic_3_upper(t: Array) -> tuple[Array, Array]:
    return 10 * t, 7.1429 * (2 + _root(-(t**4) + t**3 + 6 * t**2)) / (t + 1)


def _cubic_3_lower(t: Array) -> tuple[Array, Array]:
    # (2 - root)/(t + 1) is 0/0 at t = -1. Multiplied by 2 + root, its numerator is
    # 4 - root^2 = (t + 1)(t^3 - 2 t^2 - 4 t + 4), and t + 1 cancels.
    root = _root(-(t**4) + t**3 + 6 * t**2)
    return 10 * t, 7.1429 * (t**3 - 2 * t**2 - 4 * t + 4) / (2 + root)


_LOOP = (0.0, 2 * pi)

CURVES: tuple[Curve, ...] = (
    Curve("triangle", True, _polygon((0, 0), (50, 0), (25, 50))),
    Curve("rectangle", True, _polygon((0, 0), (50, 0), (50, 50), (0, 50))),
    Curve(
        "pentagon",
        True,
        _polygon((0, 0), (32.48, 0), (42.51, 30.89), (16.24, 49.98), (-10.03, 30.89)),
    ),
    Curve(
        "hexagon",
        True,
        _polygon((0, 0), (25, 0), (37.5, 21.65), (25, 43.3), (0, 43.3), (-12.5, 21.65)),
    ),
    Curve("astroid", True, _branches((*_LOOP, lambda t: (25 * cos(t) ** 3, 25 * sin(t) ** 3)))),
    Curve("circle", True, _branches((*_LOOP, lambda t: (25 * sin(t), 25 * cos(t))))),
    Curve("hippopede", True, _branches((*_LOOP, _hippopede))),
    Curve("lemniscate", True, _branches((*_LOOP, lambda t: (25 * sin(t), 50 * sin(t) * cos(t))))),
    Curve("heart", True, _branches((*_LOOP, _heart))),
    Curve(
        "spiral",
        False,
        _branches((0, 4 * pi, lambda t: ((25 - 1.5 * t) * cos(t), (25 - 1.5 * t) * sin(t)))),
    ),
    Curve("sine", False, _branches((*_LOOP, lambda t: (7.9677 * t, 25 * sin(t))))),
    Curve("absolute sine", False, _branches((*_LOOP, lambda t: (7.9677 * t, 50 * abs(sin(t)))))),
    Curve("tanh", False, _branches((-4, 4, lambda t: (6.25 * t, 25 * tanh(t))))),
    Curve("line", False, _branches((0, 50, lambda t: (t, t)))),
    Curve("parabola", False, _branches((-1, 1, lambda t: (25 * t, 50 * t**2)))),
    Curve(
        "bell",
        False,
        _branches((1.6, -(2 ** (1 / 3)), _bell(1)), (-(2 ** (1 / 3)), 1.6, _bell(-1))),
    ),
    Curve("semicubical parabola", False, _branches((-1, 1, lambda t: (50 * t**2, 25 * t**3)))),
    Curve(
        "cubic 1",
        False,
        _branches(
            (2, 1, _cubic_1(1)), (1, -2, _cubic_1(-1)), (-2, 1, _cubic_1(1)), (1, 2, _cubic_1(-1))
        ),
    ),
    Curve("cubic 2", False, _branches((-12, 12, _cubic_2))),
    Curve(
        "cubic 3",
        False,
        _branches(
            (-1.9595, -2, _cubic_3_upper),
            (-2, 0, _cubic_3_lower),
            (0, 3, _cubic_3_upper),
            (3, 0, _cubic_3_lower),
            (0, -0.31428, _cubic_3_upper),
        ),
    ),
)


@cache
def curve_table() -> Float64[np.ndarray, "patterns steps+1 2"]:
    """The points of all patterns, in label order."""
    return np.stack([curve.points() for curve in CURVES])
