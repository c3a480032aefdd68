"""What commands print: an evaluation as a table, and a count that goes up."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

PLAIN_EVERY = 10.0
_FLOORS = {
    "random_weights": "random weights",
    "raw_coordinates": "raw coordinates",
    "fourier_magnitudes": "Fourier magnitudes",
}


def print_evaluation(result: dict[str, Any]) -> None:
    """Accuracies in %, with standard errors over draws of the labels."""
    budgets = list(result["logistic"])
    table = Table(title=f"Accuracy in % on {result['test']['name']}", title_justify="left")
    table.add_column("representation")
    table.add_column("probe")
    for budget in budgets:
        table.add_column(f"{int(budget):,} labels", justify="right")
    rows = {"this model": result} | {
        name: result["floors"][key] for key, name in _FLOORS.items() if key in result["floors"]
    }
    for name, scores in rows.items():
        table.add_row(name, "logistic", *_cells(scores["logistic"], budgets))
        for distance, by_budget in scores["nearest_neighbour"].items():
            table.add_row("", f"1-NN {distance}", *_cells(by_budget, budgets))
        table.add_section()
    console = Console()
    console.print(table)
    console.print(_with_few_labels(rows))
    if not budgets:
        console.print(
            f"fewer than 200 labels ({result['train']['sequences']}): no probe was fitted"
        )
    if result["online_probe"] is not None:
        console.print(f"online probe {100 * result['online_probe']:.1f}%")
    console.print(
        f"{result['parameters']['model']:,} parameters, {result['steps']:,} steps "
        f"({result['kept']} weights)"
    )


def _with_few_labels(rows: dict[str, Any]) -> Table:
    """1-NN with one label a class and k-means without any, in a table that fits a terminal."""
    table = Table(title="With one label a class, and with none (k-means)", title_justify="left")
    table.add_column("representation")
    probes = {"1-NN": "one_label_each", "k-means": "clusters"}
    kinds = {
        f"{name} {distance}": (key, distance)
        for name, key in probes.items()
        for distance in next(iter(rows.values()))[key]
    }
    for heading in kinds:
        table.add_column(heading, justify="right")
    for name, scores in rows.items():
        table.add_row(name, *(_cell(scores[key][distance]) for key, distance in kinds.values()))
    return table


def _cells(scores: dict[str, Any], budgets: list[str]) -> list[str]:
    return [_cell(scores[budget]) for budget in budgets]


def _cell(score: dict[str, Any]) -> str:
    error = score["standard_error"]
    return f"{100 * score['mean']:.1f}" + ("" if error is None else f" ± {100 * error:.1f}")


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A line with the count and its rate: kept up to date in a terminal, sparse elsewhere."""
    begin = time.monotonic()
    live = sys.stderr.isatty()
    shown = begin

    def line(done: int, total: int) -> str:
        rate = done / max(time.monotonic() - begin, 1e-9)
        return f"{done:,}/{total:,} {what}, {rate:,.0f} a second"

    def watch(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if done == total or now - shown > (0.2 if live else PLAIN_EVERY):
            shown = now
            end = "\n" if done == total or not live else ""
            print(("\r" if live else "") + line(done, total), end=end, file=sys.stderr, flush=True)

    yield watch
