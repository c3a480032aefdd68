"""Experiment files and their runs: what is refused, that they end as if never killed, and wait."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import tiny

from mocaps import cli, locks, runs
from mocaps import config as configs
from mocaps.baselines import build
from mocaps.errors import InputError
from mocaps.experiments import files, results, runner
from mocaps.experiments.overview import Overview
from mocaps.progress import Status

SHIPPED = Path(__file__).parents[1] / "experiments"
ROWS = sorted(SHIPPED.glob("*/*.toml"))
VOLATILE = ("seconds", "evaluation_seconds", "date", "run")


def mocaps(*arguments):
    return cli.main([str(a) for a in arguments])


def process(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "mocaps", *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(place, *files, **options):
    options = {"out": place / "runs", "results": place / "results"} | options
    given = [word for key, value in options.items() for word in (f"--{key}", value)]
    return process("run", *files, *given)


def reports(place):
    return {
        str(path.relative_to(place)): {
            key: value for key, value in json.loads(path.read_text()).items() if key not in VOLATILE
        }
        for path in sorted(place.rglob("seed*.json"))
    }


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


@pytest.mark.parametrize("file", ROWS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_shipped_experiment_can_be_built_and_says_what_it_costs(file):
    experiment = files.load(file)
    head = file.read_text().partition("\n\n")[0].splitlines()
    assert head[0] == f"# mocaps run experiments/{experiment.name}.toml"
    assert head[1].startswith("# duration: ")
    assert head[2].startswith("# expected: ")
    if experiment.clustering is None:
        build(experiment.of_seed(experiment.seeds[0]))


def test_every_shipped_experiment_is_in_a_table_and_every_number_of_the_papers_in_a_file():
    names = {f"{file.parent.name}/{file.stem}" for file in ROWS}
    shown = set()
    for name in results.names(SHIPPED):
        lines = results.table(name, SHIPPED, Path("nowhere")).lines
        shown |= {line.experiment.name for line in lines}
    assert shown == names
    numbers = results.expected(SHIPPED / results.EXPECTED)
    assert set(numbers) <= names
    for name, expected in numbers.items():  # the header tells the same score
        assert expected.accuracy is not None
        assert expected.accuracy.error is not None
        wanted = f"{100 * expected.accuracy.mean:.2f} ± {100 * expected.accuracy.error:.2f}%"
        assert wanted in (SHIPPED / f"{name}.toml").read_text()


def test_the_papers_rows_are_all_there():
    rows = {name: len(results.table(name, SHIPPED, Path("x")).lines) for name in ("t20", "layers")}
    assert rows == {"t20": 14 + 3, "layers": 8 + 8}
    ablation = [line for g in results.table("ablation", SHIPPED, Path("x")).groups for line in g]
    trained = [line.experiment for line in ablation if line.kind == "trained"]
    assert len(trained) == 11
    assert {e.config.train.steps for e in trained} == {40_000}
    assert all(e.seeds == (0, 1, 2) for e in trained)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('label = "a"\nsead = 1\n[config]', r"unknown key 'sead'; did you mean 'seeds'\?"),
        ('label = "a"\n[model]\n[config]', r"unknown key 'model'; did you mean 'config\.model'\?"),
        ('label = "a"\n[config.loss]\nsparsty = 0', r"unknown key 'loss\.sparsty'; did you mean"),
        ('label = "a"\n[clustering]\nmetod = 1', r"did you mean 'clustering\.method'\?"),
        ('label = "a"\n[clustering]\nmethod = "means"', r"expected one of kmeans, .*'means'"),
        ('label = "a"\n[clustering]\nsequences = 5', r"expected 20 to 10000, .* got 5"),
        ('label = "a"\n[clustering]\nrestarts = 0', r"clustering\.restarts: expected a whole"),
        ('label = "a"\n[floor]\nrepresentation = "raw"', r"expected one of raw_coordinates"),
        ('label = "a"', r"expected one of \[config\], \[clustering\] and \[floor\].* got none"),
        ('label = "a"\n[config]\n[clustering]', r"got config and clustering"),
        ('label = "a"\n[clustering]\n[corrupted]', r"got clustering and corrupted"),
        ("config = 3\nlabel = 'a'", r"expected config to be a table, got 3"),
        ("[config]", r"expected label to be a string, got None"),
        ('label = "a"\nseeds = [1, 1]\n[config]', r"different whole numbers, got \[1, 1\]"),
        ('label = "a"\nseeds = 3\n[config]', r"different whole numbers, got 3"),
        ('label = "a', r"expected TOML in"),
    ],
)
def test_mistakes_are_one_sentence_with_the_file(text, sentence, tmp_path, capsys):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    assert mocaps("run", file) == 2
    err = capsys.readouterr().err
    assert re.search(sentence, err)
    assert str(file) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "expected experiment files"),
        (["absent.toml"], "expected an experiment at absent.toml, found no such file"),
        (["a/x.toml", "b/a/x.toml"], "different names, got a/x.toml and b/a/x.toml"),
        (["a/x.toml", "--jobs", 0], "--jobs: expected 1 or more, got 0"),
    ],
)
def test_nothing_begins_where_a_command_cannot_be_meant(
    arguments, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for place in ("a", "b/a"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "x.toml").write_text('label = "x"\n[config]\n')
    assert mocaps("run", *arguments) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_first_seeds_come_first(tmp_path):
    folder = tiny.folder(tmp_path)
    (folder / "small" / "other.toml").write_text('label = "o"\nseeds = [5, 0]\n[config]\n')
    experiments = files.load_all([folder / "small" / f"{n}.toml" for n in ("tiny", "other", "raw")])
    found = runner.plan(experiments, (), tmp_path / "results")
    names = [task.name.removeprefix("small/") for task in found.tasks]
    assert names == ["tiny seed0", "other seed5", "raw seed0", "tiny seed1", "other seed0"]
    found = runner.plan(experiments, [3], tmp_path / "results")
    assert [task.seed for task in found.tasks] == [3, 3, 3]


@pytest.mark.slow
def test_killed_runs_go_on_and_end_with_the_same_reports(tmp_path):
    """Everything at once is killed while it trains; the same command ends with what it would have
    come to, and once more has nothing to do."""
    files_ = sorted((tiny.folder(tmp_path, steps=1200) / "small").glob("*.toml"))
    place = tmp_path / "runs" / "small" / "tiny" / "seed0"
    child = run(tmp_path, *files_)
    until(lambda: runs.read_metrics(place), "no run came to an epoch")
    child.kill()
    child.communicate(timeout=60)
    before = reports(tmp_path / "results")
    child = run(tmp_path, *files_)
    printed, err = child.communicate(timeout=120)
    assert child.returncode == 0, err + printed
    assert len(before) < 3
    assert re.search(r"^3 finished", printed, re.MULTILINE)
    assert "next: mocaps table small" in printed

    whole = run(tmp_path, *files_, out=tmp_path / "whole", results=tmp_path / "undisturbed")
    printed, err = whole.communicate(timeout=120)
    assert whole.returncode == 0, err + printed
    found = reports(tmp_path / "results")
    assert found == reports(tmp_path / "undisturbed")
    tiny0 = found["small/tiny/seed0.json"]
    assert tiny0["steps"] == tiny0["kept_step"] == 1200
    assert tiny0["config"]["train"]["seed"] == 0
    assert tiny0["command"] == f"mocaps run {files_[1]}"
    assert 0 < tiny0["online_probe"] < 1
    assert set(tiny0["logistic"]) == {"200"}
    assert "floors" not in tiny0
    assert "77.77" not in json.dumps(found)
    assert "0.7777" not in json.dumps(found)

    stamps = [p.stat().st_mtime_ns for p in sorted((tmp_path / "results").rglob("*.json"))]
    again = run(tmp_path, *files_)
    printed, err = again.communicate(timeout=60)
    assert again.returncode == 0
    assert printed.startswith("3 finished, 3 of them before")
    after = [p.stat().st_mtime_ns for p in sorted((tmp_path / "results").rglob("*.json"))]
    assert after == stamps


def test_an_interrupt_stops_all_and_the_same_command_goes_on(tmp_path):
    file = tiny.folder(tmp_path, steps=100_000) / "small" / "tiny.toml"
    child = run(tmp_path, file)
    places = [tmp_path / "runs" / "small" / "tiny" / f"seed{k}" for k in (0, 1)]
    until(lambda: runs.read_metrics(places[0]), "no run came to an epoch")
    child.send_signal(signal.SIGINT)
    printed, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err == "mocaps: stopped; the same command goes on\n"
    assert "0 of 2" in printed
    assert not (tmp_path / "results").exists()
    assert not locks.is_locked(places[0])
    state = runs.load_state(places[0])
    assert state is not None
    assert 0 < state.step < 100_000


def test_a_trained_run_is_evaluated_only_and_one_in_anothers_hands_is_waited_for(tmp_path):
    file = tiny.folder(tmp_path) / "small" / "tiny.toml"
    experiment = files.load(file)
    for seed in (0, 1):
        place = files.run_directory(experiment, seed, tmp_path / "runs")
        configuration = tmp_path / f"{seed}.toml"
        configuration.write_text(configs.to_toml(experiment.of_seed(seed)))
        assert mocaps("train", "--config", configuration, "--out", place) == 0
    weights = (place / runs.MODEL).stat().st_mtime_ns
    with locks.locked(place):
        child = run(tmp_path, file, jobs=1)
        until(lambda: (tmp_path / "results/small/tiny/seed0.json").exists(), "seed 0 is free")
        time.sleep(1.5)  # longer than it looks again
        assert child.poll() is None
        assert not (tmp_path / "results/small/tiny/seed1.json").exists()
    printed, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert "small/tiny seed1  trained by another process, waited for\n" in printed
    assert (place / runs.MODEL).stat().st_mtime_ns == weights
    report = json.loads((tmp_path / "results/small/tiny/seed1.json").read_text())
    assert report["run_command"].startswith("mocaps train --config")


def test_changed_settings_are_told_and_the_old_report_does_not_count(tmp_path):
    folder = tiny.folder(tmp_path)
    file = folder / "small" / "tiny.toml"
    child = run(tmp_path, file, seed=0)
    child.communicate(timeout=60)
    text = file.read_text()

    file.write_text(text.replace("steps = 12", "steps = 20"))  # a budget may grow
    child = run(tmp_path, file, seed=0)
    printed, err = child.communicate(timeout=60)
    sentence = "seed0.json was made with other settings: train.steps was 12 and is now 20; "
    assert sentence + "it does not count, and is run again\n" in err
    assert child.returncode == 0, err
    assert json.loads((tmp_path / "results/small/tiny/seed0.json").read_text())["steps"] == 20

    file.write_text(text.replace("capsules = 6", "capsules = 7"))  # another model may not
    child = run(tmp_path, file, folder / "small" / "raw.toml", seed=0)
    printed, err = child.communicate(timeout=60)
    assert child.returncode == 2
    assert "cannot resume, model.num_segment_capsules was 6 and is now 7" in err
    assert "small/raw seed0  done: linear" in printed  # the others are run all the same
    assert "1 of 2" in printed
    table = results.table("small", folder, tmp_path / "results")
    assert any("num_segment_capsules was 6 and is now 7; it" in note for note in table.notes)
    assert table.lines[0].reports == []


def test_settings_that_came_later_leave_a_report_as_it_was(tmp_path):
    file = tiny.folder(tmp_path) / "small" / "tiny.toml"
    place = tiny.report(file, tmp_path / "results", 0, online_probe=0.5)
    report = json.loads(place.read_text())
    del report["config"]["loss"]["centred"]
    place.write_text(json.dumps(report))
    experiment = files.load(file)
    assert files.find(experiment, 0, tmp_path / "results").report["online_probe"] == 0.5
    report["config"]["loss"]["centering"] = True
    place.write_text(json.dumps(report))
    assert "unknown key 'loss.centering'" in files.find(experiment, 0, tmp_path / "results").changed


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}'])
def test_a_damaged_report_is_one_sentence(tmp_path, text):
    file = tiny.folder(tmp_path) / "small" / "tiny.toml"
    tiny.report(file, tmp_path / "results", 0).write_text(text)
    with pytest.raises(InputError, match=r"seed0\.json: expected"):
        files.find(files.load(file), 0, tmp_path / "results")


def test_running_and_tables_start_without_torch():
    code = (
        "import sys; from mocaps import cli; from mocaps.experiments import runner, render; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_overview_counts_and_foretells(capsys):
    view = Overview({"a": 1000, "b": 1000, "c": 0}, done_before=2)
    view.begun("a")
    view.status("a", Status(500, 1000, 50.0, {}, 0.25, 10.0))
    assert view.counts() == "2 done, 1 running, 2 waiting; about 0:30 to go"
    view.ended("a", "done", "accuracy 50.0%")
    view.held("b", True)
    view.held("b", True)
    view.ended("c", "failed", "no reason")
    assert view.counts() == "3 done, 1 waiting, 1 failed"
    printed = capsys.readouterr().out
    assert "a  done: accuracy 50.0%\n" in printed
    assert printed.count("b  trained by another process, waited for\n") == 1


def test_the_live_overview_can_be_drawn():
    from rich.console import Console

    from mocaps.experiments.overview import LiveOverview

    view = LiveOverview({f"t/{n}": 1000 for n in "abcdefgh"}, done_before=2)
    view.begun("t/a")
    view.begun("t/b")
    view.held("t/c", True)
    view.status("t/a", Status(500, 1000, 50.0, {}, 0.25, 10.0))
    console = Console(width=100)
    with console.capture() as captured:
        console.print(view._picture())
    text = captured.get()
    assert "2 done, 2 running, 6 waiting; about" in text
    assert re.search(r"t/a .*step 500/1,000  50 steps/s  validation 25.0%  0:10 left", text)
    assert re.search(r"t/b .*starting", text)
    assert "t/c trained by another process" in text
    assert "waiting: t/d, t/e, t/f, t/g and 1 more" in text


def test_toml_of_the_papers_numbers_is_plain():
    numbers = tomllib.loads((SHIPPED / results.EXPECTED).read_text())
    assert numbers["t20"]["mcae-paper"] == {
        "accuracy": 69.30,
        "error": 0.76,
        "parameters": 277_000,
    }
