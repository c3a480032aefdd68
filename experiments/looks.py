"""Certificates of invariance, full turns and what was learned, of the runs that
`mocaps run experiments/t20/mcae-*.toml` left: into results/.

    python experiments/looks.py [--runs runs] [--released weights.npz] [--only NAME ...]

Every file is made by one command of mocaps, which is printed before it runs; results/invariance.md
is the certificates side by side.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from mocaps import atomic
from mocaps.readout import number

RESULTS = Path("results")
KINDS = {"rotation": "turned", "scale": "enlarged", "translation": "shifted", "all": "all moves"}


def models(runs: Path, released: Path | None) -> dict[str, list[str]]:
    """What is looked at, as the commands want it."""
    presets = ("equivariant", "paper", "authors")
    found = {name: [str(runs / f"t20/mcae-{name}/seed0")] for name in presets}
    if released:
        found["released"] = ["--released", str(released)]
    return found | {
        "random, equivariant": ["--random", "equivariant"],
        "random, paper": ["--random", "paper"],
    }


def mocaps(*arguments: str) -> str:
    print("mocaps", shlex.join(arguments), flush=True)
    command = [sys.executable, "-m", "mocaps", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def certify(name: str, which: list[str]) -> None:
    place = RESULTS / "invariance" / name.replace(", ", "-")
    place.parent.mkdir(parents=True, exist_ok=True)
    printed = mocaps("invariance", *which, "--out", f"{place}.svg", "--json")
    # Move by move it is ten times as long; the picture shows it.
    found = json.loads(printed)
    for precision in ("float32", "float64"):
        found.get(precision, {}).pop("moves", None)
    arguments = shlex.join([*which, "--json"])
    found = {"command": f"mocaps invariance {arguments}", "model": name} | found
    atomic.write_text(place.with_suffix(".json"), json.dumps(found, indent=1) + "\n")


def table(certificates: list[dict[str, Any]]) -> str:
    """The certificates side by side."""
    columns: dict[str, list[str]] = {}
    for found in certificates:
        single, double = found["float32"], found["float64"]
        kinds = {kind: single["kinds"][kind] for kind in KINDS}
        cells = {
            **{
                f"drift of nu, {words}": _pair(kinds[kind]["drift"])
                for kind, words in KINDS.items()
            },
            "the same in nu's spread": _pair(kinds["all"]["drift in spreads"]),
            "B off by, degrees": _pair(kinds["all"].get("B angle")),
            "B off by, relative scale": _pair(kinds["all"].get("B scale")),
            "B off by, translation in sizes": _pair(kinds["all"].get("B translation")),
            "A off by, degrees": _pair(kinds["all"].get("A angle")),
            "float64: drift of nu, worst": number(double["kinds"]["all"]["drift"]["worst"]),
            "float64: B off by, degrees, worst": number(double["kinds"]["all"]["B angle"]["worst"]),
            "the promise": "**holds**" if found["verdict"]["passed"] else "does not hold",
        }
        for row, cell in cells.items():
            columns.setdefault(row, []).append(cell)
    heading = [found["model"] for found in certificates]
    first = certificates[0]
    return "\n".join(
        [
            "# What becomes of nu, B and A when a motion is moved",
            "",
            f"{first['sequences']:,} sequences of {first['data']}, each turned through the whole "
            "circle, enlarged 0.1 to 10 times, shifted by up to 100 sizes, and all at once. A pair "
            f"is the mean, and what {100 * first['most']:g}% of the sequences keep to over all "
            "moves; float32 unless said. Of the capsules of a sequence the worst counts, whatever "
            "its activation. Made by `python experiments/looks.py` from the certificates in "
            "[invariance](invariance), which hold their commands and everything else.",
            "",
            f"| | {' | '.join(heading)} |",
            f"|---|{'---|' * len(heading)}",
            *(f"| {row} | {' | '.join(cells)} |" for row, cells in columns.items()),
            "",
        ]
    )


def _pair(spread: dict[str, float] | None) -> str:
    return "–" if spread is None else f"{number(spread['mean'])} · {number(spread['most'])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--released", type=Path, help="the authors' released weights")
    parser.add_argument("--only", nargs="+", help="some models")
    options = parser.parse_args()
    every = models(options.runs, options.released)
    chosen = {name: every[name] for name in options.only or every}
    for name, which in chosen.items():
        certify(name, which)
        if "--random" not in which:
            mocaps("learned", *which, "--out", str(RESULTS / "learned" / name))
    files = [RESULTS / "invariance" / f"{name.replace(', ', '-')}.json" for name in every]
    certificates = [json.loads(file.read_text()) for file in files if file.exists()]
    atomic.write_text(RESULTS / "invariance.md", table(certificates))
    runs = [which[0] for which in every.values() if not which[0].startswith("--")]
    others = ["--released", str(options.released)] if options.released else []
    mocaps("turn", *runs, *others, "--random", "paper", "--out", str(RESULTS / "turn.svg"))


if __name__ == "__main__":
    main()
