"""The page of a run: one HTML file that needs nothing else, made from what the run saved.

Nothing trains here. The model is loaded once and the fixed test set passed through it, for the
pictures; every number comes from report.json and metrics.jsonl.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from matplotlib.figure import Figure

import mocaps
from mocaps import atomic, figures, runs, summary, svg
from mocaps import config as configs
from mocaps.config import Config
from mocaps.data.trajectory20 import PATTERNS
from mocaps.errors import InputError
from mocaps.look import EXPLORED, ROWS, Look, explorer, uses
from mocaps.runs import Run

PAGE = "report.html"
HERO = (
    *("heart", "sine", "lemniscate"),
    *("cubic 1", "spiral", "astroid"),
    *("absolute sine", "triangle", "cubic 3"),
)
TERMS = ("snippet", "segment", "contrast", "smoothness", "sparsity", "spread")


def write_page(run_dir: str | Path, out: Path | None = None) -> Path:
    """Write the page of a run, by default into its directory, and say where it is."""
    run = runs.load(run_dir)
    out = run.path / PAGE if out is None else Path(out)
    if not out.parent.is_dir():
        raise InputError(f"expected a directory to write {out.name} into, got {out.parent}")
    atomic.write_text(out, render(run))
    return out


def render(run: Run) -> str:
    """The page's text."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mocaps", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    look = Look.at(run)
    on_t20 = run.config.data.name == "t20"
    scores = run.report.get("evaluation", {})
    on_own_test = scores.get("test", {}).get("name") == "t20 test"
    table = summary.table(scores, with_paper=on_own_test)
    samples = json.dumps({"samples": explorer(look)}, separators=(",", ":"))
    return environment.get_template("page.html.j2").render(
        config=run.config,
        data_name="Trajectory20" if on_t20 else Path(run.config.data.name).name,
        title="What the motion capsules learned",
        lead=lead(run, look),
        hero=hero(look),
        facts=facts(run, look, table),
        table=table,
        verdict=summary.verdict(table),
        has_paper=any(row.kind == "paper" for row in table.rows),
        steps=f"{run.report.get('steps', run.step):,}",
        paper_steps=f"{summary.PAPER_STEPS:,}",
        has_segments=look.model.segment is not None,
        pictures=pictures(run, look),
        # A script ends at the first "</script", wherever it stands.
        explorer=Markup(samples.replace("<", "\\u003c")),
        settings=configs.to_toml(run.config),
        command=run.report.get("command") or command(run.config),
        by_the_clock=run.config.train.minutes > 0,
        version=mocaps.__version__,
        where=run.path.name,
        style=Markup(style()),
    )


def hero(look: Look) -> str:
    """A few motions as the model gives them back; nothing where the data is not ours to choose."""
    if look.names != PATTERNS or look.y is None:
        return ""
    wanted = [PATTERNS.index(name) for name in HERO]
    rows = np.array([np.flatnonzero(look.y == label)[1] for label in wanted])
    out = look.explained(rows)
    hats = out.reconstruction_from_segments
    hats = out.reconstruction if hats is None else hats
    figure = figures.mosaic(look.x[torch.from_numpy(rows)].numpy(), hats.numpy())
    return svg.whole(figure, "Nine test motions in grey, and over them what the model gives back")


def lead(run: Run, look: Look) -> str:
    """What the reader sees, in a paragraph."""
    config = run.config
    seen = run.report.get("steps", run.step) * config.train.batch_size
    kinds = f"the {len(look.names)} kinds of motion" if look.names else "motions"
    # The best epoch is the best on labelled validation data: that much a label did.
    did = "measured, and chose the epoch of," if run.kept == "best" else "measured"
    return (
        f"A motion capsule autoencoder watched {seen:,} unlabelled trajectories and learned to "
        f"take each one apart: {config.model.num_features} activations ν say what the motion is, "
        "and a transformation beside every activation says where, how big and which way it "
        f"happens. This page asks whether that worked. Can {kinds} be told apart by ν alone, and "
        f"what does the model use to explain what it sees? Labels {did} it; none taught it."
    )


