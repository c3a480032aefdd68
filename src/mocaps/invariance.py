"""The certificate: what becomes of nu, of B and A, and of the reconstruction when a motion moves.

Every sequence x is moved by similarities G: turned about its centroid, enlarged about it, shifted,
and all three at once. A capsule model that keeps the paper's promise has

    nu(G x) = nu(x),   B(G x) = G B(x),   A(G x) = G A(x)

Reported is how far a model is from that. Drift is |nu(G x) - nu(x)| / |nu(x)|. A nu that hardly
tells motions apart hardly drifts either, so drift is also given in units of nu's spread, the root
mean square distance of the sequences' nu from their mean. A transformation is
off by an angle (of the turn that takes G B(x) best into B(G x)), by a scale (relative), and by a
translation (relative to the size of the moved sequence, the root mean square distance of its points
from their centroid). Of the many capsules of a sequence, the worst one counts, whatever its
activation ("worst capsule"), and beside it stands their mean weighted by activation ("weighted").

The input is moved in double precision, and only then rounded to what the model computes in, so
that the float64 rows measure the model and the float32 rows what its user gets.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mocaps import geometry
from mocaps.errors import InputError
from mocaps.model import MCAE, MultiPointMCAE
from mocaps.moves import KINDS, ROTATIONS, Move, moves, size_of

MOST = 0.999
"""Of the sequences, in float32: those that the promise speaks for."""
PROMISE = {"float32": {"drift": 1e-3, "angle": 0.1}, "float64": {"drift": 1e-8, "angle": 1e-5}}
"""The most that nu may drift, and the degrees that B must stay below: of 99.9% of the sequences in
float32, and of all of them in float64."""
BATCH = 1_000  # folded sequences at a time

Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class _Seen:
    """What a model says of some sequences, in double precision; capsules of all points and
    snippets on one axis."""

    nu: Float[Tensor, "n features"]
    capsules: dict[str, tuple[Tensor, Tensor]]
    """ "B" and "A": transformations (n, K, d, d + 1), and activations (n, K)."""
    errors: dict[str, Float[Tensor, " n"]]
    """Root mean square distance of a reconstruction from the input."""
    defined: Tensor | None


@torch.inference_mode()
def _see(model: nn.Module, x: Float[Tensor, "n L *points d"], dtype: torch.dtype) -> _Seen:
    n, given = len(x), x.to(dtype)
    if not isinstance(model, MCAE | MultiPointMCAE):  # a baseline has no capsules to tell of
        return _Seen(model.embed(given).double(), {}, {}, None)  # type: ignore[operator]
    output = model(given)
    multi = isinstance(model, MultiPointMCAE)
    nu = model.join(output.representation, n) if multi else output.representation
    folded = model.fold(x) if multi else x
    capsules = {"A": (output.snippets.A, output.snippets.mu)}
    if output.segments is not None:
        capsules["B"] = output.segments.B, output.segments.nu
    if x.shape[-1] != capsules["A"][0].shape[-2]:
        capsules = {}  # a similarity of space is none of the three planes
    hats = {"snippets": output.reconstruction, "segments": output.reconstruction_from_segments}
    defined = getattr(output, "defined", None)
    return _Seen(
        nu.double(),
        {
            name: (
                T.double().reshape(n, -1, *T.shape[-2:]),
                weight.double().reshape(n, -1),
            )
            for name, (T, weight) in capsules.items()
        },
        {
            name: (hat.double() - folded).square().sum(-1).reshape(n, -1).mean(1).sqrt()
            for name, hat in hats.items()
            if hat is not None
        },
        None if defined is None else defined.reshape(n, -1).all(1),
    )


def off_by(
    expected: Float[Tensor, "n K d d1"],
    found: Float[Tensor, "n K d d1"],
    size: Float[Tensor, " n"],
) -> dict[str, Float[Tensor, "n K"]]:
    """How far transformations are from what they should be: degrees, relative scale, and
    translation in sizes."""
    ratio = geometry.scale(found) / geometry.scale(expected).clamp_min(1e-300)
    return {
        "angle": _turn(expected[..., :-1], found[..., :-1]).abs().rad2deg(),
        "scale": (ratio - 1).abs(),
        "translation": (found[..., -1] - expected[..., -1]).norm(dim=-1) / size[:, None],
    }


def _turn(a: Float[Tensor, "*n d d"], b: Float[Tensor, "*n d d"]) -> Float[Tensor, "*n"]:
    """Radians of the rotation R that makes a R the nearest to b: that of a' b. Of tiny angles as
    exact as of large ones, and without a decomposition of every matrix."""
    P = a.mT @ b
    if P.shape[-1] == 2:
        return torch.atan2(P[..., 1, 0] - P[..., 0, 1], P[..., 0, 0] + P[..., 1, 1])
    # In space both are similarities, so that a' b is a rotation times the cube root of its det.
    scale = torch.linalg.det(P).abs() ** (1 / 3)
    axis = torch.stack(
        [P[..., 2, 1] - P[..., 1, 2], P[..., 0, 2] - P[..., 2, 0], P[..., 1, 0] - P[..., 0, 1]], -1
    )
    return torch.atan2(axis.norm(dim=-1), P.diagonal(dim1=-2, dim2=-1).sum(-1) - scale)


def _against(before: _Seen, after: _Seen, move: Move, size: Tensor) -> dict[str, Tensor]:
    """Everything that is measured of one move, a number a sequence."""
    distance = (after.nu - before.nu).norm(dim=1)
    found = {
        "drift": distance / before.nu.norm(dim=1).clamp_min(1e-300),
        "drift in spreads": distance,  # divided by the spread once all sequences are known
        "cosine": torch.cosine_similarity(after.nu, before.nu, dim=1),
    }
    new_size = size * geometry.scale(move.G)
    for name, (T, weight) in before.capsules.items():
        expected = geometry.compose(move.G[:, None].expand_as(T), T)
        for what, error in off_by(expected, after.capsules[name][0], new_size).items():
            found[f"{name} {what}"] = error.amax(1)
            share = weight / weight.sum(1, keepdim=True).clamp_min(1e-300)
            found[f"{name} {what}, weighted"] = (share * error).sum(1)
    for name, error in after.errors.items():
        found[f"error of {name}"] = error / new_size
    return found


@dataclass(frozen=True)
class _Measured:
    """Of every move (rows) and sequence (columns), each measure."""

    found: dict[str, np.ndarray]
    before: dict[str, np.ndarray]
    """Relative reconstruction errors of the sequences where they lay."""
    right: dict[str, np.ndarray]
    """Of every move and sequence, whether a classifier is right; NaN where it is not asked."""
    defined: np.ndarray


def _measure(
    model: nn.Module,
    x: Tensor,
    made: Sequence[Move],
    dtype: torch.dtype,
    labels: np.ndarray | None = None,
    classifiers: Mapping[str, tuple[Predict, np.ndarray]] | None = None,
) -> _Measured:
    size, parts, right = size_of(x), [], []
    total, squares, count = torch.zeros(()), torch.zeros(()), 0
    for rows in _batches(model, x):
        before = _see(model, x[rows], dtype)
        each = [Move(m.kind, m.amount, m.G[rows]) for m in made]
        found, hits = [], []
        for move in each:
            after = _see(model, move(x[rows]), dtype)
            found.append(_against(before, after, move, size[rows]))
            nu = after.nu.float().numpy()
            hits.append(
                {
                    name: np.where(asked[rows], predict(nu) == labels[rows], np.nan)
                    for name, (predict, asked) in (classifiers or {}).items()
                    if labels is not None
                }
            )
        at_rest = {f"error of {k}": v / size[rows] for k, v in before.errors.items()}
        defined = torch.ones(len(before.nu)) if before.defined is None else before.defined
        parts.append((found, at_rest, defined.bool()))
        right.append(hits)
        finite = before.nu[before.nu.isfinite().all(1)]
        total, squares, count = (
            total + finite.sum(0),
            squares + finite.square().sum(),
            count + len(finite),
        )
    measures = {
        name: np.concatenate(
            [np.stack([f[name].numpy() for f in found]) for found, _, _ in parts], 1
        )
        for name in parts[0][0][0]
    }
    spread = (squares / max(count, 1) - (total / max(count, 1)).square().sum()).clamp_min(0).sqrt()
    measures["drift in spreads"] /= spread.clamp_min(1e-300).item()
    return _Measured(
        measures,
        {name: torch.cat([p[1][name] for p in parts]).numpy() for name in parts[0][1]},
        {
            name: np.concatenate([np.stack([h[name] for h in hits]) for hits in right], 1)
            for name in right[0][0]
        },
        torch.cat([p[2] for p in parts]).numpy(),
    )


def certificate(
    model: nn.Module,
    x: Float[np.ndarray, "n L *points d"] | Tensor,
    y: Int[np.ndarray, " n"] | None = None,
    *,
    probe: nn.Module | None = None,
    double: bool = True,
    rotations: int = ROTATIONS,
    seed: int = 0,
) -> dict[str, Any]:
    """Everything that the module's head speaks of, ready for JSON.

    `probe` is a linear classifier on nu; another, a logistic regression, is fitted on every second
    sequence as it lies and scored on the others as they are moved. Sequences that the model calls
    undefined, and points that stay where they are (nothing is relative to a size of zero), are
    counted and left out of the numbers.
    """
    x = torch.as_tensor(x).double()
    if len(x) == 0:
        raise InputError("expected at least one sequence to move, got none")
    training = model.training
    model.eval()
    try:
        made = moves(x, rotations=rotations, seed=seed)
        classifiers = {} if y is None else _classifiers(model, x, y, probe)
        single = _measure(model, x, made, torch.float32, y, classifiers)
        measured = {"float32": single}
        if double:
            exact = copy.deepcopy(model).double()
            measured["float64"] = _measure(exact, x, made, torch.float64)
    finally:
        model.train(training)
    # The mean of equal numbers is not always that number, to the last bit.
    moving = (size_of(x) > 1e-12 * x.abs().flatten(1).amax(1)).numpy()
    result: dict[str, Any] = {
        "sequences": len(x),
        "still": int((~moving).sum()),
        "undefined": int((~single.defined).sum()),
        "promise": PROMISE,
        "most": MOST,
    }
    for name, found in measured.items():
        result[name] = _summary(found, made, moving & found.defined)
    result["verdict"] = verdict(result)
    return result


def _summary(m: _Measured, made: Sequence[Move], kept: np.ndarray) -> dict[str, Any]:
    """A kind of move after another, then every move, over the sequences that count."""
    finite = {k: np.isfinite(v).all(0) for k, v in m.found.items()}
    broken = {k: int((kept & ~good).sum()) for k, good in finite.items()}
    lost = kept & ~np.all(list(finite.values()), axis=0)
    result: dict[str, Any] = {
        "not_finite": int(lost.sum()),
        "not_finite_in": {k: count for k, count in broken.items() if count},
    }
    # Each measure over the sequences in which it is a number at every move.
    rows = {k: np.flatnonzero(kept & good) for k, good in finite.items()}
    found = {k: v[:, rows[k]] for k, v in m.found.items() if len(rows[k])}
    if not found:
        return result | {"kinds": {}, "moves": []}
    result["before"] = {k: float(v[rows[k]].mean()) for k, v in m.before.items() if k in found}
    kinds = np.array([move.kind for move in made])
    result["kinds"] = {
        kind: {k: _spread(v[chosen]) for k, v in found.items()}
        for kind, chosen in [(k, kinds == k) for k in KINDS] + [("all", kinds != "")]
    }
    result["moves"] = [
        {"kind": move.kind, "amount": move.amount}
        | {k: _spread(v[[i]]) for k, v in found.items()}
        | ({"accuracy": {k: _share(v[i, kept]) for k, v in m.right.items()}} if m.right else {})
        for i, move in enumerate(made)
    ]
    return result


def _spread(values: Float[np.ndarray, "moves n"]) -> dict[str, float]:
    """The mean over moves and sequences; of each sequence's worst (least) move, what 99.9% of the
    sequences keep to, and the worst (least) of all."""
    worst, least = np.sort(values.max(axis=0)), np.sort(values.min(axis=0))
    most = math.ceil(MOST * len(worst)) - 1  # as many as promised keep to it, without between
    return {
        "mean": float(values.mean()),
        "most": float(worst[most]),
        "worst": float(worst[-1]),
        "least": float(least[0]),
    }


def verdict(result: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the promise holds, in each precision that was measured, and what speaks for it."""
    found: dict[str, Any] = {}
    for name, limits in PROMISE.items():
        if name not in result:
            continue
        part = result[name]
        key = "most" if name == "float32" else "worst"
        spread = part["kinds"].get("all", {})
        if "drift" not in spread:
            found[name] = {"passed": False}
            continue
        of = next((name for name in ("B", "A") if f"{name} angle" in spread), None)
        drift, turn = spread["drift"][key], spread.get(f"{of} angle")
        passed = drift <= limits["drift"] and part["not_finite"] == 0
        found[name] = {"drift": drift}
        if turn is not None:
            passed = passed and turn[key] < limits["angle"]
            found[name] |= {"of": of, "angle": turn[key]}
        found[name]["passed"] = passed
    return {"passed": all(part["passed"] for part in found.values()), **found}


