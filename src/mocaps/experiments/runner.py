"""Trials side by side: whatever has no finished report is run, each in a process of its own.

Nothing is remembered here. What is done is what has a report, and what is half done stands in its
run directory; so this process may be killed at any time, and the same command goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from mocaps import children, locks
from mocaps.children import INTERRUPTED, Ended
from mocaps.experiments import files
from mocaps.experiments.files import Experiment
from mocaps.experiments.overview import overview
from mocaps.progress import Status
from mocaps.summary import scores_of


@dataclass(frozen=True)
class Task:
    """One seed of one experiment."""

    experiment: Experiment
    seed: int

    @property
    def name(self) -> str:
        return f"{self.experiment.name} seed{self.seed}"

    @property
    def steps(self) -> int:
        """The most that it will take; on T20-C, of conditions."""
        if self.experiment.corrupted:
            return len(files.CONDITIONS)
        return self.experiment.config.train.total_steps if self.experiment.trains else 0

    @property
    def of(self) -> Task | None:
        """What has to be trained before."""
        return Task(self.experiment.of, self.seed) if self.experiment.of else None


@dataclass(frozen=True)
class Plan:
    """What there is to do, seed by seed: the first seeds of all rows make a whole table first."""

    done: list[Task]
    tasks: list[Task]
    changed: list[str]
    """A sentence for each report that does not count any more."""


def plan(experiments: Sequence[Experiment], seeds: Sequence[int], results: Path) -> Plan:
    every = [Task(e, seed) for e in experiments for seed in seeds or e.seeds]
    places = {task.name: list(seeds or task.experiment.seeds).index(task.seed) for task in every}
    every.sort(key=lambda task: places[task.name])  # stable: the files' order within
    found = Plan([], [], [])
    for task in every:
        what = files.find(task.experiment, task.seed, results)
        (found.done if what.report else found.tasks).append(task)
        if what.changed:
            found.changed.append(f"{what.changed}; it does not count, and is run again")
    return found


def command_of(task: Task) -> str:
    """What a report says it was made by."""
    return f"mocaps run {task.experiment.file}"


def run(
    found: Plan,
    *,
    out: Path,
    results: Path,
    workers: int | None,
    stop: Callable[[], bool],
) -> dict[str, Ended]:
    """Does what there is to do; how each task ended."""
    tasks = {task.name: task for task in found.tasks}
    if not tasks:
        return {}
    commands = {
        name: [
            *("run", str(task.experiment.file), "--seed", str(task.seed)),
            *("--out", str(out), "--results", str(results), "--progress", "json"),
        ]
        for name, task in tasks.items()
    }
    view = overview({name: task.steps for name, task in tasks.items()}, len(found.done))

    over: set[str] = set()

    def ready(name: str) -> bool:
        task, before = tasks[name], tasks[name].of
        held = any(
            locks.is_locked(files.run_directory(each.experiment, task.seed, out))
            for each in (task, before)
            if each is not None
        )
        view.held(name, held)
        return not held and (before is None or before.name not in tasks or before.name in over)

    def hear(name: str, line: str) -> None:
        said = json.loads(line)
        if "note" in said:
            view.note(name, said["note"])
        else:
            view.status(name, Status(**said))

    def ended(name: str, end: Ended) -> None:
        code, words = end
        over.add(name)
        if code == 0:
            task = tasks[name]
            view.ended(name, "done", brief(files.find(task.experiment, task.seed, results).report))
        elif code == INTERRUPTED:
            view.ended(name, "stopped", "")
        else:
            view.ended(name, "failed", reason(code, words))

    with view:
        return children.side_by_side(
            commands,
            hear=hear,
            stop=stop,
            workers=workers,
            ready=ready,
            begun=view.begun,
            ended=ended,
        )


def reason(code: int, words: str) -> str:
    """Why a child failed: its own sentence, or what ended it."""
    if code < 0:
        return f"ended by signal {-code}"
    return words.removeprefix("mocaps: ") or f"exit code {code}"


def brief(report: dict) -> str:
    """Accuracies in a few words."""
    accuracy = report.get("online_probe", report.get("cluster_accuracy"))
    parts = [] if accuracy is None else [f"accuracy {100 * accuracy:.1f}%"]
    for labels in report.get("cells", {}).get("clean", {}).get("logistic", {}):
        found = [c["logistic"][labels]["mean"] for c in report["cells"].values()]
        parts.append(f"mean {100 * fmean(found):.1f}% with {int(labels):,} labels")
    for key, name in (("logistic", "linear"), ("cosine", "1-NN")):
        budgets = scores_of(report).get(key, {})
        if budgets:
            parts.append(f"{name} {100 * budgets[max(budgets)].mean:.1f}%")
    return ", ".join(parts)
