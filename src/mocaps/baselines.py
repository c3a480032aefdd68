"""The paper's neural baselines: a bidirectional LSTM and a 1D-Conv, raw coordinates in, D out.

They are trained by the same loop on the same views as the capsules, with the contrast (Eq. 7) as
their only loss, and probed alike.

How many numbers they have, in thousands, with the 20-way classifier on top, beside the paper's:

    D                        128        256        512      1,024      2,048
    LSTM                   600.7      668.9      805.4    1,078.3    1,624.1
    the paper              600        669        805      1,078      1,625
    1D-Conv, "printed"     120.5      147.8      202.3      311.3
    1D-Conv, "counted"     588.1      787.3    1,185.6    1,982.3
    the paper              588        787      1,185      1,982

The LSTM is the appendix to the letter (each direction with the library's two biases), and meets the
paper to within a thousand; no whole number of weights per unit of D meets all five figures under
one rule of rounding, so the paper's are off by one somewhere.

The 1D-Conv of the appendix's table cannot have the size that the paper reports: a 1x1 convolution
from 4C = 192 channels and a classifier add 213 numbers per unit of D, where the paper's counts grow
by 1,556. That is 8C x 4 = 1,536 and the classifier's 20: a further halving to 8C = 384 channels,
and a last convolution that is a halving too (kernel 4, stride 2, padding 1, no bias). Five halvings
take 32 steps to one, nothing is left to average, and all four counts are met to the digit.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mocaps import model as capsules
from mocaps.config import BaselineConfig, Config, LossConfig
from mocaps.errors import InputError
from mocaps.losses import LossTerms, contrast_of
from mocaps.losses import objective as capsule_objective
from mocaps.model import MCAE, MultiPointMCAE

CHANNELS = 48  # C of the appendix's table
HIDDEN = 256  # of the LSTM, in each direction
SLOPE = 0.01  # of the leaky ReLU


class Baseline(nn.Module):
    """Sequences of one point in, D features out."""

    def __init__(self, config: BaselineConfig, dimension: int, length: int) -> None:
        super().__init__()
        self.config = config
        self.input_shape = length, dimension
        self.net: nn.Module = (
            _LSTM(dimension, config.hidden)
            if config.kind == "lstm"
            else _conv(config, dimension, length)
        )

    def embed(self, x: Float[Tensor, "batch L d"]) -> Float[Tensor, "batch features"]:
        """What the motions are."""
        if x.ndim != 3 or x.shape[1:] != self.input_shape:
            wanted = ", ".join(map(str, self.input_shape))
            raise ValueError(f"expected sequences of shape (batch, {wanted}), got {tuple(x.shape)}")
        return self.net(x)

    forward = embed


class _LSTM(nn.Module):
    def __init__(self, dimension: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(dimension, HIDDEN, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(2 * HIDDEN, hidden)

    def forward(self, x: Float[Tensor, "batch L d"]) -> Float[Tensor, "batch features"]:
        _, (last, _) = self.lstm(x)  # of each direction, the state when it has read all
        both = last.transpose(0, 1).flatten(1)
        return nn.functional.leaky_relu(self.linear(both), SLOPE)


class _TimeFirst(nn.Module):
    """Convolutions want channels before time."""

    def forward(self, x: Float[Tensor, "batch L d"]) -> Float[Tensor, "batch d L"]:
        return x.transpose(1, 2)


def _conv(config: BaselineConfig, dimension: int, length: int) -> nn.Sequential:
    counted = config.conv_layers == "counted"
    halvings = 5 if counted else 3
    if length < 2**halvings:
        raise InputError(
            f"model.length: expected at least {2**halvings} for the 1D-Conv baseline with "
            f'conv_layers = "{config.conv_layers}", got {length}'
        )
    channels = [dimension] + [CHANNELS * 2**i for i in range(4 if counted else 3)]
    layers: list[nn.Module] = [_TimeFirst()]
    for a, b in pairwise(channels):
        layers += [_halving(a, b), nn.BatchNorm1d(b), nn.LeakyReLU(SLOPE)]
    layers.append(
        _halving(channels[-1], config.hidden)
        if counted
        else nn.Conv1d(channels[-1], config.hidden, kernel_size=1)
    )
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten())


def _halving(a: int, b: int) -> nn.Conv1d:
    return nn.Conv1d(a, b, kernel_size=4, stride=2, padding=1, bias=False)


def build(config: Config) -> MCAE | MultiPointMCAE | Baseline:
    """The network that a configuration describes: capsules, or a baseline in their place."""
    if config.baseline.kind == "none":
        return capsules.build(config.model)
    model = config.model
    if model.num_points != 1 or model.planes:
        raise InputError(
            "baseline.kind: expected a model of one point without planes for a baseline, got "
            f"num_points = {model.num_points}, planes = {str(model.planes).lower()}"
        )
    return Baseline(config.baseline, model.dimension, model.length)


def objective(
    model: nn.Module, views: Float[Tensor, "twice_n ..."], config: LossConfig
) -> tuple[LossTerms, Float[Tensor, "twice_n features"]]:
    """Loss terms and representation of any network that `build` makes; a baseline has the contrast
    alone, since it reconstructs nothing."""
    if isinstance(model, MCAE | MultiPointMCAE):
        return capsule_objective(model, views, config)
    assert isinstance(model, Baseline)
    features = model.embed(views)
    zero = torch.zeros(())
    return LossTerms(zero, zero, contrast_of(features, config), zero, zero, zero), features
