"""Tables of results, from reports alone: a mean and a standard error over seeds in every cell.

experiments/tables.toml says which rows a table has; experiments/expected.toml holds the paper's
numbers, which stand beside ours and never enter a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mocaps import config as configs
from mocaps.errors import InputError
from mocaps.experiments import files, panels
from mocaps.experiments.files import Experiment, check_keys, read_toml
from mocaps.experiments.panels import MEASURES, Measure, Panel
from mocaps.summary import Cell, listed

TABLES, EXPECTED = "tables.toml", "expected.toml"
SINGLY = 3  # files of a folder, before all of them are named by a star
LABELS = 10_000
"""Of the columns that every format has room for; CSV has the others too."""
PROBES = [MEASURES[f"{probe}_{LABELS}"] for probe in ("logistic", "1nn_cosine", "1nn_euclidean")]
KEYS = ("title", "cells", "rows", "floors", "notes", "measures", "corruptions", "labels", "against")


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    experiment: Experiment
    label: str
    cells: list[str]
    reports: list[dict[str, Any]]
    """One of each seed that has any."""
    changed: list[str]
    paper: Cell | None
    paper_parameters: int | None

    @property
    def kind(self) -> str:
        """ "trained", "clustering" or "floor"."""
        if self.experiment.floor:
            return "floor"
        return "clustering" if self.experiment.clustering else "trained"

    @property
    def missing(self) -> list[int]:
        """Seeds without a report."""
        return [
            seed
            for seed in self.experiment.seeds
            if seed not in [report["seed"] for report in self.reports]
        ]

    @property
    def seeds(self) -> str:
        """How many there are, and of how many where some are missing."""
        n = str(len(self.reports))
        return f"{n} of {len(self.experiment.seeds)}" if self.missing else n

    @property
    def accuracy(self) -> Cell | None:
        """Of the classifier trained along, or of the clusters: what the paper's column is."""
        found = [r.get("online_probe", r.get("cluster_accuracy")) for r in self.reports]
        return over_seeds(found)

    def measured(self, measure: Measure) -> Cell | None:
        return over_seeds([measure.of(report) for report in self.reports])

    @property
    def parameters(self) -> int | None:
        """With the classifier, which the paper's counts include."""
        counts = [r["parameters"] for r in self.reports if "parameters" in r]
        return counts[0]["model"] + counts[0]["probe"] if counts else None

    def mean(self, key: str) -> float | None:
        """Of a number in the reports."""
        found = [r[key] for r in self.reports if r.get(key) is not None]
        return fmean(found) if found else None


@dataclass(frozen=True)
class ResultTable:
    """Rows in groups, with what there is to say about them."""

    name: str
    title: str
    headings: list[str]
    """Of the lines' cells."""
    groups: list[list[Line]]
    notes: list[str]
    panel: Panel | None = None
    """Of a table whose columns are the experiments."""

    @property
    def lines(self) -> list[Line]:
        return [line for group in self.groups for line in group]


def names(folder: Path) -> list[str]:
    """The tables that there are."""
    return list(read_toml(folder / TABLES, "the list of tables"))


def table(name: str, folder: Path, results: Path) -> ResultTable:
    """The table of that name: its rows from `folder`, their numbers from `results`."""
    place = folder / TABLES
    known = read_toml(place, "the list of tables")
    if name not in known:
        raise InputError(f"expected a table among {', '.join(known)}, got {name!r}")
    given = known[name]
    _check_table(place, name, given)
    paper = expected(folder / EXPECTED)
    cells = given.get("cells", {})

    def line(entry: str | Mapping[str, str]) -> Line:
        entry = {"row": entry} if isinstance(entry, str) else entry
        check_keys(place, entry, ("row", "label"), f"{name}.rows.")
        row = entry["row"] if "/" in entry["row"] else f"{name}/{entry['row']}"
        experiment = files.load(folder / f"{row}.toml")
        found = [files.find(experiment, seed, results) for seed in experiment.seeds]
        its = paper.get(experiment.name, Expected())
        return Line(
            experiment,
            label=entry.get("label", experiment.label),
            cells=[setting(experiment, path) for path in cells.values()],
            reports=[f.report for f in found if f.report],
            changed=[f.changed for f in found if f.changed],
            paper=its.accuracy,
            paper_parameters=its.parameters,
        )

    groups = [[line(entry) for entry in group] for group in given["rows"]]
    floors = [line(entry) for entry in given.get("floors", [])]
    groups += [floors] if floors else []
    lines = [line for group in groups for line in group]
    panel = panels.of(place, name, given)
    if panel is None:
        said = verdict(lines)
    else:
        against = given.get("against")
        said = compared(panel, lines, line(against) if against else None)
    notes = [*given.get("notes", []), *said, *gaps(lines)]
    return ResultTable(name, given["title"], list(cells), groups, notes, panel)


def _check_table(place: Path, name: str, given: Any) -> None:
    """Its keys, and that they hold what they should."""
    if not isinstance(given, Mapping):
        raise InputError(f"{place}: expected {name} to be a table, got {given!r}")
    check_keys(place, given, KEYS, f"{name}.")
    if not isinstance(given.get("title"), str):
        raise InputError(f"{place}: expected {name}.title to be a string")
    groups = given.get("rows")
    if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
        raise InputError(f"{place}: expected {name}.rows to be a list of lists of rows")
    for entry in (entry for group in groups for entry in group):
        if not isinstance(entry, str) and not (isinstance(entry, Mapping) and "row" in entry):
            raise InputError(f"{place}: {name}.rows: expected a name or a row, got {entry!r}")


