"""The one training loop: a function over a model, batches and a configuration.

A model is any module with `embed` (n, ...) -> (n, features) and an objective that gives its loss
terms on two views and the representation they came from; the capsule autoencoder and the baselines
are trained alike. The online probe learns in the same backward pass on a detached representation.

Which weights are kept: where epochs and patience decide, those of the epoch that was best on
validation data; where a budget in steps or minutes decides, the last ones, since nothing was
selected. Validation never touches test data.

What the next step depends on is its number, the weights, Adam's moments and torch's random state
(activation noise): data and views are made anew from (seed, chunk of steps). So a run that goes on
from a `State` is, bit for bit, the run that was never interrupted.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mocaps import disturb, losses
from mocaps.adam import Adam
from mocaps.config import Config, TrainConfig
from mocaps.data.batches import Batches
from mocaps.probe import OnlineProbe
from mocaps.replay import Repeated

STEPS_PER_CHUNK = 16  # made in one call: a call costs as much as the work of one small batch
CHUNK_NUMBERS = 2**20  # fewer steps a chunk where that would be larger
VALIDATION_ROWS = 500
SAVE_EVERY = 30.0  # seconds
WATCH_EVERY = 0.1

Objective = Callable[..., tuple[losses.LossTerms, Tensor]]
TERMS = tuple(f.name for f in dataclasses.fields(losses.LossTerms))


class Diverged(RuntimeError):
    """The loss or the weights are no longer finite."""


@dataclass
class State:
    """All that the next step depends on, beside configuration and data."""

    step: int = 0
    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * (len(TERMS) + 2))
    """Of the loss terms, their total and the probe's loss since the epoch began."""
    best_score: float | None = None
    """Validation accuracy, or minus the validation loss without labels."""
    best_step: int = 0
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """Weights, moments, best weights, random state."""


@dataclass(frozen=True)
class Outcome:
    """How a call of `fit` ended. The model and the probe hold the kept weights when finished."""

    finished: bool
    """False when `stop` said so."""
    step: int
    kept: Literal["best", "last"]
    kept_step: int
    seconds: float


def budget(train: TrainConfig, steps_per_epoch: int) -> int | None:
    """The step at which a run ends; None where minutes alone decide."""
    if train.steps:
        return train.steps
    return None if train.minutes else train.epochs * steps_per_epoch


def keeps_best(train: TrainConfig) -> bool:
    return not (train.steps or train.minutes)


def kept_weights(state: State, train: TrainConfig) -> dict[str, Tensor]:
    """Of a state, the weights that count (`model.` and `probe.` names)."""
    best = _under("best.", state.tensors) if keeps_best(train) else {}
    return best or {k: v for k, v in state.tensors.items() if k.startswith(("model.", "probe."))}


def _ignore(*_: Any) -> None:
    pass


