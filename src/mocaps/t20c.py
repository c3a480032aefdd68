"""T20-C for any representation: probes fitted and scored under the same corruption.

A condition is "clean", or a corruption and its severity, "noise 3".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mocaps import probe
from mocaps.data.trajectory20 import trajectory20


def score(
    represent: Callable[[np.ndarray], np.ndarray],
    condition: str,
    draws: Mapping[int, int],
    length: int = 32,
) -> dict[str, Any]:
    """Logistic regressions on the set "labels", scored on "test", both met by the condition.

    `draws` says at how many labels, and over how many draws of them. Ready for JSON.
    """
    met = corrupted(condition)
    train, y = (part.numpy() for part in trajectory20("labels", length, **met))
    test, test_y = (part.numpy() for part in trajectory20("test", length, **met))
    data = represent(train), y, represent(test), test_y
    return {
        "logistic": {
            str(labels): dataclasses.asdict(found)
            for labels, seeds in draws.items()
            for found in probe.logistic_by_budget(*data, budgets=(labels,), seeds=seeds).values()
        }
    }


def corrupted(condition: str) -> dict[str, Any]:
    """A condition as `trajectory20` wants it.

    >>> corrupted("noise 3")
    {'corruption': 'noise', 'severity': 3}
    """
    if condition == "clean":
        return {}
    corruption, _, severity = condition.partition(" ")
    return {"corruption": corruption, "severity": int(severity)}
