"""scikit-learn's fit and transform over the one training loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from mocaps import config as configs
from mocaps import embed as embedding
from mocaps.baselines import Baseline, build, objective
from mocaps.config import Config
from mocaps.data import arrays, batches
from mocaps.data.batches import Batches
from mocaps.errors import InputError
from mocaps.progress import Meter, display
from mocaps.train import budget, fit

STEPS = 16_000
"""Of training, where nobody says: some four minutes on one core for sequences of one point."""
SNIPPETS = (8, 7, 6, 5, 9, 10, 4, 12, 16)
"""Snippet lengths in the order in which they are tried: the first that divides the sequences'."""


class MotionCapsules(TransformerMixin, BaseEstimator):
    """Learns what motions are from sequences without labels, and says it of any others.

    `X` is (n, L, d) for one point, (n, L, K, d) for K points that belong together; d is 2 or 3.
    `transform` gives nu, (n, M) or (n, K M): what each motion is, apart from where, how big and
    which way. `explain` gives the rest as well.

    Parameters
    ----------
    preset : what the configuration starts from.
    steps : of training; each sees `train.batch_size` sequences twice, or all that there are to
        learn from where those are fewer. None: as many as the preset has, for the last percent.
    seed : of the weights, of the order of the sequences and of their disturbances.
    settings : further settings of the configuration, {"model.num_segment_capsules": 40, ...}.
    verbose : whether `fit` says how far it is, with a rate and the time to go.

    >>> X = np.random.default_rng(0).normal(size=(80, 16, 2)).cumsum(axis=1)
    >>> MotionCapsules(steps=2, verbose=False).fit_transform(X).shape
    (80, 80)
    """

    def __init__(
        self,
        preset: str = configs.DEFAULT,
        *,
        steps: int | None = STEPS,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.preset = preset
        self.steps = steps
        self.seed = seed
        self.settings = settings
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> MotionCapsules:
        """Learns from the sequences; labels are not looked at."""
        del y
        x = _numbers(X)
        self.config_ = self._config(x.shape)
        data = batches.of_arrays(x, None, self.config_)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = build(self.config_)
        self._train(model, data)
        self.model_ = model
        self.n_features_out_ = self.config_.num_features
        return self

    def _train(self, model: nn.Module, data: Batches) -> None:
        if not self.verbose:
            fit(model, data, self.config_, objective=objective)
            return
        name, train = type(self).__name__, self.config_.train
        with display([name]) as shown:
            last = budget(train, data.steps_per_epoch)
            meter = Meter(lambda status: shown.update(name, status), 0, last, train.minutes)
            fit(model, data, self.config_, objective=objective, watch=meter.watch)

    def transform(self, X: Any) -> np.ndarray:
        """nu of every sequence."""
        x = self._checked(X)
        return embedding.embed(self.model_, x)

    def explain(self, X: Any) -> dict[str, np.ndarray]:
        """nu, B, mu, A, reconstruction and error of every sequence (see `mocaps.embed`)."""
        x, model = self._checked(X), self.model_
        if isinstance(model, Baseline):
            raise InputError(
                f"expected capsules to explain by, got baseline {self.config_.baseline.kind}"
            )
        parts = torch.from_numpy(x).split(embedding.ROWS)
        with torch.inference_mode():
            explained = [embedding.explain(model, part) for part in parts]
        return {name: torch.cat([e[name] for e in explained]).numpy() for name in explained[0]}

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        x = _numbers(X)
        arrays.check_shape("X", x.shape, batches.input_shape(self.config_, x.shape))
        return x

    def _config(self, shape: tuple[int, ...]) -> Config:
        """The preset, with the sequences' own sizes and the settings put in."""
        base = configs.preset(self.preset)
        sizes: dict[str, Any] = {"model.length": shape[1]}
        if self.steps is not None:
            sizes["train.steps"] = self.steps
        sizes |= {"model.dimension": shape[-1], "train.seed": self.seed, "data.name": "X"}
        if len(shape) == 4:
            sizes["model.num_points"] = shape[2]
        learn, _ = batches.split(shape[0])
        sizes["train.batch_size"] = max(2, min(base.train.batch_size, len(learn)))
        if shape[1] % base.model.snippet_length:
            sizes["model.snippet_length"] = _snippet_length(shape[1])
        return configs.with_settings(base, sizes | dict(self.settings or {}), where="settings")


def _snippet_length(length: int) -> int:
    for l in SNIPPETS:
        if length % l == 0:
            return l
    raise InputError(
        f"expected sequences of a length that one of {', '.join(map(str, sorted(SNIPPETS)))} "
        f"divides (pad or resample them, or set model.snippet_length), got {length} steps"
    )


def _numbers(X: Any) -> np.ndarray:
    x = np.asarray(X)
    if x.ndim not in (3, 4) or 0 in x.shape or x.dtype.kind not in "fiu":
        raise InputError(
            "expected X as real numbers of shape (n, L, d), or (n, L, K, d) for K points, "
            f"got {x.dtype} of shape {x.shape}"
        )
    return arrays.as_float32(x, "X")
