"""Several runs at once: their names, what is refused, and that they train, stop and go on."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import small

from mocaps import cli, jobs, runs
from mocaps.errors import InputError

SMALL = [f"{key}={value}" for key, value in small.SETTINGS.items()]


def mocaps(*arguments):
    return cli.main([str(a) for a in arguments])


def names(out, **options):
    return [str(path.relative_to(out)) for path in jobs.jobs(out, {}, **options)]


@pytest.fixture
def files(tmp_path):
    """Two partial configurations of different presets."""
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "few.toml").write_text("[model]\nnum_segment_capsules = 5\n[train]\nseed = 7\n")
    (folder / "theirs.toml").write_text('preset = "authors"\n[loss]\nsparsity = 0\n')
    return [folder / "few.toml", folder / "theirs.toml"]


@pytest.mark.parametrize(
    ("presets", "seeds", "expected"),
    [
        ([], [], ["."]),
        ([], [3], ["."]),
        (["authors"], [], ["."]),
        ([], [0, 1], ["seed0", "seed1"]),
        (["paper", "authors"], [], ["paper", "authors"]),
        (["paper", "authors"], [3], ["paper", "authors"]),
        (
            ["paper", "authors"],
            [0, 1],
            ["paper-seed0", "paper-seed1", "authors-seed0", "authors-seed1"],
        ),
    ],
)
def test_runs_are_named_after_what_tells_them_apart(tmp_path, presets, seeds, expected):
    found = jobs.jobs(tmp_path, {"train.steps": "5"}, presets=presets, seeds=seeds)
    assert [str(path.relative_to(tmp_path)) for path in found] == expected
    wanted = [(p, s) for p in presets or ["equivariant"] for s in seeds or [0]]
    assert [(c.preset, c.train.seed) for c in found.values()] == wanted
    assert all(c.train.steps == 5 for c in found.values())


def test_files_are_configurations_with_the_settings_on_top(tmp_path, files):
    given = {"loss.contrast": "0.25", "model.num_snippet_capsules": "4"}
    few, theirs = jobs.jobs(tmp_path, given, files=files).values()
    assert (few.preset, few.train.seed, few.model.num_segment_capsules) == ("equivariant", 7, 5)
    assert (theirs.preset, theirs.train.seed, theirs.loss.sparsity) == ("authors", 0, 0.0)
    assert all(c.loss.contrast == 0.25 for c in (few, theirs))
    assert all(c.model.num_snippet_capsules == 4 for c in (few, theirs))
    assert names(tmp_path, files=files, seeds=[1, 2]) == [
        "few-seed1",
        "few-seed2",
        "theirs-seed1",
        "theirs-seed2",
    ]
    assert names(tmp_path, files=files[:1]) == ["."]


def test_a_files_data_is_found_from_elsewhere_later(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text('[data]\nname = "tracks.npz"\n')
    (config,) = jobs.jobs(tmp_path / "run", {}, files=[tmp_path / "a.toml"]).values()
    assert config.data.name == str(tmp_path / "tracks.npz")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--preset", "paper", "paper"], "expected different presets, got paper paper"),
        (["--preset", "paper", "papper"], "expected a preset among"),
        (["--preset", "paper", "--config", "a.toml"], "give --preset or --config alone"),
        (["--config", "a.toml", "b/a.toml"], r"different names, .* got a\.toml and b/a\.toml"),
        (["--config", "a.toml", "a.toml"], r"different names, .* got a\.toml and a\.toml"),
        (["--config", "absent.toml"], r"expected a configuration at absent\.toml"),
        (["--config", "bad.toml"], r"bad\.toml: unknown key 'loss\.sparsty'; did you mean"),
        (["--preset", "paper", "authors", "--out", "one"], "but one is a run"),
        (["--resume", "--seed", "5", "--out", "one"], "found none with seed 5"),
        (["--config", "a.toml", "points.toml"], "data t20: expected a model of one point"),
    ],
)
def test_clashes_and_mistakes_are_one_sentence(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    for name in ("a.toml", "b/a.toml"):
        (tmp_path / name).write_text("")
    (tmp_path / "bad.toml").write_text("[loss]\nsparsty = 0\n")
    (tmp_path / "points.toml").write_text("[model]\nnum_points = 3\n")
    runs.create(tmp_path / "one", small.config())
    before = sorted(tmp_path.rglob("*"))
    out = [] if "--out" in arguments else ["--out", "new"]
    assert mocaps("train", *arguments, *out) == 2
    err = capsys.readouterr().err
    assert re.search(sentence, err)
    assert err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_made_where_one_of_several_cannot_be_resumed(tmp_path, capsys):
    out = tmp_path / "runs"
    runs.create(out / "authors", small.config())
    again = ["--resume", "--preset", "paper", "authors", "--steps", "3", "--out", out]
    assert mocaps("train", *again) == 2
    assert "authors: cannot resume" in capsys.readouterr().err
    assert not (out / "paper").exists()


def test_runs_are_resumed_by_seed(tmp_path):
    for name, seed in (("paper-seed0", 0), ("paper-seed1", 1), ("authors-seed1", 1)):
        runs.create(tmp_path / name, small.config(train__seed=seed))
    found = jobs.jobs(tmp_path, {}, seeds=[1], resume=True)
    assert [path.name for path in found] == ["authors-seed1", "paper-seed1"]
    assert len(jobs.jobs(tmp_path, {}, resume=True)) == 3
    with pytest.raises(InputError, match="found none with seed 5"):
        jobs.jobs(tmp_path, {}, seeds=[5], resume=True)


def train(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "mocaps", "train", *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_configurations_train_stop_together_and_end_as_if_alone(tmp_path, files):
    """Interrupted and resumed side by side, against one of them trained by itself."""
    steps = ["--steps", 60, "--set", *SMALL]
    out, alone = tmp_path / "runs", tmp_path / "alone"
    child = train("--config", *files, *steps, "--out", out)
    end = time.monotonic() + 60
    while not all((out / name / runs.METRICS).exists() for name in ("few", "theirs")):
        assert time.monotonic() < end, "no run came to an epoch"
        time.sleep(0.005)
    child.send_signal(signal.SIGINT)
    printed, err = child.communicate(timeout=60)
    if child.returncode:  # it may have been as quick as that
        assert child.returncode == 130, err
        assert f"go on with: mocaps train --resume --out {out}\n" in err
        child = train("--resume", "--out", out)
        printed, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
    assert all(f"{out / name}: 60 steps in" in printed for name in ("few", "theirs"))
    assert runs.load(out / "few").config.model.num_segment_capsules == 6  # --set is on top
    assert mocaps("train", "--config", files[1], *steps, "--out", alone) == 0
    assert (alone / runs.MODEL).read_bytes() == (out / "theirs" / runs.MODEL).read_bytes()
    seeds = [json.loads((out / n / runs.REPORT).read_text())["seed"] for n in ("few", "theirs")]
    assert seeds == [7, 0]
