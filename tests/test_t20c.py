"""T20-C: cells that are scored alike, a row that goes on where it was killed, and its table."""

import csv
import io
import json
import re

import numpy as np
import pytest
import tiny
import torch

from mocaps import cli, locks, probe, runs, t20c
from mocaps import config as configs
from mocaps.data import corrupt
from mocaps.data.trajectory20 import Trajectory20
from mocaps.errors import InputError
from mocaps.evaluate import representation
from mocaps.experiments import cells, files, results, runner, trial

FLOOR = """\
label = "{label}"
[corrupted]
draws = {{ 40 = 2, 60 = 1 }}
[floor]
representation = "{name}"
"""
OF = 'label = "ours"\nseeds = [0, 1]\n[corrupted]\nof = "small/tiny"\ndraws = { 40 = 2 }\n'
TABLES = """
[c]
title = "Corrupted"
corruptions = ["noise", "warp"]
labels = [40, 60]
rows = [["ours"]]
floors = ["raw", "fourier"]
against = "fourier"
"""
CONDITIONS = ("clean", "noise 3", "warp 2")
SPLITS = {"labels": (1, 120), "test": (2, 100)}


@pytest.fixture(autouse=True)
def little(monkeypatch):
    """Three conditions of small sets; what was asked for is on record."""
    torch.set_num_threads(1)
    asked = []

    def fixed(split, length=32, **corruption):
        asked.append((split, length, *corruption.values()))
        seed, count = SPLITS[split]
        return Trajectory20(length, seed, **corruption)[:count]

    for module in (t20c, cells):
        monkeypatch.setattr(module, "trajectory20", fixed)
    monkeypatch.setattr(files, "CONDITIONS", CONDITIONS)
    return asked


@pytest.fixture
def folder(tmp_path):
    folder = tiny.folder(tmp_path)
    (folder / "c").mkdir()
    for row, name in (("raw", "raw_coordinates"), ("fourier", "fourier_magnitudes")):
        (folder / "c" / f"{row}.toml").write_text(FLOOR.format(label=row, name=name))
    (folder / "c" / "ours.toml").write_text(OF)
    place = folder / results.TABLES
    place.write_text(place.read_text() + TABLES)
    return folder


def row(file, place, seed=0):
    shown = []
    found = cells.conduct(files.load(file), seed, place / "runs", shown.append)
    return found, shown


def accuracies(found):
    return {name: cell["logistic"] for name, cell in found["cells"].items()}


def test_files_know_the_corruptions_without_torch():
    assert files.CORRUPTIONS == corrupt.CORRUPTIONS


def test_a_cell_is_the_probes_own_score_under_one_corruption(little):
    fourier = representation("fourier_magnitudes", configs.preset("paper"), np.zeros(0))
    found = t20c.score(fourier, "warp 2", {40: 2, 60: 1})
    assert little == [("labels", 32, "warp", 2), ("test", 32, "warp", 2)]
    (x, y), (test, test_y) = (
        tuple(p.numpy() for p in Trajectory20(32, seed, corruption="warp", severity=2)[:n])
        for seed, n in SPLITS.values()
    )
    subsets = [probe.balanced_subset(y, 40, seed) for seed in (0, 1)]
    wanted = [
        probe.logistic_regression(fourier(x)[i], y[i], fourier(test), test_y) for i in subsets
    ]
    assert found["logistic"]["40"]["mean"] == pytest.approx(np.mean(wanted))
    assert found["logistic"]["40"]["draws"] == 2
    assert found["logistic"]["60"]["standard_error"] is None
    assert found == t20c.score(fourier, "warp 2", {40: 2, 60: 1})


def test_a_stopped_row_goes_on_where_it_was(folder, tmp_path, monkeypatch):
    file = folder / "c" / "fourier.toml"
    scored, score = [], t20c.score

    def watched(represent, condition, *rest):
        if condition == "warp 2" and "warp 2" not in scored:
            scored.append(condition)
            raise KeyboardInterrupt
        scored.append(condition)
        return score(represent, condition, *rest)

    monkeypatch.setattr(t20c, "score", watched)
    with pytest.raises(KeyboardInterrupt):
        row(file, tmp_path)
    found, shown = row(file, tmp_path)
    assert scored == ["clean", "noise 3", "warp 2", "warp 2"]
    assert [(s.step, s.total, s.seconds_left) for s in shown] == [(3, 3, 0)]
    whole, shown = row(file, tmp_path / "undisturbed")
    assert accuracies(found) == accuracies(whole)
    assert [s.step for s in shown] == [1, 2, 3]
    assert list(found["cells"]) == list(CONDITIONS)

    file.write_text(file.read_text().replace("40 = 2", "40 = 1"))  # what is there is of no use
    scored[:] = ["warp 2"]
    row(file, tmp_path)
    assert scored == ["warp 2", *CONDITIONS]


