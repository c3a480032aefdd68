"""What stands in for a run where models are compared: the released weights, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from mocaps import atomic, runs, svg
from mocaps import config as configs
from mocaps.authors import load_authors
from mocaps.config import Config
from mocaps.data import arrays, batches
from mocaps.errors import InputError
from mocaps.evaluate import random_model
from mocaps.look import names_of, test_data
from mocaps.probe import OnlineProbe
from mocaps.runs import Run

RELEASED_STEPS = 935 * 156
EXAMPLES = ("hexagon", "absolute sine")  # the paper's
CALIBRATION = 2_000  # sequences that set the batch normalisation of random weights


def gather(
    paths: Sequence[Path] = (), released: Path | None = None, random: Sequence[str] = ()
) -> list[Run]:
    """Runs, the released weights, and random weights of presets or runs, in this order."""
    found = [runs.load(path) for path in paths]
    if released is not None:
        found.append(from_released(released))
    found += [from_random(name) for name in random]
    if not found:
        raise InputError("expected a run directory, --released or --random, got none of them")
    return found


def one(
    paths: Sequence[Path] = (), released: Path | None = None, random: Sequence[str] = ()
) -> Run:
    """The one run or stand-in that was named."""
    found = gather(paths, released, random)
    if len(found) > 1:
        raise InputError(
            f"expected one of a run directory, --released and --random, got {len(found)} of them"
        )
    return found[0]


def from_released(path: Path) -> Run:
    """The authors' trained model, with its classifier as the probe."""
    model, classifier = load_authors(path)
    probe = OnlineProbe(classifier.in_features, classifier.out_features)
    probe.load_state_dict(classifier.state_dict())
    config = configs.preset("authors")
    return Run(Path("released weights"), config, model, probe, RELEASED_STEPS, "best", True, {})


def from_random(name: str) -> Run:
    """A model that nobody trained; `name` is a preset, a run directory or a TOML file."""
    config = _configuration(name)
    x, _, _ = test_data(config)
    model = random_model(config, x[:CALIBRATION].numpy())
    return Run(Path(f"random weights, {name}"), config, model, None, 0, "last", False, {})  # pyright: ignore[reportArgumentType]


def sequences(
    config: Config, data: Path | None, rows: int | None = None
) -> tuple[Tensor, np.ndarray | None, str]:
    """x, labels where there are some, and what to call them: of a file, or the test sequences of a
    configuration; at most `rows`, spread evenly."""
    if rows is not None and rows < 1:
        raise InputError(f"--rows: expected 1 or more, got {rows}")
    if data is None:
        x, y, _ = test_data(config)
        what = "t20 test" if config.data.name == "t20" else f"{config.data.name}, held out"
    else:
        shape = arrays.open_x(data).shape
        arrays.check_shape(data, shape, batches.input_shape(config, shape))
        array, y = batches.labelled(data)
        x, what = torch.from_numpy(array), str(data)
    if rows is not None and rows < len(x):
        chosen = np.linspace(0, len(x) - 1, rows).round().astype(int)
        x, y = x[torch.from_numpy(chosen)], None if y is None else y[chosen]
    return x, y, what


def chosen(
    config: Config,
    x: Tensor,
    y: np.ndarray | None,
    patterns: Sequence[str] = (),
    samples: Sequence[int] = (),
) -> dict[str, int]:
    """Sequences by name: the first of each pattern, or those with these numbers."""
    names = names_of(config, y)
    if samples:
        for i in samples:
            if not 0 <= i < len(x):
                raise InputError(f"--sample: expected 0 to {len(x) - 1}, got {i}")
        return {_name(names, y, i): i for i in samples}
    if y is None:
        if patterns:
            raise InputError("--pattern: expected labelled sequences, got none (see --sample)")
        return {"sequence 0": 0}
    patterns = patterns or [name for name in EXAMPLES if name in names] or names[:1]
    found = {}
    for name in patterns:
        if name not in names or not (y == names.index(name)).any():
            raise InputError(f"--pattern: expected one of {', '.join(names)}, got {name!r}")
        found[name] = int(np.flatnonzero(y == names.index(name))[0])
    return found


def _name(names: tuple[str, ...], y: np.ndarray | None, i: int) -> str:
    return f"sequence {i}" if y is None else f"{names[int(y[i])]}, sequence {i}"


def save(figure: Figure, path: Path, label: str) -> None:
    """A picture as an .svg file of its own, light or dark as its reader is."""
    check_picture(path)
    atomic.write_text(path, svg.whole(figure, label, standalone=True))


def check_picture(path: Path | None) -> None:
    """Refuses a place for a picture before the work for it is done."""
    if path is not None and (path.suffix != ".svg" or not path.parent.is_dir()):
        raise InputError(f"--out: expected an .svg file in a directory that exists, got {path}")


def title(run: Run) -> str:
    """What a picture calls it: `paper/seed0`, `random weights, paper`."""
    parts = run.path.parts
    return "/".join(parts[-2:]) if parts and parts[-1].startswith("seed") else run.path.name


def _configuration(name: str) -> Config:
    path = Path(name)
    if path.is_dir():
        return runs.read_config(path)
    return configs.load(path) if path.suffix == ".toml" else configs.preset(name)
