"""Pictures of numbers against what a motion was moved by, drawn from saved results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mocaps.drawing import CURVES, DASHES, INK, MUTED, SHADE, panels, scales
from mocaps.errors import InputError

TINY = 1e-17  # where a logarithm has to end: no drift at all
PRECISIONS = ("float32", "float64")
_ALL = "-"
_MOST = (0, (3.5, 1.8))


def invariance(result: Mapping[str, Any]) -> Figure:
    """The certificate at a glance: each measure against the angle, the scale, the translation.

    Colour is the precision; whole lines are means, broken ones what 99.9% of the sequences keep
    to, and the thick grey lines what is promised.
    """
    if "drift" not in result.get("float32", {}).get("kinds", {}).get("all", {}):
        raise InputError("expected a certificate with measured moves to draw, got one without")
    figure, axes = panels(6, 3, (2.15, 1.35), gap=(0.85, 0.75), margin=(0.6, 0.8, 0.4, 0.35))
    turn, scale, shift, angle, cosine, right = axes
    _measure(turn, result, "rotation", "drift", "drift of ν")
    _measure(scale, result, "scale", "drift", "drift of ν")
    _measure(shift, result, "translation", "drift", "drift of ν")
    what = "B angle" if "B angle" in result["float32"]["kinds"]["all"] else "A angle"
    if what in result["float32"]["kinds"]["all"]:
        _measure(angle, result, "rotation", what, f"{what[0]} turned wrongly by", promise="angle")
        angle.yaxis.set_major_formatter("{x:g}°")
    else:
        _says(angle, "no B to compare")
    low = min(ax.get_ylim()[0] for ax in (turn, scale, shift))
    high = max(ax.get_ylim()[1] for ax in (turn, scale, shift))
    for ax in (turn, scale, shift):
        ax.set_ylim(low, high)
    scales(cosine)
    amounts, means = _curve(result["float32"], "rotation", lambda m: m["cosine"]["mean"])
    _, least = _curve(result["float32"], "rotation", lambda m: m["cosine"]["least"])
    cosine.plot(amounts, means, color=CURVES[0], linewidth=1.6)
    cosine.plot(amounts, least, color=CURVES[0], linewidth=1.0, linestyle=":")
    cosine.set_ylim(min(0.0, float(np.min(least))) - 0.02, 1.03)
    _titled(cosine, "cosine of ν; dotted, the least")
    _accuracies(right, result["float32"])
    for ax in (turn, angle, cosine, right):
        _degrees(ax, "turned by")
    for ax, text in ((scale, "enlarged by"), (shift, "shifted by so many sizes")):
        ax.set_xlabel(text, fontsize=7, color=MUTED, labelpad=2)
    _legend(figure, [name for name in PRECISIONS if name in result])
    return figure


def turn(curves: Mapping[str, Mapping[str, Any]]) -> Figure:
    """A curve a model; behind its name the cosine between different motions."""
    labels = [
        name if curve["others"] is None else f"{name} (other motions: {curve['others']:.2f})"
        for name, curve in curves.items()
    ]
    each = list(curves.values())
    cosines, phi = (np.array([curve[key] for curve in each]) for key in ("cosine", "phi"))
    return full_turn(np.array(each[0]["theta"]), cosines, labels, phi)


def _measure(
    ax: Axes,
    result: Mapping[str, Any],
    kind: str,
    what: str,
    title: str,
    promise: str = "drift",
) -> None:
    scales(ax)
    ax.set_yscale("log")
    if kind != "rotation":
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    # Where the model is what drifts, and not rounding, both precisions say the same: the second
    # is drawn thinner, over the first.
    for name, colour, width in zip(PRECISIONS, CURVES, (2.6, 1.1), strict=False):
        if what not in result.get(name, {}).get("kinds", {}).get("all", {}):
            continue
        for key, dash in (("mean", _ALL), ("most", _MOST)):
            amounts, values = _curve(result[name], kind, lambda m, key=key: m[what][key])
            ax.plot(amounts, np.maximum(values, TINY), color=colour, linestyle=dash, lw=width)
        limit = result["promise"][name][promise]
        ax.axhline(limit, color=SHADE, linewidth=3.0, zorder=0)
        ax.annotate(
            name, (1, limit), (4, 0), ax.get_yaxis_transform(), "offset points",
            fontsize=5.5, color=MUTED, va="center",
        )  # fmt: skip
    ax.minorticks_off()
    _titled(ax, title)


def _curve(
    part: Mapping[str, Any], kind: str, value: Callable[[Mapping[str, Any]], float]
) -> tuple[np.ndarray, np.ndarray]:
    chosen = [move for move in part["moves"] if move["kind"] == kind]
    return np.array([m["amount"] for m in chosen]), np.array([value(m) for m in chosen])


def _accuracies(ax: Axes, part: Mapping[str, Any]) -> None:
    names = list(part["moves"][0].get("accuracy", {}))
    if not names:
        _says(ax, "no labels")
        return
    scales(ax)
    for name, colour, dash in zip(names, CURVES[2:], DASHES, strict=False):
        amounts, values = _curve(part, "rotation", lambda m, name=name: m["accuracy"][name])
        ax.plot(amounts, 100 * values, color=colour, linestyle=dash, linewidth=1.6, label=name)
    ax.set_ylim(0, 102)
    ax.legend(
        loc="lower left", fontsize=6.5, frameon=False, labelcolor=INK, handlelength=2.2,
        borderaxespad=0.2,
    )  # fmt: skip
    _titled(ax, "accuracy, %")


def _says(ax: Axes, text: str) -> None:
    scales(ax)
    ax.set_yticks([])
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", fontsize=7, color=MUTED)


def _titled(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=8, color=INK, pad=5, y=1.0)


def _degrees(ax: Axes, text: str) -> None:
    ax.set_xlim(-4, 364)
    ax.set_xticks(np.arange(0, 361, 90), [f"{a}°" for a in range(0, 361, 90)])
    ax.set_xlabel(text, fontsize=7, color=MUTED, labelpad=2)


def _legend(figure: Figure, names: list[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=CURVES[i], lw=1.6, label=n) for i, n in enumerate(names)]
    handles += [
        Line2D([], [], color=MUTED, lw=1.6, label="mean"),
        Line2D([], [], color=MUTED, lw=1.2, linestyle=_MOST, label="99.9% of sequences keep to"),
        Line2D([], [], color=SHADE, lw=3.0, label="promised"),
    ]
    figure.legend(
        handles=handles, loc="lower left", ncols=5, fontsize=7, frameon=False, labelcolor=INK,
        handlelength=2.6,
    )  # fmt: skip


def full_turn(
    angles: Float[np.ndarray, " angles"],
    cosines: Float[np.ndarray, "curves angles"],
    labels: Sequence[str],
    phi: Float[np.ndarray, "curves angles"] | None = None,
) -> Figure:
    """What a turn of the input by each angle (degrees) does to nu, and to the angle of B.

    Left, the cosine between nu before and after: 1 is invariant. Right, by how much the
    transformation turned: the diagonal is equivariant.
    """
    rows = -(-len(labels) // 2)
    bottom = 0.55 + 0.19 * rows
    figure, axes = panels(
        1 if phi is None else 2, 2, (2.7, 1.9), gap=(0.6, 0), margin=(0.5, bottom, 0.2, 0.4)
    )
    style = [(c, d) for d, c in zip(DASHES, CURVES, strict=True)]
    for i, (curve, label) in enumerate(zip(cosines, labels, strict=True)):
        colour, dash = style[i % len(style)]
        axes[0].plot(angles, curve, color=colour, linestyle=dash, linewidth=1.6, label=label)
    axes[0].set_ylim(min(0.0, float(cosines.min())) - 0.02, 1.03)
    axes[0].set_title("cosine between ν before and after", loc="left", fontsize=8, color=INK)
    if phi is not None:
        axes[1].plot(angles, angles, color=SHADE, linewidth=3.5, solid_capstyle="round")
        for i, curve in enumerate(phi):
            colour, dash = style[i % len(style)]
            axes[1].plot(angles, curve, color=colour, linestyle=dash, linewidth=1.6)
        axes[1].set_title("angle φ of the transformation", loc="left", fontsize=8, color=INK)
        axes[1].set_yticks(np.arange(0, 361, 90), [f"{a}°" for a in range(0, 361, 90)])
    for ax in axes:
        scales(ax)
        ax.set_xticks(np.arange(0, 361, 90), [f"{a}°" for a in range(0, 361, 90)])
        ax.set_xlabel("the input is turned by", fontsize=7, color=MUTED, labelpad=2)
    figure.legend(
        loc="lower left", ncols=2, fontsize=7, frameon=False, labelcolor=INK, handlelength=2.6
    )
    return figure