def test_a_trained_run_is_probed_and_only_when_it_is_what_its_file_says(folder, tmp_path):
    file, trained = folder / "c" / "ours.toml", files.load(folder / "small" / "tiny.toml")
    place = files.run_directory(trained, 0, tmp_path / "runs")
    with pytest.raises(InputError, match=r"seed0: expected a finished run of small/tiny, found no"):
        row(file, tmp_path)
    configuration = tmp_path / "run.toml"
    configuration.write_text(configs.to_toml(trained.of_seed(0)))
    assert cli.main(["train", "--config", str(configuration), "--out", str(place)]) == 0
    found, _ = row(file, tmp_path)
    assert found["steps"] == 12
    assert found["run"] == str(place)
    run = runs.load(place)
    assert found["parameters"]["model"] == sum(p.numel() for p in run.model.parameters())

    kept = place.parents[2] / "c" / "ours" / "seed0" / cells.CELLS  # other weights, other scores
    before = json.loads(kept.read_text())
    kept.write_text(json.dumps(before | {"weights": "0" * 16}))
    again, shown = row(file, tmp_path)
    assert len(shown) == 3
    assert accuracies(again) == accuracies(found)

    report = place / runs.REPORT
    done = report.read_text()
    report.write_text(json.dumps(json.loads(done) | {"finished": False}))
    with pytest.raises(InputError, match=r"found one that has not finished; what makes it: mocaps"):
        row(file, tmp_path)
    report.write_text(done)
    (folder / "small" / "tiny.toml").write_text(tiny.TRAINED.format(data="t20", steps=13))
    with pytest.raises(InputError, match=r"with other settings; .*tiny\.toml --seed 0 --out"):
        row(file, tmp_path)


def test_a_report_holds_all_cells_and_its_settings(folder, tmp_path):
    experiment = files.load(folder / "c" / "fourier.toml")
    options = {"out": tmp_path / "runs", "results": tmp_path / "results", "command": "mocaps run"}
    assert trial.conduct(experiment, 0, **options, show=print, note=print)
    report = files.find(experiment, 0, tmp_path / "results").report
    assert set(report["cells"]) == set(CONDITIONS)
    assert report["corrupted"]["draws"] == {"40": 2, "60": 1}
    assert report["floor"] == "fourier_magnitudes"
    assert re.fullmatch(r"mean .*% with 40 labels, mean .*% with 60 labels", runner.brief(report))


def test_a_row_waits_for_the_run_that_it_probes(folder, tmp_path, monkeypatch):
    loaded = files.load_all([folder / "c" / "ours.toml", folder / "small" / "tiny.toml"])
    plan = runner.plan(loaded, [0], tmp_path / "results")
    seen = []

    def watched(_commands, *, ready, ended, **_):
        ours, tiny_ = "c/ours seed0", "small/tiny seed0"
        seen.extend([ready(ours), ready(tiny_)])
        ended(tiny_, (2, "no reason"))
        place = files.run_directory(loaded[1], 0, tmp_path / "runs")
        place.mkdir(parents=True)
        with locks.locked(place):
            seen.append(ready(ours))
        seen.append(ready(ours))
        return {}

    monkeypatch.setattr(runner.children, "side_by_side", watched)
    options = {"out": tmp_path / "runs", "results": tmp_path / "results", "workers": 1}
    runner.run(plan, **options, stop=lambda: False)
    assert seen == [False, True, False, True]


def invented(folder, row, seed, level):
    """A report with every cell at one level, but "noise 4" at 0.5 for all."""

    def cell(mean):
        score = {"mean": mean, "standard_error": 0.01, "draws": 2}
        return {"logistic": {"40": score, "60": score | {"mean": mean + 0.1}}}

    names = [f"{name} {severity}" for name in ("noise", "warp") for severity in range(1, 6)]
    found = {name: cell(level) for name in ("clean", *names)} | {"noise 4": cell(0.5)}
    tiny.report(folder / "c" / f"{row}.toml", folder.parent / "results", seed, cells=found)


