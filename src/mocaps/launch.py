"""Training into run directories: one run in this process, or several side by side.

Whatever ends a run early (Ctrl-C, a kill, a full disk) leaves a directory that goes on with
`resume=True`, and then ends with the weights of a run that was never interrupted.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from mocaps import atomic, children, locks, process, progress, runs
from mocaps import train as training
from mocaps.baselines import build, objective
from mocaps.config import Config
from mocaps.data import batches as data
from mocaps.data.batches import Batches
from mocaps.errors import InputError
from mocaps.model import parameter_count
from mocaps.probe import OnlineProbe
from mocaps.progress import Show, Status
from mocaps.train import Outcome, State


def train(
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    command: str | None = None,
    show: Show | None = None,
    tensorboard: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Trains the run of a configuration in the directory `out`, from its start or on.

    Settles the process: see `mocaps.process`.
    """
    process.settle()
    batches = data.of(config)  # first: where the data is bad, nothing is written
    open_writer = _tensorboard() if tensorboard else None
    prepare(config, out, resume=resume, command=command)
    with locks.locked(out), contextlib.ExitStack() as stack:
        atomic.remove_leftovers(out)
        state = runs.load_state(out)
        step = state.step if state else 0
        runs.rewind_metrics(out, step, batches.steps_per_epoch)
        writer = open_writer(str(out / "tensorboard"), purge_step=step + 1) if open_writer else None
        if writer:
            stack.callback(writer.close)
        model, probe = _fresh_modules(config, batches.num_classes)
        total = training.budget(config.train, batches.steps_per_epoch)
        meter = progress.Meter(show or _show_nothing, step, total, config.train.minutes)

        def on_epoch(record: dict[str, Any]) -> None:
            with _room_on_disk(out):
                runs.append_metrics(out, record)
            meter.epoch(record)
            if writer:
                _write_scalars(writer, record)

        outcome = training.fit(
            model,
            batches,
            config,
            probe=probe,
            objective=objective,
            state=state,
            on_epoch=on_epoch,
            watch=meter.watch,
            save=lambda state: _save(out, config, state),
            stop=stop,
        )
        if outcome.finished:
            with _room_on_disk(out):
                _finish(out, config, outcome, batches, model, probe)
    return outcome


def prepare(config: Config, out: Path, *, resume: bool, command: str | None) -> None:
    """Makes the run directory, or sees that it is one of the same settings."""
    old = _old_config(config, out, resume)
    if old is not None:
        if old != config:
            with locks.locked(out):
                runs.write_config(out, config)
        return
    runs.create(out, config)
    runs.write_report(out, finished=False, command=command, seed=config.train.seed)


def prepare_all(configs: Mapping[Path, Config], *, resume: bool, command: str | None) -> None:
    """Makes all run directories, or none where one of them cannot be."""
    # Seeds share what is read; configurations may differ in what they make of it.
    distinct = {(c.data, c.model, c.train.batch_size): c for c in configs.values()}
    for config in distinct.values():
        data.of(config)
    for out, config in configs.items():
        _old_config(config, out, resume)
    for out, config in configs.items():
        prepare(config, out, resume=resume, command=command)


def _old_config(config: Config, out: Path, resume: bool) -> Config | None:
    """Of the run to go on with, seen to agree; None where there is a new one to make."""
    if resume and out.exists() and (not out.is_dir() or any(out.iterdir())):
        old = runs.read_config(out)
        runs.check_same(out, old, config)
        return old
    runs.check_new(out)
    return None


def summary(out: Path) -> str:
    """How a finished run ended, in a few words."""
    report = runs.read_report(out)
    last = runs.read_metrics(out)[-1]
    accuracy = last.get("validation_accuracy")
    judged = f"loss {last['total']:.3g}" if accuracy is None else f"accuracy {100 * accuracy:.1f}%"
    return (
        f"{report['steps']:,} steps in {progress.clock(report['seconds'])}, last validation "
        f"{judged}, {report['kept']} weights kept (step {report['kept_step']:,})"
    )


def side_by_side(
    outs: Mapping[str, Path],
    *,
    show: Callable[[str, Status], None],
    stop: Callable[[], bool],
    tensorboard: bool = False,
) -> dict[str, tuple[int, str]]:
    """Trains prepared run directories, one process a core; exit code and last words of each."""
    commands = {
        name: ["train", "--resume", "--out", str(out), "--progress", "json"]
        + (["--tensorboard"] if tensorboard else [])
        for name, out in outs.items()
    }
    return children.side_by_side(
        commands, hear=lambda name, line: show(name, Status.from_json(line)), stop=stop
    )


def _fresh_modules(config: Config, num_classes: int) -> tuple[torch.nn.Module, OnlineProbe | None]:
    """The model and its probe as the seed starts them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        model = build(config)
        probe = OnlineProbe(config.num_features, num_classes) if num_classes else None
    return model, probe


def _save(out: Path, config: Config, state: State) -> None:
    """Metrics first: those up to the state's step are never behind it."""
    with _room_on_disk(out):
        runs.sync_metrics(out)
        runs.save_state(out, state)
        _save_model(out, config, state, finished=False)


def _save_model(out: Path, config: Config, state: State, *, finished: bool) -> None:
    best = training.keeps_best(config.train) and state.best_step > 0
    runs.save_model(
        out,
        config,
        training.kept_weights(state, config.train),
        step=state.best_step if best else state.step,
        kept="best" if best else "last",
        finished=finished,
    )


def _finish(
    out: Path,
    config: Config,
    outcome: Outcome,
    batches: Batches,
    model: torch.nn.Module,
    probe: OnlineProbe | None,
) -> None:
    runs.sync_metrics(out)
    state = runs.load_state(out)
    assert state is not None
    _save_model(out, config, state, finished=True)
    runs.write_report(
        out,
        finished=True,
        steps=outcome.step,
        seconds=round(outcome.seconds, 1),
        kept=outcome.kept,
        kept_step=outcome.kept_step,
        steps_per_epoch=batches.steps_per_epoch,
        parameters={
            "model": parameter_count(model),
            "probe": 0 if probe is None else parameter_count(probe),
        },
        seed=config.train.seed,
        last_record=runs.read_metrics(out)[-1],
    )


@contextlib.contextmanager
def _room_on_disk(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise InputError(
            f"{out}: could not write, {reason}; what was saved before stays, and "
            f"`mocaps train --resume --out {out}` goes on from it"
        ) from None


def _show_nothing(_: Status) -> None:
    pass


def _tensorboard() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            "--tensorboard: expected tensorboard, found none; "
            "install it with: pip install 'mocaps[tensorboard]'"
        ) from None
    return SummaryWriter


def _write_scalars(writer: Any, record: dict[str, Any]) -> None:
    for name, value in record.items():
        if name not in ("epoch", "step"):
            writer.add_scalar(name, value, record["step"])
