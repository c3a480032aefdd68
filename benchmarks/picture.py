"""The growth of time and memory as small multiples on logarithmic scales."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from benchmarks.scaling import AXES, duration, megabytes
from mocaps import drawing, svg

LABEL = "Time and peak memory against batch size, L, M, K and number of sequences"


def picture(axes: dict[str, Any]) -> str:
    """SVG: a column a size, time above memory."""
    figure, panels = drawing.panels(
        2 * len(axes), len(axes), (1.55, 1.25), gap=(0.55, 0.62), margin=(0.6, 0.62, 0.15, 0.4)
    )
    for column, (name, found) in enumerate(axes.items()):
        points = found["points"]
        sizes = [p["size"] for p in points]
        title = AXES[name].label
        what = "time" if name == "sequences" else "time a step"
        time, memory = panels[column], panels[len(axes) + column]
        curve(time, sizes, [p["seconds"] for p in points], found["time"]["expected"])
        curve(memory, sizes, [max(p["bytes"], 1e6) for p in points], found["memory"]["expected"])
        time.yaxis.set_major_formatter(FuncFormatter(lambda y, _: duration(y)))
        memory.yaxis.set_major_formatter(FuncFormatter(lambda y, _: megabytes(y)))
        for ax, cost in ((time, what), (memory, "memory")):
            ax.set_title(
                f"{title}: {cost}", loc="left", fontsize=7.5, color=drawing.INK, pad=5, y=1.0
            )
    panels[len(axes)].text(
        0,
        -0.3,
        "dots: measured; grey line: growth as the mathematics says, through the last dot",
        transform=panels[len(axes)].transAxes,
        fontsize=7,
        color=drawing.MUTED,
        va="top",
    )
    return svg.whole(figure, LABEL, standalone=True)


def curve(ax: Axes, sizes: list[int], costs: list[float], expected: float) -> None:
    """Measured points, and the law through the last of them."""
    law = [costs[-1] * (size / sizes[-1]) ** expected for size in sizes]
    ax.loglog(sizes, law, color=drawing.SHADE, linewidth=2.2, solid_capstyle="round")
    # One of the colours that a page's theme knows.
    colour = drawing.TIME[6]
    ax.loglog(sizes, costs, color=colour, linewidth=1.2)
    for size, cost in zip(sizes, costs, strict=True):
        # A line of almost no length with round ends is a dot; mocaps.svg knows lines alone.
        dot = [size, 1.001 * size], [cost, cost]
        ax.loglog(*dot, color=colour, linewidth=3.6, solid_capstyle="round")
    low, high = min(*costs, *law), max(costs)
    ax.set_ylim(low / 1.6, high * 1.6 * max(1.0, 4 * low / high))
    drawing.scales(ax)
    ax.set_xticks(sizes[:: max(1, len(sizes) // 3)])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short(x)))


def short(size: float) -> str:
    """
    >>> short(32), short(10_000), short(3_000_000)
    ('32', '10k', '3M')
    """
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if size >= unit and size % unit == 0:
            return f"{size / unit:g}{letter}"
    return f"{size:g}"
