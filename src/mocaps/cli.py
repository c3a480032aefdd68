"""The command line: parses, calls, prints. What needs torch is imported inside the commands."""

from __future__ import annotations

import json as json_module
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

import mocaps
from mocaps import cli_experiments, cli_looks, jobs
from mocaps import config as configs
from mocaps.errors import InputError
from mocaps.interrupts import interruptible

REFUSED, INTERRUPTED = 2, 130

_HELP = """\
Learn from unlabelled keypoint tracks what a motion is, apart from where, how big and which way.

A first hour: `mocaps demo --out demo` trains for three minutes and writes a page to look at. Then

    mocaps train --data t20 --out runs/first

    mocaps evaluate runs/first

    mocaps embed tracks.npz --model runs/first --out motions.npz
"""

app = App(
    name="mocaps",
    help=_HELP,
    version=mocaps.__version__,
    help_format="markdown",
    suppress_keyboard_interrupt=False,
)
data_app = App(name="data", help="Write data sets to files.", help_format="markdown")
config_app = App(name="config", help="Look at configurations.", help_format="markdown")
app.command(data_app)
app.command(config_app)
cli_looks.register(app)
cli_experiments.register(app)
app.register_install_completion_command(help="Complete commands and options in your shell.")

Several = Parameter(consume_multiple=True, negative=())


@app.command
def train(
    *,
    out: Path,
    preset: Annotated[list[str] | None, Several] = None,
    config: Annotated[list[Path] | None, Several] = None,
    data: str | None = None,
    seed: Annotated[list[int] | None, Several] = None,
    steps: int | None = None,
    minutes: float | None = None,
    set: Annotated[list[str] | None, Several] = None,
    resume: Annotated[bool, Parameter(negative=())] = False,
    tensorboard: Annotated[bool, Parameter(negative=())] = False,
    progress: Annotated[Literal["auto", "json"], Parameter(show=False)] = "auto",
) -> int:
    """Train a model into a run directory.

    Ctrl-C stops it after the current step; `--resume` goes on, and ends with the weights of a run
    that was never stopped, bit for bit. After a kill or a full disk it goes on from what was saved
    at most half a minute before.

    Without --steps or --minutes it trains until validation has not improved for `train.patience`
    epochs and keeps the best epoch's weights; with one of them it trains that long and keeps the
    last weights.

    Example: `mocaps train --preset paper --data t20 --steps 24000 --out runs/first`

    Parameters
    ----------
    out
        The run directory to make. Several runs lie in it: seed0, or paper, or paper-seed0, ...
    preset
        Where the settings start from: `equivariant` (ours, the default), `paper` or `authors`.
        `mocaps config show paper` prints them. Several train side by side.
    config
        TOML files with settings, all or some; --set and the like apply on top. Likewise several.
    data
        `t20` (sampled on the fly), or an .npz file with x (n, L, d) and, to be probed, labels y.
    seed
        One seed, or several to train side by side, one process a core: `--seed 0 1 2`.
    steps
        Train for so many steps.
    minutes
        Train for so many minutes.
    set
        Settings, as in `--set model.num_segment_capsules=64 loss.sparsity=0`.
    resume
        Go on with the run, or the runs, in --out. Other settings need not be given again; a budget
        may be raised.
    tensorboard
        Also write the metrics for TensorBoard (needs `pip install 'mocaps[tensorboard]'`).
    progress
        "json" writes a line of JSON per update, for the process that shows several runs.
    """
    given = jobs.settings(data, steps, minutes, set)
    wanted = jobs.jobs(
        out, given, presets=preset or (), files=config or (), seeds=seed or (), resume=resume
    )
    with interruptible() as stop:
        if progress == "json":
            return _train_child(wanted, stop, tensorboard)
        return _train(out, wanted, resume, stop, tensorboard)


