"""What each capsule means for one motion: which templates it is made of, and where they lie.

Coordinates and sizes are in the input's own units; angles are degrees counter-clockwise, in space
the length of the rotation; a share is a capsule's part of the weights that mix the reconstruction,
and all shares of a motion, or of a snippet, sum to one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from mocaps import figures
from mocaps.errors import InputError
from mocaps.look import Look, Use, names_of, snippet_uses, uses
from mocaps.runs import Run

DRAWN = 4  # segment templates in the picture
DRAWN_OF_SNIPPET = 3


@dataclass(frozen=True)
class Explanation:
    """One motion taken apart."""

    name: str
    guess: str | None
    """What the model's own classifier takes it for."""
    defined: bool
    """Whether the motion has a direction; always, for a model without frames."""
    x: Float[np.ndarray, "L d"]
    reconstructions: dict[str, Float[np.ndarray, "L d"]]
    """From "snippets", and from "segments" where there are any."""
    capsules: list[Use]
    """Segment capsules, the most active first."""
    snippets: list[list[Use]]
    """Of each snippet, its capsules."""

    @property
    def place(self) -> np.ndarray:
        """The motion's centroid."""
        return self.x.mean(0)

    @property
    def size(self) -> float:
        """The root mean square distance of its points from there."""
        return float(np.sqrt(((self.x - self.place) ** 2).sum(-1).mean()))

    @property
    def errors(self) -> dict[str, float]:
        """Root mean square distances of the reconstructions from the motion."""
        return {
            name: float(np.sqrt(((hat - self.x) ** 2).sum(-1).mean()))
            for name, hat in self.reconstructions.items()
        }

    @property
    def steps(self) -> int:
        """Of a snippet."""
        return len(self.x) // len(self.snippets)

    def plain(self, top: int) -> dict[str, Any]:
        """Ready for JSON: every capsule, and of the `top` ones where each of their points lies."""
        return {
            "name": self.name,
            "guess": self.guess,
            "defined": self.defined,
            "place": self.place.tolist(),
            "size": self.size,
            "x": self.x.tolist(),
            "errors": self.errors,
            "reconstructions": {k: hat.tolist() for k, hat in self.reconstructions.items()},
            "capsules": _plain(self.capsules, top),
            "snippets": [
                {"steps": [i * self.steps, (i + 1) * self.steps - 1], "capsules": _plain(each, top)}
                for i, each in enumerate(self.snippets)
            ],
        }

    def figure(self) -> Figure:
        """The motion, what the model gives back, its templates, and its snippets' templates."""
        back = self.reconstructions.get("segments", self.reconstructions["snippets"])
        shown = self.capsules[:DRAWN]
        return figures.explanation(
            self.x,
            back,
            np.stack([use.points for use in shown]),
            [f"{u.k} · {100 * u.share:.0f}% · {u.angle:.0f}° · ×{u.scale:.2g}" for u in shown],
            np.stack([[u.points for u in each[:DRAWN_OF_SNIPPET]] for each in self.snippets]),
            [[(u.k, u.share) for u in each[:DRAWN_OF_SNIPPET]] for each in self.snippets],
            self.reconstructions["snippets"],
            self.name,
        )


def explain(run: Run, x: Tensor, y: np.ndarray | None, sample: int, point: int = 0) -> Explanation:
    """Sample number `sample` of some sequences; of several points, one of them."""
    if not 0 <= sample < len(x):
        raise InputError(f"--sample: expected 0 to {len(x) - 1}, got {sample}")
    one = slice(sample, sample + 1)
    look = Look.at(run, x[one], None if y is None else y[one])
    look = replace(look, names=names_of(run.config, y))
    if not 0 <= point < look.points:
        raise InputError(f"--point: expected 0 to {look.points - 1}, got {point}")
    out = look.explained(np.array([point]))
    hats = {"snippets": out.reconstruction, "segments": out.reconstruction_from_segments}
    what = f"sequence {sample}" if look.points == 1 else f"sequence {sample}, point {point}"
    if y is not None:
        what = f"{look.names[int(y[sample])]}, {what}"
    guess = None if run.probe is None or look.points > 1 else _guess(look)
    everything = look.model.config.num_segment_capsules or look.model.config.num_snippet_capsules
    return Explanation(
        what,
        guess,
        out.defined is None or bool(out.defined.all()),
        look.x[point].numpy(),
        {name: hat[0].numpy() for name, hat in hats.items() if hat is not None},
        uses(look, out, everything)[0],
        snippet_uses(look, out, look.model.config.num_snippet_capsules)[0],
    )


def _guess(look: Look) -> str | None:
    """Of the first sequence; None where the classifier knows classes without a name here."""
    if look.guesses is None or look.guesses[0] >= len(look.names):
        return None
    return look.guess(0)


def _plain(capsules: list[Use], top: int) -> list[dict[str, Any]]:
    return [
        {
            "template": use.k,
            "activation": use.nu,
            "share": use.share,
            "angle": use.angle,
            "scale": use.scale,
            "place": use.place.tolist(),
            "size": use.size,
        }
        | ({"points": use.points.tolist()} if rank < top else {})
        for rank, use in enumerate(capsules)
    ]
