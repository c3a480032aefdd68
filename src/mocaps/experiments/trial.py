"""One seed of one experiment: trained or resumed, evaluated, and its report written.

The report appears whole when everything is done, and is what "done" means. Before that, a training
run stands in its run directory, where a kill at any moment costs half a minute, and so do scores on
T20-C; a clustering or a floor begins anew, the same from its seed.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import mocaps
from mocaps import atomic, clusterings, launch, process, runs
from mocaps import evaluate as evaluation
from mocaps.baselines import build
from mocaps.config import Config
from mocaps.experiments import cells, files
from mocaps.experiments.files import Experiment
from mocaps.interrupts import interruptible
from mocaps.model import parameter_count
from mocaps.progress import Show


def conduct(
    experiment: Experiment,
    seed: int,
    *,
    out: Path,
    results: Path,
    command: str,
    show: Show,
    note: Callable[[str], None],
) -> bool:
    """Whether there is a finished report now; False where it was asked to stop."""
    if files.find(experiment, seed, results).report:  # another process was quicker
        return True
    process.settle()
    if experiment.trains:
        path = files.run_directory(experiment, seed, out)
        if not trained(experiment.of_seed(seed), path, command, show):
            return False
        note("evaluating")
        scores = of_run(path)
    elif experiment.corrupted is not None:
        scores = cells.conduct(experiment, seed, out, show)
    else:
        begin = time.monotonic()
        scores = of_clustering(experiment, seed, note) or of_floor(experiment, seed, note)
        scores["seconds"] = round(time.monotonic() - begin, 1)
    write(experiment, seed, results, command, scores)
    return True


def trained(config: Config, path: Path, command: str, show: Show) -> bool:
    """Sees to it that a finished run of this configuration is in the directory."""
    if runs.read_report(path).get("finished") and runs.read_config(path) == config:
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    with interruptible() as stop:
        outcome = launch.train(config, path, resume=True, command=command, show=show, stop=stop)
    return outcome.finished


def of_run(path: Path) -> dict[str, Any]:
    """What a finished run came to. Floors are experiments of their own."""
    run = runs.load(path)
    begin = time.monotonic()
    scores = evaluation.evaluate(run, floors={})
    return {
        "steps": run.report["steps"],
        "kept": run.kept,
        "kept_step": run.step,
        "parameters": scores["parameters"],
        **{key: scores[key] for key in ("train", "test", "online_probe")},
        **{key: scores[key] for key in ("logistic", "nearest_neighbour")},
        **{key: scores[key] for key in ("one_label_each", "clusters")},
        "run": str(path),
        "run_command": run.report.get("command"),
        "seconds": run.report["seconds"],
        "evaluation_seconds": round(time.monotonic() - begin, 1),
    }


def of_clustering(
    experiment: Experiment, seed: int, note: Callable[[str], None]
) -> dict[str, Any] | None:
    if (wanted := experiment.clustering) is None:
        return None
    note(f"clustering {wanted.sequences:,} sequences")
    return clusterings.cluster(**experiment.settings(seed)["clustering"], seed=seed)


def of_floor(experiment: Experiment, seed: int, note: Callable[[str], None]) -> dict[str, Any]:
    """The probes on a representation that nobody trained."""
    assert experiment.floor is not None
    note(f"probing {experiment.floor.replace('_', ' ')}")
    config = experiment.of_seed(seed)
    fit_on, score_on = evaluation.own_sets(config)
    found = evaluation.floors_of(config, fit_on, score_on, [experiment.floor])
    scores = {
        "train": {"name": fit_on.name, "sequences": len(fit_on.y)},
        "test": {"name": score_on.name, "sequences": len(score_on.y)},
        **found[experiment.floor],
    }
    if experiment.floor == "random_weights":
        scores["parameters"] = {"model": parameter_count(build(config)), "probe": 0}
    return scores


def write(
    experiment: Experiment, seed: int, results: Path, command: str, scores: dict[str, Any]
) -> None:
    """The report, whole or not at all."""
    report = {
        "format": files.FORMAT,
        "table": experiment.table,
        "row": experiment.row,
        "seed": seed,
        "command": command,
        **scores,
        **experiment.settings(seed),
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    file = files.report_file(experiment, seed, results)
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(file, json.dumps(report, indent=1) + "\n")


def machine() -> dict[str, Any]:
    """Where and with what it was computed."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "scikit-learn": metadata.version("scikit-learn"),
        "mocaps": mocaps.__version__,
    }


def _processor() -> str:
    """Linux tells the model in a file only."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
