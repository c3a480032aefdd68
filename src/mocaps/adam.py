"""Adam for models of many small parameters.

The library's fused kernel, called at once: torch.optim.Adam spends as long again around it, keeping
a step count for each parameter. The numbers are the library's, bit for bit (tests/test_adam.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """The optimiser of `parameters`; one without a gradient is left alone."""

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self.count = torch.zeros(())
        """Steps taken: the kernel wants it as a tensor."""
        self.first = [torch.zeros_like(p) for p in self.parameters]
        """Moving averages of the gradients, and of their squares."""
        self.second = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """One step along the gradients, one for each parameter."""
        # The kernel goes through memory as it lies, and would take one number for another.
        assert all(g is None or g.is_contiguous() for g in gradients)
        self.count += 1
        met = [i for i, g in enumerate(gradients) if g is not None]
        torch._fused_adam_(  # pyright: ignore[reportPrivateImportUsage]
            [self.parameters[i] for i in met],
            [g for g in gradients if g is not None],
            [self.first[i] for i in met],
            [self.second[i] for i in met],
            [],
            [self.count] * len(met),
            lr=self.learning_rate,
            beta1=BETA_1,
            beta2=BETA_2,
            weight_decay=0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        """What the next step depends on, in tensors of its own."""
        moments = {"exp_avg": self.first, "exp_avg_sq": self.second}
        named = {f"{i}.{k}": t.clone() for k, ts in moments.items() for i, t in enumerate(ts)}
        return named | {"step": self.count.clone()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Goes on from a `state`."""
        self.count.copy_(state["step"])
        for i in range(len(self.parameters)):
            self.first[i].copy_(state[f"{i}.exp_avg"])
            self.second[i].copy_(state[f"{i}.exp_avg_sq"])
