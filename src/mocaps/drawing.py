"""The visual language of the pictures: colours, strokes, panels.

A trajectory is a line whose colour is time, dark to bright in a perceptually uniform map that
survives grey printing and colour blindness, with a dot where it starts. Axes are equal, frames are
faint, and pictures are small multiples. All colours are the few constants below, so that
`mocaps.svg` can hand them to a page's light and dark theme.

No pyplot: it keeps global state, and a library has no business with that.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from mocaps.errors import InputError

INK, MUTED, FAINT = "#1b2330", "#66707d", "#dde2e8"
SHADE = "#c3c9d1"
"""What stands behind: an input under its reconstruction."""
ACCENT = "#2a788e"
CURVES = ("#2a78b5", "#d2762b", "#2f9e77", "#b4569b", "#8a8f2c", "#7d6bc4")
"""Of middling brightness: they stand out on white and on black, and differ in hue."""
DASHES = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 1)))
"""A second way to tell curves apart, for grey print."""

TIME_STEPS = 16
"""Colours along a trajectory: beyond this the eye sees no steps, and the SVG only grows."""
# The ends are left out: pure yellow vanishes on white, and deep violet on black.
TIME = [to_hex(c) for c in colormaps["viridis"](np.linspace(0.0, 0.93, TIME_STEPS))]
TIME_ON_DARK = [to_hex(c) for c in colormaps["viridis"](np.linspace(0.3, 1.0, TIME_STEPS))]

Lines = list[tuple[np.ndarray, str, float]]
"""What a LineCollection holds: points, colour and width of each piece."""


def flat(x: np.ndarray) -> np.ndarray:
    """Points on paper: two coordinates as they are, three seen from a corner (isometric)."""
    if x.shape[-1] == 2:
        return x
    if x.shape[-1] != 3:
        raise InputError(f"expected points of 2 or 3 coordinates, got {x.shape[-1]}")
    corner = np.array([[0.7071, -0.4082], [-0.7071, -0.4082], [0.0, 0.8165]])
    return x @ corner


def time_lines(x: Float[np.ndarray, "L d"], width: float = 1.5) -> Lines:
    """A trajectory as pieces of equal colour, and the dot at its start.

    >>> len(time_lines(np.zeros((32, 2)))) == TIME_STEPS + 1
    True
    """
    points = flat(x)
    colour = np.rint(np.linspace(0, TIME_STEPS - 1, max(len(points) - 1, 1))).astype(int)
    borders = [0, *(np.flatnonzero(np.diff(colour)) + 1), len(points) - 1]
    pieces = [
        (points[start : stop + 1], TIME[int(colour[start])], width)
        for start, stop in itertools.pairwise(borders)
    ]
    # A line of almost no length with round ends is a dot, and stays in the one collection.
    dot = np.stack([points[0], points[0] + 1e-4])
    return [*pieces, (dot, TIME[0], 2.9 * width)]


def shade_line(x: Float[np.ndarray, "L d"], width: float = 3.2) -> Lines:
    """A trajectory in the background."""
    return [(flat(x), SHADE, width)]


def clipped(lines: Lines, low: np.ndarray, high: np.ndarray) -> Lines:
    """What of the pieces lies between two corners, cut off at the borders.

    A clip path would do the same, but lives apart from the panel that needs it.
    """
    kept: Lines = []
    for points, colour, width in lines:
        for a, b in itertools.pairwise(points):
            step = np.where(b == a, 1e-12, b - a)
            borders = np.sort([(low - a) / step, (high - a) / step], axis=0)
            start, stop = max(0.0, *borders[0]), min(1.0, *borders[1])
            if start < stop:
                kept.append((np.stack([a + start * step, a + stop * step]), colour, width))
    return kept


def add(ax: Axes, lines: Lines) -> None:
    """All pieces as one collection, free to reach past the panel's border."""
    points, colours, widths = zip(*lines, strict=True)
    collection = LineCollection(
        list(points), colors=list(colours), linewidths=list(widths), clip_on=False
    )
    collection.set(capstyle="round", joinstyle="round")
    ax.add_collection(collection, autolim=False)


