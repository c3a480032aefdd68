"""How far training is: one display over one run or several, lively in a terminal, sparse elsewhere.

A run that trains in a process of its own sends its `Status` as a line of JSON.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

PLAIN_EVERY = 10.0  # seconds between the lines of one run where nobody watches live
TERMS = ("snippet", "segment", "contrast", "smoothness", "sparsity", "spread")


@dataclass(frozen=True)
class Status:
    """Where one run is."""

    step: int
    total: int | None
    """None where minutes or patience decide."""
    rate: float
    """Steps a second, lately."""
    terms: dict[str, float]
    accuracy: float | None
    """On validation data, at the end of the last epoch."""
    seconds_left: float | None
    unit: str = "step"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(line: str) -> Status:
        return Status(**json.loads(line))


Show = Callable[[Status], None]


class Meter:
    """Turns what `fit` says into statuses."""

    def __init__(self, show: Show, step: int, total: int | None, minutes: float) -> None:
        self._show, self._total, self._minutes = show, total, minutes
        self._accuracy: float | None = None
        self._rate = 0.0
        self._marks = [(time.monotonic(), step)]

    def watch(self, step: int, seconds: float, terms: dict[str, float]) -> None:
        now = time.monotonic()
        self._marks = [m for m in self._marks if now - m[0] < 20] or self._marks[-1:]
        since, first = self._marks[0]
        if now > since:
            self._rate = (step - first) / (now - since)
        if now - self._marks[-1][0] > 1:
            self._marks.append((now, step))
        left = [max(0.0, 60 * self._minutes - seconds)] if self._minutes else []
        if self._total and self._rate:
            left.append((self._total - step) / self._rate)
        shown = {name: terms[name] for name in TERMS if terms.get(name)}  # 0: has no part in it
        seconds_left = min(left) if left else None
        self._show(Status(step, self._total, self._rate, shown, self._accuracy, seconds_left))

    def epoch(self, record: dict[str, Any]) -> None:
        self._accuracy = record.get("validation_accuracy", self._accuracy)


class Display(Protocol):
    """Where statuses of named runs are shown."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *exc: object) -> None: ...
    def update(self, name: str, status: Status) -> None: ...


def display(names: list[str]) -> Display:
    """Live lines when standard output is a terminal, else a plain line now and then."""
    return _Live(names) if sys.stdout.isatty() else _Plain(names)


def numbers(status: Status) -> str:
    total = f"/{status.total:,}" if status.total else ""
    unit, rate = status.unit, status.rate
    speed = f"{60 * rate:.0f} {unit}s/min" if 0 < rate < 2 else f"{rate:,.0f} {unit}s/s"
    parts = [f"{unit} {status.step:,}{total}", speed]
    if status.accuracy is not None:
        parts.append(f"validation {100 * status.accuracy:.1f}%")
    if status.seconds_left is not None:
        parts.append(f"{clock(status.seconds_left)} left")
    return "  ".join(parts)


def terms(status: Status) -> str:
    return "  ".join(f"{name} {value:.3g}" for name, value in status.terms.items())


def clock(seconds: float) -> str:
    """
    >>> clock(62), clock(3600)
    ('1:02', '1:00:00')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class _Plain:
    def __init__(self, names: list[str]) -> None:
        self._width = max(map(len, names))
        self._shown: dict[str, float] = {}

    def __enter__(self) -> _Plain:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def update(self, name: str, status: Status) -> None:
        now = time.monotonic()
        if now - self._shown.get(name, -PLAIN_EVERY) >= PLAIN_EVERY:
            self._shown[name] = now
            print(f"{name:{self._width}}  {numbers(status)}  {terms(status)}", flush=True)


class _Live:
    """Two lines a run: how far it is, and its loss terms."""

    def __init__(self, names: list[str]) -> None:
        from rich.live import Live

        self._statuses: dict[str, Status | None] = dict.fromkeys(names)
        self._live = Live(self._table(), refresh_per_second=8)

    def __enter__(self) -> _Live:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.__exit__(None, None, None)

    def update(self, name: str, status: Status) -> None:
        self._statuses[name] = status
        self._live.update(self._table())

    def _table(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        lines: list[Any] = []
        width = max(map(len, self._statuses))
        for name, status in self._statuses.items():
            row = Table.grid(padding=(0, 1))
            lines.append(row)
            if status is None:
                row.add_row(f"{name:{width}}", Text("waiting", style="dim"))
                continue
            total = status.total
            bar = ProgressBar(total=total, completed=status.step, width=10, pulse=total is None)
            row.add_row(f"{name:{width}}", bar, Text(numbers(status), no_wrap=True))
            lines.append(Text(f"  {terms(status)}", style="dim", no_wrap=True))
        return Group(*lines)
