"""Eq. 5 to 9: one function a term, and their weighted total.

Sums over time, axes and capsules; means over the batch, so that the weights do not depend on it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from mocaps.capsules import SnippetCapsules
from mocaps.config import LossConfig
from mocaps.model import MCAE, MultiPointMCAE

Scalar = Float[Tensor, ""]


@dataclass(frozen=True)
class LossTerms:
    """The terms of Eq. 9, before their weights."""

    snippet: Scalar
    segment: Scalar
    contrast: Scalar
    smoothness: Scalar
    sparsity: Scalar
    spread: Scalar
    """Ours, not the paper's."""

    def total(self, weights: LossConfig) -> Scalar:
        """Eq. 9."""
        terms = [f.name for f in dataclasses.fields(self)]
        weighted = [getattr(weights, t) * getattr(self, t) for t in terms if getattr(weights, t)]
        if not weighted:
            raise ValueError("expected at least one loss weight above 0, got none")
        return torch.stack(weighted).sum()  # Eq. (9)


class _SquaredDistance(torch.autograd.Function):
    """|a - b|^2 over everything: the difference is kept, and is the gradient up to a factor."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        difference = a - b
        ctx.save_for_backward(difference)
        return difference.square().sum()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        d_a = ctx.saved_tensors[0] * (2 * grads[0])
        return d_a if ctx.needs_input_grad[0] else None, -d_a if ctx.needs_input_grad[1] else None


class _SquaredSteps(torch.autograd.Function):
    """|x_t - x_(t-1)|^2 over t = every, 2 every, ... of the second axis."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, every: int) -> Tensor:
        steps = x[:, every::every] - x[:, every - 1 : -1 : every]
        ctx.save_for_backward(steps)
        ctx.every, ctx.shape = every, x.shape
        return steps.square().sum()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        d_steps, every = ctx.saved_tensors[0] * (2 * grads[0]), ctx.every
        d_x = d_steps.new_zeros(ctx.shape)
        d_x[:, every::every] = d_steps
        d_x[:, every - 1 : -1 : every] -= d_steps
        return d_x, None


def snippet_loss(x_hat: Float[Tensor, "n L d"], x: Float[Tensor, "n L d"]) -> Scalar:
    """How far the reconstruction is from the input."""
    return _SquaredDistance.apply(x_hat, x) / len(x)  # Eq. (5)


def segment_loss(found: SnippetCapsules, snippets: SnippetCapsules) -> Scalar:
    """How far the snippets' capsules, built from segment templates, are from the encoder's."""
    of_A = _SquaredDistance.apply(found.A, snippets.A)
    of_mu = _SquaredDistance.apply(found.mu, snippets.mu)
    return (of_A + of_mu) / len(found.mu)  # Eq. (6)


def contrast_loss(
    nu: Float[Tensor, "twice_n features"],
    temperature: float = 0.1,
    *,
    positive_in_denominator: bool = False,
    centred: bool = False,
) -> Scalar:
    """How hard it is to tell a sample's second view (second half of nu) from the others'."""
    if centred:
        nu = nu - nu.mean(0)
    first, second = F.normalize(nu, dim=-1, eps=1e-12).chunk(2)
    similarity = first @ second.T / temperature
    positive = similarity.diagonal()
    if not positive_in_denominator:
        itself = torch.eye(len(similarity), dtype=torch.bool, device=nu.device)
        similarity = similarity.masked_fill(itself, -torch.inf)
    return (similarity.logsumexp(1) - positive).mean()  # Eq. (7)


def smoothness_loss(x_hat: Float[Tensor, "n L d"], every: int = 1) -> Scalar:
    """How far a reconstruction jumps: over every step, or only over borders `every` steps apart."""
    return _SquaredSteps.apply(x_hat, every) / len(x_hat)  # Eq. (8)


def sparsity_loss(nu: Float[Tensor, "n M"]) -> Scalar:
    """How much is active."""
    return nu.square().sum() / len(nu)  # Eq. (8)


SPREAD = 1.0
"""Root of the activations' summed variance over motions that is right: some 25 capsules that tell
motions apart, each by 0.2. More would press the sigmoids into their flat ends."""


def spread_loss(nu: Float[Tensor, "n M"]) -> Scalar:
    """How far the activations are from telling motions apart as much as they should.

    The contrast does not see how far activations move, only in which direction, and with it alone
    they stay within some thousandths of each other: nothing would be active, or everything. Which
    capsules move, and which stay off, is left to the contrast.
    """
    deviation = (nu.var(0).sum() + 1e-9).sqrt()
    return (deviation / SPREAD).log().square()


def contrast_of(nu: Float[Tensor, "twice_n features"], config: LossConfig) -> Scalar:
    """Eq. 7 in the configuration's reading."""
    return contrast_loss(
        nu,
        config.temperature,
        positive_in_denominator=config.positive_in_denominator,
        centred=config.centred,
    )


def objective(
    model: MCAE | MultiPointMCAE, views: Float[Tensor, "twice_n ..."], config: LossConfig
) -> tuple[LossTerms, Float[Tensor, "twice_n features"]]:
    """All terms on the two views of a batch (first views, then second), and the representation."""
    borders = config.smoothness_at == "snippet borders"
    multi = isinstance(model, MultiPointMCAE)
    x = model.fold(views) if multi else views
    frames = model.frames(views)
    if frames is not None:
        # Distances count in the motion's own frame: relative to its size, wherever it is.
        x, frames = frames.own()
    output = (model.mcae if multi else model)(x, from_segments=borders, frames=frames)
    nu = output.representation
    together = model.join(nu, len(views)) if multi else nu
    every = model.config.snippet_length if borders else 1
    smoothness = smoothness_loss(output.reconstruction, every)
    if output.reconstruction_from_segments is not None:
        smoothness = smoothness + smoothness_loss(output.reconstruction_from_segments, every)
    segment = (
        segment_loss(output.snippets_from_segments, output.snippets)
        if output.snippets_from_segments is not None
        else nu.new_zeros(())
    )
    terms = LossTerms(
        snippet=snippet_loss(output.reconstruction, x),
        segment=segment,
        contrast=contrast_of(together, config),
        smoothness=smoothness,
        sparsity=sparsity_loss(nu),
        spread=spread_loss(nu) if config.spread else nu.new_zeros(()),
    )
    return terms, together
