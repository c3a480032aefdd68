import dataclasses
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import small
import torch

from mocaps import atomic, launch, locks, runs, train
from mocaps.errors import InputError


@pytest.fixture(autouse=True)
def small_data(monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(launch.data, "of", small.stream)


@pytest.fixture
def finished(tmp_path):
    out = tmp_path / "finished"
    launch.train(small.config(train__steps=7), out, command="mocaps train")
    return out


def timeless(path: Path):
    return [{k: v for k, v in r.items() if k != "seconds"} for r in runs.read_metrics(path)]


def stop_at(step: int):
    asked = iter(range(10**6))
    return lambda: next(asked) == step


def test_a_finished_run_comes_back(finished):
    run = runs.load(finished)
    assert run.config == small.config(train__steps=7)
    assert (run.step, run.kept, run.finished) == (7, "last", True)
    assert not run.model.training
    assert run.report["steps"] == 7
    assert run.report["command"] == "mocaps train"
    assert run.report["parameters"]["probe"] == 6 * 20 + 20
    assert [r["step"] for r in run.metrics] == [5, 7]
    model, probe = small.modules(run.config)
    train.fit(model, small.stream(run.config), run.config, probe=probe)
    assert run.probe is not None
    for one, other in ((run.model, model), (run.probe, probe)):
        a, b = one.state_dict(), other.state_dict()
        assert all(torch.equal(a[key], b[key]) for key in b)


def test_the_directory_holds_what_it_says_and_no_pickle(finished):
    names = {path.name for path in finished.iterdir()}
    assert names == {
        ".lock",
        "config.toml",
        "metrics.jsonl",
        "model.safetensors",
        "report.json",
        "state.safetensors",
    }


def test_a_run_killed_again_and_again_ends_with_the_same_bits(tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "run"
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killing.py")), whole, out],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10
    assert (whole / runs.MODEL).read_bytes() == (out / runs.MODEL).read_bytes()
    assert timeless(whole) == timeless(out)
    assert not [path for path in out.iterdir() if path.name.endswith(".tmp")]


def test_interrupted_and_resumed(tmp_path, finished):
    out, config = tmp_path / "run", small.config(train__steps=7)
    outcome = launch.train(config, out, stop=stop_at(4))
    assert not outcome.finished
    assert runs.load(out).finished is False  # can be looked at, too
    launch.train(config, out, resume=True)
    assert (out / runs.MODEL).read_bytes() == (finished / runs.MODEL).read_bytes()
    assert timeless(out) == timeless(finished)


def test_a_larger_budget_resumes_as_if_it_had_been_so_from_the_start(tmp_path, finished):
    launch.train(small.config(train__steps=13), finished, resume=True)
    launch.train(small.config(train__steps=13), tmp_path / "long")
    assert timeless(finished) == timeless(tmp_path / "long")
    assert (finished / runs.MODEL).read_bytes() == (tmp_path / "long" / runs.MODEL).read_bytes()
    assert runs.load(finished).config.train.steps == 13


def test_torn_and_later_metrics_go_when_a_run_resumes(tmp_path, finished):
    out, config = tmp_path / "run", small.config(train__steps=7)
    launch.train(config, out, stop=stop_at(4))
    with (out / runs.METRICS).open("a") as file:
        file.write(json.dumps({"epoch": 1, "step": 5}) + '\n{"epo')
    assert [r["step"] for r in runs.read_metrics(out)] == [5]
    launch.train(config, out, resume=True)
    assert timeless(out) == timeless(finished)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"loss__sparsity": 0.1}, r"loss.sparsity was 0.05 and is now 0.1"),
        ({"train__seed": 3}, r"train.seed was 0 and is now 3"),
        ({"train__steps": 6}, r"train.steps was 7 and is now 6; a budget may only grow"),
        ({"train__steps": 0}, r"train.steps was 7 and is now 0"),
        ({"train__minutes": 1}, r"train.minutes was 0.0 and is now 1.0"),
    ],
)
def test_resuming_with_other_settings_is_refused(finished, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        launch.train(small.config(**({"train__steps": 7} | settings)), finished, resume=True)


def test_a_cosine_schedule_cannot_be_prolonged(tmp_path):
    launch.train(small.config(train__steps=2, train__schedule="cosine"), tmp_path / "run")
    with pytest.raises(InputError, match=r"cosine"):
        launch.train(
            small.config(train__steps=4, train__schedule="cosine"), tmp_path / "run", resume=True
        )


def test_an_existing_directory_is_not_trained_into(tmp_path, finished):
    before = {path: path.read_bytes() for path in finished.iterdir()}
    with pytest.raises(InputError, match=r"exists; --resume goes on with it"):
        launch.train(small.config(train__steps=7), finished)
    assert before == {path: path.read_bytes() for path in finished.iterdir()}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    for resume in (False, True):
        with pytest.raises(InputError, match=r"expected a (new|run) directory"):
            launch.train(small.config(), tmp_path / "other", resume=resume)


def test_two_processes_do_not_train_into_one_directory(finished):
    with locks.locked(finished), pytest.raises(InputError, match=r"another process"):
        launch.train(small.config(train__steps=9), finished, resume=True)


@pytest.mark.parametrize("file", [runs.MODEL, runs.STATE])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_truncated_weights_are_one_sentence(finished, file, share):
    data = (finished / file).read_bytes()
    (finished / file).write_bytes(data[: int(share * len(data))])
    read = runs.load if file == runs.MODEL else runs.load_state
    with pytest.raises(InputError, match=rf"{file}: expected safetensors, found a damaged file"):
        read(finished)


def test_other_versions_and_missing_files_are_one_sentence(finished, tmp_path):
    with pytest.raises(InputError, match=r"expected a run directory at .*nowhere, found nothing"):
        runs.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"found no config.toml"):
        runs.load(tmp_path)
    config = (finished / runs.CONFIG).read_text()
    (finished / runs.CONFIG).write_text(config.replace("# format = 1", "# format = 2"))
    with pytest.raises(InputError, match=r"expected run format 1, got 2"):
        runs.load(finished)
    (finished / runs.CONFIG).write_text(config.replace("num_segment_capsules = 6", "oops = 6"))
    with pytest.raises(InputError, match=r"unknown key 'model.oops'"):
        runs.load(finished)
    (finished / runs.CONFIG).write_text(
        config.replace("num_segment_capsules = 6", "num_segment_capsules = 7")
    )
    with pytest.raises(InputError, match=r"weights and config.toml do not agree"):
        runs.load(finished)
    (finished / runs.CONFIG).write_text(config)
    header, tensors = runs._read_safetensors(finished / runs.MODEL)
    runs._write_safetensors(finished / runs.MODEL, tensors, header | {"format": 9})
    with pytest.raises(InputError, match=r"expected run format 1, got 9"):
        runs.load(finished)
    (finished / runs.MODEL).unlink()
    with pytest.raises(InputError, match=r"found none; the run has not saved weights yet"):
        runs.load(finished)