@app.command
def evaluate(
    run: Path,
    /,
    *,
    train: Path | None = None,
    test: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Probe what a run has learned, and compare it with what needs no training.

    Fits a logistic regression and nearest neighbours on the representation of labelled sequences,
    with 200, 2,000 and 10,000 labels, and scores them on test sequences. The same is done on raw
    coordinates, Fourier magnitudes and the model with random weights. The result is also kept in
    the run's report.json.

    Example: `mocaps evaluate runs/first --train train.npz --test test.npz`

    Parameters
    ----------
    run
        A run directory that `mocaps train` made.
    train
        .npz with x (n, L, d) and y (n,) to fit the probes on. By default, the run's own.
    test
        .npz with x and y to score them on. By default, the run's own.
    json
        Print JSON with everything instead of a table.
    """
    from mocaps import process, runs
    from mocaps.evaluate import evaluate as probes

    process.settle()
    loaded = runs.load(run)
    result = probes(loaded, train, test)
    runs.write_report(run, evaluation=result)
    if json:
        print(json_module.dumps(result, indent=1))
    else:
        from mocaps.tables import print_evaluation

        print_evaluation(result)
    return 0


@app.command
def embed(
    file: Path,
    /,
    *,
    model: Path,
    out: Path,
    only: Annotated[list[str] | None, Several] = None,
) -> int:
    """Write what a trained model says of every sequence of a file.

    The file's `x` (n, L, d) is read in batches, so it may be larger than the memory. The output
    holds, in the same order, nu (what each motion is), B, mu, A, reconstruction and error.

    Example: `mocaps embed tracks.npz --model runs/first --out motions.npz --only nu`

    Parameters
    ----------
    file
        .npz with x (n, L, d), or (n, L, K, d) for a model of K points.
    model
        A run directory that `mocaps train` made.
    out
        The .npz to write.
    only
        Some of the arrays, as in `--only nu`: nu alone is three times as quick as all.
    """
    from mocaps import process, runs
    from mocaps.data import arrays
    from mocaps.embed import embed_file
    from mocaps.tables import counting

    arrays.open_x(file)  # a quick no before a model is loaded
    process.settle()
    loaded = runs.load(model)
    with counting("sequences") as watch:
        shapes = embed_file(loaded.model, loaded.config, file, out, only=only or (), watch=watch)
    print(f"{out}: {', '.join(f'{name} {shape}' for name, shape in shapes.items())}")
    return 0


@data_app.command
def t20(
    *,
    out: Path,
    split: Literal["train", "labels", "validation", "test"] = "test",
    length: int = 32,
) -> int:
    """Write one of the 10,000-sample sets of Trajectory20: x (n, L, 2) and labels y (n,).

    Example: `mocaps data t20 --split test --length 32 --out t20.npz`

    Parameters
    ----------
    out
        The .npz to write.
    split
        `train` (or `labels`, its other name) to fit probes on, `validation` to choose by, `test`
        to report on.
    length
        L: points of a trajectory.
    """
    from mocaps.data.arrays import write
    from mocaps.data.trajectory20 import trajectory20

    if length < 2:
        raise InputError(f"--length: expected 2 points or more, got {length}")
    x, y = trajectory20("labels" if split == "train" else split, length)
    write(out, x=x.numpy(), y=y.numpy())
    print(f"{out}: x {tuple(x.shape)}, y {tuple(y.shape)}")
    return 0


@config_app.command
def show(preset: str = configs.DEFAULT, /) -> int:
    """Print the settings of a preset, as a run's config.toml has them.

    Each can be changed in `mocaps train` with --set section.key=value.

    Example: `mocaps config show paper`

    Parameters
    ----------
    preset
        The preset's name.
    """
    print(configs.to_toml(configs.preset(preset)), end="")
    return 0


@app.command
def report(run: Path, /) -> int:
    """Write a run's page: one HTML file with its numbers and pictures.

    Example: `mocaps report runs/first`

    Parameters
    ----------
    run
        A run directory that `mocaps train` made.
    """
    from mocaps import process
    from mocaps.report import write_page

    process.settle()
    print(write_page(run))
    return 0


@app.command
def demo(*, out: Path = Path("demo"), minutes: float = 3.0, seed: int = 0) -> int:
    """Train on Trajectory20 for some minutes, then print a table and write a page to look at.

    Example: `mocaps demo --out demo --minutes 3`

    Parameters
    ----------
    out
        A new directory for the run and its page.
    minutes
        How long to train.
    seed
        Of the weights and the data.
    """
    from mocaps import process
    from mocaps.demo import demo as run_demo

    process.settle()
    run_demo(out, minutes, seed)
    return 0


def _train(
    out: Path, wanted: jobs.Jobs, resume: bool, stop: Callable[[], bool], tensorboard: bool
) -> int:
    """Trains one run in this process or several in their own, and says how it ended."""
    from mocaps import launch
    from mocaps import progress as progress_module

    command = shlex.join(["mocaps", *_given])
    names = [path.name for path in wanted]
    if len(wanted) == 1:
        ((path, config),) = wanted.items()
        with progress_module.display(names) as display:
            outcome = launch.train(
                config,
                path,
                resume=resume,
                command=command,
                show=lambda status: display.update(path.name, status),
                tensorboard=tensorboard,
                stop=stop,
            )
        codes = {path.name: (0 if outcome.finished else INTERRUPTED, "")}
    else:
        launch.prepare_all(wanted, resume=resume, command=command)
        with progress_module.display(names) as display:
            codes = launch.side_by_side(
                {path.name: path for path in wanted},
                show=display.update,
                stop=stop,
                tensorboard=tensorboard,
            )
    for path in wanted:
        code, words = codes[path.name]
        if code not in (0, INTERRUPTED):
            print(f"mocaps: {path}: {words.removeprefix('mocaps: ')}", file=sys.stderr)
        elif code == 0:
            print(f"{path}: {launch.summary(path)}")
    worst = max(code if code >= 0 else 128 - code for code, _ in codes.values())
    if any(code == INTERRUPTED for code, _ in codes.values()):
        resumed = shlex.join(["mocaps", "train", "--resume", "--out", str(out)])
        print(f"mocaps: stopped; go on with: {resumed}", file=sys.stderr)
    elif worst == 0:
        print(f"next: mocaps evaluate {shlex.quote(str(next(iter(wanted))))}")
    return worst


def _train_child(wanted: jobs.Jobs, stop: Callable[[], bool], tensorboard: bool) -> int:
    """One of several runs: its progress goes to the process that started it."""
    from mocaps import launch

    ((path, config),) = wanted.items()
    outcome = launch.train(
        config,
        path,
        resume=True,
        show=lambda status: print(status.to_json(), flush=True),
        tensorboard=tensorboard,
        stop=stop,
    )
    return 0 if outcome.finished else INTERRUPTED


def _refuse(sentence: str, code: int = REFUSED) -> int:
    print(f"mocaps: {' '.join(sentence.split())}", file=sys.stderr)
    return code


_given: list[str] = []
"""The arguments of the command that runs, for its report."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; whatever the user got wrong is one sentence."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _given[:] = arguments
    try:
        result = app(
            arguments, exit_on_error=False, print_error=False, result_action="return_value"
        )
        return result if isinstance(result, int) else 0
    except CycloptsError as error:
        where = " ".join(("mocaps", *(error.command_chain or ())))
        return _refuse(f"{error} (see {where} --help)")
    except InputError as error:
        return _refuse(str(error))
    except BrokenPipeError:  # whoever read the output has left
        sys.stderr.close()
        return 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{name}{error.strerror or error}")
    except MemoryError:
        return _refuse("the memory is full")
    except KeyboardInterrupt:
        print("mocaps: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        from mocaps.train import Diverged

        if isinstance(error, Diverged):
            return _refuse(f"{error}; what was saved before stays", code=1)
        if os.environ.get("MOCAPS_TRACEBACK"):
            raise
        kind = type(error).__name__
        return _refuse(
            f"{kind}: {error} (not foreseen: MOCAPS_TRACEBACK=1 shows where it comes from)", code=1
        )
