"""The commands of the paper's tables: `mocaps run` and `mocaps table`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from mocaps.children import INTERRUPTED
from mocaps.errors import InputError
from mocaps.interrupts import interruptible

Several = Parameter(consume_multiple=True, negative=())


def run(
    *files: Path,
    jobs: int | None = None,
    seed: Annotated[list[int] | None, Several] = None,
    out: Path = Path("runs"),
    results: Path = Path("results"),
    progress: Annotated[Literal["auto", "json"], Parameter(show=False)] = "auto",
) -> int:
    """Run experiments that have no finished report yet, several at a time.

    Each file holds one row of a table, `experiments/TABLE/ROW.toml`. Every seed of it is trained in
    `runs/TABLE/ROW/seed0` (or gone on with, or only evaluated where it is trained), and its report
    goes to `results/TABLE/ROW/seed0.json`. Stopped by Ctrl-C or killed, the same command goes on.
    `mocaps table` shows what came out.

    Example: `mocaps run experiments/t20/*.toml`

    Parameters
    ----------
    files
        Experiment files.
    jobs
        How many at a time; by default one a core.
    seed
        These seeds in the place of the files'.
    out
        Where run directories are made.
    results
        Where reports are written.
    progress
        "json" runs one seed in this process and writes a line of JSON per update.
    """
    from mocaps.experiments import files as experiment_files
    from mocaps.experiments import runner

    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs: expected 1 or more, got {jobs}")
    experiments = experiment_files.load_all(files)
    found = runner.plan(experiments, seed or (), results)
    if progress == "json":
        return _one(found, out, results)
    for sentence in found.changed:
        print(f"mocaps: {sentence}", file=sys.stderr)
    with interruptible() as stop:
        ends = runner.run(found, out=out, results=results, workers=jobs, stop=stop)
    return _told(found, ends, files)


def table(
    name: str | None = None,
    /,
    *,
    all: Annotated[bool, Parameter(negative=())] = False,
    format: Literal["text", "markdown", "csv", "latex"] = "text",
    results: Path = Path("results"),
    experiments: Path = Path("experiments"),
) -> int:
    """Print a table of results beside the paper's numbers, or write all of them.

    Tables are made from the reports that `mocaps run` wrote, whatever else there is.

    Example: `mocaps table t20 --format markdown`

    Parameters
    ----------
    name
        The table, such as t20, ablation or layers.
    all
        Write every table into --results, as text, Markdown, CSV and LaTeX, and into the places
        marked for it in README.md and docs.
    format
        How to print it.
    results
        Where the reports are.
    experiments
        Where the experiments are, with tables.toml and expected.toml.
    """
    from mocaps.experiments import documents, render
    from mocaps.experiments import results as reports

    if all == (name is not None):
        raise InputError(
            f"expected the name of a table or --all, got {'both' if all else 'neither'}; there are "
            f"{', '.join(reports.names(experiments))}"
        )
    tables: dict[str, str] = {}
    for each in reports.names(experiments) if name is None else [name]:
        found = reports.table(each, experiments, results)
        if all:
            tables[each] = render.markdown(found)
            written = render.write(found, results)
            rows = f"{len(found.lines)} rows, {sum(bool(line.missing) for line in found.lines)}"
            print(f"{written[0].with_suffix('')}.{{txt,md,csv,tex}}: {rows} with missing seeds")
        else:
            print(render.FORMATS[format][1](found), end="")
    if all:
        for file in documents.fill(documents.documents(experiments.parent), tables):
            print(f"{file}: tables filled in")
    return 0


def register(app: App) -> None:
    """Puts the commands into the command line."""
    app.command(run)
    app.command(table)


def _one(found, out: Path, results: Path) -> int:
    """The process of one trial: its progress goes to the process that started it."""
    import signal

    from mocaps.experiments import runner, trial

    # Outside of training, which has its own way, SIGINT ends it at once; also where whoever began
    # all this in a shell's background had it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for task in found.tasks:
        finished = trial.conduct(
            task.experiment,
            task.seed,
            out=out,
            results=results,
            command=runner.command_of(task),
            show=lambda status: print(status.to_json(), flush=True),
            note=lambda words: print(json.dumps({"note": words}), flush=True),
        )
        if not finished:
            return INTERRUPTED
    return 0


def _told(found, ends: dict[str, tuple[int, str]], files: tuple[Path, ...]) -> int:
    """Says how it ended; the exit code."""
    from mocaps.experiments.runner import reason

    failed = {name: end for name, end in ends.items() if end[0] not in (0, INTERRUPTED)}
    stopped = [name for name, end in ends.items() if end[0] == INTERRUPTED]
    for name, (code, words) in failed.items():
        print(f"mocaps: {name}: {reason(code, words)}", file=sys.stderr)
    done = len(found.done) + len(ends) - len(failed) - len(stopped)
    of = "finished" if not failed and not stopped else f"of {done + len(failed) + len(stopped)}"
    print(f"{done} {of}{f', {len(found.done)} of them before' if found.done else ''}")
    if stopped:
        print("mocaps: stopped; the same command goes on", file=sys.stderr)
        return INTERRUPTED
    if failed:
        return max(code if code >= 0 else 128 - code for code, _ in failed.values())
    tables = dict.fromkeys(file.resolve().parent.name for file in files)
    print(f"next: {'; '.join(shlex.join(['mocaps', 'table', name]) for name in tables)}")
    return 0
