"""What a run's model makes of its test sequences: what the page's pictures are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mocaps import drawing, geometry
from mocaps.capsules import MCAEOutput
from mocaps.config import Config
from mocaps.data import batches
from mocaps.data.trajectory20 import PATTERNS, trajectory20
from mocaps.errors import InputError
from mocaps.model import MCAE, MultiPointMCAE
from mocaps.runs import Run

ROWS = 1_000  # sequences in memory at a time
MOST_SEQUENCES = 10_000  # that are looked at
EXPLORED = 40  # samples that the reader can pick from
TOP = 5  # capsules shown of each


@dataclass(frozen=True)
class Look:
    """The test sequences of a run, and what its model makes of them.

    Sequences of several points are looked at point by point, as the model itself sees them.
    """

    model: MCAE
    x: Tensor
    y: np.ndarray | None
    guesses: np.ndarray | None
    names: tuple[str, ...]
    points: int
    """How many sequences the model sees of one sample."""

    @classmethod
    def at(cls, run: Run) -> Look:
        x, y, names = test_data(run.config)
        model = run.model
        if not isinstance(model, MCAE | MultiPointMCAE):
            kind = run.config.baseline.kind
            raise InputError(f"{run.path}: expected a run of a capsule model, got baseline {kind}")
        with torch.inference_mode():
            features = torch.cat([model.embed(part) for part in x.split(ROWS)])
            guesses = None if run.probe is None else run.probe(features).argmax(1).numpy()
            if isinstance(model, MCAE):
                return cls(model, x, y, guesses, names, 1)
            points = len(model.fold(x[:1]))
            folded = model.fold(x[: max(1, MOST_SEQUENCES // points)])
        return cls(model.mcae, folded, y, guesses, names, points)

    @cached_property
    def mean_activation(self) -> np.ndarray:
        """Of every capsule, over the test sequences."""
        with torch.inference_mode():
            parts = [self.model.embed(part) for part in self.x.split(ROWS)]
        return torch.cat(parts).mean(0).numpy()

    def rows(self, each: int, most: int) -> np.ndarray:
        """The first `each` sequences of every class, or the first ones where there is none."""
        if self.y is None or self.points > 1:
            return np.arange(min(most, len(self.x)))
        found = [np.flatnonzero(self.y == label)[:each] for label in np.unique(self.y)]
        return np.concatenate(found)[:most]

    def explained(self, rows: np.ndarray) -> MCAEOutput:
        with torch.inference_mode():
            return self.model(self.x[torch.from_numpy(rows)])

    def guess(self, row: int) -> str | None:
        """What the model's own classifier takes it for."""
        if self.guesses is None or self.points > 1:
            return None
        return self.names[int(self.guesses[row])]

    def name(self, row: int) -> str:
        if self.y is None or self.points > 1:
            return f"sequence {row}"
        return self.names[int(self.y[row])]


def test_data(config: Config) -> tuple[Tensor, np.ndarray | None, tuple[str, ...]]:
    """x, labels and their names: Trajectory20's test set, or what a file's run was validated on."""
    if config.data.name == "t20":
        x, y = trajectory20("test", config.model.length)
        return x, y.numpy(), PATTERNS
    held_out = batches.of(config)
    y = None if held_out.validation_y is None else held_out.validation_y.numpy()
    names = tuple(str(label) for label in range(held_out.num_classes))
    return held_out.validation_x, y, names


@dataclass(frozen=True)
class Use:
    """One capsule's part in the explanation of one sequence."""

    k: int
    nu: float
    share: float
    """Of the weights that mix the reconstruction."""
    angle: float
    """Degrees by which B turns the template."""
    scale: float
    points: np.ndarray
    """The template where B puts it."""


def uses(look: Look, out: MCAEOutput, top: int = TOP) -> list[list[Use]]:
    """Of every explained sequence, the capsules of highest activation."""
    nu = out.representation
    # A model of one layer explains the sequence as one snippet.
    B = out.snippets.A[:, 0] if out.segments is None else out.segments.B
    share = nu / nu.sum(1, keepdim=True)
    angle, scale = geometry.angle(B).rad2deg(), geometry.scale(B)
    templates = look.model.segment_templates()
    best = nu.argsort(dim=1, descending=True, stable=True)[:, :top].tolist()
    return [
        [
            Use(
                k,
                nu[i, k].item(),
                share[i, k].item(),
                angle[i, k].item(),
                scale[i, k].item(),
                geometry.apply(B[i, k], templates[k]).numpy(),
            )
            for k in ks
        ]
        for i, ks in enumerate(best)
    ]


def explorer(look: Look) -> list[dict[str, Any]]:
    """What the page's script draws: test samples, their reconstructions, the templates they use.

    Coordinates are thousandths of half the frame, from its centre.
    """
    rows = look.rows(2, EXPLORED)
    out = look.explained(rows)
    x = look.x[torch.from_numpy(rows)]
    corners = drawing.limits(x.numpy())
    hats = {"snippets": out.reconstruction}
    if out.reconstruction_from_segments is not None:
        hats["segments"] = out.reconstruction_from_segments
    errors = {key: (hat - x).square().sum(-1).mean(-1).sqrt() for key, hat in hats.items()}
    used = uses(look, out)
    return [
        {
            "row": row,
            "name": look.name(row),
            "guess": look.guess(row),
            "x": thousandths(x[i].numpy(), corners),
            "hats": {key: thousandths(hat[i].numpy(), corners) for key, hat in hats.items()},
            "errors": {key: round(error[i].item(), 4) for key, error in errors.items()},
            "top": [
                {
                    "k": use.k,
                    "nu": round(use.nu, 3),
                    "share": round(use.share, 4),
                    "angle": round(use.angle),
                    "scale": round(use.scale, 2),
                    "points": thousandths(use.points, corners),
                }
                for use in used[i]
            ],
        }
        for i, row in enumerate(rows.tolist())
    ]


def thousandths(points: np.ndarray, corners: tuple[np.ndarray, np.ndarray]) -> list[int]:
    """x and y in turn, from the middle of the frame between these corners."""
    low, high = corners
    unit = 2 * (drawing.flat(points) - low) / (high - low) - 1
    return np.rint(1000 * unit).clip(-9999, 9999).astype(int).ravel().tolist()
