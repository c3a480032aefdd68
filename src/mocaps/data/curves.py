"""The 20 patterns of Trajectory20 as a table of plane curves.

Each pattern is a polyline of ``STEPS`` steps, in units of which the frame that trajectories live
in has 128 a side. The steps are equal in the parameter t; polygons, and curves of several branches,
whose t turns back, have steps of equal length. (That is how the authors' samples are: undoing
the stretch, turn and scale of a sample puts its points on such a grid.)
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import abs, cos, pi, sin, sqrt, tanh

STEPS = 640

Array = np.ndarray
Number = float | int
Points = Float64[np.ndarray, "points 2"]
Formula = Callable[[Array], tuple[Array, Array]]


class Curve(NamedTuple):
    """A pattern: its name, whether its end is its start, and its points."""

    name: str
    closed: bool
    points: Callable[[], Points]


def _polygon(*corners: tuple[Number, Number]) -> Callable[[], Points]:
    """The closed polygon, its steps as equal as whole numbers of them on each side allow."""

    def points() -> Points:
        loop = np.array([*corners, corners[0]], dtype=float)
        arc = np.linalg.norm(np.diff(loop, axis=0, prepend=loop[:1]), axis=1).cumsum()
        at_corner = np.rint(STEPS * arc / arc[-1])
        return _interpolate(np.arange(STEPS + 1.0), at_corner, loop)

    return points


def _curve(start: Number, stop: Number, xy: Formula) -> Callable[[], Points]:
    """The curve t -> (x, y) in equal steps of t."""
    return lambda: np.stack(xy(np.linspace(start, stop, STEPS + 1)), axis=1)


def _branches(*branches: tuple[Number, Number, Formula]) -> Callable[[], Points]:
    """The curve through each (from t, to t, formula) in turn, in steps of equal length."""

    def points() -> Points:
        # Where a square root starts, a branch is steep: fine steps first, then equal ones.
        fine = [np.stack(xy(np.linspace(a, b, 16 * STEPS)), axis=1) for a, b, xy in branches]
        path = np.concatenate(fine)
        arc = np.linalg.norm(np.diff(path, axis=0, prepend=path[:1]), axis=1).cumsum()
        return _interpolate(np.linspace(0, arc[-1], STEPS + 1), arc, path)

    return points


def _interpolate(at: Array, knots: Array, path: Array) -> Points:
    return np.stack([np.interp(at, knots, path[:, axis]) for axis in range(2)], axis=1)


def _hippopede(t: Array) -> tuple[Array, Array]:
    r = sqrt(38 * (10 - 9.5 * sin(t) ** 2))
    return 1.25 * r * cos(t), 2.5 * r * sin(t)


def _heart(t: Array) -> tuple[Array, Array]:
    y = 13 * cos(t) - 5 * cos(2 * t) - 2 * cos(3 * t) - cos(4 * t)
    return 25 * sin(t) ** 3, 1.7287 * y


def _root(square: Array) -> Array:
    """A square root that forgives the rounding of a branch's end, where the square is zero."""
    return sqrt(np.maximum(square, 0))


def _bell(sign: int) -> Formula:
    return lambda t: (17.4830 * t, sign * 10.1255 * _root(t**3 + 2))


def _cubic_1(sign: int) -> Formula:
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
    Curve("astroid", True, _curve(*_LOOP, lambda t: (25 * cos(t) ** 3, 25 * sin(t) ** 3))),
    Curve("circle", True, _curve(*_LOOP, lambda t: (25 * sin(t), 25 * cos(t)))),
    Curve("hippopede", True, _curve(*_LOOP, _hippopede)),
    Curve("lemniscate", True, _curve(*_LOOP, lambda t: (25 * sin(t), 50 * sin(t) * cos(t)))),
    Curve("heart", True, _curve(*_LOOP, _heart)),
    Curve(
        "spiral",
        False,
        _curve(0, 4 * pi, lambda t: ((25 - 1.5 * t) * cos(t), (25 - 1.5 * t) * sin(t))),
    ),
    Curve("sine", False, _curve(*_LOOP, lambda t: (7.9677 * t, 25 * sin(t)))),
    Curve("absolute sine", False, _curve(*_LOOP, lambda t: (7.9677 * t, 50 * abs(sin(t))))),
    Curve("tanh", False, _curve(-4, 4, lambda t: (6.25 * t, 25 * tanh(t)))),
    Curve("line", False, _curve(0, 50, lambda t: (t, t))),
    Curve("parabola", False, _curve(-1, 1, lambda t: (25 * t, 50 * t**2))),
    Curve(
        "bell",
        False,
        _branches((1.6, -(2 ** (1 / 3)), _bell(1)), (-(2 ** (1 / 3)), 1.6, _bell(-1))),
    ),
    Curve("semicubical parabola", False, _curve(-1, 1, lambda t: (50 * t**2, 25 * t**3))),
    Curve(
        "cubic 1",
        False,
        _branches(
            (2, 1, _cubic_1(1)), (1, -2, _cubic_1(-1)), (-2, 1, _cubic_1(1)), (1, 2, _cubic_1(-1))
        ),
    ),
    Curve("cubic 2", False, _curve(-12, 12, _cubic_2)),
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
def curve_table() -> Float64[np.ndarray, "patterns points 2"]:
    """The points of all patterns, in label order."""
    return np.stack([curve.points() for curve in CURVES])
