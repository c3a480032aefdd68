"""Which runs a command asks for: each a directory and its configuration. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mocaps import config as configs
from mocaps.config import Config
from mocaps.errors import InputError

Jobs = dict[Path, Config]


def settings(
    data: str | None, steps: int | None, minutes: float | None, given: Sequence[str] | None
) -> dict[str, str]:
    """The options of `mocaps train` as section.key settings."""
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set: expected key=value, got {text!r}")
        if key == "data.name":
            value = _data_name(value)
        found[key.strip()] = value.strip()
    if data is not None:
        found["data.name"] = _data_name(data)
    if steps is not None:
        found["train.steps"] = str(steps)
    if minutes is not None:
        found["train.minutes"] = str(minutes)
        found.setdefault("train.steps", "0")  # the clock decides, not the preset's budget
    return found


def jobs(
    out: Path,
    given: Mapping[str, str],
    *,
    presets: Sequence[str] = (),
    files: Sequence[Path] = (),
    seeds: Sequence[int] = (),
    resume: bool = False,
) -> Jobs:
    """The runs to train: new ones, or those to go on with.

    One run is the directory `out` itself. Several lie in it, named after what tells them apart:
    seed0, seed1; paper, authors; or paper-seed0, paper-seed1, authors-seed0, authors-seed1.
    """
    if presets and files:
        raise InputError("--config: a file names its own preset; give --preset or --config alone")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seed: expected different seeds, got {' '.join(map(str, seeds))}")
    if resume and not presets and not files:
        return _existing(out, given, seeds)
    bases = _loaded(files) if files else _presets(presets or (configs.DEFAULT,))
    bases = {name: configs.with_settings(base, given) for name, base in bases.items()}
    found: Jobs = {}
    for name, base in bases.items():
        names = [name] if len(bases) > 1 else []
        for seed in seeds or [base.train.seed]:
            parts = names + ([f"seed{seed}"] if len(seeds) > 1 else [])
            found[out / "-".join(parts)] = _seeded(base, seed)
    if len(found) > 1 and (out / "config.toml").exists():
        raise InputError(f"--out: expected a directory for several runs, but {out} is a run")
    return found


def _presets(names: Sequence[str]) -> dict[str, Config]:
    if len(set(names)) < len(names):
        raise InputError(f"--preset: expected different presets, got {' '.join(names)}")
    return {name: configs.preset(name) for name in names}


def _loaded(files: Sequence[Path]) -> dict[str, Config]:
    """The configurations in files, by the files' names, which become the runs'."""
    found: dict[str, Config] = {}
    sources: dict[str, Path] = {}
    for file in files:
        other = sources.setdefault(file.stem, file)
        if file.stem in found:
            raise InputError(
                f"--config: expected files of different names, as the runs are called after them, "
                f"got {other} and {file}"
            )
        config = configs.load(file)
        place = {"data.name": _data_name(config.data.name)}
        found[file.stem] = configs.with_settings(config, place)
    return found


def _existing(out: Path, given: Mapping[str, str], seeds: Sequence[int]) -> Jobs:
    """The run in a directory, or the runs; where seeds are given, those of them."""
    files = [out / "config.toml"]
    if not files[0].exists():
        files = sorted(out.glob("*/config.toml"))
    found = {file.parent: configs.load(file) for file in files}
    kept = {path: c for path, c in found.items() if not seeds or c.train.seed in seeds}
    if not kept:
        which = f" with seed {' or '.join(map(str, seeds))}" if found else ""
        raise InputError(
            f"expected a run to resume at {out}, found none{which}; without --resume it starts anew"
        )
    return {path: configs.with_settings(config, given) for path, config in kept.items()}


def _seeded(config: Config, seed: int) -> Config:
    return configs.with_settings(config, {"train.seed": str(seed)})


def _data_name(name: str) -> str:
    """A file's name is made absolute: the run may be resumed from elsewhere."""
    path = name if name == "t20" else str(Path(name).expanduser().resolve())
    # As a TOML string, or a name such as 1.npz would be read as a number.
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
