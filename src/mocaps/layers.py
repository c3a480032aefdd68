"""The three layers of the encoders, each shaped as few large matrix products.

Samples are columns, as in y = W x on paper: the batch is the last axis everywhere. So every product
has its weights on the left and runs over contiguous memory, and each parameter of a capsule is a
contiguous row. The layers compute what torch's Conv1d, LSTM and a list of Linear layers compute
(tests/test_layers.py holds them to it); docs/performance.md says what each shape is worth.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from mocaps.products import add_products, product, products

DENSE = 16  # steps up to which a convolution is cheaper as one matrix


def uniform(bound: float, *shape: int) -> nn.Parameter:
    """A parameter drawn evenly from +- bound."""
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


class HalvingConv(nn.Module):
    """Convolution (kernel 4, stride 2, padding 1), batch normalisation, leaky ReLU: half the time.

    The kernel is Conv1d's, (channels out, channels in, 4), and so is the result; only the products
    are shaped otherwise.
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.weight = uniform(1 / math.sqrt(4 * channels_in), channels_out, channels_in, 4)
        self.norm = nn.BatchNorm1d(channels_out)

    def forward(self, x: Float[Tensor, "c time n"]) -> Float[Tensor, "c2 half n"]:
        y = self.dense(x) if x.shape[1] <= DENSE else self.in_pairs(x)
        c2, half, n = y.shape
        y = F.leaky_relu(self.norm(y.view(1, c2, half * n)), 0.01, inplace=True)
        return y.view(c2, half, n)

    def dense(self, x: Float[Tensor, "c time n"]) -> Float[Tensor, "c2 half n"]:
        """A short convolution is one small matrix: y_t = sum_k w_k x_(2t + k - 1), as the product
        of sum_k w_k [s = 2t + k - 1] with all steps s at once."""
        c, time, n = x.shape
        c2, half = len(self.weight), time // 2
        matrix = self.weight.flatten(0, 1) @ _taps(time).to(x)
        matrix = matrix.view(c2, c, half, time).transpose(1, 2).reshape(c2 * half, c * time)
        return (matrix @ x.reshape(c * time, n)).view(c2, half, n)

    def in_pairs(self, x: Float[Tensor, "c time n"]) -> Float[Tensor, "c2 half n"]:
        """Window t of the padded input is its pair t and its pair t + 1, two steps each, so one
        product of both halves of the kernel with all pairs, added with a shift of one pair, is the
        convolution: its cost grows with time alone."""
        c, time, n = x.shape
        half, c2 = time // 2, len(self.weight)
        pairs = F.pad(x, (0, 0, 1, 1 - time % 2)).view(c, half + 1, 2, n)
        pairs = pairs.transpose(1, 2).reshape(2 * c, (half + 1) * n)
        halves = self.weight.unflatten(-1, (2, 2)).permute(2, 0, 1, 3).reshape(2 * c2, 2 * c)
        z = (halves @ pairs).view(2, c2, half + 1, n)
        return z[0, :, :-1] + z[1, :, 1:]


