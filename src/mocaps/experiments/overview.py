"""What many trials are doing: one live overview in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from mocaps.progress import Status, clock, numbers

PLAIN_EVERY = 60.0  # seconds between the lines of one trial where nobody watches live
NAMED = 4  # of the waiting


@dataclass
class Trial:
    """Where one trial is."""

    name: str
    steps: int = 0
    """The most that it will take; 0 where it takes none."""
    state: str = "waiting"
    """waiting, held (another process trains into its directory), running, done, failed, stopped"""
    status: Status | None = None
    note: str = "starting"
    shown: float = field(default=0.0, compare=False)

    @property
    def words(self) -> str:
        return numbers(self.status) if self.status else self.note


class Overview:
    """Where trials are shown; its methods may be called from several threads."""

    def __init__(self, trials: dict[str, int], done_before: int) -> None:
        """`trials` are the names of what is to do, with the most steps that each will take."""
        self.trials = {name: Trial(name, steps) for name, steps in trials.items()}
        self.done_before = done_before
        self._lock = threading.Lock()

    def __enter__(self) -> Overview:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def held(self, name: str, held: bool) -> None:
        """Whether another process trains into its directory."""
        trial = self.trials[name]
        state = "held" if held else "waiting"
        if trial.state in ("waiting", "held") and trial.state != state:
            trial.state = state
            self.changed(trial, "trained by another process, waited for" if held else "")

    def begun(self, name: str) -> None:
        self.trials[name].state = "running"
        self.changed(self.trials[name], "begun")

    def status(self, name: str, status: Status) -> None:
        self.trials[name].status = status
        self.changed(self.trials[name])

    def note(self, name: str, note: str) -> None:
        trial = self.trials[name]
        trial.status, trial.note = None, note
        self.changed(trial, note)

    def ended(self, name: str, state: str, words: str) -> None:
        self.trials[name].state = state
        self.changed(self.trials[name], f"{state}{': ' if words else ''}{words}")

    def changed(self, trial: Trial, event: str = "") -> None:
        """Something is to be shown: an event at once, numbers now and then."""
        now = time.monotonic()
        with self._lock:
            if not event and now - trial.shown < PLAIN_EVERY:
                return
            trial.shown = now
        text = event if event else f"{trial.words}  ({self.counts()})"
        print(f"{trial.name}  {text}", flush=True)

    def counts(self) -> str:
        """
        >>> Overview({"a": 0, "b": 100}, done_before=3).counts()
        '3 done, 2 waiting'
        """
        states = [trial.state for trial in self.trials.values()]
        found = {state: states.count(state) for state in ("running", "waiting", "failed")}
        found["waiting"] += states.count("held")
        found = {"done": self.done_before + states.count("done")} | found
        parts = [f"{n} {state}" for state, n in found.items() if n or state == "done"]
        left = self.seconds_left()
        return ", ".join(parts) + (f"; about {clock(left)} to go" if left else "")

    def seconds_left(self) -> float | None:
        """For all, at the rate of those that run; patience may end them sooner."""
        running = [t for t in self.trials.values() if t.state == "running"]
        rate = sum(t.status.rate for t in running if t.status)
        if not rate:
            return None
        left = sum(t.steps - t.status.step for t in running if t.status)
        left += sum(t.steps for t in self.trials.values() if t.state == "waiting")
        return left / rate


class LiveOverview(Overview):
    """The same, kept up to date in place."""

    def __init__(self, trials: dict[str, int], done_before: int) -> None:
        super().__init__(trials, done_before)
        from rich.live import Live

        self._live = Live(get_renderable=self._picture, refresh_per_second=4)

    def __enter__(self) -> LiveOverview:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.__exit__(None, None, None)

    def changed(self, trial: Trial, event: str = "") -> None:
        if event and trial.state in ("done", "failed"):  # stays above the overview
            self._live.console.print(f"{trial.name}  {event}", highlight=False, markup=False)

    def _picture(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        trials = list(self.trials.values())
        lines: list[Any] = [Text(self.counts(), style="bold", no_wrap=True)]
        shown = [t for t in trials if t.state in ("running", "held")]
        width = max((len(t.name) for t in shown), default=0)
        for trial in shown:
            row = Table.grid(padding=(0, 1))
            lines.append(row)
            if trial.state == "held":
                words = Text("trained by another process, waited for", style="dim")
                row.add_row(f"{trial.name:{width}}", words)
                continue
            status = trial.status
            bar = ProgressBar(
                total=status.total if status else None,
                completed=status.step if status else 0,
                width=10,
                pulse=status is None or status.total is None,
            )
            row.add_row(f"{trial.name:{width}}", bar, Text(trial.words, no_wrap=True))
        waiting = [t.name for t in trials if t.state == "waiting"]
        if waiting:
            more = f" and {len(waiting) - NAMED} more" if len(waiting) > NAMED else ""
            words = f"waiting: {', '.join(waiting[:NAMED])}{more}"
            lines.append(Text(words, style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(*lines)


def overview(trials: dict[str, int], done_before: int) -> Overview:
    kind = LiveOverview if sys.stdout.isatty() else Overview
    return kind(trials, done_before)
