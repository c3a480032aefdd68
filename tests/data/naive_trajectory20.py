"""Trajectory20 one sample and one number at a time, in the order of the words that define it."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import cos, floor, hypot, pi, radians, sin, sqrt, tanh

Point = tuple[float, float]

STEPS = 640

POLYGONS: dict[str, list[Point]] = {
    "triangle": [(0, 0), (50, 0), (25, 50)],
    "rectangle": [(0, 0), (50, 0), (50, 50), (0, 50)],
    "pentagon": [(0, 0), (32.48, 0), (42.51, 30.89), (16.24, 49.98), (-10.03, 30.89)],
    "hexagon": [(0, 0), (25, 0), (37.5, 21.65), (25, 43.3), (0, 43.3), (-12.5, 21.65)],
}


def hippopede(t: float) -> Point:
    r = sqrt(38 * (10 - 9.5 * sin(t) ** 2))
    return 1.25 * r * cos(t), 2.5 * r * sin(t)


def heart(t: float) -> Point:
    y = 1.7287 * (13 * cos(t) - 5 * cos(2 * t) - 2 * cos(3 * t) - cos(4 * t))
    return 25 * sin(t) ** 3, y


def bell(sign: int) -> Callable[[float], Point]:
    return lambda t: (17.4830 * t, sign * 10.1255 * sqrt(max(0, t**3 + 2)))


def cubic_1(sign: int) -> Callable[[float], Point]:
    return lambda t: (12.5 * t, sign * 12.5 * sqrt(max(0, t**3 - 3 * t + 2)))


def cubic_3(sign: int) -> Callable[[float], Point]:
    def curve(t: float) -> Point:
        if abs(t + 1) < 1e-9:
            t += 1e-6  # 0/0 there, with a limit
        return 10 * t, 7.1429 * (2 + sign * sqrt(max(0, -(t**4) + t**3 + 6 * t**2))) / (t + 1)

    return curve


LOOP = (0, 2 * pi)
FORMULAS: dict[str, list[tuple[float, float, Callable[[float], Point]]]] = {
    "astroid": [(*LOOP, lambda t: (25 * cos(t) ** 3, 25 * sin(t) ** 3))],
    "circle": [(*LOOP, lambda t: (25 * sin(t), 25 * cos(t)))],
    "hippopede": [(*LOOP, hippopede)],
    "lemniscate": [(*LOOP, lambda t: (25 * sin(t), 50 * sin(t) * cos(t)))],
    "heart": [(*LOOP, heart)],
    "spiral": [(0, 4 * pi, lambda t: ((25 - 1.5 * t) * cos(t), (25 - 1.5 * t) * sin(t)))],
    "sine": [(*LOOP, lambda t: (7.9677 * t, 25 * sin(t)))],
    "absolute sine": [(*LOOP, lambda t: (7.9677 * t, 50 * abs(sin(t))))],
    "tanh": [(-4, 4, lambda t: (6.25 * t, 25 * tanh(t)))],
    "line": [(0, 50, lambda t: (t, t))],
    "parabola": [(-1, 1, lambda t: (25 * t, 50 * t**2))],
    "bell": [(1.6, -1.25992, bell(1)), (-1.25992, 1.6, bell(-1))],
    "semicubical parabola": [(-1, 1, lambda t: (50 * t**2, 25 * t**3))],
    "cubic 1": [(2, 1, cubic_1(1)), (1, -2, cubic_1(-1)), (-2, 1, cubic_1(1)), (1, 2, cubic_1(-1))],
    "cubic 2": [
        (-12, 12, lambda t: (8.3333 * (-(t**2) + 6 * t - 1) / (t**2 + 1), 2.0833 * t)),
    ],
    "cubic 3": [
        (-1.9595, -2, cubic_3(1)),
        (-2, 0, cubic_3(-1)),
        (0, 3, cubic_3(1)),
        (3, 0, cubic_3(-1)),
        (0, -0.31428, cubic_3(1)),
    ],
}


def at_arc_length(path: list[Point], lengths: Iterable[float]) -> list[Point]:
    """The points of a path that lie at these lengths from its start."""
    points, travelled, step = [], 0.0, 0
    for length in sorted(lengths):
        while True:
            (x0, y0), (x1, y1) = path[step], path[step + 1]
            side = hypot(x1 - x0, y1 - y0)
            if travelled + side >= length or step == len(path) - 2:
                break
            travelled, step = travelled + side, step + 1
        share = min((length - travelled) / side, 1) if side else 0
        points.append((x0 + share * (x1 - x0), y0 + share * (y1 - y0)))
    return points


def arc_length(path: list[Point]) -> float:
    return sum(hypot(x1 - x0, y1 - y0) for (x0, y0), (x1, y1) in pairwise(path))


def curve_points(name: str) -> list[Point]:
    """The curve's STEPS + 1 points: equal steps of t, or of length where it has several branches.

    Of a polygon these are equal steps along it, which pass by a corner at up to half a step.
    """
    if name in POLYGONS:
        path = [*POLYGONS[name], POLYGONS[name][0]]
    elif len(FORMULAS[name]) == 1:
        (start, stop, curve) = FORMULAS[name][0]
        return [curve(start + (stop - start) * i / STEPS) for i in range(STEPS + 1)]
    else:
        # Quadratic steps, small where a branch ends, since roots are steep there.
        grid = [(1 - cos(pi * i / 4000)) / 2 for i in range(4001)]
        path = [c(start + (stop - start) * g) for start, stop, c in FORMULAS[name] for g in grid]
    total = arc_length(path)
    return at_arc_length(path, [total * i / STEPS for i in range(STEPS + 1)])


def shape(
    path: list[Point],
    closed: bool,
    stretch: float,
    reverse: bool,
    start: int,
    cut: tuple[int, int],
    length: int,
) -> list[Point]:
    """Stretch, begin at the start point or cut the ends, reverse, cut into equal arc lengths."""
    path = [(x * stretch, y / stretch) for x, y in path]
    path = path[start:] + path[1 : start + 1] if closed else path[cut[0] : STEPS + 1 - cut[1]]
    if reverse:
        path = path[::-1]
    total = arc_length(path)
    points = at_arc_length(path, [total * i / (length - 1) for i in range(length)])
    x0, y0 = points[0]
    return [(x - x0, y - y0) for x, y in points]


def turned(points: list[Point], degrees: float, factor: float, position: Point) -> list[Point]:
    c, s = cos(radians(degrees)), sin(radians(degrees))
    px, py = position
    return [(px + factor * (c * x - s * y), py + factor * (s * x + c * y)) for x, y in points]


def inside(points: list[Point]) -> bool:
    """In the frame, its border included (an edge may lie on it, to rounding)."""
    return all(-1e-4 <= x <= 128 + 1e-4 and -1e-4 <= y <= 128 + 1e-4 for x, y in points)


def place(
    points: list[Point], attempts: Iterable[tuple[Point, float, float]]
) -> list[tuple[float, float]]:
    """Draw positions until an angle fits, enlarge, map to [-1, 1].

    An attempt is (position, which of the fitting angles, how far towards the largest factor), the
    last two in [0, 1). Angles are counted clockwise.
    """
    for position, which, how_far in attempts:
        angles = [-3.6 * i for i in range(100)]
        fitting = [a for a in angles if inside(turned(points, a, 1.1, position))]
        if not fitting:
            continue
        angle = fitting[floor(which * len(fitting))]
        low, high = 1.1, 8.0
        if inside(turned(points, angle, high, position)):
            low = high
        while high - low > 1e-9:
            middle = (low + high) / 2
            if inside(turned(points, angle, middle, position)):
                low = middle
            else:
                high = middle
        factor = 1 + how_far * (low - 1)
        return [(x / 64 - 1, y / 64 - 1) for x, y in turned(points, angle, factor, position)]
    raise AssertionError("no attempt fitted")
