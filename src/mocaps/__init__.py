"""Motion capsules: what a motion is, apart from where, how big and which way it happens."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mocaps.capsules import MCAEOutput as MCAEOutput
    from mocaps.config import Config as Config
    from mocaps.config import preset as preset
    from mocaps.data.trajectory20 import Trajectory20 as Trajectory20
    from mocaps.estimator import MotionCapsules as MotionCapsules
    from mocaps.model import MCAE as MCAE
    from mocaps.model import MultiPointMCAE as MultiPointMCAE

# Names are fetched when they are first used, so that `mocaps --help` need not wait for torch.
_HOME = {
    "MotionCapsules": "mocaps.estimator",
    "MCAE": "mocaps.model",
    "MultiPointMCAE": "mocaps.model",
    "MCAEOutput": "mocaps.capsules",
    "Config": "mocaps.config",
    "preset": "mocaps.config",
    "Trajectory20": "mocaps.data.trajectory20",
}
__all__ = [*_HOME]  # pyright: ignore[reportUnsupportedDunderAll]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mocaps' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
