"""What each row of the table measures. Every function runs in a process of its own.

A row's `ratio` is its time over the reference product's; the smaller the better. Its `seconds` are
CPU seconds of one thread (see benchmarks.measuring).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.measuring import Laps, Memory
from mocaps import config as configs
from mocaps import losses, train
from mocaps.config import Config
from mocaps.data import batches
from mocaps.data.batches import Batches
from mocaps.data.trajectory20 import BLOCK, Trajectory20, trajectory20
from mocaps.embed import embed
from mocaps.model import build
from mocaps.probe import OnlineProbe

BATCH = 64
NEVER = str(10**9)
LAP = 125
"""Steps: 8,000 trajectories, four blocks of the generator and almost eight chunks of views."""
FULL_STEPS, FULL_EPOCHS = 156_000, 1_000
NW_UCLA = {
    "model.num_points": "20",
    "model.planes": "true",
    "model.num_segment_capsules": "128",
    "model.translation_limit": "3",
}
POOL = 256  # sequences of made-up data: batches of it are copies, as those of a data set


@dataclass(frozen=True)
class Row:
    """How a measurement is told."""

    label: str
    unit: str
    """Of what `shown` makes of it."""
    shown: Callable[[float], float]
    """Seconds (or bytes) to the table's number."""
    goal: float | None = None
    """Of the issue, for the development machine; None for a row that is only watched."""
    less_is_better: bool = True

    def reached(self, seconds: float) -> bool | None:
        if self.goal is None:
            return None
        value = self.shown(seconds)
        return value <= self.goal if self.less_is_better else value >= self.goal


def _ms(seconds: float) -> float:
    return 1e3 * seconds


ROWS = {
    "step": Row("step, T20, preset paper", "ms", _ms, 5.0),
    "step_authors": Row("step, T20, preset authors", "ms", _ms),
    "validation": Row("validation on 10,000", "ms", _ms),
    "trajectories": Row("T20 trajectories", "/s", lambda s: 1 / s, 60_000, False),
    "nu": Row("nu of sequences", "/s", lambda s: 1 / s, 100_000, False),
    "nw_ucla": Row("step, NW-UCLA's shape", "ms", _ms, 400.0),
    "nw_ucla_memory": Row("peak memory of it", "GB", lambda b: b / 1e9, 1.5),
    "help": Row("start of mocaps --help", "s", lambda s: s, 0.3),
    "full": Row("full T20 training", "min", lambda s: s / 60, 12.0),
}
MEASURED = {
    "step": ("steps", {"preset": "paper"}),
    "step_authors": ("steps", {"preset": "authors"}),
    "validation": ("validation", {}),
    "trajectories": ("trajectories", {}),
    "nu": ("nu", {}),
    "nw_ucla": ("nw_ucla", {}),
    "help": ("start_of_help", {}),
}
"""Rows by their function; the other rows are made of these."""


def steps(preset: str, quick: bool) -> dict[str, Any]:
    """Steps inside `fit`: data, views, forward, backward, Adam, online probe; no validation."""
    endless = {"train.steps": NEVER, "train.steps_per_epoch": NEVER}
    config = configs.with_settings(configs.preset(preset), endless)
    source = batches.of(config)
    few = Batches(
        source.take,
        source.steps_per_epoch,
        source.validation_x[:10],  # fit validates once at its end
        None if source.validation_y is None else source.validation_y[:10],
        source.num_classes,
    )
    return fit(config, few, Laps(2, 16) if quick else Laps(16, LAP)).result()


def validation(quick: bool) -> dict[str, Any]:
    """What `fit` does at the end of an epoch: nu of 10,000 sequences, and the probe's accuracy."""
    config = configs.preset("paper")
    model, probe = modules(config, 20)
    loop = train._Loop(model, batches.of(config), config, probe, losses.objective)
    return Laps(2 if quick else 15).run(loop.validate).result()


def trajectories(quick: bool) -> dict[str, Any]:
    """Batches of 64, one after another; a lap is a whole number of the generator's blocks."""
    stream, count = Trajectory20(seed=0), 4 * BLOCK if quick else 16 * BLOCK
    first = 0

    def consume() -> None:
        nonlocal first
        for start in range(first, first + count, BATCH):
            stream[start : start + BATCH]
        first += count

    return Laps(2 if quick else 9).run(consume).result(1 / count)


def nu(quick: bool) -> dict[str, Any]:
    """The representation of arrays in memory, in the batches that `mocaps embed` makes."""
    model = build(configs.preset("paper").model)
    x = trajectory20("test")[0].numpy()
    return Laps(2 if quick else 25).run(lambda: embed(model, x)).result(1 / len(x))


def nw_ucla(quick: bool) -> dict[str, Any]:
    """Steps at the shape of 20 joints in 3 planes, memory counted from before the model."""
    settings = {**NW_UCLA, "train.steps": NEVER}
    if quick:
        settings |= {"model.num_points": "2", "model.num_segment_capsules": "8"}
    config = configs.with_settings(configs.preset("paper"), settings)
    warm_up()
    memory = Memory()
    # A lap is a chunk of views.
    laps = fit(config, made_up(config), Laps(2, 4) if quick else Laps(6, 4))
    return laps.result() | {"bytes": memory.peak()}


def start_of_help(quick: bool) -> dict[str, Any]:
    """On the wall, for it is waited for: the quickest of five."""
    command = [sys.executable, "-m", "mocaps", "--help"]
    seconds = []

    def start() -> None:
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - begin)

    result = Laps(1 if quick else 5).run(start).result()
    best = min(seconds[1:])
    ratios = sorted(s / result["product"] for s in seconds[1:])
    return result | {
        "seconds": best,
        "wall": best,
        "ratio": best / result["product"],
        "quartiles": [ratios[0], ratios[-1]],
    }


def derived(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows that follow from measured ones."""
    rows = {}
    if "nw_ucla" in found:
        used = found["nw_ucla"]["bytes"]
        # Memory has no product to be compared with: its ratio is itself, in GB.
        rows["nw_ucla_memory"] = {"seconds": used, "wall": used, "ratio": used / 1e9}
    if "step" in found and "validation" in found:
        rows["full"] = {
            key: FULL_STEPS * found["step"][key] + FULL_EPOCHS * found["validation"][key]
            for key in ("seconds", "wall", "ratio")
        }
    return rows


def made_up(config: Config) -> Batches:
    """Random walks of the shape that the model reads, with labels."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(POOL, *batches.input_shape(config), generator=draws).cumsum(1) * 0.1
    y = torch.arange(POOL) % 20

    def take(start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        index = torch.arange(start, stop) % POOL
        return x[index], y[index]

    return Batches(take, 10**9, x[:10], y[:10], 20)


def warm_up() -> None:
    """Two steps of a small model: what torch imports and keeps at its first step, some 80 MB, is
    the same for every size."""
    small = {"train.batch_size": "2", "train.steps": "2", "model.num_segment_capsules": "2"}
    config = configs.with_settings(configs.preset("paper"), small)
    model, probe = modules(config, 20)
    train.fit(model, made_up(config), config, probe=probe)


def fit(config: Config, source: Batches, laps: Laps) -> Laps:
    model, probe = modules(config, source.num_classes)
    train.fit(model, source, config, probe=probe, stop=laps)
    return laps


def modules(config: Config, classes: int) -> tuple[torch.nn.Module, OnlineProbe]:
    torch.manual_seed(config.train.seed)
    return build(config.model), OnlineProbe(config.model.num_features, classes)
