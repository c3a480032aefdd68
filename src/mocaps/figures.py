"""The pictures: arrays and saved results in, a matplotlib Figure out. Nothing trains here.

They share one visual language, that of `mocaps.drawing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from mocaps.drawing import (
    ACCENT,
    CURVES,
    FAINT,
    INK,
    MUTED,
    Lines,
    add,
    around,
    bare,
    clipped,
    flat,
    limits,
    panels,
    scales,
    shade_line,
    strip,
    time_legend,
    time_lines,
)
from mocaps.errors import InputError


def _array(values: ArrayLike, name: str, *shape: int | None) -> np.ndarray:
    """The values as an array of that shape, None standing for any size."""
    array = np.asarray(values, dtype=float)
    if array.ndim != len(shape) or any(
        wanted not in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InputError(f"expected {name} of shape ({wanted}), got {array.shape}")
    return array


def gallery(
    x: Float[np.ndarray, "n L d"],
    y: Int[np.ndarray, " n"],
    names: Sequence[str],
    each: int = 5,
    columns: int = 4,
) -> Figure:
    """The first `each` samples of every pattern, in the frame they live in."""
    x, y = _array(x, "x", None, None, None), np.asarray(y)
    if len(x) != len(y):
        raise InputError(f"expected as many labels as samples, got {len(y)} and {len(x)}")
    figure, axes = panels(len(names), columns, (each * 0.47, 0.47 * 1.02), gap=(0.24, 0.3))
    frame = limits(x)
    for label, (name, ax) in enumerate(zip(names, axes, strict=True)):
        rows = np.flatnonzero(y == label)[:each]
        frames = [time_lines(x[i], width=1.1) for i in rows]
        frames += [[] for _ in range(each - len(rows))]
        strip(ax, frames, frame, name)
    time_legend(figure)
    return figure


def reconstructions(
    x: Float[np.ndarray, "n L d"],
    x_hat: Float[np.ndarray, "n L d"],
    x_hat_from_segments: Float[np.ndarray, "n L d"] | None = None,
    names: Sequence[str] | None = None,
    columns: int = 3,
) -> Figure:
    """Input, reconstruction and reconstruction from segments, with their errors, per sample.

    The error is the root of the mean squared distance between a point and where it was put.
    """
    x = _array(x, "x", None, None, None)
    hats = [_array(x_hat, "x_hat", *x.shape)]
    if x_hat_from_segments is not None:
        hats.append(_array(x_hat_from_segments, "x_hat_from_segments", *x.shape))
    errors = [np.sqrt(((hat - x) ** 2).sum(-1).mean(-1)) for hat in hats]
    wide = 1 + len(hats)
    figure, axes = panels(len(x), columns, (wide * 0.78, 0.78), gap=(0.3, 0.52))
    frame = limits(x)
    for i, ax in enumerate(axes):
        frames = [time_lines(x[i])]
        frames += [[*shade_line(x[i]), *time_lines(hat[i])] for hat in hats]
        strip(ax, frames, frame, names[i] if names is not None else f"sample {i}")
        size = frame[1][0] - frame[0][0]
        texts = [
            "input",
            *(
                f"{what} {error[i]:.3f}"
                for what, error in zip(("snippets", "segments"), errors, strict=False)
            ),
        ]
        for k, text in enumerate(texts):
            ax.text(
                k * 1.08 * size, -0.05 * size, text, ha="left", va="top", fontsize=6.5, color=MUTED
            )
    time_legend(figure)
    return figure


def explanations(
    x: Float[np.ndarray, "n L d"],
    x_hat: Float[np.ndarray, "n L d"],
    placed: Float[np.ndarray, "n top L d"],
    captions: Sequence[Sequence[str]],
    names: Sequence[str],
) -> Figure:
    """A row a motion: the input, what the model gives back, and the templates that it is made of,
    each where its transformation puts it, with a caption."""
    x, x_hat = _array(x, "x", None, None, None), _array(x_hat, "x_hat", *np.shape(x))
    placed = _array(placed, "placed", len(x), None, *x.shape[1:])
    columns = 2 + placed.shape[1]
    figure, axes = panels(
        len(x) * columns, columns, (1.05, 1.05), gap=(0.22, 0.42), margin=(0.1, 0.45, 0.1, 0.3)
    )
    for i, name in enumerate(names):
        row = axes[i * columns : (i + 1) * columns]
        titles = [name, "given back", *captions[i]]
        drawings = _taken_apart(x[i], x_hat[i], placed[i])
        for ax, (lines, corners), title in zip(row, drawings, titles, strict=True):
            strip(ax, [lines], corners, title)
    time_legend(figure)
    return figure


def explanation(
    x: Float[np.ndarray, "L d"],
    x_hat: Float[np.ndarray, "L d"],
    placed: Float[np.ndarray, "top L d"],
    captions: Sequence[str],
    snippets: Float[np.ndarray, "S few l d"],
    shares: Sequence[Sequence[tuple[int, float]]],
    from_snippets: Float[np.ndarray, "L d"],
    name: str,
) -> Figure:
    """One motion taken apart. Above: the motion, what the model gives back, and the templates that
    it is made of, each where B puts it, over the motion in grey. Below: the same of every snippet,
    its own part of the motion thick; the greater a template's share, the thicker its line, and the
    mixture of all, which is the snippet given back, in the colour of text."""
    x, x_hat = _array(x, "x", None, None), _array(x_hat, "x_hat", *np.shape(x))
    placed = _array(placed, "placed", None, *x.shape)
    snippets = _array(snippets, "snippets", None, None, None, x.shape[1])
    mixture = flat(_array(from_snippets, "from_snippets", *x.shape))
    columns = max(2 + len(placed), 4)
    rest = columns - 2 - len(placed)  # so that the snippets begin a line
    figure, axes = panels(
        columns + len(snippets), columns, (1.3, 1.3), gap=(0.2, 0.42), margin=(0.1, 0.45, 0.1, 0.3)
    )
    off = np.sqrt(((x_hat - x) ** 2).sum(-1).mean() / ((x - x.mean(0)) ** 2).sum(-1).mean())
    titles = [name, f"given back, {100 * off:.0f}% off", *captions]
    drawings = _taken_apart(x, x_hat, placed)
    for ax, (lines, corners), title in zip(axes, drawings, titles, strict=False):
        strip(ax, [lines], corners, title)
    for ax in axes[columns - rest : columns]:
        ax.set_axis_off()
    l = snippets.shape[2]
    for i, (few, parts, ax) in enumerate(zip(snippets, shares, axes[columns:], strict=True)):
        corners = around(x, few)
        lines = [*shade_line(x, 1.0), *shade_line(x[i * l : (i + 1) * l], 5.0)]
        for points, (_, share) in zip(few, parts, strict=True):
            lines += clipped(time_lines(points, 0.6 + 2.4 * share), *corners)
        lines += clipped([(mixture[i * l : (i + 1) * l], INK, 1.2)], *corners)
        text = " · ".join(f"{k} {100 * share:.0f}%" for k, share in parts)
        strip(ax, [lines], corners, f"steps {i * l} to {(i + 1) * l - 1}")
        below = -0.04 * (corners[1] - corners[0])[1]
        ax.text(0, below, text, ha="left", va="top", fontsize=6.5, color=MUTED)
    time_legend(figure)
    return figure


def _taken_apart(
    x: np.ndarray, x_hat: np.ndarray, placed: np.ndarray
) -> Iterator[tuple[Lines, tuple[np.ndarray, np.ndarray]]]:
    """The motion, what is given back over it, and each template over it; lines and their frame.

    A template is shown whole, so the greater it is beside the motion, the smaller the motion.
    """
    yield time_lines(x, 2.0), around(x, x_hat)
    yield [*shade_line(x, 4.0), *time_lines(x_hat, 2.0)], around(x, x_hat)
    for points in placed:
        corners = around(x, points)
        yield [*shade_line(x, 4.0), *clipped(time_lines(points, 2.0), *corners)], corners


def mosaic(
    x: Float[np.ndarray, "n L d"], x_hat: Float[np.ndarray, "n L d"], columns: int = 3
) -> Figure:
    """Reconstructions over their inputs, each motion enlarged to fill its panel."""
    x = _array(x, "x", None, None, None)
    x_hat = _array(x_hat, "x_hat", *x.shape)
    figure, axes = panels(len(x), columns, (1.1, 1.1), gap=(0.3, 0.3), margin=(0.1, 0.1, 0.1, 0.1))
    for points, hat, ax in zip(flat(x), flat(x_hat), axes, strict=True):
        low, high = points.min(axis=0), points.max(axis=0)
        middle, half = (low + high) / 2, max((high - low).max(), 1e-9) / 2
        lines = shade_line((points - middle) / half, 5.0)
        add(ax, [*lines, *time_lines((hat - middle) / half, 2.2)])
        bare(ax, (-1.08, 1.08), (-1.08, 1.08), "")
    return figure


def snippet_templates(
    templates: Float[np.ndarray, "N l d"], activations: Float[np.ndarray, " N"] | None = None
) -> Figure:
    """Every snippet template, filling its panel; above it its number and mean activation."""
    templates = _array(templates, "templates", None, None, None)
    order = np.arange(len(templates))
    return _templates(templates, order, activations, columns=8, width=2.0)


def segment_templates(
    templates: Float[np.ndarray, "M L d"], activations: Float[np.ndarray, " M"], count: int = 40
) -> Figure:
    """The templates of highest mean activation, the most used first."""
    templates = _array(templates, "templates", None, None, None)
    activations = _array(activations, "activations", len(templates))
    order = np.argsort(-activations, kind="stable")[:count]
    return _templates(templates, order, activations, columns=8, width=1.4)


def _templates(
    templates: np.ndarray,
    order: np.ndarray,
    activations: ArrayLike | None,
    columns: int,
    width: float,
) -> Figure:
    figure, axes = panels(len(order), columns, (0.78, 0.78), gap=(0.2, 0.4))
    means = None if activations is None else _array(activations, "activations", len(templates))
    for index, ax in zip(order, axes, strict=True):
        points = flat(templates[index])
        low, high = points.min(axis=0), points.max(axis=0)
        half = 0.56 * max((high - low).max(), 1e-9)
        # Each in its own scale: a template's size means nothing before it is transformed.
        unit = (points - (low + high) / 2) / half
        add(ax, time_lines(unit, width))
        title = f"{index}" if means is None else f"{index} · {means[index]:.2f}"
        bare(ax, (-1, 1), (-1, 1), title)
    time_legend(figure)
    return figure


def loss_curves(
    epochs: ArrayLike,
    terms: Mapping[str, ArrayLike],
    accuracy: ArrayLike | None = None,
    columns: int = 3,
) -> Figure:
    """A panel a loss term, and one for the validation accuracy (in [0, 1]) of the online probe."""
    epochs = _array(epochs, "epochs", None)
    curves = {name: _array(values, name, len(epochs)) for name, values in terms.items()}
    number = len(curves) + (accuracy is not None)
    figure, axes = panels(
        number, columns, (2.05, 1.15), gap=(0.5, 0.55), margin=(0.5, 0.45, 0.15, 0.35)
    )
    for ax, (name, values) in zip(axes, curves.items(), strict=False):
        scales(ax)
        ax.plot(epochs, values, color=CURVES[0], linewidth=1.4)
        ax.set_title(name, loc="left", fontsize=8, color=INK, pad=5, y=1.0)
        positive = values[np.isfinite(values) & (values > 0)]
        if len(positive) == len(values) and positive.max() > 20 * positive.min():
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:g}")
            ax.minorticks_off()
        else:
            ax.set_ylim(bottom=min(0.0, float(np.nanmin(values))))
            ax.locator_params(axis="y", nbins=4)
    if accuracy is not None:
        ax = axes[-1]
        scales(ax)
        percent = 100 * _array(accuracy, "accuracy", len(epochs))
        ax.plot(epochs, percent, color=CURVES[1], linewidth=1.8)
        ax.set_title("validation accuracy, %", loc="left", fontsize=8, color=INK, pad=5, y=1.0)
        ax.set_ylim(bottom=0)
        ax.locator_params(axis="y", nbins=4)
    for ax in axes:
        ax.locator_params(axis="x", nbins=5, integer=True)
        if len(epochs) < 3:  # so few make no curve to be seen
            x, y = (np.asarray(values, dtype=float) for values in ax.lines[0].get_data())
            ends = np.stack([[x, y], [x + 1e-4, y]]).transpose(2, 0, 1)
            add(ax, [(dot, to_hex(ax.lines[0].get_color()), 5.0) for dot in ends])
    axes[-1].set_xlabel("epoch", fontsize=7, color=MUTED, labelpad=2)
    return figure


def confusion(
    true: Int[np.ndarray, " n"], predicted: Int[np.ndarray, " n"], names: Sequence[str]
) -> Figure:
    """Percent of each true pattern (a row) that was taken for each pattern (a column)."""
    true, predicted = np.asarray(true), np.asarray(predicted)
    if true.shape != predicted.shape or true.ndim != 1:
        raise InputError(f"expected one prediction a label, got {predicted.shape} for {true.shape}")
    k = len(names)
    counts = np.zeros((k, k))
    np.add.at(counts, (true, predicted), 1)
    percent = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, (ax,) = panels(1, 1, (0.3 * k, 0.3 * k), margin=(1.45, 0.3, 0.35, 1.15))
    rows, columns = np.nonzero(percent >= 1)
    square = np.array([[-0.47, -0.47], [0.47, -0.47], [0.47, 0.47], [-0.47, 0.47]])
    cells = [square + np.array(cell) for cell in zip(columns, rows, strict=True)]
    # Opacity of one colour, so that the empty cell is the page, be it light or dark.
    opacity = 0.08 + 0.92 * percent[rows, columns] / 100
    faces = [(*to_rgb(ACCENT), float(o)) for o in opacity]
    ax.add_collection(PolyCollection(cells, facecolors=faces, linewidths=0), autolim=False)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        value = percent[row, column]
        ax.text(
            column,
            row,
            f"{value:.0f}",
            ha="center",
            va="center",
            fontsize=6.5,
            color="#ffffff" if value > 55 else INK,
        )
    _label_matrix(ax, names)
    return figure


def _label_matrix(ax: Axes, names: Sequence[str]) -> None:
    """Names down the left and along the top, a faint guide every five."""
    k = len(names)
    ax.set(xlim=(-0.5, k - 0.5), ylim=(k - 0.5, -0.5))
    ax.set_aspect("equal")
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_xticks(range(k), names, rotation=55, ha="left", rotation_mode="anchor")
    ax.set_yticks(range(k), names)
    ax.tick_params(
        top=False, bottom=False, left=False, labeltop=True, labelbottom=False, labelsize=7.5,
        labelcolor=INK, pad=3,
    )  # fmt: skip
    borders = np.arange(-0.5, k, 5 if k > 10 else k)
    ax.hlines(borders, -0.5, k - 0.5, colors=FAINT, linewidths=0.6, zorder=0)
    ax.vlines(borders, -0.5, k - 0.5, colors=FAINT, linewidths=0.6, zorder=0)
    ax.set_xlabel("taken for", fontsize=7.5, color=MUTED, labelpad=6)
    ax.set_ylabel("true pattern", fontsize=7.5, color=MUTED, labelpad=6)
