"""An experiment is a file, experiments/<table>/<row>.toml, and what each seed of it came to is a
report, results/<table>/<row>/seed<k>.json.

    label = "LSTM"          what the table's row is called
    seeds = [0, 1, 2]       [0] by default
    [config]                a training run: what a run's config.toml may say, preset included
    [clustering]            or a clustering: method, clusters, sequences, restarts
    [floor]                 or what needs no training: representation; [config] says of what length
                            and, for random weights, of which model
    [corrupted]             or probes on T20-C: of, the experiment whose trained runs are probed,
                            as in "t20/mcae-equivariant" (or a [floor] beside); draws of labels

A report holds the settings that made it. Where they are no longer the file's, it does not count.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mocaps import config as configs
from mocaps.config import Config
from mocaps.errors import InputError

FORMAT = 1
KINDS = ("config", "clustering", "floor", "corrupted")
TOGETHER = (
    *([kind] for kind in KINDS),
    ["config", "floor"],
    ["floor", "corrupted"],
    ["config", "floor", "corrupted"],
)
METHODS = ("kmeans", "dtw-kmeans", "k-shape")
FLOORS = ("raw_coordinates", "fourier_magnitudes", "random_weights")
CORRUPTIONS = ("noise", "missing", "stretch", "warp", "partial", "outliers", "all")
"""As in `mocaps.data.corrupt`, which imports torch."""
SEVERITIES = (1, 2, 3, 4, 5)
CONDITIONS = ("clean", *(f"{name} {severity}" for name in CORRUPTIONS for severity in SEVERITIES))


@dataclass(frozen=True)
class Clustering:
    """How Trajectory20 is clustered; the clusters meet the classes by the Hungarian method."""

    method: str = "kmeans"
    clusters: int = 20
    sequences: int = 10_000
    """How many of the 10,000 of the set "labels" it is fitted on, equally many of each class."""
    restarts: int = 1
    """The best of so many, by its own measure, which knows no labels."""
    iterations: int = 50
    barycentre_iterations: int = 100
    """Of DTW-KMeans, for each new mean."""
    length: int = 32


@dataclass(frozen=True)
class Corrupted:
    """Probes in every condition of T20-C, fitted and scored under the same corruption."""

    of: str | None = None
    """The experiment whose runs are probed; None for a floor."""
    draws: dict[str, int] = field(default_factory=lambda: {"200": 3, "2000": 2})
    """Of the labelled subset, by how many labels it has."""

    @property
    def budgets(self) -> dict[int, int]:
        return {int(labels): draws for labels, draws in self.draws.items()}


@dataclass(frozen=True)
class Experiment:
    """One row of a table."""

    file: Path
    table: str
    row: str
    label: str
    seeds: tuple[int, ...]
    config: Config
    clustering: Clustering | None = None
    floor: str | None = None
    corrupted: Corrupted | None = None
    of: Experiment | None = None
    """Where another's runs are probed."""

    @property
    def name(self) -> str:
        return f"{self.table}/{self.row}"

    @property
    def trains(self) -> bool:
        return self.clustering is None and self.floor is None and self.corrupted is None

    def of_seed(self, seed: int) -> Config:
        return configs.with_settings(self.config, {"train.seed": str(seed)})

    def settings(self, seed: int) -> dict[str, Any]:
        """All that decides what a report says, ready for JSON."""
        if self.clustering is not None:
            return {"clustering": dataclasses.asdict(self.clustering)}
        config = self.of_seed(seed)
        found = {"corrupted": dataclasses.asdict(self.corrupted)} if self.corrupted else {}
        if self.floor is None:
            return found | {"config": configs.to_dict(config)}
        if self.floor == "random_weights":
            return found | {"floor": self.floor, "config": configs.to_dict(config)}
        read = {"data": config.data.name, "length": config.model.length}
        return found | {"floor": self.floor, **read}  # nothing else of it matters to the floor


def load(file: Path) -> Experiment:
    """The experiment in a file."""
    given = read_toml(file, "an experiment")
    known = [f"{f.name}" for f in dataclasses.fields(Clustering)]
    check_keys(file, given, ("label", "seeds", *KINDS))
    if not isinstance(given.get("label"), str):
        raise InputError(f"{file}: expected label to be a string, got {given.get('label')!r}")
    for key in KINDS:
        if key in given and not isinstance(given[key], Mapping):
            raise InputError(f"{file}: expected {key} to be a table, got {given[key]!r}")
    kinds = [kind for kind in KINDS if kind in given]
    if kinds not in TOGETHER:
        raise InputError(
            f"{file}: expected one of [config], [clustering] and [floor] (a floor may have a "
            f"[config] too), or [corrupted] with an experiment or a floor, "
            f"got {' and '.join(kinds) or 'none'}"
        )
    clustering = floor = corrupted = of = None
    if "clustering" in given:
        check_keys(file, given["clustering"], known, "clustering.")
        clustering = _clustering(file, given["clustering"])
    if "floor" in given:
        check_keys(file, given["floor"], ("representation",), "floor.")
        floor = given["floor"].get("representation")
        _among(file, "floor.representation", floor, FLOORS)
    if "corrupted" in given:
        corrupted = _corrupted(file, given["corrupted"], floor)
        of = _probed(file, corrupted.of) if corrupted.of else None
    row = file.resolve()
    return Experiment(
        file,
        table=row.parent.name,
        row=row.stem,
        label=given["label"],
        seeds=_seeds(file, given.get("seeds", [0])),
        config=of.config if of else configs.from_dict(given.get("config", {}), where=str(file)),
        clustering=clustering,
        floor=floor,
        corrupted=corrupted,
        of=of,
    )


