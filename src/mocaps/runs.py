"""The run directory: everything of one run on disk, and how it comes back.

    config.toml         the configuration, complete
    metrics.jsonl       one record an epoch
    model.safetensors   weights and probe, with the configuration in the header
    state.safetensors   what training needs to go on: weights, Adam's moments, best weights,
                        random state; numbers in the header. Never a pickle
    report.json         what the run came to, and its evaluation

Every file but metrics.jsonl is replaced as a whole or not at all. metrics.jsonl grows line by
line; a line torn by a kill, and lines of epochs after the saved state, go when the run resumes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from mocaps import atomic
from mocaps import config as configs
from mocaps.baselines import Baseline, build
from mocaps.config import FORMAT, Config
from mocaps.errors import InputError
from mocaps.model import MCAE, MultiPointMCAE
from mocaps.probe import OnlineProbe
from mocaps.train import State

CONFIG, METRICS, MODEL, STATE, REPORT = (
    "config.toml",
    "metrics.jsonl",
    "model.safetensors",
    "state.safetensors",
    "report.json",
)
_MAY_GROW = ("train.steps", "train.minutes", "train.epochs")


@dataclass(frozen=True)
class Run:
    """A run read back: the model in evaluation mode with the weights that count."""

    path: Path
    config: Config
    model: MCAE | MultiPointMCAE | Baseline
    probe: OnlineProbe | None
    """None for a run without labels."""
    step: int
    """Steps that the weights saw."""
    kept: str
    """"best" on validation data, or "last"."""
    finished: bool
    report: dict[str, Any]
    """report.json; empty before the run has finished."""

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl."""
        return read_metrics(self.path)


def load(path: str | Path) -> Run:
    """The run in a directory; of one that has not finished, the weights saved last."""
    path = Path(path)
    config = read_config(path)
    if not (path / MODEL).exists():
        raise InputError(f"{path}: expected {MODEL}, found none; the run has not saved weights yet")
    header, tensors = _read_safetensors(path / MODEL)
    model = build(config)
    _load_weights(path, "model", model, tensors)
    probe = None
    if "probe.weight" in tensors:
        num_classes, num_features = tensors["probe.weight"].shape
        probe = OnlineProbe(num_features, num_classes)
        _load_weights(path, "probe", probe, tensors)
    return Run(
        path,
        config,
        model.eval(),
        probe,
        step=header["step"],
        kept=header["kept"],
        finished=header["finished"],
        report=read_report(path),
    )


