"""The demo: one short run on Trajectory20 from nothing to a table and a page.

A demo that was stopped goes on when it is called again; a finished one is replaced, after saying
so. Only a directory that holds nothing but a demo is ever replaced.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from mocaps import atomic, launch, locks, process, progress, report, runs, summary
from mocaps import config as configs
from mocaps.config import Config
from mocaps.errors import InputError
from mocaps.evaluate import evaluate, own_floors

COMMAND = "mocaps demo"
NEIGHBOUR = "1-NN, cosine"
"""The one of the page's nearest neighbours that the small table has room for."""
_OURS = {runs.CONFIG, runs.METRICS, runs.MODEL, runs.STATE, runs.REPORT, locks.LOCK, report.PAGE}


def demo(
    out: str | Path = Path("demo"),
    minutes: float = 3.0,
    seed: int = 0,
    preset: str = configs.DEFAULT,
    *,
    stop: Callable[[], bool] = lambda: False,
    console: Console | None = None,
) -> Path:
    """Train for `minutes`, evaluate, print one table, write the page and return its path."""
    out, console = Path(out), console or Console(highlight=False)
    clock = {"train.minutes": str(minutes), "train.steps": "0", "train.seed": str(seed)}
    config = configs.with_settings(configs.preset(preset), clock)
    resume = make_room(out, config, console)
    command = f"{COMMAND} --out {out} --minutes {minutes:g} --seed {seed}"
    if not resume:
        console.print(
            f"Training the preset {preset} on Trajectory20 for {minutes:g} minutes, into {out}"
        )
    with beside(config) as floors:
        train(config, out, resume=resume, command=command, stop=stop, console=console)
        console.print("Fitting probes …")
        scores = evaluate(runs.load(out), floors=floors())
    runs.write_report(out, evaluation=scores)
    page = report.write_page(out)
    show(runs.read_report(out), console)
    console.print(f"The page with pictures: {page.resolve()}", soft_wrap=True)
    return page


@contextlib.contextmanager
def beside(config: Config) -> Iterator[Callable[[], dict]]:
    """The floors, worked out in a process of its own while the model trains in this one."""
    with multiprocessing.get_context("spawn").Pool(1, initializer=_in_the_background) as pool:
        yield pool.apply_async(own_floors, (config,)).get


def _in_the_background() -> None:
    """Ctrl-C is for the one in front, who takes this process along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.settle()


def make_room(out: Path, config: Config, console: Console) -> bool:
    """Whether there is a demo to go on with; one that is finished, or another's, is taken away."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return False
    names = {file.name for file in out.iterdir()} if out.is_dir() else set()
    strange = sorted(n for n in names - _OURS if not n.endswith(atomic.SUFFIX))
    command = runs.read_report(out).get("command") if names else None
    if not str(command or "").startswith(COMMAND) or strange:
        raise InputError(
            f"expected a new directory or an earlier demo's, but {out} "
            + (f"holds {', '.join(strange[:3])}" if strange else "holds something else")
        )
    settings = runs.read_config(out)
    if not (out / report.PAGE).exists() and settings == config:
        console.print(f"Going on with the unfinished demo in {out}")
        return True
    kind = "finished demo" if (out / report.PAGE).exists() else "unfinished demo of other settings"
    console.print(f"Replacing the {kind} in {out}")
    with locks.locked(out):
        # Moved first: what is named `out` is always a whole run or nothing.
        grave = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=atomic.SUFFIX, dir=out.parent))
        out.rename(grave / out.name)
    shutil.rmtree(grave)
    return False


def train(
    config: Config,
    out: Path,
    *,
    resume: bool,
    command: str,
    stop: Callable[[], bool],
    console: Console,
) -> None:
    """The run, with its progress shown; KeyboardInterrupt where it was stopped."""
    try:
        with progress.display([config.preset]) as display:
            outcome = launch.train(
                config,
                out,
                resume=resume,
                command=command,
                show=lambda status: display.update(config.preset, status),
                stop=stop,
            )
        if not outcome.finished:
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        console.print("Stopped; the same command goes on with it.")
        raise


def show(scores: dict, console: Console) -> None:
    """The table, and what to make of it."""
    table = summary.table(scores["evaluation"]).only("linear", NEIGHBOUR)
    console.print(terminal_table(table))
    console.print(
        f"The paper’s model took {summary.PAPER_STEPS:,} steps; this one "
        f"{scores['steps']:,}, in {report.duration(scores['seconds'])}."
    )
    console.print(summary.verdict(table))


def terminal_table(table: summary.Table) -> Table:
    """The same for a terminal; six columns fit into a width of 80."""
    result = Table(
        box=box.SIMPLE_HEAD,
        title="Accuracy in % on 10,000 test motions of 20 kinds; chance is 5",
        title_justify="left",
        title_style="bold",
    )
    result.add_column("\nlabels", no_wrap=True)
    result.add_column("own\nprobe", justify="right")
    last = ""
    for probe, budget in table.columns:
        heading = probe.partition(",")[0] if probe != last else ""
        result.add_column(f"{heading}\n{budget:,}", justify="right")
        last = probe
    for row in table.rows:
        cells = [row.own, *row.cells]
        style = "bold" if row.kind == "model" else "dim" if row.kind == "paper" else ""
        texts = ["–" if cell is None else cell.text for cell in cells]
        result.add_row(row.name, *texts, style=style, end_section=row.kind == "model")
    return result
