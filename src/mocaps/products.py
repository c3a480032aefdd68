"""Matrix products of a trained network's size, by the quicker of the two libraries torch carries.

torch.mm goes to MKL, which on AMD processors keeps to AVX2; oneDNN uses AVX-512 there and is twice
as quick (docs/performance.md). torch offers oneDNN's product of float32 only below a private name,
the one its compiler emits. Where the name is missing, and for everything else (float64, small
products, other devices), torch.mm does it: the same numbers up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

SMALL = 2**20
"""Multiplications below which a call of oneDNN costs more than it saves."""


def _onednn() -> Any:
    try:
        return torch.ops.mkldnn._linear_pointwise.default
    except (AttributeError, RuntimeError):
        return None


_LINEAR = _onednn()


def product(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"]) -> Float[Tensor, "m n"]:
    """a @ b, for code that brings its own gradient."""
    m, k, n = *a.shape, b.shape[1]
    if (
        _LINEAR is None
        or m * k * n < SMALL
        or a.dtype != torch.float32
        or b.dtype != torch.float32
        or a.device.type != "cpu"
        or not (_dense(a) and _dense(b))
    ):
        return a @ b
    return _LINEAR(a, b.mT, None, "none", [], "")  # x W', as a linear layer has it


def _dense(x: Tensor) -> bool:
    """Rows or columns without gaps: anything else oneDNN multiplies a hundred times slower."""
    return x.is_contiguous() or x.mT.is_contiguous()


def products(a: Float[Tensor, "b m k"], b: Float[Tensor, "b k n"]) -> Float[Tensor, "b m n"]:
    """The same for a few large pairs."""
    if a.shape[1] * a.shape[2] * b.shape[2] < SMALL:
        return torch.bmm(a, b)
    return torch.stack([product(x, y) for x, y in zip(a, b, strict=True)])


def add_products(
    out: Float[Tensor, "b m n"], a: Float[Tensor, "b m k"], b: Float[Tensor, "b k n"]
) -> None:
    """The same, added to what is there."""
    if a.shape[1] * a.shape[2] * b.shape[2] < SMALL:
        out.baddbmm_(a, b)
    else:
        out += products(a, b)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return product(a, b)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (grad,), (a, b) = grads, ctx.saved_tensors
        d_a = product(grad, b.mT) if ctx.needs_input_grad[0] else None
        d_b = product(a.mT, grad) if ctx.needs_input_grad[1] else None
        return d_a, d_b


def matmul(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"]) -> Float[Tensor, "m n"]:
    """a @ b, with its gradient."""
    return _Product.apply(a, b)
