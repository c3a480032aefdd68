"""What a trained run is worth: its probes by label budget, beside what needs no training.

All accuracies are fractions. A budget larger than the number of labels offered is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from mocaps import config as configs
from mocaps import probe, unlabelled
from mocaps.baselines import build
from mocaps.config import Config
from mocaps.data import arrays, batches
from mocaps.data.trajectory20 import trajectory20
from mocaps.embed import embed
from mocaps.errors import InputError
from mocaps.model import parameter_count
from mocaps.runs import Run

CALIBRATION_ROWS = 250
FLOORS = ("raw_coordinates", "fourier_magnitudes", "random_weights")
Represent = Callable[[np.ndarray], np.ndarray]
"""Sequences (n, L, ...) to features (n, f)."""


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Sequences with labels, and what to call them."""

    name: str
    x: np.ndarray
    y: np.ndarray


def evaluate(
    run: Run,
    train: str | Path | None = None,
    test: str | Path | None = None,
    *,
    floors: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Probes fitted on `train` and scored on `test`, both .npz files with x and y.

    Without files: for Trajectory20 its fixed sets "labels" and "test"; for a run on a file the part
    that it learned from and the part that it held out (and chose its weights by). `floors` are
    those of the same configuration and sets, where they are known already.
    """
    fit_on, score_on = _sets(run.config, train, test)
    features = [embed(run.model, part.x) for part in (fit_on, score_on)]
    return {
        "train": {"name": fit_on.name, "sequences": len(fit_on.y)},
        "test": {"name": score_on.name, "sequences": len(score_on.y)},
        "online_probe": online_accuracy(run, features[1], score_on.y),
        **by_budget(features[0], fit_on.y, features[1], score_on.y),
        "floors": floors_of(run.config, fit_on, score_on) if floors is None else floors,
        "parameters": {
            "model": parameter_count(run.model),
            "probe": 0 if run.probe is None else parameter_count(run.probe),
        },
        "steps": run.step,
        "kept": run.kept,
        "finished": run.finished,
        "seconds": run.report.get("seconds"),
        "command": run.report.get("command"),
        "seed": run.config.train.seed,
        "config": configs.to_dict(run.config),
    }


def own_floors(config: Config, names: Iterable[str] = FLOORS) -> dict[str, Any]:
    """The floors of a configuration's own sets: they need no run, so they can be had beside it."""
    return floors_of(config, *own_sets(config), names)


def own_sets(config: Config) -> tuple[Labelled, Labelled]:
    """What a configuration's probes are fitted and scored on where no files are given."""
    return _sets(config, None, None)


def floors_of(
    config: Config, fit_on: Labelled, score_on: Labelled, names: Iterable[str] = FLOORS
) -> dict[str, Any]:
    """What the probes reach on representations that nobody trained."""
    found = {}
    for name in names:
        represent = representation(name, config, fit_on.x)
        train_x, test_x = (represent(part.x) for part in (fit_on, score_on))
        found[name] = by_budget(train_x, fit_on.y, test_x, score_on.y)
    return found


def representation(name: str, config: Config, x: np.ndarray) -> Represent:
    """The floor of that name; random weights have their batch normalisation set by `x`."""
    if name == "random_weights":
        untrained = random_model(config, x)
        return lambda sequences: embed(untrained, sequences)
    return {
        "raw_coordinates": probe.raw_coordinates,
        "fourier_magnitudes": probe.fourier_magnitudes,
    }[name]


def by_budget(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray
) -> dict[str, Any]:
    """Logistic regression and 1-NN on features, each by label budget, ready for JSON.

    And what they say with one label a class, by 1-NN, and with none, by k-means.
    """
    data = train_x, train_y, test_x, test_y
    return {
        "logistic": _plain(probe.logistic_by_budget(*data)),
        "nearest_neighbour": {
            distance: _plain(probe.nearest_neighbour_by_budget(*data, distance))
            for distance in probe.DISTANCES
        },
        "one_label_each": _plain({d: unlabelled.one_label_each(*data, d) for d in probe.DISTANCES}),
        "clusters": _plain(
            {d: unlabelled.clusters(train_x, test_x, test_y, d) for d in probe.DISTANCES}
        ),
    }


def online_accuracy(run: Run, features: np.ndarray, y: np.ndarray) -> float | None:
    """Of the probe that was trained along; None where there is none, or it knows fewer classes."""
    if run.probe is None or y.max() >= run.probe.out_features:
        return None
    with torch.inference_mode():
        predicted = run.probe(torch.from_numpy(features)).argmax(dim=1).numpy()
    return float(np.mean(predicted == y))


@torch.no_grad()
def random_model(config: Config, x: np.ndarray) -> nn.Module:
    """The run's model as its seed started it, untrained.

    Only its batch normalisation has seen data: one pass over the labelled sequences, without their
    labels, sets the means and variances that training would have set.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        model = build(config)
        norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        before = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean over all batches
        model.train()
        for part in torch.from_numpy(x).split(CALIBRATION_ROWS):
            if len(part) > 1:
                model(part)
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
    return model.eval()


def _sets(
    config: Config, train: str | Path | None, test: str | Path | None
) -> tuple[Labelled, Labelled]:
    if (train is None) != (test is None):
        given, missing = ("--train", "--test") if test is None else ("--test", "--train")
        raise InputError(f"{given} was given without {missing}: expected both, or none")
    if train is not None and test is not None:
        return _from_file(config, Path(train)), _from_file(config, Path(test))
    if config.data.name == "t20":
        length = config.model.length
        labels, scored = trajectory20("labels", length), trajectory20("test", length)
        return (
            Labelled("t20 labels", labels[0].numpy(), labels[1].numpy()),
            Labelled("t20 test", scored[0].numpy(), scored[1].numpy()),
        )
    whole = _from_file(config, Path(config.data.name))
    learn, held_out = batches.split(len(whole.x))
    return (
        Labelled(f"{whole.name}, learned from", whole.x[learn], whole.y[learn]),
        Labelled(f"{whole.name}, held out", whole.x[held_out], whole.y[held_out]),
    )


def _from_file(config: Config, path: Path) -> Labelled:
    member = arrays.open_x(path)
    arrays.check_shape(path, member.shape, batches.input_shape(config, member.shape))
    x = arrays.read_x(path)
    return Labelled(str(path), x, arrays.read_y(path, len(x)))


def _plain(scores: Mapping[Any, probe.Score]) -> dict[str, Any]:
    return {str(key): dataclasses.asdict(score) for key, score in scores.items()}