def create(path: Path, config: Config) -> None:
    """A new run directory. It appears with its configuration in it, so that none is without."""
    check_new(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"))
    try:
        temporary.chmod(0o777 & ~atomic.umask())
        atomic.write_text(temporary / CONFIG, f"# format = {FORMAT}\n{configs.to_toml(config)}")
        os.replace(temporary, path)
    except BaseException:
        for file in temporary.glob("*"):
            file.unlink()
        temporary.rmdir()
        raise
    atomic.sync_directory(path.parent)


def check_new(path: Path) -> None:
    """Refuses to write over anything."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        hint = "; --resume goes on with it" if (path / CONFIG).exists() else ""
        raise InputError(f"expected a new directory for the run, but {path} exists{hint}")


def read_config(path: Path) -> Config:
    if not path.is_dir():
        raise InputError(f"expected a run directory at {path}, found {_what(path)}")
    file = path / CONFIG
    if not file.exists():
        raise InputError(f"{path}: expected a run directory, found no {CONFIG} in it")
    first = file.read_text(errors="replace").partition("\n")[0]
    if first.startswith("# format = ") and first != f"# format = {FORMAT}":
        raise _other_version(path, first.removeprefix("# format = "))
    return configs.load(file)


def check_same(path: Path, old: Config, new: Config) -> None:
    """Refuses to resume a run with other settings; a budget may grow."""
    before, after = (_flat(configs.to_dict(c)) for c in (old, new))
    for key in sorted(before):
        a, b = before[key], after[key]
        if a == b:
            continue
        if key not in _MAY_GROW:
            raise InputError(f"{path}: cannot resume, {key} was {a!r} and is now {b!r}")
        if not 0 < a < b:
            raise InputError(
                f"{path}: cannot resume, {key} was {a!r} and is now {b!r}; a budget may only grow"
            )
        if old.train.schedule == "cosine":
            raise InputError(
                f"{path}: cannot resume, {key} was {a!r} and is now {b!r}, but the cosine "
                "schedule was laid out for the old budget"
            )


def write_config(path: Path, config: Config) -> None:
    atomic.write_text(path / CONFIG, f"# format = {FORMAT}\n{configs.to_toml(config)}")


def save_state(path: Path, state: State) -> None:
    header = {
        f.name: getattr(state, f.name) for f in dataclasses.fields(State) if f.name != "tensors"
    }
    _write_safetensors(path / STATE, state.tensors, header)


def load_state(path: Path) -> State | None:
    """Where the run stands; None before its first save."""
    if not (path / STATE).exists():
        return None
    header, tensors = _read_safetensors(path / STATE)
    header.pop("format")
    return State(**header, tensors=tensors)


def save_model(
    path: Path,
    config: Config,
    tensors: dict[str, Tensor],
    *,
    step: int,
    kept: str,
    finished: bool,
) -> None:
    """Weights (`model.` and `probe.` names), with what is needed to understand the file alone."""
    header = {
        "step": step,
        "kept": kept,
        "finished": finished,
        "config": configs.to_dict(config),
    }
    _write_safetensors(path / MODEL, tensors, header)


def append_metrics(path: Path, record: dict[str, Any]) -> None:
    """One line more, on disk as a whole before anything that is saved later."""
    with (path / METRICS).open("a") as file:
        file.write(json.dumps(record) + "\n")


def sync_metrics(path: Path) -> None:
    if (path / METRICS).exists():
        with (path / METRICS).open("a") as file:
            os.fsync(file.fileno())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records; a last line that is being written, or was torn by a kill, is left out."""
    if not (path / METRICS).exists():
        return []
    lines = (path / METRICS).read_text(errors="replace").split("\n")
    records = []
    for number, line in enumerate(lines[:-1], 1):  # behind the last newline is nothing, or a tear
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines) - 1:
                raise InputError(
                    f"{path / METRICS}: expected a JSON record in line {number}, got {line[:40]!r}"
                ) from None
    return records


def rewind_metrics(path: Path, step: int, steps_per_epoch: int) -> None:
    """Forgets what the resumed run will write again: epochs after its state, and partial ones."""
    kept = [r for r in read_metrics(path) if r["step"] <= step and r["step"] % steps_per_epoch == 0]
    atomic.write_text(path / METRICS, "".join(json.dumps(record) + "\n" for record in kept))


def write_report(path: Path, **entries: Any) -> dict[str, Any]:
    """Puts entries into report.json and leaves the others."""
    report = read_report(path) | {"format": FORMAT} | entries
    atomic.write_text(path / REPORT, json.dumps(report, indent=1) + "\n")
    return report


def read_report(path: Path) -> dict[str, Any]:
    if not (path / REPORT).exists():
        return {}
    try:
        return json.loads((path / REPORT).read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path / REPORT}: expected JSON, got: {error}") from None


def _write_safetensors(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    header = {"format": FORMAT} | header
    data = safetensors.torch.save(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        metadata={"mocaps": json.dumps(header)},
    )
    atomic.write_bytes(path, data)


def _read_safetensors(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {}).get("mocaps", "{}"))
            if header.get("format", FORMAT) != FORMAT:
                raise _other_version(path, header["format"])
            # Copies: the file may be replaced while its tensors are in use.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: expected safetensors, found a damaged file ({error})") from None
    if "format" not in header:
        raise InputError(f"{path}: expected a file that mocaps wrote, found no header of its own")
    return header, tensors


def _load_weights(path: Path, name: str, module: nn.Module, tensors: dict[str, Tensor]) -> None:
    mine = {k.partition(".")[2]: v for k, v in tensors.items() if k.startswith(f"{name}.")}
    try:
        module.load_state_dict(mine)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"{path / MODEL}: weights and {CONFIG} do not agree ({reason})") from None


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= (
            _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        )
    return flat


def _other_version(path: Path, version: object) -> InputError:
    return InputError(
        f"{path}: expected run format {FORMAT}, got {version}; another version of mocaps wrote it"
    )


def _what(path: Path) -> str:
    return "a file" if path.exists() else "nothing"
