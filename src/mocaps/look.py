"""What a run's model makes of its test sequences: what the page's pictures are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mocaps import drawing, geometry
from mocaps.capsules import MCAEOutput
from mocaps.config import Config
from mocaps.data import batches
from mocaps.data.trajectory20 import PATTERNS, trajectory20
from mocaps.errors import InputError
from mocaps.frames import Frames
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
    frames: Frames | None = None
    """Of a body's points, those of the body; None where each sequence has its own, or none."""

    @classmethod
    def at(cls, run: Run, x: Tensor | None = None, y: np.ndarray | None = None) -> Look:
        """A look at the run's test sequences, or at others."""
        if x is None:
            x, y, names = test_data(run.config)
        else:
            names = names_of(run.config, y)
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
            first = x[: max(1, MOST_SEQUENCES // points)]
            frames = model.frames(first)
        return cls(model.mcae, model.fold(first), y, guesses, names, points, frames)

    @cached_property
    def mean_activation(self) -> np.ndarray:
        """Of every capsule, over the test sequences."""
        with torch.inference_mode():
            parts = [
                self.model.embed(self.x[part], frames=self._frames(part))
                for part in torch.arange(len(self.x)).split(ROWS)
            ]
        return torch.cat(parts).mean(0).numpy()

    @cached_property
    def mean_snippet_activation(self) -> np.ndarray:
        """Of every snippet capsule, over the snippets of some test sequences."""
        rows = np.arange(min(ROWS, len(self.x)))
        return self.explained(rows).snippets.mu.mean((0, 1)).numpy()

    def rows(self, each: int, most: int) -> np.ndarray:
        """The first `each` sequences of every class, or the first ones where there is none."""
        if self.y is None or self.points > 1:
            return np.arange(min(most, len(self.x)))
        found = [np.flatnonzero(self.y == label)[:each] for label in np.unique(self.y)]
        return np.concatenate(found)[:most]

    def explained(self, rows: np.ndarray) -> MCAEOutput:
        chosen = torch.from_numpy(rows)
        with torch.inference_mode():
            return self.model(self.x[chosen], frames=self._frames(chosen))

    def _frames(self, rows: Tensor) -> Frames | None:
        if self.frames is None:
            return None
        parts = {f.name: getattr(self.frames, f.name)[rows] for f in fields(self.frames)}
        return Frames(**parts)

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
    return held_out.validation_x, y, names_of(config, y, held_out.num_classes)


def names_of(config: Config, y: np.ndarray | None, count: int = 0) -> tuple[str, ...]:
    """What the labels mean, where it is known; else their numbers."""
    count = max(count, 0 if y is None else int(y.max()) + 1)
    if config.data.name == "t20" and count == len(PATTERNS):
        return PATTERNS
    return tuple(str(label) for label in range(count))


@dataclass(frozen=True)
class Use:
    """One capsule's part in the explanation of one sequence, or of one of its snippets."""

    k: int
    nu: float
    """Its activation; mu of a snippet capsule."""
    share: float
    """Of the weights that mix the reconstruction."""
    angle: float
    """Degrees by which its transformation turns the template."""
    scale: float
    points: np.ndarray
    """The template where the transformation puts it, in the input's own units."""

    @property
    def place(self) -> np.ndarray:
        """The centroid of the placed template."""
        return self.points.mean(0)

    @property
    def size(self) -> float:
        """The root mean square distance of its points from there."""
        return float(np.sqrt(((self.points - self.place) ** 2).sum(-1).mean()))


def capsules_of(out: MCAEOutput) -> tuple[Tensor, Tensor]:
    """B and nu; a model of one layer explains the sequence as one snippet, by A and mu."""
    if out.segments is None:
        return out.snippets.A[:, 0], out.snippets.mu[:, 0]
    return out.segments.B, out.segments.nu


def uses(look: Look, out: MCAEOutput, top: int = TOP) -> list[list[Use]]:
    """Of every explained sequence, the segment capsules of highest activation."""
    return _uses(*capsules_of(out), look.model.segment_templates(), top)


def snippet_uses(look: Look, out: MCAEOutput, top: int = TOP) -> list[list[list[Use]]]:
    """Of every snippet of every explained sequence, the snippet capsules of highest activation."""
    S = look.model.config.num_snippets
    A, mu = out.snippets.A.flatten(0, 1), out.snippets.mu.flatten(0, 1)
    every = _uses(A, mu, look.model.snippet_templates(), top)
    return [every[start : start + S] for start in range(0, len(every), S)]


def _uses(
    T: Float[Tensor, "n K d d1"],
    activation: Float[Tensor, "n K"],
    templates: Float[Tensor, "K steps d"],
    top: int,
) -> list[list[Use]]:
    share = activation / activation.sum(1, keepdim=True)
    angle, scale = geometry.angle(T).rad2deg(), geometry.scale(T)
    best = activation.argsort(dim=1, descending=True, stable=True)[:, :top].tolist()
    return [
        [
            Use(
                k,
                activation[i, k].item(),
                share[i, k].item(),
                angle[i, k].item(),
                scale[i, k].item(),
                geometry.apply(T[i, k], templates[k]).numpy(),
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
