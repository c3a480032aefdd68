"""What the commands that look at a model print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mocaps.explained import Explanation

_KINDS = {
    "rotation": "turned",
    "scale": "enlarged",
    "translation": "shifted",
    "composed": "all three",
}
_MEASURES = {
    "drift": "drift of nu",
    "drift in spreads": "  in nu's spread",
    "B angle": "B off by: angle, °",
    "B scale": "  scale, relative",
    "B translation": "  translation, sizes",
    "A angle": "A off by: angle, °",
    "A scale": "  scale, relative",
    "A translation": "  translation, sizes",
}


def print_invariance(result: Mapping[str, Any], title: str) -> None:
    """A table a precision, and the verdict."""
    console = Console()
    left_out = [
        f"{result[key]:,} {text}"
        for key, text in (("undefined", "without a frame"), ("still", "that do not move"))
        if result[key]
    ]
    without = f" ({', '.join(left_out)} left out)" if left_out else ""
    for name in result["promise"]:
        if name in result:
            table = _table(result[name], name)
            table.title = f"{title} in {name}: {result['sequences']:,} sequences{without}"
            console.print(table)
    console.print(
        "Turned through the whole circle, enlarged 0.1 to 10 times, shifted by up to 100 sizes, "
        "and all at once.\nA pair is the mean, and what the promise looks at: in float32 what "
        f"{100 * result['most']:g}% of the sequences keep to over all moves, in float64 the worst "
        "of all.\nB and A are held against B and A moved likewise: the worst capsule of each "
        "sequence, whatever its activation; weighted: the capsules' mean by activation.",
        soft_wrap=False,
    )
    for line in verdict_lines(result):
        console.print(line, highlight=False, soft_wrap=True)


def _table(part: Mapping[str, Any], precision: str) -> Table:
    key = "most" if precision == "float32" else "worst"
    table = Table(title_justify="left", box=SIMPLE_HEAD, padding=0)
    table.add_column("", no_wrap=True)
    kinds = [kind for kind in _KINDS if kind in part["kinds"]]
    for kind in kinds:
        table.add_column(_KINDS[kind], justify="right", no_wrap=True)
    measures = [m for m in _MEASURES if kinds and m in part["kinds"][kinds[0]]]
    for measure in measures:
        table.add_row(_MEASURES[measure], *(_pair(part["kinds"][k][measure], key) for k in kinds))
        weighted = f"{measure}, weighted"
        if weighted in part["kinds"][kinds[0]]:
            table.add_row("    weighted", *(_pair(part["kinds"][k][weighted], key) for k in kinds))
    table.add_section()
    for name, before in part.get("before", {}).items():
        after = (number(part["kinds"][k][name]["mean"]) for k in kinds)
        table.add_row(name, *(f"{number(before)} to {value}" for value in after))
    for name in part["moves"][0].get("accuracy", {}) if part["moves"] else ():
        table.add_row(
            f"{name.removesuffix(' regression')}, %", *(_range(part, kind, name) for kind in kinds)
        )
    if part["not_finite"]:
        table.add_row("not finite", str(part["not_finite"]))
    return table


def _pair(spread: Mapping[str, float], key: str) -> str:
    return f"{number(spread['mean'])} · {number(spread[key])}"


def _range(part: Mapping[str, Any], kind: str, name: str) -> str:
    found = [m["accuracy"][name] for m in part["moves"] if m["kind"] == kind]
    known = [100 * value for value in found if value is not None]
    return f"{min(known):.0f} to {max(known):.0f}" if known else ""


def number(value: float) -> str:
    """
    >>> number(0.00001234), number(12.345), number(0.0), number(99.7)
    ('1e-5', '12', '0', '100')
    """
    if value == 0:
        return "0"
    if abs(value) < 1e-2:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.2g}" if abs(value) < 9.95 else f"{value:.0f}"


def verdict_lines(result: Mapping[str, Any]) -> list[str]:
    """A line a precision, and one for both."""
    lines, verdict = [], result["verdict"]
    for name, limits in result["promise"].items():
        part = verdict.get(name)
        if part is None:
            continue
        who = f"{100 * result['most']:g}% of sequences" if name == "float32" else "all sequences"
        if "drift" not in part:
            lines.append(f"{name}: failed: nothing was measured")
            continue
        text = f"drift of nu {part['drift']:.1e} for {who} (promised {limits['drift']:g})"
        if "angle" in part:
            text += (
                f", {part['of']} off by {part['angle']:.1e} degrees (promised {limits['angle']:g})"
            )
        if result[name]["not_finite"]:
            where = ", ".join(result[name]["not_finite_in"])
            text += f", {result[name]['not_finite']} sequences not finite ({where})"
        lines.append(f"{name}: {'passed' if part['passed'] else 'failed'}: {text}")
    lines.append(f"verdict: the promise {'holds' if verdict['passed'] else 'does not hold'}")
    return lines


@dataclass(frozen=True)
class Grid:
    """A table of what was read of one motion: columns of (number, what was read, whether the
    capsule is among the best in every column)."""

    title: str
    heads: list[str]
    columns: list[list[tuple[str, str, bool]]]

    @classmethod
    def of_rotations(cls, table: Mapping[str, Any], name: str) -> Grid:
        heads = [f"theta = {column['theta']:g}°" for column in table["columns"]]
        return cls(
            f"{name}: the angle phi of B, degrees",
            heads,
            _columns(table, lambda c: f"{c['phi']:.1f}"),
        )

    @classmethod
    def of_translations(cls, table: Mapping[str, Any], name: str) -> Grid:
        heads = [
            "(" + ", ".join(f"{s:.3g}" for s in column["shift"]) + ")"
            for column in table["columns"]
        ]
        return cls(
            f"{name}: the translation of B",
            heads,
            _columns(table, lambda c: ", ".join(f"{t:.2f}" for t in c["translation"])),
        )

    def show(self) -> None:
        table = Table(title=self.title, title_justify="left", box=SIMPLE_HEAD, padding=0)
        for head in self.heads:
            table.add_column("ID", justify="right", no_wrap=True)
            table.add_column(head, justify="right", no_wrap=True)
        for row in zip(*self.columns, strict=True):
            cells = [(k, text, bold) for k, text, bold in row]
            table.add_row(
                *(t for k, text, bold in cells for t in (f"[bold]{k}[/]" if bold else k, text))
            )
        Console().print(table, highlight=False)

    def markdown(self) -> str:
        """As Markdown; numbers of capsules that are among the best in every column are bold."""
        lines = [f"**{self.title}**", ""]
        lines.append("| " + " | ".join(f"ID | {head}" for head in self.heads) + " |")
        lines.append("|" + "---:|" * (2 * len(self.heads)))
        for row in zip(*self.columns, strict=True):
            cells = (f"{f'**{k}**' if bold else k} | {text}" for k, text, bold in row)
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"


def _columns(table: Mapping[str, Any], read: Any) -> list[list[tuple[str, str, bool]]]:
    always = set(table["repeating"])
    return [
        [(str(c["k"]), read(c), c["k"] in always) for c in column["capsules"]]
        for column in table["columns"]
    ]


def print_turn(curves: Mapping[str, Mapping[str, Any]]) -> None:
    """Cosine and phi at some angles of a full turn, a row a model."""
    table = Table(box=SIMPLE_HEAD, padding=0)
    shown = [15, 30, 60, 90, 180, 270, 360]
    table.add_column("")
    for angle in shown:
        table.add_column(f"{angle}°", justify="right", no_wrap=True)
    table.add_column("others", justify="right", no_wrap=True)
    for name, curve in curves.items():
        at = [curve["theta"].index(angle) for angle in shown]
        others = "" if curve["others"] is None else f"{curve['others']:.2f}"
        table.add_row(name, *(f"{curve['cosine'][i]:.2f}" for i in at), others)
        table.add_row("  phi", *(f"{curve['phi'][i]:.0f}°" for i in at))
    console = Console()
    console.print(table)
    console.print(
        "The input is turned by so much about its centroid. Above, the cosine between nu before "
        "and after, the mean over motions, and last that between different motions; below, by how "
        "much B turned: relative to B before, the circular mean over capsules weighted by nu and "
        "over motions.",
        highlight=False,
    )


def print_explanation(e: Explanation, top: int) -> None:
    """What a motion is made of, as text."""
    console = Console()
    taken = "" if e.guess is None else f", taken for {e.guess}"
    console.print(f"{e.name}{taken}: size {e.size:.3g} around {_point(e.place)}", highlight=False)
    if not e.defined:
        console.print("its direction is undefined: angles mean nothing", highlight=False)
    off = (f"{100 * v / max(e.size, 1e-12):.1f}% from {k}" for k, v in e.errors.items())
    console.print(f"given back, off by this much of its size: {', '.join(off)}", highlight=False)
    columns = {
        "template": lambda u: str(u.k),
        "share": lambda u: f"{100 * u.share:.1f}%",
        "angle": lambda u: f"{u.angle:.1f}°",
        "scale": lambda u: f"{u.scale:.3g}",
        "place": lambda u: _point(u.place),
        "size": lambda u: f"{u.size:.3g}",
    }
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1))
    for column in ("", *columns):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    parts = {"the whole": e.capsules} | {
        f"steps {i * e.steps} to {(i + 1) * e.steps - 1}": each for i, each in enumerate(e.snippets)
    }
    for part, capsules in parts.items():
        shown = capsules[: top if part == "the whole" else min(top, 3)]
        for i, use in enumerate(shown):
            table.add_row("" if i else part, *(read(use) for read in columns.values()))
        if others := capsules[len(shown) :]:
            share = 100 * sum(use.share for use in others)
            table.add_row("", f"{len(others)} more", f"{share:.1f}%")
        table.add_section()
    console.print(table)


def _point(place: np.ndarray) -> str:
    return "(" + ", ".join(f"{p:.3g}" for p in place) + ")"