@dataclass(frozen=True)
class Expected:
    """What the paper says of a row."""

    accuracy: Cell | None = None
    parameters: int | None = None


def expected(file: Path) -> dict[str, Expected]:
    """The paper's numbers by the experiments' names, in fractions."""
    found = {}
    for table, rows in read_toml(file, "the paper's numbers").items():
        for row, numbers in rows.items():
            check_keys(file, numbers, ("accuracy", "error", "parameters"), f"{table}.{row}.")
            accuracy = Cell(numbers["accuracy"] / 100, numbers["error"] / 100)
            found[f"{table}/{row}"] = Expected(accuracy, numbers.get("parameters"))
    return found


def over_seeds(values: Sequence[float | None]) -> Cell | None:
    """Mean and standard error of what there is.

    >>> over_seeds([0.5, 0.7, None])
    Cell(mean=0.6, error=0.09999999999999998, best=False)
    """
    found = [value for value in values if value is not None]
    if not found:
        return None
    error = stdev(found) / len(found) ** 0.5 if len(found) > 1 else None
    return Cell(fmean(found), error)


def setting(experiment: Experiment, path: str) -> str:
    """A setting as a cell; empty where it has no say in the experiment."""
    of_baseline = path.startswith("baseline.")
    config = experiment.config
    if path != "model.length" and (
        not experiment.trains or of_baseline != (config.baseline.kind != "none")
    ):
        return ""
    section, _, key = path.partition(".")
    value = configs.to_dict(config).get(section, {}).get(key)
    if value is None:
        raise InputError(f"{TABLES}: expected a setting for the cells, got {path!r}")
    if isinstance(value, float | bool) or not isinstance(value, int):
        return f"{value:g}" if isinstance(value, float) else str(value).lower()
    return f"{value:,}"


def verdict(lines: Sequence[Line]) -> list[str]:
    """Whether what needs no training is ahead, in a sentence for each floor."""
    trained = [line for line in lines if line.kind == "trained"]
    sentences = []
    for floor in (line for line in lines if line.kind == "floor"):
        parts: dict[str, list[str]] = {}
        compared = False
        for measure in PROBES:
            ours = [
                cell.mean
                for line in trained
                if line.experiment.config.model.length == floor.experiment.config.model.length
                and (cell := line.measured(measure))
            ]
            its = floor.measured(measure)
            if its is None or not ours:
                continue
            compared = True
            behind = sum(its.mean > mean for mean in ours)
            if behind:
                every = behind == len(ours)
                whom = "every trained row" if every else f"{behind} of {len(ours)} trained rows"
                parts.setdefault(whom, []).append(measure.probe)
        name = f"{floor.label}{_at(floor, lines)}"
        if parts:
            where = [f"of {whom} by {listed(probes)}" for whom, probes in parts.items()]
            sentences.append(f"A floor wins: {name}, without any training, is ahead {_and(where)}.")
        elif compared:
            sentences.append(f"Every trained row is ahead of {name} by every probe.")
    return sentences


def compared(panel: Panel, lines: Sequence[Line], against: Line | None) -> Iterator[str]:
    """In how many cells each trained line is ahead of another, and where it is not."""
    if against is None:
        return
    for line in (line for line in lines if line.kind == "trained"):
        total, behind = 0, []
        for row in panel.rows:
            for heading, measure in zip(panel.headings, row.measures, strict=True):
                ours, its = line.measured(measure), against.measured(measure)
                if ours is None or its is None or not row.counted:
                    continue
                total += 1
                if ours.mean <= its.mean:
                    behind.append(f"{row.heading}{f' at {heading}' if heading else ''}")
        if not total:
            continue
        of = f"Of the {total} cells{panel.which}"
        words = f"{of}, {line.label} is ahead of {against.label} in {total - len(behind)}"
        yield f"{words}; not in {listed(behind)}." if 0 < len(behind) < total else f"{words}."


def _and(parts: list[str]) -> str:
    return ", and ".join(parts)


def _at(floor: Line, lines: Sequence[Line]) -> str:
    """The length of its sequences, where the table has several."""
    lengths = {line.experiment.config.model.length for line in lines}
    return f" at L = {floor.experiment.config.model.length}" if len(lengths) > 1 else ""


def gaps(lines: Sequence[Line]) -> Iterator[str]:
    """What is missing, and what makes it."""
    for line in lines:
        yield from (f"{words}; it does not count." for words in line.changed)
    wanted = [line for line in lines if line.missing]
    if wanted:
        words = [
            f"{line.experiment.name} (seed{'s' * (len(line.missing) > 1)} "
            f"{listed([str(seed) for seed in line.missing])})"
            for line in wanted
        ]
        makers = " ".join(_makers([line.experiment.file for line in wanted]))
        yield f"Missing: {', '.join(words)}. What makes them: mocaps run {makers}"


def _makers(missing: Sequence[Path]) -> Iterator[str]:
    """The files to run; of many in one folder, all, since what is done is not done again."""
    for folder in dict.fromkeys(file.parent for file in missing):
        inside = list(dict.fromkeys(str(file) for file in missing if file.parent == folder))
        yield from inside if len(inside) <= SINGLY else [f"{folder}/*.toml"]
