"""Tables of results: means over seeds, the paper beside ours, what is missing, floors that win."""

import csv
import io
import json
import math
import re
from pathlib import Path

import pytest
import tiny

from mocaps import cli
from mocaps.experiments import render, results
from mocaps.experiments.panels import MEASURES

PARAMETERS = {"model": 1000, "probe": 234}


def mocaps(*arguments):
    return cli.main([str(a) for a in arguments])


@pytest.fixture
def folder(tmp_path):
    """Two seeds of a row and a floor, which is ahead by 1-NN and behind by the linear probe."""
    folder = tiny.folder(tmp_path)
    for seed, accuracy in ((0, 0.40), (1, 0.50)):
        scores = tiny.probes(0.6 + accuracy / 10, 0.55) | {"parameters": PARAMETERS}
        steps = {"steps": 1000 + 500 * seed, "online_probe": accuracy}
        tiny.report(folder / "small/tiny.toml", tmp_path / "results", seed, **scores, **steps)
    tiny.report(folder / "small/raw.toml", tmp_path / "results", 0, **tiny.probes(0.50, 0.80))
    return folder


def table(folder):
    return results.table("small", folder, folder.parent / "results")


def printed(folder, capsys, *arguments):
    place = ["--experiments", folder, "--results", folder.parent / "results"]
    assert mocaps("table", *arguments, *place) == 0
    return capsys.readouterr().out


def test_means_and_standard_errors_are_over_seeds(folder):
    line, floor = table(folder).lines
    assert line.accuracy is not None
    assert line.accuracy.mean == pytest.approx(0.45)
    assert line.accuracy.error == pytest.approx(0.0707106781 / math.sqrt(2))
    linear = line.measured(MEASURES["logistic_10000"])
    assert linear is not None
    assert linear.mean == pytest.approx(0.645)
    few = line.measured(MEASURES["logistic_200"])
    assert few is not None
    assert few.mean == pytest.approx(0.345)
    assert line.parameters == 1234
    assert line.mean("steps") == 1250
    assert floor.accuracy is None
    of_floor = floor.measured(MEASURES["1nn_cosine_10000"])
    assert of_floor is not None
    assert of_floor.error is None  # one seed


def test_text_has_ours_the_papers_and_the_floors(folder, capsys):
    text = printed(folder, capsys, "small")
    row = next(line for line in text.splitlines() if line.startswith("tiny"))
    cells = ["tiny", "3", "1,234", "1,234k", "1,250", "2", "45.0 ± 5.0", "77.77 ± 1.25"]
    assert re.split(r"  +", row)[:8] == cells
    floor = next(line for line in text.splitlines() if line.startswith("raw coordinates"))
    assert re.split(r"  +", floor)[-3:] == ["50.0", "80.0", "75.0"]
    assert "Nothing here is meant." in text
    assert max(map(len, text.splitlines())) <= 130


def test_a_floor_that_wins_is_named(folder):
    sentence = (
        "A floor wins: raw coordinates, without any training, is ahead of every trained row by "
        "1-NN cosine and 1-NN Euclidean."
    )
    assert sentence in table(folder).notes


def test_a_floor_that_loses_is_told_so(folder):
    tiny.report(folder / "small/raw.toml", folder.parent / "results", 0, **tiny.probes(0.5, 0.5))
    sentence = "Every trained row is ahead of raw coordinates by every probe."
    assert sentence in table(folder).notes


def test_floors_are_compared_at_their_own_length(folder):
    """A row of other sequences is no contest."""
    file = folder / "small" / "raw.toml"
    longer = "[config.model]\nlength = 64\n"
    file.write_text(file.read_text() + longer)
    tiny.report(file, folder.parent / "results", 0, **tiny.probes(0.9, 0.9))
    found = table(folder)
    assert found.lines[1].reports
    assert not any("floor" in note for note in found.notes)


def test_what_is_missing_is_shown_as_missing(folder, capsys):
    (folder.parent / "results/small/tiny/seed1.json").unlink()
    (folder.parent / "results/small/raw/seed0.json").unlink()
    text = printed(folder, capsys, "small")
    assert re.search(r"^tiny .* 1 of 2 +40\.0 ", text, re.MULTILINE)
    assert re.search(r"^raw coordinates .* 0 of 1 +– +– +– +– +–$", text, re.MULTILINE)
    words = " ".join(text.split())
    assert "Missing: small/tiny (seed 1), small/raw (seed 0). What makes them: mocaps run " in words
    assert f"{folder / 'small' / 'tiny.toml'}" in words


def test_csv_holds_every_budget_and_both_errors(folder, capsys):
    rows = list(csv.DictReader(io.StringIO(printed(folder, capsys, "small", "--format", "csv"))))
    trained, floor = rows
    assert trained["accuracy"] == "45.00"
    assert trained["accuracy_error"] == "5.00"
    assert trained["paper_accuracy"] == "77.77"
    assert trained["logistic_200"] == "34.50"
    assert trained["1nn_euclidean_2000"] == "40.00"
    assert trained["steps"] == "1250"
    assert (floor["accuracy"], floor["kind"], floor["#Sni"]) == ("", "floor", "")


