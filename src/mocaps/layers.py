"""The three layers of the encoders, each shaped as few large matrix products.

They compute what torch's Conv1d, LSTM and a list of Linear layers compute (tests/test_layers.py
holds them to it); docs/performance.md says what each shape is worth.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def uniform(bound: float, *shape: int) -> nn.Parameter:
    """A parameter drawn evenly from +- bound."""
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


class HalvingConv(nn.Module):
    """Convolution (kernel 4, stride 2, padding 1), batch normalisation, leaky ReLU: half the time.

    Time comes before channels. Window t of the padded input is its pair t and its pair t + 1, two
    steps each, so one product of all pairs with both halves of the kernel, added with a shift of
    one pair, is the convolution.
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        # (half of the kernel, step in the pair, channel in, channel out)
        self.weight = uniform(1 / math.sqrt(4 * channels_in), 2, 2, channels_in, channels_out)
        self.norm = nn.BatchNorm1d(channels_out)

    def forward(self, x: Float[Tensor, "n time c"]) -> Float[Tensor, "n half c2"]:
        n, time, _ = x.shape
        half, c2 = time // 2, self.weight.shape[-1]
        padded = F.pad(x, (0, 0, 1, 1 - time % 2))
        kernel = self.weight.flatten(1, 2).transpose(0, 1).flatten(1)  # (pair, half and c2)
        z = padded.view(n, half + 1, -1) @ kernel
        y = z[:, :-1, :c2] + z[:, 1:, c2:]
        y = self.norm(y.reshape(n * half, c2))
        return F.leaky_relu(y, 0.01, inplace=True).view(n, half, c2)


class BiLSTM(nn.Module):
    """Last hidden states of a bidirectional LSTM, forward then backward.

    The library's cells, with both directions in one batched product a step. Gates lie in the order
    input, forget, output, cell, so that one sigmoid covers the first three.
    """

    def __init__(self, features: int, constant_features: int, hidden: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)
        self.weight_input = uniform(bound, 2, features, 4 * hidden)
        self.weight_constant = uniform(bound, 2, constant_features, 4 * hidden)
        self.weight_hidden = uniform(bound, 2, hidden, 4 * hidden)
        self.bias_input = uniform(bound, 2, 4 * hidden)
        self.bias_hidden = uniform(bound, 2, 4 * hidden)

    def forward(
        self, x: Float[Tensor, "S n features"], constant: Float[Tensor, "constant"]
    ) -> Float[Tensor, "n hidden2"]:
        S, n, _ = x.shape
        # The constant part of the input is the same at every step of every sequence: W [x; c] + b
        # = W_x x + (W_c c + b), one small product folded into the bias.
        bias = self.bias_input + self.bias_hidden + constant @ self.weight_constant
        both = torch.stack([x, x.flip(0)]).flatten(1, 2)
        gates = torch.baddbmm(bias.unsqueeze(1), both, self.weight_input)
        h = _Recurrence.apply(gates.view(2, S, n, -1), self.weight_hidden)
        return h.transpose(0, 1).reshape(n, -1)


class _Recurrence(torch.autograd.Function):
    """h_t = o tanh(c_t), c_t = f c_{t-1} + i g, with gates_t = gates_t(x) + W h_{t-1}.

    Written out with its gradient because autograd would keep and launch several times as much for
    the same few numbers.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor) -> Tensor:
        gates = gates.clone()
        _, S, n, four_hidden = gates.shape
        H = four_hidden // 4
        h = gates.new_zeros(2, S + 1, n, H)
        c = gates.new_zeros(2, S + 1, n, H)
        tanh_c = gates.new_empty(2, S, n, H)
        for t in range(S):
            gate = gates[:, t]
            if t:
                gate.baddbmm_(h[:, t], weight)
            gate[..., : 3 * H].sigmoid_()
            gate[..., 3 * H :].tanh_()
            i, f, o, g = gate.split(H, -1)
            torch.mul(i, g, out=c[:, t + 1])
            if t:
                c[:, t + 1].addcmul_(f, c[:, t])
            torch.tanh(c[:, t + 1], out=tanh_c[:, t])
            torch.mul(o, tanh_c[:, t], out=h[:, t + 1])
        ctx.save_for_backward(gates, weight, h, c, tanh_c)
        return h[:, S].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        gates, weight, h, c, tanh_c = ctx.saved_tensors
        _, S, n, four_hidden = gates.shape
        H = four_hidden // 4
        d_gates = torch.empty_like(gates)
        # Derivatives of the gates' own functions, all steps at once: s(1 - s), and 1 - g^2.
        sigmoids = gates[..., : 3 * H]
        slope = sigmoids - sigmoids * sigmoids
        slope_g = 1 - gates[..., 3 * H :].square()
        slope_c = gates[..., 2 * H : 3 * H] * (1 - tanh_c.square())
        d_h, d_c = grads[0], torch.zeros_like(grads[0])
        for t in reversed(range(S)):
            i, f, _, g = gates[:, t].split(H, -1)
            d_c = torch.addcmul(d_c, d_h, slope_c[:, t])
            d = d_gates[:, t]
            torch.mul(d_c, g, out=d[..., :H])
            torch.mul(d_c, c[:, t], out=d[..., H : 2 * H])
            torch.mul(d_h, tanh_c[:, t], out=d[..., 2 * H : 3 * H])
            d[..., : 3 * H].mul_(slope[:, t])
            torch.mul(d_c * i, slope_g[:, t], out=d[..., 3 * H :])
            if t:
                d_c = d_c * f
                d_h = torch.bmm(d, weight.mT)
        past = h[:, :S].reshape(2, S * n, H)
        return d_gates, torch.bmm(past.mT, d_gates.view(2, S * n, -1))


class CapsuleLinear(nn.Module):
    """One small linear layer for each segment capsule (f_FC of Eq. 3), all in one product."""

    def __init__(self, capsules: int, features: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(capsules, features, outputs))
        nn.init.trunc_normal_(self.weight, std=1 / math.sqrt(features))
        self.bias = nn.Parameter(torch.zeros(capsules, 1, outputs))

    def forward(
        self, x: Float[Tensor, "n capsules features"], first: int | None = None
    ) -> Float[Tensor, "n capsules outputs"]:
        """All outputs, or the first few."""
        weight, bias = self.weight[..., :first], self.bias[..., :first]
        return torch.baddbmm(bias, x.transpose(0, 1), weight).transpose(0, 1)