@pytest.fixture
def reported(folder, capsys):
    for seed, level in ((0, 0.6), (1, 0.7)):
        invented(folder, "ours", seed, level)
    invented(folder, "fourier", 0, 0.55)
    invented(folder, "raw", 0, 0.75)

    def printed(*options):
        places = ("--experiments", folder, "--results", folder.parent / "results")
        assert cli.main([str(word) for word in ("table", "c", *places, *options)]) == 0
        return capsys.readouterr().out

    return printed


def test_the_table_marks_where_a_floor_is_ahead_and_counts_where_ours_is(reported):
    text = reported()
    lines = {line.partition("  ")[0]: re.split("  +", line) for line in text.splitlines()}
    head = next(line for line in text.splitlines() if line.strip().startswith("ours 40"))
    assert re.split("  +", head.strip()) == [
        *("ours 40", "raw 40", "fourier 40"),
        *("ours 60", "raw 60", "fourier 60"),
    ]
    assert lines["noise 3"][1:4] == ["* 65.0 ± 5.0", "75.0", "55.0"]
    assert lines["noise 4"][1:] == ["50.0 ± 0.0", "50.0", "50.0", "60.0 ± 0.0", "60.0", "60.0"]
    counted = "Of the 16 cells of severity 2 and up, ours is ahead of fourier in 14; not in "
    words = " ".join(text.split())
    assert f"{counted}noise 4 at 40 and noise 4 at 60." in words


def test_csv_has_a_line_for_every_cell(reported):
    found = list(csv.DictReader(io.StringIO(reported("--format", "csv"))))
    assert len(found) == 11 * 2 * 3
    one = next(r for r in found if (r["corruption"], r["severity"]) == ("warp", "5"))
    assert (one["label"], one["labels"], one["accuracy"], one["accuracy_error"]) == (
        *("ours", "40"),
        *("65.00", "5.00"),
    )


def test_the_best_of_a_row_is_bold_in_markdown_and_latex_is_whole(reported):
    rows = [line for line in reported("--format", "markdown").splitlines() if line[:1] == "|"]
    assert len({row.count("|") for row in rows}) == 1
    noise = next(row for row in rows if row.startswith("| noise 3 |"))
    assert "| * 65.0 ± 5.0 | **75.0** | 55.0 |" in noise
    tex = reported("--format", "latex")
    assert tex.count(r"\begin{") == tex.count(r"\end{") == 2


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"warp"]', '"wrap"]', r"expected c\.corruptions to be a list of some of noise, "),
        ("[40, 60]", '["40"]', r"expected c\.labels to be a list of numbers, got \['40'\]"),
        ("against", "agains_", r"unknown key 'c\.agains_'; did you mean 'c\.against'"),
        ("corruptions", "measures", r"expected c\.measures to be a list of lists"),
        (
            'corruptions = ["noise", "warp"]',
            'measures = [["linear"]]',
            r"c\.measures: expected some of logistic_200, .*, got 'linear'",
        ),
    ],
)
def test_mistakes_in_the_list_of_tables(old, new, sentence, folder):
    place = folder / results.TABLES
    place.write_text(place.read_text().replace(old, new))
    with pytest.raises(InputError, match=sentence):
        results.table("c", folder, folder.parent / "results")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('of = "small/tiny"', "", r"corrupted\.of to be the name of an experiment, .* got None"),
        ('"small/tiny"', '"small/raw"', r"expected an experiment that trains, got 'small/raw'"),
        ('"small/tiny"', '"small/x"', r"expected an experiment at .*x\.toml, found no such"),
        ("40 = 2", "40 = 0", r"corrupted\.draws: expected numbers of labels with how often"),
        ("40 = 2", "some = 2", r"corrupted\.draws: expected .*, got {'some': 2}"),
        ("draws", "drawn", r"unknown key 'corrupted\.drawn'; did you mean 'corrupted\.draws'"),
        ("[corrupted]", "[config]\n[corrupted]", r"got config and corrupted"),
    ],
)
def test_mistakes_in_a_row(old, new, sentence, folder):
    file = folder / "c" / "ours.toml"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(InputError, match=sentence):
        files.load(file)
