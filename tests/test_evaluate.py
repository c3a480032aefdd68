import json

import numpy as np
import pytest
import small
import torch
from torch import nn

from mocaps import evaluate as evaluation
from mocaps import launch, probe, runs
from mocaps.data import batches
from mocaps.data.trajectory20 import Trajectory20
from mocaps.errors import InputError
from mocaps.tables import print_evaluation

BUDGETS = (20, 60)


def sample(n, seed):
    x, y = Trajectory20(seed=seed)[:n]
    return x.numpy(), y.numpy()


@pytest.fixture(autouse=True)
def few_labels(monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(launch.data, "of", small.stream)
    monkeypatch.setattr(probe, "BUDGETS", BUDGETS)
    monkeypatch.setattr(probe.subsets, "__defaults__", (BUDGETS, 2))


@pytest.fixture
def run(tmp_path):
    launch.train(small.config(train__steps=4), tmp_path / "run", command="mocaps train")
    return runs.load(tmp_path / "run")


@pytest.fixture
def files(tmp_path):
    for name, seed, n in (("train", 1, 60), ("test", 2, 50)):
        x, y = sample(n, seed)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    return tmp_path / "train.npz", tmp_path / "test.npz"


def test_an_evaluation_holds_every_probe_under_its_own_name(run, files):
    result = json.loads(json.dumps(evaluation.evaluate(run, *files)))
    for scores in (result, *result["floors"].values()):
        assert set(scores["logistic"]) == {"20", "60"}
        assert scores["logistic"]["20"]["draws"] == 2
        assert scores["logistic"]["60"]["standard_error"] is None
        assert set(scores["nearest_neighbour"]) == {"cosine", "euclidean"}
        assert {d: s["draws"] for d, s in scores["one_label_each"].items()} == dict.fromkeys(
            ("cosine", "euclidean"), 20
        )
        for cell in scores["clusters"].values():
            assert 1 / 20 <= cell["mean"] <= 1
    assert set(result["floors"]) == {"raw_coordinates", "fourier_magnitudes", "random_weights"}
    assert 0 <= result["online_probe"] <= 1
    assert result["steps"] == 4
    assert result["parameters"]["probe"] == 140
    assert (result["command"], result["seed"]) == ("mocaps train", 0)
    assert result["config"]["model"]["num_segment_capsules"] == 6
    assert result["test"]["sequences"] == 50


def test_the_same_evaluation_twice_is_the_same(run, files):
    assert evaluation.evaluate(run, *files) == evaluation.evaluate(run, *files)


def test_budgets_above_the_labels_are_left_out(run, files, tmp_path):
    x, y = sample(30, 1)
    np.savez(tmp_path / "train.npz", x=x, y=y)
    result = evaluation.evaluate(run, *files)
    assert set(result["logistic"]) == {"20"}


def test_t20_runs_have_sets_of_their_own(run, monkeypatch):
    splits = {"labels": (60, 1), "test": (50, 2)}
    asked = []

    def fixed(split, length):
        asked.append((split, length))
        return Trajectory20(length, splits[split][1])[: splits[split][0]]

    monkeypatch.setattr(evaluation, "trajectory20", fixed)
    result = evaluation.evaluate(run)
    assert asked == [("labels", 32), ("test", 32)]
    assert result["train"] == {"name": "t20 labels", "sequences": 60}


def test_a_run_on_a_file_is_scored_on_what_it_held_out(tmp_path, monkeypatch):
    x, y = sample(100, 1)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    monkeypatch.setattr(launch.data, "of", real_of)
    config = small.config(train__epochs=1, data__name=f'"{tmp_path / "x.npz"}"')
    launch.train(config, tmp_path / "run2")
    result = evaluation.evaluate(runs.load(tmp_path / "run2"))
    assert result["train"]["sequences"] == 90
    assert result["test"]["sequences"] == 10
    assert result["test"]["name"].endswith("held out")


real_of = batches.of


def test_unlabelled_or_half_given_files_are_refused(run, files, tmp_path):
    with pytest.raises(InputError, match=r"--train was given without --test"):
        evaluation.evaluate(run, files[0])
    with pytest.raises(InputError, match=r"--test was given without --train"):
        evaluation.evaluate(run, test=files[1])
    np.savez(tmp_path / "x.npz", x=sample(30, 1)[0])
    with pytest.raises(InputError, match=r"x.npz: expected an array 'y', found x"):
        evaluation.evaluate(run, files[0], tmp_path / "x.npz")
    np.savez(tmp_path / "long.npz", x=np.zeros((3, 64, 2)), y=np.arange(3))
    with pytest.raises(InputError, match=r"expects 'x' of shape \(n, 32, 2\), got \(3, 64, 2\)"):
        evaluation.evaluate(run, tmp_path / "long.npz", files[1])


def test_random_weights_are_untrained_but_normalised(run):
    x, _ = sample(600, 1)
    model = evaluation.random_model(run.config, x)
    fresh, _ = small.modules(run.config)
    names = [name for name, _ in fresh.named_parameters()]
    assert all(torch.equal(model.get_parameter(n), fresh.get_parameter(n)) for n in names)
    first = next(m for m in model.modules() if isinstance(m, nn.BatchNorm1d))
    assert not torch.allclose(first.running_var, torch.ones_like(first.running_var))
    assert first.momentum == 0.1
    assert not model.training


def test_more_classes_than_the_probe_knows_leave_it_out(run):
    features = np.zeros((3, 6), np.float32)
    assert evaluation.online_accuracy(run, features, np.array([0, 1, 25])) is None


def test_the_printed_tables_hold_few_labels_and_none(run, files, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = evaluation.evaluate(run, *files)
    print_evaluation(result)
    printed = capsys.readouterr().out
    row = [line for line in printed.splitlines() if "Fourier magnitudes" in line][-1]
    floor = result["floors"]["fourier_magnitudes"]
    for key in ("one_label_each", "clusters"):
        for score in floor[key].values():
            assert f"{100 * score['mean']:.1f}" in row
