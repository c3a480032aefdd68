"""The records that flow through the model.

A transformation is held as its first d rows, (d, d + 1) = [linear | translation]; the last row of
the homogeneous matrix is always (0, ..., 0, 1) and `geometry.homogeneous` puts it back.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class SnippetCapsules:
    """What the snippet encoder says of every snippet of a sequence, capsule by capsule."""

    A: Float[Tensor, "*batch S N d d1"]
    """Transformation from template to snippet."""
    mu: Float[Tensor, "*batch S N"]
    """Activation."""


@dataclass(frozen=True)
class SegmentCapsules:
    """What the segment encoder says of a sequence, capsule by capsule."""

    B: Float[Tensor, "*batch M d d1"]
    """Transformation from segment template to sequence."""
    nu: Float[Tensor, "*batch M"]
    """Activation: what the motion is."""
    raw: Float[Tensor, "*batch M parameters"]
    """The encoder's numbers before they became nu and B: nu's logit first."""


@dataclass(frozen=True)
class MCAEOutput:
    """A sequence explained."""

    snippets: SnippetCapsules
    reconstruction: Float[Tensor, "*batch L d"]
    """x_hat: templates transformed and mixed (Eq. 2)."""
    segments: SegmentCapsules | None = None
    """None in a single-layer model, and so are the two below."""
    snippets_from_segments: SnippetCapsules | None = None
    """A_hat, mu_hat (Eq. 4)."""
    reconstruction_from_segments: Float[Tensor, "*batch L d"] | None = None
    """x_hat decoded from A_hat, mu_hat."""
    defined: Bool[Tensor, "*batch"] | None = None
    """Of a model that reads in frames: whether a sequence has a direction; None without frames."""

    @property
    def representation(self) -> Float[Tensor, "*batch M"]:
        """What the motion is: nu, or mu of a single-layer model's one snippet."""
        return self.snippets.mu[..., 0, :] if self.segments is None else self.segments.nu
