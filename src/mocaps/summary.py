"""What report.json says, as one table: this model, the floors, and the paper's figure apart.

The page and the demo's table are both drawn from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

PAPER_ACCURACY = (0.6930, 0.0076)
"""Xu et al. 2021, table "motion classification on T20", MCAE (8, 80)."""
PAPER_STEPS = 1000 * 156
PROBES = {
    "logistic": "linear",
    "cosine": "1-NN, cosine",
    "euclidean": "1-NN, Euclidean",
}
"""Keys of a representation's scores, and what a reader calls them."""
FLOORS = {
    "random_weights": ("random weights", "the same model before it learned"),
    "fourier_magnitudes": ("Fourier magnitudes", "hand-made, blind to place, size and direction"),
    "raw_coordinates": ("raw coordinates", "the numbers as they came"),
}


@dataclass(frozen=True)
class Cell:
    """A mean accuracy, a fraction, and its standard error where several draws were made."""

    mean: float
    error: float | None = None
    best: bool = False

    @property
    def text(self) -> str:
        """
        >>> Cell(0.4218).text
        '42.2'
        """
        return f"{100 * self.mean:.1f}"

    @property
    def error_text(self) -> str:
        return "" if self.error is None else f"± {100 * self.error:.1f}"


@dataclass(frozen=True)
class Row:
    name: str
    note: str
    own: Cell | None
    """The classifier trained along with the model."""
    cells: list[Cell | None]
    kind: str
    """"model", "floor" or "paper"."""


@dataclass(frozen=True)
class Table:
    probes: list[tuple[str, list[int]]]
    """A heading, and the label budgets under it."""
    rows: list[Row]
    """This model first."""

    @property
    def columns(self) -> list[tuple[str, int]]:
        return [(probe, budget) for probe, budgets in self.probes for budget in budgets]

    def only(self, *headings: str) -> Table:
        """The same rows with the columns under these headings."""
        kept = [i for i, (probe, _) in enumerate(self.columns) if probe in headings]
        probes = [(probe, budgets) for probe, budgets in self.probes if probe in headings]
        return Table(probes, [replace(r, cells=[r.cells[i] for i in kept]) for r in self.rows])


def table(report: Mapping[str, Any], *, with_paper: bool = True) -> Table:
    """The table of an evaluated run; without rows where the run has not been evaluated."""
    own = scores_of(report)
    floors = {name: scores_of(scores) for name, scores in report.get("floors", {}).items()}
    every = [own, *floors.values()]
    probes = [
        (heading, sorted({budget for scores in every for budget in scores.get(key, {})}))
        for key, heading in PROBES.items()
    ]
    probes = [(heading, budgets) for heading, budgets in probes if budgets]
    keys = [key for key in PROBES if any(key in scores for scores in every)]
    columns = [(k, b) for k, (_, budgets) in zip(keys, probes, strict=True) for b in budgets]

    def cells(scores: Scores) -> list[Cell | None]:
        return [scores.get(key, {}).get(budget) for key, budget in columns]

    accuracy = _accuracy(report.get("online_probe"))
    rows = [Row("this model", "", accuracy, cells(own), "model")] if own or accuracy else []
    order = [*FLOORS, *(name for name in floors if name not in FLOORS)]
    for name in order:
        if name in floors:
            title, note = FLOORS.get(name, (name.replace("_", " "), ""))
            rows.append(Row(title, note, None, cells(floors[name]), "floor"))
    rows = _mark_best(rows, len(columns))
    if with_paper and rows:
        note = f"{PAPER_STEPS:,} steps: 1,000 epochs × 156"
        rows.append(Row("the paper", note, Cell(*PAPER_ACCURACY), [None] * len(columns), "paper"))
    return Table(probes, rows)


def verdict(table: Table) -> str:
    """In one or two sentences, whether the model beats what needs no learning."""
    model = next((row for row in table.rows if row.kind == "model"), None)
    floors = [row for row in table.rows if row.kind == "floor"]
    if model is None or not floors or not any(model.cells):
        return ""
    beaten_by = {row.name: _wins(row, model) for row in floors}
    total = sum(cell is not None for cell in model.cells)
    ahead = sorted((-wins, name) for name, wins in beaten_by.items() if wins)
    if not ahead:
        return f"This model is ahead of every floor in all {total} columns."
    where = {name: _share(-wins, total) for wins, name in ahead}
    first, *others = where
    parts = [f"{first} are ahead of this model in {where[first]}"]
    parts += [f"{name} in {where[name]}" for name in others]
    beaten = f"Without any learning, {listed(parts)}."
    behind = [name for name, wins in beaten_by.items() if wins == 0]
    if not behind:
        return beaten
    return f"{beaten} This model is ahead of {listed(behind)} throughout."


def _share(wins: int, total: int) -> str:
    return "every column" if wins == total else f"{wins} of {total} columns"


def listed(parts: list[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


Scores = dict[str, dict[int, Cell]]


def scores_of(representation: Mapping[str, Any]) -> Scores:
    """Accuracies of a representation by probe and label budget."""
    neighbours = representation.get("nearest_neighbour", {})
    found = {"logistic": representation.get("logistic", {}), **neighbours}
    return {
        key: {int(budget): cell for budget, value in found[key].items() if (cell := _cell(value))}
        for key in PROBES
        if found.get(key)
    }


def _cell(value: Any) -> Cell | None:
    if isinstance(value, Mapping):
        return Cell(float(value["mean"]), value.get("standard_error"))
    return None if value is None else Cell(float(value))


def _accuracy(value: Any) -> Cell | None:
    if isinstance(value, Mapping):
        value = value.get("accuracy", value.get("mean"))
    return None if value is None else Cell(float(value))


def _mark_best(rows: list[Row], columns: int) -> list[Row]:
    """The same rows with the best cell of every column marked."""
    best = []
    for i in range(columns):
        means = [cell.mean for row in rows if (cell := row.cells[i])]
        best.append(max(means, default=None))
    return [
        replace(
            row,
            cells=[
                replace(cell, best=cell.mean == top) if cell else None
                for cell, top in zip(row.cells, best, strict=True)
            ],
        )
        for row in rows
    ]


def _wins(row: Row, other: Row) -> int:
    """In how many columns `row` is ahead of `other`."""
    pairs = zip(row.cells, other.cells, strict=True)
    return sum(a is not None and b is not None and a.mean > b.mean for a, b in pairs)
