"""The rows against the recorded ones: in a terminal, and as the tables of docs/performance.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.children import ROOT

if TYPE_CHECKING:
    from rich.table import Table

    from benchmarks.rows import Row

RESULTS = ROOT / "benchmarks" / "results"
LATEST, RECORDED = RESULTS / "latest.json", RESULTS / "recorded.json"
DOCUMENT = ROOT / "docs" / "performance.md"
SLOWER = 0.20
"""A ratio that grew by more than this is a regression."""


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def write(path: Path, result: dict[str, Any]) -> None:
    path.write_text(json.dumps(result, indent=1) + "\n")


def change(now: dict[str, Any], recorded: dict[str, Any] | None) -> float | None:
    """Of the ratio, as a fraction of the recorded one."""
    return now["ratio"] / recorded["ratio"] - 1 if recorded else None


def regressions(now: dict[str, Any], recorded: dict[str, Any]) -> list[str]:
    """Rows whose ratio grew by more than a fifth."""
    old = recorded.get("rows", {})
    changes = {name: change(row, old.get(name)) for name, row in now["rows"].items()}
    return [name for name, grown in changes.items() if grown is not None and grown > SLOWER]


def number(value: float) -> str:
    """
    >>> number(61234.5), number(12.34), number(0.1234)
    ('61,234', '12.3', '0.123')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def cells(row: Row, found: dict[str, Any]) -> list[str]:
    """Label, what came, the goal, the ratio."""
    came = f"{number(row.shown(found['seconds']))} {row.unit}"
    goal = "" if row.goal is None else f"{number(row.goal)} {row.unit}"
    return [row.label, came, goal, number(found["ratio"])]


def comparison(now: dict[str, Any], recorded: dict[str, Any]) -> Table:
    """For a terminal, in rich's colours; every colour is also a word."""
    from rich.table import Table
    from rich.text import Text

    from benchmarks.rows import ROWS

    table = Table(title="Time of one thread; ratios to the product of the same run")
    for name in ("row", "came", "goal", "ratio", "recorded", "change"):
        table.add_column(name, justify="left" if name == "row" else "right")
    for name, row in ROWS.items():
        if name not in now["rows"]:
            continue
        found, old = now["rows"][name], recorded.get("rows", {}).get(name)
        label, came, goal, ratio = cells(row, found)
        reached = row.reached(found["seconds"])
        style = {True: "green", False: "yellow", None: ""}[reached]
        goal += {True: " reached", False: " missed", None: ""}[reached]
        grown = change(found, old)
        text = Text("none" if grown is None else f"{100 * grown:+.0f}%")
        if grown is not None and grown > SLOWER:
            worse = "larger" if row.unit == "GB" else "slower"
            text = Text(f"{worse} {100 * grown:+.0f}%", style="bold red")
        before = number(old["ratio"]) if old else "none"
        table.add_row(label, came, Text(goal, style=style), ratio, before, text)
    return table


def waited(result: dict[str, Any]) -> float:
    """How much longer the wall's clock ran than the processor's: others were at work."""
    rows = [row for name, row in result["rows"].items() if name != "nw_ucla_memory"]
    return max((row["wall"] / row["seconds"] - 1 for row in rows), default=0.0)


def markdown(recorded: dict[str, Any]) -> str:
    """The recorded rows as docs/performance.md shows them."""
    from benchmarks.rows import ROWS

    if not recorded:
        return "Nothing is recorded yet.\n"
    m = recorded["machine"]
    lines = ["| row | came | goal | ratio |", "|---|---:|---:|---:|"]
    for name, row in ROWS.items():
        if name in recorded["rows"]:
            lines.append("| " + " | ".join(cells(row, recorded["rows"][name])) + " |")
    state = " with changes" if m["changed"] else ""
    lines += [
        "",
        f"{m['date']}, commit {m['commit']}{state}, torch {m['torch']}, {m['cpu']}; "
        f"the product took {number(1e6 * recorded['product'])} µs.",
    ]
    return "\n".join(lines) + "\n"


def included(text: str, name: str, content: str) -> str:
    """The document with the part between the marks of that name replaced."""
    begin, end = f"<!-- {name}: rendered by python -m benchmarks -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"expected one place for {name!r} in {DOCUMENT.name}")
    return pattern.sub(lambda _: f"{begin}\n{content}{end}", text)


def render(document: Path = DOCUMENT) -> str:
    """The document with its tables as the recorded results have them."""
    from benchmarks import scaling

    text = included(document.read_text(), "rows", markdown(read(RECORDED)))
    return included(text, "scaling", scaling.markdown(read(scaling.RESULT)))
