"""A folder of experiments small enough to be run in a test, and reports that nobody measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mocaps.data.trajectory20 import Trajectory20
from mocaps.experiments import files

TRAINED = """\
label = "tiny"
seeds = [0, 1]

[config]
preset = "paper"

[config.model]
num_snippet_capsules = 3
num_segment_capsules = 6

[config.data]
name = "{data}"

[config.train]
batch_size = 8
steps = {steps}
"""
FLOOR = """\
label = "raw coordinates"

[floor]
representation = "raw_coordinates"

[config.data]
name = "{data}"
"""
TABLES = """\
[small]
title = "A small table"
cells = { "#Sni" = "model.num_snippet_capsules" }
rows = [["tiny"]]
floors = ["raw"]
notes = ["Nothing here is meant."]
"""
EXPECTED = "small.tiny = { accuracy = 77.77, error = 1.25, parameters = 1_234_000 }\n"


def folder(place: Path, steps: int = 12) -> Path:
    """experiments/small/tiny.toml and raw.toml over a file of 260 labelled motions."""
    x, y = Trajectory20(seed=1)[:260]
    data = place / "x.npz"
    np.savez(data, x=x.numpy(), y=y.numpy())
    small = place / "experiments" / "small"
    small.mkdir(parents=True)
    (small / "tiny.toml").write_text(TRAINED.format(data=data, steps=steps))
    (small / "raw.toml").write_text(FLOOR.format(data=data))
    (small.parent / "tables.toml").write_text(TABLES)
    (small.parent / "expected.toml").write_text(EXPECTED)
    return small.parent


def report(file: Path, results: Path, seed: int, **entries: Any) -> Path:
    """A finished report of an experiment's seed, with the numbers that are given."""
    experiment = files.load(file)
    place = files.report_file(experiment, seed, results)
    place.parent.mkdir(parents=True, exist_ok=True)
    common = {"format": files.FORMAT, "seed": seed, "table": experiment.table}
    place.write_text(json.dumps(common | entries | experiment.settings(seed)))
    return place


def probes(linear: float, neighbour: float) -> dict[str, Any]:
    """Scores at every budget, worse with fewer labels."""

    def by_budget(top: float) -> dict[str, Any]:
        means = {"200": top - 0.3, "2000": top - 0.1, "10000": top}
        return {b: {"mean": m, "standard_error": 0.01, "draws": 5} for b, m in means.items()}

    nearest = {"cosine": by_budget(neighbour), "euclidean": by_budget(neighbour - 0.05)}
    return {"logistic": by_budget(linear), "nearest_neighbour": nearest}


__all__ = ["EXPECTED", "FLOOR", "TABLES", "TRAINED", "folder", "probes", "report"]