def write_pictures(run_dir: str | Path, out: Path) -> list[Path]:
    """Every picture of a run's page as an SVG file of its own, light or dark as its reader is."""
    run = runs.load(run_dir)
    look = Look.at(run)
    made = {picture.name: picture.figure for picture in pictures(run, look)}
    made |= {"explained": explained(look)}
    out.mkdir(parents=True, exist_ok=True)
    for name, figure in made.items():
        text = svg.whole(figure, name.replace("-", " "), standalone=True)
        atomic.write_text(out / f"{name}.svg", text)
    return [out / f"{name}.svg" for name in made]


def explained(look: Look, names: tuple[str, ...] = ("heart", "spiral", "cubic 1")) -> Figure:
    """A few motions taken apart: what they are made of, and where the model puts it."""
    rows = look.rows(2, EXPLORED)
    rows = np.array([r for r in rows if look.name(r) in names][::2] or rows[: len(names)])
    out = look.explained(rows)
    hats = out.reconstruction_from_segments
    used = uses(look, out, top=4)
    return figures.explanations(
        look.x[torch.from_numpy(rows)].numpy(),
        (out.reconstruction if hats is None else hats).numpy(),
        np.stack([[use.points for use in row] for row in used]),
        [[f"{u.k} · ν {u.nu:.2f} · {u.angle:.0f}°" for u in row] for row in used],
        [look.name(row) for row in rows],
    )


def style() -> str:
    """The theme's colours, light, dark, and light again on paper."""
    light, dark = svg.theme(), svg.theme(dark=True)
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"{svg.classes()}"
    )


@dataclass(frozen=True)
class Picture:
    """One section of the page: what it shows, and how to read it."""

    name: str
    short: str
    """What the navigation calls it."""
    heading: str
    caption: str
    figure: Figure
    width: str = "7rem"
    """The least width of a tile; of a whole picture, below which it scrolls."""
    time: bool = True
    """Whether colour is time."""
    cut: bool = True
    """Into tiles that the page reflows, or left whole."""

    @cached_property
    def tiles(self) -> list[svg.Tile]:
        return svg.tiles(self.figure)

    @cached_property
    def whole(self) -> str:
        return svg.whole(self.figure, self.heading)


def facts(run: Run, look: Look, table: summary.Table) -> list[tuple[str, str, str]]:
    """Headline figures: value, what it is, what to hold it against."""
    model = next((row for row in table.rows if row.kind == "model"), None)
    result = []
    if model and model.own:
        chance = f"chance {100 / len(look.names):.3g} %"
        result.append((f"{model.own.text} %", "its own linear classifier", chance))
    if model:
        columns = zip(table.columns, model.cells, strict=True)
        last: dict[str, tuple[int, summary.Cell]] = {
            probe: (budget, cell) for (probe, budget), cell in columns if cell
        }
        for probe, text in (("linear", "logistic regression"), ("1-NN, cosine", "1-NN, cosine")):
            if probe in last:
                budget, cell = last[probe]
                result.append((f"{cell.text} %", text, f"on ν with {budget:,} labels"))
    steps = run.report.get("steps", run.step)
    seconds = run.report.get("seconds")
    took = f"in {duration(seconds)}, batches of " if seconds else "batches of "
    result.append((f"{steps:,}", "steps", f"{took}{run.config.train.batch_size}"))
    parameters = sum(p.numel() for p in run.model.parameters())
    model_config = run.config.model
    sizes = f"{model_config.num_snippet_capsules} snippet, "
    sizes += f"{model_config.num_segment_capsules} segment capsules"
    result.append((f"{parameters:,}", "parameters", sizes))
    return result


def duration(seconds: float) -> str:
    """
    >>> duration(95), duration(7260)
    ('1.6 minutes', '2.0 hours')
    """
    if seconds < 60:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def command(config: Config) -> str:
    """What trains such a run again."""
    base = _flat(configs.to_dict(configs.preset(config.preset)))
    parts = ["mocaps train", f"--preset {config.preset}", f"--data {config.data.name}"]
    parts.append(f"--seed {config.train.seed}")
    flags = {"train.steps": "--steps", "train.minutes": "--minutes"}
    told = {"preset", "data.name", "train.seed"}
    for key, value in _flat(configs.to_dict(config)).items():
        if key in told or value == base[key]:
            continue
        text = json.dumps(value) if not isinstance(value, str) else f"'{value}'"
        parts.append(f"{flags[key]} {text}" if key in flags else f"--set {key}={text}")
    return " ".join([*parts, "--out RUN"])


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        inner = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{key}.") if inner else {prefix + key: value}
    return flat