def fit(
    model: nn.Module,
    batches: Batches,
    config: Config,
    *,
    probe: OnlineProbe | None = None,
    objective: Objective = losses.objective,
    state: State | None = None,
    on_epoch: Callable[[dict[str, Any]], None] = _ignore,
    watch: Callable[[int, float, dict[str, float]], None] = _ignore,
    save: Callable[[State], None] = _ignore,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Trains `model` and `probe` in place.

    `objective` is a function of tensors alone: it is recorded in the first step and then replayed
    (mocaps.replay), so what it counts or decides in Python stays as it was then.
    `state` is where to go on; `on_epoch` receives a record at the end of every epoch (and of the
    last, partial one), `watch` the step, the seconds and the mean loss terms so far of the epoch a
    few times a second, `save` the state now and then and at the end; `stop` is asked before every
    step, and ends the call with the state saved.

    The random state of torch is as before when it returns.
    """
    with torch.random.fork_rng(devices=[]):
        loop = _Loop(model, batches, config, probe, objective)
        loop.restore(state or State())
        return loop.run(on_epoch, watch, save, stop)


class _Loop:
    """The variables of one call of `fit`."""

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        config: Config,
        probe: OnlineProbe | None,
        objective: Objective,
    ) -> None:
        self.model, self.batches, self.config = model, batches, config
        self.probe, self.objective = probe, objective
        self.modules = {"model": model} | ({"probe": probe} if probe is not None else {})
        self.parameters = [p for m in self.modules.values() for p in m.parameters()]
        self.adam = Adam(self.parameters, config.train.learning_rate)
        self.descent = Repeated(self.losses_and_gradients)
        self.last_step = budget(config.train, batches.steps_per_epoch)
        self.best_weights: dict[str, Tensor] = {}

    def restore(self, state: State) -> None:
        self.state = state
        self.clock = time.monotonic() - state.seconds
        if not state.tensors:
            torch.manual_seed(self.config.train.seed)
            return
        for name, module in self.modules.items():
            module.load_state_dict(_under(f"{name}.", state.tensors))
        self.adam.load(_under("adam.", state.tensors))
        self.best_weights = _under("best.", state.tensors)
        torch.set_rng_state(state.tensors["rng"])

    def snapshot(self) -> State:
        """The state as it is now, in tensors of its own."""
        if not all(bool(p.isfinite().all()) for p in self.parameters):
            raise self.diverged("weights")
        tensors = {
            **self.weights(),
            **{f"adam.{name}": tensor for name, tensor in self.adam.state().items()},
            **{f"best.{name}": tensor for name, tensor in self.best_weights.items()},
            "rng": torch.get_rng_state(),
        }
        sums = list(self.state.sums)
        return dataclasses.replace(self.state, seconds=self.elapsed(), sums=sums, tensors=tensors)

    def weights(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": tensor.clone()
            for name, module in self.modules.items()
            for key, tensor in module.state_dict().items()
        }

    def elapsed(self) -> float:
        return time.monotonic() - self.clock

    def diverged(self, what: str) -> Diverged:
        return Diverged(
            f"the {what} stopped being finite in step {self.state.step + 1}; "
            f"a smaller train.learning_rate (now {self.config.train.learning_rate:g}) may help"
        )

    def over(self) -> bool:
        """Whether the budget is used up, or patience is."""
        train, step = self.config.train, self.state.step
        if self.last_step is not None and step >= self.last_step:
            return True
        if train.minutes and self.elapsed() >= 60 * train.minutes:
            return True
        waited = step - self.state.best_step
        patience = train.patience * self.batches.steps_per_epoch
        return keeps_best(train) and 0 < patience <= waited

    def set_learning_rate(self) -> None:
        train = self.config.train
        if train.schedule == "constant":
            return
        progress = self.state.step / self.last_step if self.last_step else 0.0
        if train.minutes:
            progress = max(progress, min(1.0, self.elapsed() / (60 * train.minutes)))
        factor = 0.5 * (1 + math.cos(math.pi * progress))
        self.adam.learning_rate = train.learning_rate * factor

    def run(self, on_epoch, watch, save, stop) -> Outcome:
        state, steps_per_epoch = self.state, self.batches.steps_per_epoch
        now = saved = watched = time.monotonic()
        stopped = False
        self.model.train()
        chunks = self.chunks()
        while not self.over():
            if stopped := stop():
                break
            self.set_learning_rate()
            self.step(*next(chunks))
            now = time.monotonic()
            if state.step % steps_per_epoch == 0:
                on_epoch(self.end_epoch())
            if now - watched > WATCH_EVERY:
                watched = now
                watch(state.step, self.elapsed(), self.means())
            if now - saved > SAVE_EVERY:
                saved = now
                save(self.snapshot())
        save(self.snapshot())
        if not stopped:
            if state.step % steps_per_epoch:
                on_epoch(self.record())
            self.keep()
        kept = "best" if keeps_best(self.config.train) else "last"
        kept_step = state.best_step if kept == "best" else state.step
        return Outcome(not stopped, state.step, kept, kept_step, self.elapsed())

    def step(self, views: Tensor, labels: Tensor | None) -> None:
        """One step of Adam on the two views of one batch."""
        found, *gradients = self.descent(views) if labels is None else self.descent(views, labels)
        assert found is not None
        values = found.tolist()
        if not math.isfinite(sum(values)):
            raise self.diverged("loss")
        self.adam.step(gradients)
        self.state.step += 1
        self.state.sums = [a + b for a, b in zip(self.state.sums, values, strict=True)]

    def losses_and_gradients(self, views: Tensor, labels: Tensor | None = None) -> list[Any]:
        """The loss terms, their total and the probe's loss, and the gradient of each parameter."""
        terms, representation = self.objective(self.model, views, self.config.loss)
        total = loss = terms.total(self.config.loss)
        of_probe = torch.zeros_like(total)
        if self.probe is not None and labels is not None:
            of_probe = F.cross_entropy(self.probe(representation), labels)
            loss = total + of_probe
        values = torch.stack([*(getattr(terms, name) for name in TERMS), total, of_probe])
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        # Unlike `backward`, `grad` may hand out transposed tensors, and Adam's kernel goes through
        # memory as it lies.
        return [values.detach(), *(g if g is None else g.contiguous() for g in gradients)]

    def chunks(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Views and labels, step after step; several steps are made at once."""
        size = self.config.train.batch_size
        numbers = 2 * size * self.batches.validation_x[0].numel()
        count = max(1, min(STEPS_PER_CHUNK, CHUNK_NUMBERS // numbers))
        generator = torch.Generator()
        chunk, skip = divmod(self.state.step, count)
        while True:
            first = chunk * count * size
            x, y = self.batches.take(first, first + count * size)
            generator.manual_seed(chunk_seed(self.config.train.seed, chunk))
            views = disturb.views(x, self.config.disturb, generator, size)
            labels = None if y is None else y.view(count, size).repeat(1, 2)
            for i in range(skip, count):
                yield views[i], None if labels is None else labels[i]
            chunk, skip = chunk + 1, 0

    def means(self) -> dict[str, float]:
        """Of the loss terms since the epoch began."""
        steps = self.state.step % self.batches.steps_per_epoch or self.batches.steps_per_epoch
        names = (*TERMS, "total", "probe") if self.probe is not None else (*TERMS, "total")
        return {name: s / steps for name, s in zip(names, self.state.sums, strict=False)}

    def record(self) -> dict[str, Any]:
        """One line of metrics.jsonl."""
        step, seconds = self.state.step, self.elapsed()
        return {
            "epoch": math.ceil(step / self.batches.steps_per_epoch),
            "step": step,
            **self.means(),
            **self.validate(),
            "learning_rate": self.adam.learning_rate,
            "seconds": round(seconds, 3),
        }

    def end_epoch(self) -> dict[str, Any]:
        state, record = self.state, self.record()
        score = record.get("validation_accuracy", -record.get("validation_loss", math.inf))
        if state.best_score is None or score > state.best_score:
            state.best_score, state.best_step = score, state.step
            if keeps_best(self.config.train):
                self.best_weights = self.weights()
        state.sums = [0.0] * len(state.sums)
        return record | {"best_step": state.best_step}

    def validate(self) -> dict[str, float]:
        """Accuracy of the online probe; without labels, the total loss on views that stay."""
        self.model.eval()
        with torch.inference_mode():
            if self.probe is not None and self.batches.validation_y is not None:
                result = {"validation_accuracy": self.accuracy(self.batches.validation_y)}
            else:
                result = {"validation_loss": self.validation_loss()}
        self.model.train()
        return result

    def accuracy(self, y: Tensor) -> float:
        assert self.probe is not None
        pairs = zip(
            self.batches.validation_x.split(VALIDATION_ROWS), y.split(VALIDATION_ROWS), strict=True
        )
        embed = cast(Callable[[Tensor], Tensor], self.model.embed)
        right = sum((self.probe(embed(a)).argmax(1) == b).sum().item() for a, b in pairs)
        return right / len(y)

    def validation_loss(self) -> float:
        x, size = self.batches.validation_x, self.config.train.batch_size
        size = min(size, len(x))  # the contrast depends on it: all batches are alike
        generator = torch.Generator().manual_seed(0)
        x = x[: len(x) // size * size]
        both = disturb.views(x, self.config.disturb, generator, size)
        weights = self.config.loss
        totals = [self.objective(self.model, views, weights)[0].total(weights) for views in both]
        return torch.stack(totals).mean().item()

    def keep(self) -> None:
        """The weights that count, into the modules."""
        if self.best_weights and keeps_best(self.config.train):
            for name, module in self.modules.items():
                module.load_state_dict(_under(f"{name}.", self.best_weights))
        self.model.eval()


def chunk_seed(seed: int, chunk: int) -> int:
    """A seed of its own for the disturbances of each chunk of each run."""
    return int(np.random.SeedSequence(seed, spawn_key=(chunk,)).generate_state(1, np.uint64)[0])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