@functools.cache
def _taps(time: int) -> Float[Tensor, "4 half_time"]:
    """Where tap k of the window at t falls on step s: [s = 2t + k - 1]."""
    # Whoever asks first, it has to serve training too: a tensor of inference mode could not.
    with torch.inference_mode(False):
        k, t, s = (torch.arange(size) for size in (4, time // 2, time))
        return (s == 2 * t[:, None] + k[:, None, None] - 1).flatten(1).float()


class BiLSTM(nn.Module):
    """Last hidden states of a bidirectional LSTM, forward then backward.

    The library's cells, with both directions in one product a step. Gates lie in the order input,
    forget, output, cell, so that one sigmoid covers the first three.
    """

    def __init__(self, features: int, constant_features: int, hidden: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)
        self.weight_input = uniform(bound, 2, 4 * hidden, features)
        if constant_features:
            self.weight_constant = uniform(bound, 2, 4 * hidden, constant_features)
        self.weight_hidden = uniform(bound, 2, 4 * hidden, hidden)
        self.bias_input = uniform(bound, 2, 4 * hidden)
        self.bias_hidden = uniform(bound, 2, 4 * hidden)

    def forward(
        self, x: Float[Tensor, "features S n"], constant: Float[Tensor, " constant"] | None = None
    ) -> Float[Tensor, "hidden2 n"]:
        S = x.shape[1]
        # The constant part of the input is the same at every step of every sequence: W [x; c] + b
        # = W_x x + (W_c c + b), one small product folded into the bias; and the bias is one more
        # column, which meets a row of ones.
        bias = self.bias_input + self.bias_hidden
        if constant is not None:
            bias = bias + self.weight_constant @ constant
        weight = torch.cat([self.weight_input, bias.unsqueeze(-1)], -1).flatten(0, 1)
        x = F.pad(x.flatten(1), (0, 0, 0, 1), value=1.0)
        return _Recurrence.apply(x, weight, self.weight_hidden, S).flatten(0, 1)


class _Recurrence(torch.autograd.Function):
    """h_t = o tanh(c_t), c_t = f c_{t-1} + i g, with gates_t = W x_t + V h_{t-1}.

    Written out with its gradient because autograd would keep and launch several times as much for
    the same few numbers. Steps lie in the order in which their direction reads them: the second
    one's are turned round once, before and after. So V's gradient, sum_t d_t h_{t-1}', is one
    product over all steps at once. Since tanh(x) = 2 sigmoid(2 x) - 1, one sigmoid serves all four
    gates; torch's is the quicker of the two by far.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, V: Tensor, S: int) -> Tensor:
        H = V.shape[-1]
        gates = product(W, x).view(2, 4 * H, S, -1)
        _turn_round(gates)
        hs = gates.new_empty(2, H, S, gates.shape[-1])
        kept = []
        c = hs[:, :, 0]
        for t in range(S):
            gate = gates[:, :, t]
            if t:
                add_products(gate, V, hs[:, :, t - 1])
            gate[:, 3 * H :].mul_(2)
            gate.sigmoid_()
            i, f, o, s = gate.split(H, 1)
            g = (2 * s).sub_(1)
            c = (i * g).addcmul_(f, c) if t else i * g
            tanh_c = (2 * c).sigmoid_().mul_(2).sub_(1)
            torch.mul(o, tanh_c, out=hs[:, :, t])
            kept += [g, c, tanh_c]
        ctx.save_for_backward(x, W, V, gates, hs, *kept)
        return hs[:, :, -1].contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, W, V, gates, hs, *kept = ctx.saved_tensors
        _, H, S, n = hs.shape
        d_h, d_c = grads[0], None
        d_gates = torch.empty_like(gates)
        for t in reversed(range(S)):
            g, _, tanh_c = kept[3 * t : 3 * t + 3]
            gate, d = gates[:, :, t], d_gates[:, :, t]
            i, f, o, _ = gate.split(H, 1)
            d_i, d_f, d_o, d_s = d.split(H, 1)
            d_tanh = d_h * o
            torch.mul(d_h, tanh_c, out=d_o)
            # 1 - tanh^2: the derivative of tanh.
            through = d_tanh.addcmul_(d_tanh * tanh_c, tanh_c, value=-1)
            d_c = through if d_c is None else d_c.add_(through)
            torch.mul(d_c, g, out=d_i)
            if t:
                torch.mul(d_c, kept[3 * t - 2], out=d_f)
            else:
                d_f.zero_()
            # g = 2 s - 1, and s is the sigmoid of twice its gate: 4 in all.
            torch.mul(d_c, i, out=d_s).mul_(4)
            # s (1 - s): the derivative of the sigmoid.
            d.mul_(torch.addcmul(gate, gate, gate, value=-1))
            if t:
                d_h = products(V.mT, d)
                d_c = d_c * f
        d_V = products(d_gates[:, :, 1:].flatten(2), hs[:, :, :-1].flatten(2).mT)
        _turn_round(d_gates)
        d_gates = d_gates.view(8 * H, S * n)
        return product(W.T, d_gates), product(d_gates, x.T), d_V, None


def _turn_round(gates: Float[Tensor, "2 gates S n"]) -> None:
    """The second direction reads the steps from the last to the first."""
    gates[1] = gates[1].flip(1)


def mixed(
    weights: Float[Tensor, "k *rest"], T: Float[Tensor, "k row column *rest"], normalised: bool
) -> tuple[Float[Tensor, "k row column *rest"], Float[Tensor, "k *rest"]]:
    """w_k T_k and w_k: the weights as they are, or divided by their sum over k."""
    return _Mixed.apply(weights, T, normalised)


class _Mixed(torch.autograd.Function):
    """The gradient of w = m / sum m is d_m = (d_w - sum w d_w) / sum m."""

    @staticmethod
    def forward(ctx: Any, m: Tensor, T: Tensor, normalised: bool) -> tuple[Tensor, Tensor]:
        # Far from what was learned all activations may be nothing; so is then the mixture.
        total = m.sum(0).clamp(min=torch.finfo(m.dtype).tiny) if normalised else None
        w = m.clone() if total is None else m / total
        ctx.save_for_backward(w, T, total)
        return w[:, None, None] * T, w

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (d, d_w), (w, T, total) = grads, ctx.saved_tensors
        d_w = (d * T).sum((1, 2)).add_(d_w)
        d_m = d_w if total is None else (d_w - (w * d_w).sum(0)).div_(total)
        return d_m, d * w[:, None, None], None


def moved(
    G: Float[Tensor, "column row *#rest"], T: Float[Tensor, "k column row *#rest"]
) -> Float[Tensor, "k column row *rest"]:
    """First T, then G, which gets no gradient; columns first."""
    return _Moved.apply(G, T)


class _Moved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, G: Tensor, T: Tensor) -> Tensor:
        G = G.contiguous()  # it comes as columns, and is read several times
        ctx.save_for_backward(G)
        out = G[0] * T[:, :, :1]
        for j in range(1, G.shape[1]):
            out.addcmul_(G[j], T[:, :, j : j + 1])
        out[:, -1] += G[-1]
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        (d_out,), (G,) = grads, ctx.saved_tensors
        return None, torch.stack([(d_out * G[j]).sum(2) for j in range(G.shape[1])], 2)


class CapsuleHeads(nn.Module):
    """Two layers for each segment capsule (f_FC of Eq. 3): a hidden one with a ReLU, read off the
    shared features by one product for all capsules, and a small linear one of its own."""

    def __init__(self, features: int, capsules: int, hidden: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(features)
        self.hidden_weight = uniform(bound, capsules * hidden, features)
        self.hidden_bias = uniform(bound, capsules * hidden, 1)
        self.weight = nn.Parameter(torch.empty(capsules, outputs, hidden))
        nn.init.trunc_normal_(self.weight, std=1 / math.sqrt(hidden))
        self.bias = nn.Parameter(torch.zeros(capsules, outputs, 1))

    def forward(
        self, x: Float[Tensor, "features n"], first: int | None = None
    ) -> Float[Tensor, "capsules outputs n"]:
        """All outputs, or the first few."""
        weight, bias = self.weight[:, :first], self.bias[:, :first]
        return _Heads.apply(x, self.hidden_weight, self.hidden_bias, weight, bias)


class _Heads(torch.autograd.Function):
    """V_k relu(W_k x + b_k) + c_k for every capsule k. The hidden layer is the largest array of a
    step: there is one of it, and one gradient of it, masked where it lies."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, b: Tensor, V: Tensor, c: Tensor) -> Tensor:
        hidden = product(W, x).add_(b).relu_()
        ctx.save_for_backward(x, W, hidden, V)
        return torch.baddbmm(c, V, hidden.view(len(V), -1, x.shape[-1]))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        (grad,), (x, W, hidden, V) = grads, ctx.saved_tensors
        active = hidden.view(len(V), -1, x.shape[-1])
        d = torch.bmm(V.mT, grad).view_as(hidden)
        torch.ops.aten.threshold_backward.grad_input(d, hidden, 0, grad_input=d)
        d_V, d_c = torch.bmm(grad, active.mT), grad.sum(-1, keepdim=True)
        return product(W.T, d), product(d, x.T), d.sum(1, keepdim=True), d_V, d_c


def similarity_in_the_plane(
    parameters: Float[Tensor, "capsules 4 *rest"], limit: float, columns: bool
) -> Float[Tensor, "capsules row column *rest"]:
    """`mocaps.geometry.similarity` of s, tx, ty, theta, rows first or columns first.

    With its gradient written out: entry by entry, autograd would launch five times as much.
    """
    shape = (3, 2) if columns else (2, 3)
    return _Similarity.apply(parameters, limit, columns).unflatten(1, shape)


class _Similarity(torch.autograd.Function):
    """[a -b tx; b a ty] with a = sigmoid(s) cos(theta), b = sigmoid(s) sin(theta)."""

    # Where a, -b, tx, b, a, ty go.
    ROWS, COLUMNS = (0, 1, 2, 3, 4, 5), (0, 2, 4, 1, 3, 5)

    @staticmethod
    def forward(ctx: Any, p: Tensor, limit: float, columns: bool) -> Tensor:
        s, tx, ty, theta = p.unbind(1)
        scale = s.sigmoid()
        T = p.new_empty(p.shape[0], 6, *p.shape[2:])
        place = _Similarity.COLUMNS if columns else _Similarity.ROWS
        a, minus_b, x, b, a_again, y = (T[:, i] for i in place)
        torch.mul(scale, theta.cos(), out=a)
        torch.mul(scale, theta.sin(), out=b)
        torch.neg(b, out=minus_b)
        a_again.copy_(a)
        torch.clamp(tx, -limit, limit, out=x)
        torch.clamp(ty, -limit, limit, out=y)
        ctx.save_for_backward(p, scale, T)
        ctx.limit, ctx.place = limit, place
        return T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        p, scale, T = ctx.saved_tensors
        a, b = T[:, ctx.place[0]], T[:, ctx.place[3]]
        _, tx, ty, _ = p.unbind(1)
        entries = grads[0].unbind(1)
        d_a, d_minus_b, d_x, d_b, d_a_again, d_y = (entries[i] for i in ctx.place)
        d_a, d_b = d_a + d_a_again, d_b - d_minus_b
        d_p = torch.empty_like(p)
        d_s, d_tx, d_ty, d_theta = (d_p[:, i] for i in range(4))
        torch.addcmul(d_b * a, d_a, b, value=-1, out=d_theta)
        torch.mul((d_a * a).addcmul_(d_b, b), 1 - scale, out=d_s)
        clamp_backward = torch.ops.aten.hardtanh_backward.grad_input
        clamp_backward(d_x, tx, -ctx.limit, ctx.limit, grad_input=d_tx)
        clamp_backward(d_y, ty, -ctx.limit, ctx.limit, grad_input=d_ty)
        return d_p, None, None
