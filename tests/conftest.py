"""One thread a process, the shape annotations checked, and where the development data lies."""

import os
from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

torch.set_num_threads(1)

# Shapes are checked in the tests alone: a checked call costs some 17 microseconds.
install_import_hook(
    ["mocaps.geometry", "mocaps.model", "mocaps.losses", "mocaps.layers", "mocaps.disturb"],
    "beartype.beartype",
)

SHARED = Path(os.environ.get("MOCAPS_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture
def shared():
    """The folder of development data; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no development data at {SHARED} (set MOCAPS_DATA to its folder)")
    return SHARED
