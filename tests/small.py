"""A run small enough to be trained in a test many times over."""

from __future__ import annotations

import torch

from mocaps import config as configs
from mocaps.config import Config
from mocaps.data import batches
from mocaps.data.batches import Batches
from mocaps.data.trajectory20 import Trajectory20
from mocaps.model import build
from mocaps.probe import OnlineProbe

SETTINGS = {
    "model.num_snippet_capsules": "3",
    "model.num_segment_capsules": "6",
    "train.batch_size": "8",
    "train.steps_per_epoch": "5",
}


def config(**settings: object) -> Config:
    """The preset `paper`, made small; `train__steps=7` sets train.steps."""
    given = {key.replace("__", "."): str(value).lower() for key, value in settings.items()}
    return configs.with_settings(configs.preset("paper"), SETTINGS | given)


def stream(config: Config, validation: int = 40) -> Batches:
    """Trajectory20 with a small validation set."""
    samples = Trajectory20(config.model.length, config.train.seed)
    x, y = Trajectory20(config.model.length, 12345)[:validation]
    return Batches(lambda a, b: samples[a:b], config.train.steps_per_epoch, x, y, 20)


def modules(config: Config, classes: int = 20) -> tuple[torch.nn.Module, OnlineProbe]:
    torch.manual_seed(config.train.seed)
    return build(config.model), OnlineProbe(config.model.num_features, classes)


def unlabelled(source: Batches) -> Batches:
    return Batches(
        lambda a, b: (source.take(a, b)[0], None),
        source.steps_per_epoch,
        source.validation_x,
        None,
        0,
    )


__all__ = ["batches", "config", "modules", "stream", "unlabelled"]