def load_all(files: Sequence[Path]) -> list[Experiment]:
    """Of several files; all are read before anything begins."""
    if not files:
        raise InputError("expected experiment files, as in experiments/t20/*.toml, got none")
    found: dict[str, Experiment] = {}
    for file in files:
        experiment = load(file)
        other = found.setdefault(experiment.name, experiment)
        if other is not experiment and other.file.resolve() != file.resolve():
            raise InputError(
                f"expected experiments of different names, got {other.file} and {file}"
            )
    return list(found.values())


def run_directory(experiment: Experiment, seed: int, out: Path) -> Path:
    return out / experiment.table / experiment.row / f"seed{seed}"


def report_file(experiment: Experiment, seed: int, results: Path) -> Path:
    return results / experiment.table / experiment.row / f"seed{seed}.json"


@dataclass(frozen=True)
class Found:
    """What there is of one seed of an experiment."""

    report: dict[str, Any] = field(default_factory=dict)
    """Empty where there is none that counts."""
    changed: str = ""
    """A sentence, where there is one of other settings."""


def find(experiment: Experiment, seed: int, results: Path) -> Found:
    """The finished report of a seed."""
    file = report_file(experiment, seed, results)
    if not file.exists():
        return Found()
    try:
        report = json.loads(file.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: expected JSON, got: {error}") from None
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise InputError(f"{file}: expected a report of format {FORMAT}, which it is not")
    wanted = experiment.settings(seed)
    try:
        difference = _difference(_completed({key: report.get(key) for key in wanted}), wanted)
    except InputError as error:  # a setting that no longer is
        difference = str(error)
    if difference:
        return Found(changed=f"{file} was made with other settings: {difference}")
    return Found(report)


def _completed(old: dict[str, Any]) -> dict[str, Any]:
    """With the settings that came to be after the report was written at what they do by default."""
    if not isinstance(old.get("config"), Mapping):
        return old
    return old | {"config": configs.to_dict(configs.from_dict(old["config"], where="the report"))}


def _difference(old: Any, new: Any, name: str = "") -> str:
    """The first setting that is not what it was, in words."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in (*new, *(k for k in old if k not in new)):
            inner = _difference(old.get(key), new.get(key), f"{name}.{key}" if name else key)
            if inner:
                return inner
        return ""
    name = name.removeprefix("config.")
    return "" if old == new else f"{name} was {old!r} and is now {new!r}"


def read_toml(file: Path, what: str) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise InputError(f"expected {what} at {file}, found no such file") from None
    except IsADirectoryError:
        raise InputError(f"expected {what} at {file}, found a directory") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"expected TOML in {file}, got: {error}") from None


def check_keys(
    file: Path, given: Mapping[str, Any], known: Iterable[str], prefix: str = ""
) -> None:
    known = list(known)
    for key in given:
        if key in known:
            continue
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {prefix + near[0]!r}?" if near else ""
        if not near and not prefix and key in {f.name for f in dataclasses.fields(Config)}:
            hint = f"; did you mean 'config.{key}'?"
        raise InputError(f"{file}: unknown key {prefix + key!r}{hint}")


def _clustering(file: Path, given: Mapping[str, Any]) -> Clustering:
    for key, value in given.items():
        if key == "method":
            _among(file, "clustering.method", value, METHODS)
        elif type(value) is not int or value < 1:
            raise InputError(
                f"{file}: clustering.{key}: expected a whole number, 1 or more, got {value!r}"
            )
    found = Clustering(**given)
    if not found.clusters <= found.sequences <= 10_000:
        raise InputError(
            f"{file}: clustering.sequences: expected {found.clusters} to 10000, the size of the "
            f"set, got {found.sequences}"
        )
    return found


def _corrupted(file: Path, given: Mapping[str, Any], floor: str | None) -> Corrupted:
    check_keys(file, given, [f.name for f in dataclasses.fields(Corrupted)], "corrupted.")
    found = Corrupted(**given)
    if not isinstance(found.of, str | None) or (found.of is None) == (floor is None):
        raise InputError(
            f"{file}: expected corrupted.of to be the name of an experiment, or a [floor] beside, "
            f"got {'both' if floor and found.of else repr(found.of)}"
        )
    if (
        not isinstance(found.draws, Mapping)
        or not all(re.fullmatch(r"[1-9]\d*", labels) for labels in found.draws)
        or not all(type(draws) is int and draws > 0 for draws in found.draws.values())
    ):
        raise InputError(
            f"{file}: corrupted.draws: expected numbers of labels with how often to draw them, as "
            f"in {{ 200 = 3 }}, got {found.draws!r}"
        )
    return found


def _probed(file: Path, name: str) -> Experiment:
    """The experiment of that name in the same folder of tables."""
    place = file.resolve().parents[1] / f"{name}.toml"
    if place.is_relative_to(Path.cwd()):  # as somebody would type it
        place = place.relative_to(Path.cwd())
    found = load(place)
    if not found.trains:
        raise InputError(f"{file}: corrupted.of: expected an experiment that trains, got {name!r}")
    return found


def _among(file: Path, key: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f"{file}: {key}: expected one of {', '.join(choices)}, got {value!r}")


def _seeds(file: Path, given: object) -> tuple[int, ...]:
    if (
        not isinstance(given, list)
        or not given
        or not all(type(seed) is int and 0 <= seed < 2**32 for seed in given)
        or len(set(given)) < len(given)
    ):
        raise InputError(
            f"{file}: expected seeds to be a list of different whole numbers, got {given!r}"
        )
    return tuple(given)