def test_a_full_disk_leaves_a_run_that_resumes(tmp_path, finished, monkeypatch):
    monkeypatch.setattr(train, "SAVE_EVERY", -1.0)
    out, config = tmp_path / "run", small.config(train__steps=7)
    real, writes = os.fsync, iter(range(10**6))

    def full(descriptor):
        if next(writes) == 25:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(InputError, match=r"the disk is full; .*--resume --out"):
        launch.train(config, out)
    monkeypatch.setattr(atomic.os, "fsync", real)
    assert not list(out.glob(".*.tmp"))
    state = runs.load_state(out)
    assert state is not None
    assert 0 < state.step < 7
    launch.train(config, out, resume=True)
    assert (out / runs.MODEL).read_bytes() == (finished / runs.MODEL).read_bytes()
    assert timeless(out) == timeless(finished)


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "file"
    atomic.write_text(file, "old")

    def half_a_write():
        with atomic.replacing(file) as temporary:
            temporary.write_text("new, half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half_a_write()
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_state_survives_the_disk_bit_for_bit(tmp_path):
    states = []
    config = small.config(train__steps=3)
    model, probe = small.modules(config)
    train.fit(model, small.stream(config), config, probe=probe, save=states.append)
    runs.save_state(tmp_path, states[-1])
    back = runs.load_state(tmp_path)
    assert back is not None
    assert dataclasses.replace(back, tensors={}) == dataclasses.replace(states[-1], tensors={})
    assert all(torch.equal(back.tensors[k], v) for k, v in states[-1].tensors.items())