def _classifiers(
    model: nn.Module, x: Tensor, y: np.ndarray, probe: nn.Module | None
) -> dict[str, tuple[Predict, np.ndarray]]:
    """By name, what predicts labels from nu, and which sequences it may be asked about."""
    found: dict[str, tuple[Predict, np.ndarray]] = {}
    if probe is not None:
        linear = probe

        def online(nu: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                return linear(torch.from_numpy(nu)).argmax(1).numpy()

        found["online probe"] = online, np.ones(len(x), dtype=bool)
    learn = np.arange(len(x)) % 2 == 0
    if len(np.unique(y[learn])) > 1:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from threadpoolctl import threadpool_limits

        parts = [_see(model, x[rows], torch.float32).nu for rows in _batches(model, x)]
        features = torch.cat(parts).float().numpy()
        fitted = make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=1_000))
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few sequences of many classes are no reason to talk
            fitted.fit(features[learn], y[learn])
        found["logistic regression"] = fitted.predict, ~learn
    return found


def _batches(model: nn.Module, x: Tensor) -> Iterator[slice]:
    points = len(model.fold(x[:1])) if isinstance(model, MultiPointMCAE) else 1
    rows = max(1, BATCH // points)
    return (slice(start, start + rows) for start in range(0, len(x), rows))


def _share(right: np.ndarray) -> float | None:
    asked = right[np.isfinite(right)]
    return float(asked.mean()) if len(asked) else None


_DRAWN = {
    "drift": ("mean", "most"),
    "cosine": ("mean", "least"),
    "B angle": ("mean", "most"),
    "A angle": ("mean", "most"),
    "error of segments": ("mean",),
}


def brief(result: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate for a report: of single moves only what is drawn, all to five digits."""
    short: dict[str, Any] = dict(result)
    for name in PROMISE:
        if name in result:
            each = []
            for move in result[name]["moves"]:
                few = {k: move[k] for k in ("kind", "amount", "accuracy") if k in move}
                drawn = {k: keys for k, keys in _DRAWN.items() if k in move}
                each.append(few | {k: {q: move[k][q] for q in qs} for k, qs in drawn.items()})
            short[name] = {**result[name], "moves": each}
    return _rounded(short)


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
