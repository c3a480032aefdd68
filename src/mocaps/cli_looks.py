"""The commands that look at a trained model. What needs torch is imported inside them."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from mocaps.runs import Run

Several = Parameter(consume_multiple=True, negative=())
Flag = Parameter(negative=())
TURNED = 500  # sequences that a full turn is the mean of


def register(app: App) -> None:
    """Adds the commands to the program."""
    for command in (invariance, learned, turn, explain):
        app.command(command)


def invariance(
    run: Path | None = None,
    /,
    *,
    released: Path | None = None,
    random: str | None = None,
    data: Path | None = None,
    rows: int = 2_000,
    out: Path | None = None,
    double: bool = True,
    json: Annotated[bool, Flag] = False,
) -> int:
    """Certify what becomes of nu, B and A when a motion is turned, enlarged and shifted.

    Moves every sequence through the whole circle (in space about random axes), scales of 0.1 to 10
    and translations of up to 100 sizes, in float32 and in float64, and says how far nu drifts, how
    far B and A are from moved B and A, how the reconstruction fares, and what a classifier still
    gets right. The result is kept in the run's report.json, and a picture as its invariance.svg.

    Example: `mocaps invariance runs/first`

    Parameters
    ----------
    run
        A run directory that `mocaps train` made.
    released
        The .npz with the authors' released weights, in the place of a run.
    random
        A preset, a run directory or a TOML file whose untrained model takes the place of a run.
    data
        .npz with x (n, L, d), perhaps y (n,), to move. By default, the run's test sequences.
    rows
        At most so many sequences, spread evenly over all.
    out
        Where the picture goes: an .svg file. By default, invariance.svg in the run directory.
    double
        Also measure in float64.
    json
        Print JSON with everything instead of tables.
    """
    from mocaps import charts, process, readout, runs, standins
    from mocaps import invariance as certificates

    process.settle()
    standins.check_picture(out)
    named = () if run is None else (run,)
    looked_at = standins.one(named, released, () if random is None else (random,))
    x, y, what = standins.sequences(looked_at.config, data, rows)
    found = certificates.certificate(looked_at.model, x, y, probe=looked_at.probe, double=double)
    result: dict[str, Any] = {"data": what, **found}
    if run is not None:
        runs.write_report(run, invariance=certificates.brief(result))
    out = run / "invariance.svg" if out is None and run is not None else out
    if out is not None and "drift" in result["float32"]["kinds"].get("all", {}):
        standins.save(charts.invariance(result), out, "what becomes of the capsules")
    if json:
        print(json_module.dumps(result, indent=1))
    else:
        readout.print_invariance(result, f"{standins.title(looked_at)} on {what}")
        if out is not None:
            print(out)
    return 0


def learned(
    run: Path | None = None,
    /,
    *,
    pattern: Annotated[list[str] | None, Several] = None,
    sample: Annotated[list[int] | None, Several] = None,
    released: Path | None = None,
    random: str | None = None,
    data: Path | None = None,
    top: int = 5,
    point: int = 0,
    out: Path | None = None,
    json: Annotated[bool, Flag] = False,
) -> int:
    """Show what a model has learned, as the paper does: its templates, and tables of how B follows.

    Of a motion that is turned by -10 to 10 degrees, and of one that is shifted, the segment
    capsules of highest nu and the angle phi, or the translation, of their B. Bold numbers are
    among the best in every column.

    Example: `mocaps learned runs/first --pattern hexagon "absolute sine" --out learned`

    Parameters
    ----------
    run
        A run directory that `mocaps train` made.
    pattern
        Names of patterns; the first test sequence of each. By default, the paper's two.
    sample
        Numbers of sequences, in the place of patterns.
    released
        The .npz with the authors' released weights, in the place of a run.
    random
        A preset, a run directory or a TOML file whose untrained model takes the place of a run.
    data
        .npz with x (n, L, d) to take the sequences from. By default, the run's test sequences.
    top
        How many capsules.
    point
        Of sequences of several points, the one to look at.
    out
        A directory for tables.md, learned.json and pictures of the templates and of a full turn.
    json
        Print JSON instead of tables.
    """
    from mocaps import learned as tables
    from mocaps import process, readout, standins

    process.settle()
    named = () if run is None else (run,)
    seen = standins.one(named, released, () if random is None else (random,))
    x, y, _ = standins.sequences(seen.config, data)
    chosen = standins.chosen(seen.config, x, y, pattern or (), sample or ())
    found, grids = {}, []
    for name, i in chosen.items():
        unit = tables.unit_of(x[i], seen.config.data.name == "t20" and data is None)
        shifts = [(unit * a, unit * b) for a, b in tables.SHIFTS]
        rotations = tables.rotation_table(seen.model, x[i], top=top, point=point)
        translations = tables.translation_table(seen.model, x[i], shifts, top=top, point=point)
        found[name] = {"sample": i, "rotations": rotations, "translations": translations}
        grids.append(readout.Grid.of_rotations(rotations, name))
        grids.append(readout.Grid.of_translations(translations, name))
    if out is not None:
        _write_learned(out, seen, data, found, [grid.markdown() for grid in grids])
    if json:
        print(json_module.dumps(found, indent=1))
        return 0
    for grid in grids:
        grid.show()
    if out is not None:
        print(out)
    return 0


def _write_learned(
    out: Path, seen: Run, data: Path | None, found: dict[str, Any], grids: list[str]
) -> None:
    from mocaps import atomic, charts, figures, standins
    from mocaps import learned as tables
    from mocaps.look import Look

    out.mkdir(parents=True, exist_ok=True)
    look = Look.at(seen)
    x, _, _ = standins.sequences(seen.config, data, TURNED)
    curve = tables.full_turn(seen.model, x)
    name = standins.title(seen)
    pictures = {
        "snippet-templates": figures.snippet_templates(
            look.model.snippet_templates().numpy(), look.mean_snippet_activation
        ),
        "turn": charts.turn({name: curve}),
    }
    if look.model.segment is not None:
        pictures["segment-templates"] = figures.segment_templates(
            look.model.segment_templates().numpy(), look.mean_activation
        )
    for title, figure in pictures.items():
        standins.save(figure, out / f"{title}.svg", title.replace("-", " "))
    atomic.write_text(out / "tables.md", "\n".join([f"# What {name} learned\n", *grids]))
    everything = {"motions": found, "full_turn": curve}
    atomic.write_text(out / "learned.json", json_module.dumps(everything, indent=1) + "\n")


def turn(
    runs: Annotated[list[Path] | None, Parameter(negative=())] = None,
    /,
    *,
    out: Path | None = None,
    released: Path | None = None,
    random: Annotated[list[str] | None, Several] = None,
    data: Path | None = None,
    rows: int = TURNED,
    json: Annotated[bool, Flag] = False,
) -> int:
    """Turn motions through a full circle, and compare what models make of it.

    Draws cos(nu(0), nu(theta)) and the angle phi of B against theta, the mean over many test
    sequences, a curve a model: runs, the released weights and random ones.

    Example: `mocaps turn runs/first --released weights.npz --random paper --out turn.svg`

    Parameters
    ----------
    runs
        Run directories that `mocaps train` made.
    out
        The .svg to draw.
    released
        The .npz with the authors' released weights.
    random
        Presets, run directories or TOML files whose untrained models are turned too.
    data
        .npz with x (n, L, d) to turn. By default, each run's own test sequences.
    rows
        At most so many sequences, spread evenly over all.
    json
        Print JSON with every angle.
    """
    from mocaps import charts, process, readout, standins
    from mocaps import learned as tables

    process.settle()
    standins.check_picture(out)
    curves = {}
    for seen in standins.gather(runs or (), released, random or ()):
        x, _, _ = standins.sequences(seen.config, data, rows)
        curves[standins.title(seen)] = tables.full_turn(seen.model, x)
    if out is not None:
        standins.save(charts.turn(curves), out, "a full turn")
    if json:
        print(json_module.dumps(curves, indent=1))
        return 0
    readout.print_turn(curves)
    if out is not None:
        print(out)
    return 0


def explain(
    run: Path | None = None,
    /,
    *,
    sample: int = 0,
    point: int = 0,
    data: Path | None = None,
    released: Path | None = None,
    random: str | None = None,
    top: int = 5,
    out: Path | None = None,
    json: Annotated[bool, Flag] = False,
) -> int:
    """Take one motion apart: which templates it is made of, at which angle, scale and place.

    For the whole by segment templates, and for every snippet by snippet templates: the share of
    the reconstruction, the angle, the scale, and in the input's own units the place and the size.

    Example: `mocaps explain runs/first --sample 3 --out heart.svg`

    Parameters
    ----------
    run
        A run directory that `mocaps train` made.
    sample
        Number of the sequence.
    point
        Of sequences of several points, the one to explain.
    data
        .npz with x (n, L, d) to take it from. By default, the run's test sequences.
    released
        The .npz with the authors' released weights, in the place of a run.
    random
        A preset, a run directory or a TOML file whose untrained model takes the place of a run.
    top
        How many templates to list.
    out
        An .svg to draw.
    json
        Print JSON with every capsule instead of a table.
    """
    from mocaps import explained, process, readout, standins

    process.settle()
    standins.check_picture(out)
    named = () if run is None else (run,)
    seen = standins.one(named, released, () if random is None else (random,))
    x, y, _ = standins.sequences(seen.config, data)
    found = explained.explain(seen, x, y, sample, point)
    if out is not None:
        standins.save(found.figure(), out, f"what {found.name} is made of")
    if json:
        print(json_module.dumps(found.plain(top), indent=1))
        return 0
    readout.print_explanation(found, top)
    if out is not None:
        print(out)
    return 0