def pictures(run: Run, look: Look) -> list[Picture]:
    """Every picture that this run has something to show in."""
    made = [
        picture_of_data(look) if run.config.data.name == "t20" else None,
        picture_of_reconstructions(look),
        picture_of_segment_templates(look),
        picture_of_snippet_templates(look),
        picture_of_confusion(look),
        picture_of_training(run),
    ]
    return [picture for picture in made if picture is not None]


def picture_of_data(look: Look) -> Picture:
    assert look.y is not None
    figure = figures.gallery(look.x.numpy(), look.y, look.names)
    return Picture(
        "data",
        "Motions",
        "The motions",
        "Five test samples of each of Trajectory20’s patterns, in the frame they move in. Place, "
        "size, direction and stretch are drawn at random, half are run backwards, and closed "
        "curves begin anywhere: a good representation sees through all of that.",
        figure,
        width="14rem",
    )


def picture_of_reconstructions(look: Look) -> Picture:
    rows = look.rows(1, 20)
    out = look.explained(rows)
    second = out.reconstruction_from_segments
    figure = figures.reconstructions(
        look.x[torch.from_numpy(rows)].numpy(),
        out.reconstruction.numpy(),
        None if second is None else second.numpy(),
        [look.name(row) for row in rows],
    )
    return Picture(
        "reconstructions",
        "Reconstructions",
        "What comes back",
        "Left, the input. Middle, rebuilt from snippet templates; right, from segment templates "
        "alone, with the input in grey behind. The number is the root mean square distance, in a "
        "frame two units wide. What the right-hand curve misses, ν and B do not hold.",
        figure,
        width="14rem",
    )


def picture_of_segment_templates(look: Look) -> Picture | None:
    if look.model.segment is None:
        return None
    templates = look.model.segment_templates().numpy()
    count = min(40, len(templates))
    figure = figures.segment_templates(templates, look.mean_activation, count)
    return Picture(
        "segment-templates",
        "Segments",
        "Segment templates",
        f"The {count} most used of {len(templates)} whole motions that the model composes its "
        "inputs from, each filling its panel: the capsule’s number, and its mean activation ν on "
        "test data. The more they look like the patterns, the more ν says what a motion is.",
        figure,
        width="5.2rem",
    )


def picture_of_snippet_templates(look: Look) -> Picture:
    templates = look.model.snippet_templates().numpy()
    with torch.inference_mode():
        mu = look.model(look.x[:ROWS]).snippets.mu.mean((0, 1)).numpy()
    figure = figures.snippet_templates(templates, mu)
    return Picture(
        "snippet-templates",
        "Snippets",
        "Snippet templates",
        f"The {len(templates)} short strokes, of {templates.shape[1]} steps each, that everything "
        "else is made of, with number and mean activation μ. They start as straight lines; hooks "
        "and bends are learned. One that stays near zero is never used.",
        figure,
        width="5.2rem",
    )


def picture_of_confusion(look: Look) -> Picture | None:
    if look.y is None or look.guesses is None or len(look.names) < 2:
        return None
    right = float(np.mean(look.y == look.guesses))
    figure = figures.confusion(look.y, look.guesses, look.names)
    return Picture(
        "confusion",
        "Confusion",
        "What is mistaken for what",
        "Each row is a true pattern, each column what the model’s own classifier took it for, in "
        f"percent of the row ({100 * right:.1f} % right over all). A strong cell off the "
        "diagonal is a pair of motions that ν holds too alike.",
        figure,
        cut=False,
        width="36rem",
        time=False,
    )


def picture_of_training(run: Run) -> Picture | None:
    records = [r for r in run.metrics if "epoch" in r]
    if not records:
        return None
    terms = {term: [r[term] for r in records] for term in TERMS if records[0].get(term)}
    accuracy = [r.get("validation_accuracy", np.nan) for r in records]
    figure = figures.loss_curves(
        [r["epoch"] for r in records],
        terms,
        None if np.isnan(accuracy).all() else accuracy,
    )
    return Picture(
        "training",
        "Training",
        "How it learned",
        "Each term of the loss before its weight, averaged over an epoch, and the accuracy of the "
        "model’s own classifier on validation data. The contrast has to leave its start early: "
        "as long as it is flat, nothing in ν tells motions apart.",
        figure,
        width="13rem",
        time=False,
    )
