"""One row of T20-C, condition by condition: what is scored stands in the row's run directory.

A kill at any moment costs the condition that was being scored, some seconds.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from pathlib import Path
from typing import Any

from mocaps import atomic, locks, runs, t20c
from mocaps import evaluate as evaluation
from mocaps.baselines import build
from mocaps.data.trajectory20 import trajectory20
from mocaps.embed import embed
from mocaps.errors import InputError
from mocaps.evaluate import Represent
from mocaps.experiments import files
from mocaps.experiments.files import Experiment
from mocaps.model import parameter_count
from mocaps.progress import Show, Status

CELLS = "cells.json"


def conduct(experiment: Experiment, seed: int, out: Path, show: Show) -> dict[str, Any]:
    """The scores of all conditions, of which some may have been there before."""
    assert experiment.corrupted is not None
    represent, about = representation(experiment, seed, out)
    place = files.run_directory(experiment, seed, out)
    place.mkdir(parents=True, exist_ok=True)
    with locks.locked(place):
        atomic.remove_leftovers(place)
        # The weights too: a run may have been trained anew with the same settings.
        made_by = {"settings": experiment.settings(seed), "weights": about.get("weights")}
        cells = _read(place / CELLS, made_by)
        begin, before = time.monotonic(), len(cells)
        for condition in files.CONDITIONS:
            if condition in cells:
                continue
            since = time.monotonic()
            found = t20c.score(
                represent,
                condition,
                experiment.corrupted.budgets,
                experiment.config.model.length,
            )
            cells[condition] = found | {"seconds": round(time.monotonic() - since, 2)}
            atomic.write_text(place / CELLS, json.dumps(made_by | {"cells": cells}))
            rate = (len(cells) - before) / (time.monotonic() - begin)
            total = len(files.CONDITIONS)
            left = (total - len(cells)) / rate
            show(Status(len(cells), total, rate, {}, None, left, unit="cell"))
    return {
        **about,
        "train": {"name": "t20 labels, corrupted alike", "sequences": 10_000},
        "test": {"name": "t20 test, corrupted", "sequences": 10_000},
        "cells": {condition: cells[condition] for condition in files.CONDITIONS},
        "seconds": round(sum(cell["seconds"] for cell in cells.values()), 1),
    }


def representation(
    experiment: Experiment, seed: int, out: Path
) -> tuple[Represent, dict[str, Any]]:
    """What is probed, and what a report says of it."""
    if experiment.of is not None:
        path = files.run_directory(experiment.of, seed, out)
        _check_finished(experiment.of, seed, path, out)
        run = runs.load(path)
        return lambda x: embed(run.model, x), {
            "steps": run.report["steps"],
            "kept": run.kept,
            "kept_step": run.step,
            "weights": hashlib.sha256((path / runs.MODEL).read_bytes()).hexdigest()[:16],
            "parameters": {"model": parameter_count(run.model), "probe": 0},
            "run": str(path),
            "run_command": run.report.get("command"),
        }
    assert experiment.floor is not None
    config, about = experiment.of_seed(seed), {}
    if experiment.floor == "random_weights":
        about["parameters"] = {"model": parameter_count(build(config)), "probe": 0}
    # Batch normalisation sees clean sequences, so that it is one representation in all conditions.
    clean, _ = trajectory20("labels", config.model.length)
    return evaluation.representation(experiment.floor, config, clean.numpy()), about


def _check_finished(of: Experiment, seed: int, path: Path, out: Path) -> None:
    """That there is a run to be probed, and that it is what the experiment's file says."""
    if not (path / runs.CONFIG).exists():
        found = "none"
    elif not runs.read_report(path).get("finished"):
        found = "one that has not finished"
    elif runs.read_config(path) != of.of_seed(seed):
        found = "one with other settings"
    else:
        return
    command = ["mocaps", "run", str(of.file), "--seed", str(seed)]
    command += [] if out == Path("runs") else ["--out", str(out)]
    raise InputError(
        f"{path}: expected a finished run of {of.name}, found {found}; "
        f"what makes it: {shlex.join(command)}"
    )


def _read(file: Path, made_by: dict[str, Any]) -> dict[str, Any]:
    """The cells that are there, if the same representation made them."""
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: expected JSON, got: {error}") from None
    same = all(found.get(key) == value for key, value in made_by.items())
    return found["cells"] if same else {}
