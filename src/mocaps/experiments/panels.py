"""What reports measure, by name, and tables that have it in their rows: a panel.

A panel's columns are experiments, for what is measured is more than would fit beside each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mocaps.errors import InputError
from mocaps.experiments.files import CORRUPTIONS, SEVERITIES

BUDGETS = (200, 2_000, 10_000)
HARD = 2
"""Severities from here on count: the first is hardly to be seen."""


@dataclass(frozen=True)
class Measure:
    """A number of a report."""

    path: tuple[str, ...]
    """Where it is in the report."""
    probe: str
    labels: str = ""

    @property
    def heading(self) -> str:
        return ", ".join(part for part in (self.probe, self.labels) if part)

    def of(self, report: Mapping[str, Any]) -> float | None:
        """A fraction; None in a report that was written before there was such a number."""
        found: Any = report
        for key in self.path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found.get("mean") if isinstance(found, Mapping) else found


def _measures() -> dict[str, Measure]:
    found = {
        f"logistic_{b}": Measure(("logistic", str(b)), "linear", f"{b:,} labels") for b in BUDGETS
    }
    titles = {"cosine": "cosine", "euclidean": "Euclidean"}
    for key, title in titles.items():
        path, probe = ("one_label_each", key), f"1-NN {title}"
        found[f"1nn_{key}_one_each"] = Measure(path, probe, "one label a class")
        for b in BUDGETS:
            path = ("nearest_neighbour", key, str(b))
            found[f"1nn_{key}_{b}"] = Measure(path, probe, f"{b:,} labels")
    for key, title in titles.items():
        found[f"clusters_{key}"] = Measure(("clusters", key), f"k-means {title}", "no labels")
    return found


MEASURES = _measures()
"""By their names in CSV."""


@dataclass(frozen=True)
class Row:
    """What stands in one row, once under each heading."""

    heading: str
    measures: list[Measure]
    record: dict[str, Any]
    """What the row is, for CSV."""
    counted: bool = True
    """Whether it enters the count of where a line is ahead."""


@dataclass(frozen=True)
class Panel:
    headings: list[str]
    """Of the columns that each experiment has."""
    groups: list[list[Row]]
    caption: str
    which: str = ""
    """Of the rows, those that count, in words."""

    @property
    def rows(self) -> list[Row]:
        return [row for group in self.groups for row in group]


def of(place: Path, name: str, given: Mapping[str, Any]) -> Panel | None:
    """The panel that a table of tables.toml asks for, if it does."""
    if "measures" in given:
        return _of_measures(place, name, given["measures"])
    if "corruptions" in given:
        return _of_corruptions(place, name, given["corruptions"], given.get("labels", [200]))
    return None


def _of_measures(place: Path, name: str, given: Any) -> Panel:
    if not isinstance(given, list) or not all(isinstance(group, list) for group in given):
        raise InputError(f"{place}: expected {name}.measures to be a list of lists, got {given!r}")
    for measure in (measure for group in given for measure in group):
        if measure not in MEASURES:
            raise InputError(
                f"{place}: {name}.measures: expected some of {', '.join(MEASURES)}, got {measure!r}"
            )
    groups = [
        [Row(MEASURES[key].heading, [MEASURES[key]], {"measure": key}) for key in group]
        for group in given
    ]
    return Panel([""], groups, "Accuracy in % on 10,000 test motions")


def _of_corruptions(place: Path, name: str, given: Any, labels: Any) -> Panel:
    if not isinstance(given, list) or not set(given) <= set(CORRUPTIONS):
        raise InputError(
            f"{place}: expected {name}.corruptions to be a list of some of "
            f"{', '.join(CORRUPTIONS)}, got {given!r}"
        )
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise InputError(f"{place}: expected {name}.labels to be a list of numbers, got {labels!r}")

    def row(condition: str, corruption: str, severity: int) -> Row:
        measures = [
            Measure(("cells", condition, "logistic", str(budget)), "linear", f"{budget:,} labels")
            for budget in labels
        ]
        record = {"corruption": corruption, "severity": severity}
        return Row(condition, measures, record, counted=severity >= HARD)

    groups = [[row("clean", "", 0)]]
    groups += [[row(f"{each} {s}", each, s) for s in SEVERITIES] for each in given]
    return Panel(
        [f"{budget:,}" for budget in labels],
        groups,
        "Accuracy in % of a logistic regression on frozen features, on 10,000 test motions, fitted "
        "on so many labelled motions that met the same corruption at the same severity",
        which=f" of severity {HARD} and up",
    )