def panels(
    count: int,
    columns: int,
    size: tuple[float, float],
    gap: tuple[float, float] = (0.22, 0.42),
    margin: tuple[float, float, float, float] = (0.15, 0.35, 0.15, 0.3),
) -> tuple[Figure, list[Axes]]:
    """`count` panels of that size in inches, in rows; margins are left, bottom, right, top."""
    if count < 1:
        raise InputError(f"expected at least one panel to draw, got {count}")
    columns = min(columns, count)
    rows = -(-count // columns)
    left, bottom, right, top = margin
    width = left + right + columns * size[0] + (columns - 1) * gap[0]
    height = bottom + top + rows * size[1] + (rows - 1) * gap[1]
    figure = Figure(figsize=(width, height))
    axes = []
    for i in range(count):
        row, column = divmod(i, columns)
        x = left + column * (size[0] + gap[0])
        y = height - top - size[1] - row * (size[1] + gap[1])
        ax = figure.add_axes((x / width, y / height, size[0] / width, size[1] / height))
        ax.set_gid(f"panel-{i}")
        ax.patch.set_visible(False)  # the ground is the page's
        axes.append(ax)
    return figure, axes


def bare(ax: Axes, xlim: tuple[float, float], ylim: tuple[float, float], title: str) -> None:
    """A panel that holds a drawing: equal axes, no scales."""
    ax.set(xlim=xlim, ylim=ylim)
    ax.set_aspect("equal", adjustable="box")
    ax.axis("off")
    # A place given spares matplotlib the search for one above the (absent) tick labels.
    ax.set_title(title, loc="left", fontsize=8, color=INK, pad=4, y=1.0)


def time_legend(figure: Figure) -> None:
    """start, a bar of the time colours, end; at the lower right."""
    width, height = figure.get_size_inches()
    ax = figure.add_axes(((width - 1.75) / width, 0.05 / height, 1.6 / width, 0.18 / height))
    ax.set_gid("legend")
    ax.axis("off")
    ax.set(xlim=(0, 1.6), ylim=(-0.09, 0.09))
    points = np.stack([np.linspace(0.42, 1.22, 49), np.zeros(49)], axis=1)
    add(ax, time_lines(points, width=2.0))
    style: dict[str, Any] = {"fontsize": 7, "color": MUTED, "va": "center_baseline"}
    ax.text(0.32, 0, "start", ha="right", **style)
    ax.text(1.32, 0, "end", ha="left", **style)


def strip(
    ax: Axes, frames: Sequence[Lines], corners: tuple[np.ndarray, np.ndarray], title: str
) -> None:
    """Several drawings side by side in one panel, each in a faint frame of the same corners."""
    low, high = corners
    size = high - low
    pad = 0.08 * size[0]
    lines: Lines = []
    for k, frame in enumerate(frames):
        place = np.array([k * (size[0] + pad), 0.0])
        border = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) * size
        lines += [(border + place, FAINT, 0.6)]
        lines += [(points - low + place, colour, width) for points, colour, width in frame]
    add(ax, lines)
    bare(ax, (0, len(frames) * (size[0] + pad) - pad), (0, size[1]), title)


def limits(*points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A frame for all of them: the data's [-1, 1] where they keep to it, else their own square."""
    all_points = np.concatenate([flat(p).reshape(-1, 2) for p in points])
    low, high = np.nanmin(all_points, axis=0), np.nanmax(all_points, axis=0)
    if points[0].shape[-1] == 2 and np.abs([low, high]).max() <= 1.3:
        return np.array([-1.03, -1.03]), np.array([1.03, 1.03])
    middle, half = (low + high) / 2, 0.53 * max((high - low).max(), 1e-6)
    return middle - half, middle + half


WIDEST = 4.0
"""How much wider than a motion its frame may become for the sake of what lies around it."""


def around(x: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A square frame for a motion and the others, where they keep near it; what does not is cut."""
    motion = flat(x).reshape(-1, 2)
    everything = np.concatenate([motion, *(flat(other).reshape(-1, 2) for other in others)])
    extent = max(np.ptp(motion, axis=0).max(), 1e-9)
    near = np.ptp(everything, axis=0).max() <= WIDEST * extent
    points = everything if near else motion
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    half = 0.55 * (max(np.ptp(everything, axis=0).max(), extent) if near else WIDEST * extent)
    return middle - half, middle + half


def scales(ax: Axes) -> None:
    """A panel that holds a curve: two quiet spines, horizontal guides."""
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set(color=SHADE, linewidth=0.8)
    ax.tick_params(bottom=False, left=False, labelsize=7, labelcolor=MUTED, pad=2.5, which="both")
    ax.minorticks_off()
    ax.grid(axis="y", color=FAINT, linewidth=0.6)
    ax.set_axisbelow(True)
