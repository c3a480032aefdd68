"""Which runs a command asks for: each a directory and its configuration. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
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
    return found


def jobs(
    out: Path,
    preset: str | None,
    given: dict[str, str],
    seeds: Sequence[int] | None,
    resume: bool,
) -> Jobs:
    """The runs to train: new ones, or those to go on with."""
    if resume and preset is None:
        found = _existing(out, seeds)
        if found:
            return {
                path: configs.with_settings(configs.load(path / "config.toml"), given)
                for path in found
            }
        raise InputError(
            f"expected a run to resume at {out}, found none; without --resume it starts anew"
        )
    base = configs.with_settings(configs.preset(preset or "paper"), given)
    if seeds is None or len(seeds) == 1:
        return {out: _seeded(base, seeds[0]) if seeds else base}
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seed: expected different seeds, got {' '.join(map(str, seeds))}")
    if (out / "config.toml").exists():
        raise InputError(f"--seed: expected a directory for several runs, but {out} is a run")
    return {out / f"seed{seed}": _seeded(base, seed) for seed in seeds}


def _existing(out: Path, seeds: Sequence[int] | None) -> list[Path]:
    """The run directory itself, or those of its seeds."""
    if (out / "config.toml").exists():
        return [out]
    found = sorted(file.parent for file in out.glob("*/config.toml"))
    if seeds:
        found = [path for path in found if path.name in {f"seed{seed}" for seed in seeds}]
    return found


def _seeded(config: Config, seed: int) -> Config:
    return configs.with_settings(config, {"train.seed": str(seed)})


def _data_name(name: str) -> str:
    """A file's name is made absolute: the run may be resumed from elsewhere."""
    path = name if name == "t20" else str(Path(name).expanduser().resolve())
    # As a TOML string, or a name such as 1.npz would be read as a number.
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