def test_markdown_is_a_table_with_the_best_in_bold(folder, capsys):
    lines = printed(folder, capsys, "small", "--format", "markdown").splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert len(rows) == 4
    assert "**64.5 ± 0.5**" in rows[2]
    assert "**80.0**" in rows[3]
    assert "**77.77" not in rows[2]  # the paper's is not ours


def test_latex_is_escaped(folder, capsys):
    text = printed(folder, capsys, "small", "--format", "latex")
    assert r"\#Sni" in text
    assert r"45.0 $\pm$ 5.0" in text
    assert not re.search(r"(?<!\\)[%#]", text)
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    assert "–" not in text


def test_all_tables_are_written_in_every_format(folder, capsys):
    printed(folder, capsys, "--all")
    place = folder.parent / "results"
    assert {p.name for p in place.glob("small.*")} == {f"small.{e}" for e, _ in FORMATS}
    for ending, name in FORMATS:
        text = (place / f"small.{ending}").read_text()
        assert text == printed(folder, capsys, "small", "--format", name)


FORMATS = [(ending, name) for name, (ending, _) in render.FORMATS.items()]


def test_a_rows_name_may_differ_in_another_table(folder, capsys):
    more = '\n[other]\ntitle = "O"\nrows = [[{ row = "small/tiny", label = "double" }]]\n'
    place = folder / results.TABLES
    place.write_text(place.read_text() + more)
    assert re.search(r"^double +1,234 ", printed(folder, capsys, "other"), re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["large"], "expected a table among small, got 'large'"),
        ([], "expected the name of a table or --all, got neither; there are small"),
        (["small", "--all"], "expected the name of a table or --all, got both"),
    ],
)
def test_mistakes_on_the_command_line(arguments, sentence, folder, capsys):
    assert mocaps("table", *arguments, "--experiments", folder) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("floors", "floor", r"unknown key 'small\.floor'; did you mean 'small\.floors'"),
        ('[["tiny"]]', '["tiny"]', r"expected small\.rows to be a list of lists"),
        ('[["tiny"]]', "[[3]]", r"small\.rows: expected a name or a row, got 3"),
        ('"tiny"', '"absent"', r"expected an experiment at .*absent\.toml, found no such file"),
        ("num_snippet", "snippet", r"expected a setting for the cells"),
    ],
)
def test_mistakes_in_the_list_of_tables(old, new, sentence, folder, capsys):
    place = folder / results.TABLES
    place.write_text(place.read_text().replace(old, new))
    assert mocaps("table", "small", "--experiments", folder) == 2
    assert re.search(sentence, capsys.readouterr().err)


def test_published_tables_are_those_of_the_published_reports():
    """Nobody edited a number, or forgot to write the tables again."""
    root = Path(__file__).parents[1]
    written = sorted((root / "results").glob("*.csv"))
    if not written:
        pytest.skip("no tables published")
    for name in (file.stem for file in written):
        found = results.table(name, root / "experiments", root / "results")
        assert (root / "results" / f"{name}.csv").read_text() == render.comma_separated(found)


def test_no_published_report_holds_an_expected_number():
    root = Path(__file__).parents[1]
    for file in (root / "results").glob("*/*/seed*.json"):
        report = json.loads(file.read_text())
        assert not {"paper", "expected"} & set(report), file


def test_a_table_may_have_what_is_measured_in_its_rows(folder, capsys):
    """Reports of before there were such numbers stay as good as they were."""
    more = (
        '\n[few]\ntitle = "F"\nrows = [["small/tiny"]]\nfloors = ["small/raw"]\n'
        'against = "small/raw"\n'
        'measures = [["logistic_200", "1nn_cosine_one_each"], ["clusters_cosine"]]\n'
    )
    place = folder / results.TABLES
    place.write_text(place.read_text() + more)
    found = {"mean": 0.75, "standard_error": 0.02, "draws": 20}
    scores = tiny.probes(0.60, 0.55) | {"one_label_each": {"cosine": found}}
    tiny.report(folder / "small/raw.toml", folder.parent / "results", 0, **scores)
    text = printed(folder, capsys, "few")
    lines = {line.partition("  ")[0]: re.split("  +", line)[1:] for line in text.splitlines()}
    assert lines["linear, 200 labels"] == ["34.5 ± 0.5", "30.0"]
    assert lines["1-NN cosine, one label a class"] == ["–", "75.0"]
    assert lines["k-means cosine, no labels"] == ["–", "–"]
    assert "Of the 1 cells, tiny is ahead of raw coordinates in 1.\n" in text
    rows = list(csv.DictReader(io.StringIO(printed(folder, capsys, "small", "--format", "csv"))))
    assert [row["1nn_cosine_one_each"] for row in rows] == ["", "75.00"]
    assert rows[0]["clusters_euclidean"] == ""
