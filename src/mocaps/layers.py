"""The three layers of the encoders, each shaped as few large matrix products.

Samples are columns, as in y = W x on paper: the batch is the last axis everywhere. So every product
has its weights on the left and runs over contiguous memory, and each parameter of a capsule is a
contiguous row. The layers compute what torch's Conv1d, LSTM and a list of Linear layers compute
(tests/test_layers.py holds them to it); docs/performance.md says what each shape is worth.
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

    Window t of the padded input is its pair t and its pair t + 1, two steps each, so one product of
    both halves of the kernel with all pairs, added with a shift of one pair, is the convolution.
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        # (half of the kernel, channel out, channel in, step in the pair)
        self.weight = uniform(1 / math.sqrt(4 * channels_in), 2, channels_out, channels_in, 2)
        self.norm = nn.BatchNorm1d(channels_out)

    def forward(self, x: Float[Tensor, "c time n"]) -> Float[Tensor, "c2 half n"]:
        c, time, n = x.shape
        half, c2 = time // 2, self.weight.shape[1]
        pairs = F.pad(x, (0, 0, 1, 1 - time % 2)).view(c, half + 1, 2, n)
        pairs = pairs.transpose(1, 2).reshape(2 * c, (half + 1) * n)
        z = (self.weight.flatten(0, 1).flatten(1) @ pairs).view(2, c2, half + 1, n)
        y = (z[0, :, :-1] + z[1, :, 1:]).view(1, c2, half * n)
        return F.leaky_relu(self.norm(y), 0.01, inplace=True).view(c2, half, n)


class BiLSTM(nn.Module):
    """Last hidden states of a bidirectional LSTM, forward then backward.

    The library's cells, with both directions in one batched product a step. Gates lie in the order
    input, forget, output, cell, so that one sigmoid covers the first three.
    """

    def __init__(self, features: int, constant_features: int, hidden: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)
        self.weight_input = uniform(bound, 2, 4 * hidden, features)
        self.weight_constant = uniform(bound, 2, 4 * hidden, constant_features)
        self.weight_hidden = uniform(bound, 2, 4 * hidden, hidden)
        self.bias_input = uniform(bound, 2, 4 * hidden)
        self.bias_hidden = uniform(bound, 2, 4 * hidden)

    def forward(
        self, x: Float[Tensor, "features S n"], constant: Float[Tensor, " constant"]
    ) -> Float[Tensor, "hidden2 n"]:
        _, S, n = x.shape
        # The constant part of the input is the same at every step of every sequence: W [x; c] + b
        # = W_x x + (W_c c + b), one small product folded into the bias.
        bias = self.bias_input + self.bias_hidden + self.weight_constant @ constant
        both = torch.stack([x, x.flip(1)]).flatten(2)
        gates = torch.baddbmm(bias.unsqueeze(-1), self.weight_input, both)
        return _Recurrence.apply(gates.unflatten(2, (S, n)), self.weight_hidden).flatten(0, 1)


class _Recurrence(torch.autograd.Function):
    """h_t = o tanh(c_t), c_t = f c_{t-1} + i g, with gates_t = gates_t(x) + W h_{t-1}.

    Written out with its gradient because autograd would keep and launch several times as much for
    the same few numbers.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor) -> Tensor:
        H = weight.shape[-1]
        h = c = None
        kept = []
        for x in gates.unbind(2):
            gate = x.clone() if h is None else torch.baddbmm(x, weight, h)
            gate[:, : 3 * H].sigmoid_()
            gate[:, 3 * H :].tanh_()
            i, f, o, g = gate.split(H, 1)
            c = i * g if c is None else (i * g).addcmul_(f, c)
            tanh_c = c.tanh()
            h = o * tanh_c
            kept += [gate, c, tanh_c, h]
        ctx.save_for_backward(weight, *kept)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        weight, *kept = ctx.saved_tensors
        H, S = weight.shape[-1], len(kept) // 4
        d_h, d_c = grads[0], None
        d_weight = torch.zeros_like(weight)
        d_gates: list[Tensor] = []
        for t in reversed(range(S)):
            gate, _, tanh_c, _ = kept[4 * t : 4 * t + 4]
            i, f, o, g = gate.split(H, 1)
            d = torch.empty_like(gate)
            d_tanh = d_h * o
            # 1 - tanh^2 and s (1 - s): the derivatives of tanh and of the sigmoid s.
            through = torch.addcmul(d_tanh, d_tanh * tanh_c, tanh_c, value=-1)
            d_c = through if d_c is None else d_c.add_(through)
            torch.mul(d_c, g, out=d[:, :H])
            torch.mul(d_h, tanh_c, out=d[:, 2 * H : 3 * H])
            d_g = d_c * i
            torch.addcmul(d_g, d_g * g, g, value=-1, out=d[:, 3 * H :])
            if t:
                before_c, before_h = kept[4 * t - 3], kept[4 * t - 1]
                torch.mul(d_c, before_c, out=d[:, H : 2 * H])
            else:
                d[:, H : 2 * H].zero_()
            s = gate[:, : 3 * H]
            d[:, : 3 * H].mul_(torch.addcmul(s, s, s, value=-1))
            d_gates.append(d)
            if t:
                d_weight.baddbmm_(d, before_h.mT)
                d_h = torch.bmm(weight.mT, d)
                d_c = d_c * f
        return torch.stack(d_gates[::-1], 2), d_weight


class CapsuleLinear(nn.Module):
    """One small linear layer for each segment capsule (f_FC of Eq. 3), all in one product."""

    def __init__(self, capsules: int, features: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(capsules, outputs, features))
        nn.init.trunc_normal_(self.weight, std=1 / math.sqrt(features))
        self.bias = nn.Parameter(torch.zeros(capsules, outputs, 1))

    def forward(
        self, x: Float[Tensor, "capsules features n"], first: int | None = None
    ) -> Float[Tensor, "capsules outputs n"]:
        """All outputs, or the first few."""
        return torch.baddbmm(self.bias[:, :first], self.weight[:, :first], x)
