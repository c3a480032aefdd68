"""The commands that look at a trained model. What needs torch is imported inside them."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

Several = Parameter(consume_multiple=True, negative=())
Flag = Parameter(negative=())


def register(app: App) -> None:
    """Adds the commands to the program."""
    app.command(invariance)


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
    named = () if run is None else (run,)
    looked_at = standins.one(named, released, () if random is None else (random,))
    x, y, what = standins.sequences(looked_at.config, data, rows)
    found = certificates.certificate(looked_at.model, x, y, probe=looked_at.probe, double=double)
    result: dict[str, Any] = {"data": what, **found}
    if run is not None:
        runs.write_report(run, invariance=certificates.brief(result))
    out = run / "invariance.svg" if out is None and run is not None else out
    if out is not None and result["float32"]["moves"]:
        standins.save(charts.invariance(result), out, "what becomes of the capsules")
    if json:
        print(json_module.dumps(result, indent=1))
    else:
        readout.print_invariance(result, f"{standins.title(looked_at)} on {what}")
        if out is not None:
            print(out)
    return 0
