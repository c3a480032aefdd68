"""The estimator is scikit-learn's kind of object and the one training loop's result."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mocaps import MotionCapsules
from mocaps.config import preset
from mocaps.errors import InputError
from mocaps.estimator import STEPS


@pytest.fixture(scope="module")
def walks():
    return np.random.default_rng(0).normal(size=(90, 16, 2)).cumsum(axis=1)


def test_it_fits_transforms_and_repeats_itself(walks):
    before = torch.get_rng_state()
    first = MotionCapsules(steps=3).fit(walks)
    again = clone(first).fit(walks)
    nu = first.transform(walks)
    assert nu.shape == (90, 80)
    assert np.array_equal(nu, again.transform(walks))
    assert not np.array_equal(nu, MotionCapsules(steps=3, seed=1).fit_transform(walks))
    assert torch.equal(before, torch.get_rng_state())


def test_it_says_how_far_it_is_unless_told_not_to(walks, capsys, monkeypatch):
    monkeypatch.setattr("mocaps.train.WATCH_EVERY", 0.0)
    MotionCapsules(steps=4, verbose=False).fit(walks)
    assert capsys.readouterr().out == ""
    MotionCapsules(steps=4).fit(walks)
    assert re.match(r"MotionCapsules  step \d/4  .*left", capsys.readouterr().out)


def test_it_trains_as_long_as_it_is_told(walks):
    assert MotionCapsules()._config(walks.shape).train.steps == STEPS
    assert MotionCapsules(steps=None)._config(walks.shape).train == replace(
        preset("equivariant").train, batch_size=81
    )


def test_it_explains(walks):
    capsules = MotionCapsules(steps=2).fit(walks)
    explained = capsules.explain(walks)
    assert explained["B"].shape == (90, 80, 3, 3)
    assert explained["reconstruction"].shape == walks.shape
    np.testing.assert_allclose(explained["nu"], capsules.transform(walks), atol=1e-6)


def test_it_stands_in_a_pipeline(walks):
    pipeline = make_pipeline(MotionCapsules(steps=2), StandardScaler())
    assert pipeline.fit_transform(walks).shape == (90, 80)


def test_points_in_space_and_odd_lengths():
    X = np.random.default_rng(0).normal(size=(80, 14, 3, 3))
    settings = {"model.num_segment_capsules": 5}
    capsules = MotionCapsules(steps=2, settings=settings).fit(X)
    assert capsules.config_.model.snippet_length == 7
    assert capsules.transform(X).shape == (80, 15)


def test_a_batch_is_no_larger_than_what_there_is(walks):
    assert MotionCapsules(steps=1).fit(walks).config_.train.batch_size == 81  # a tenth is held out
    chosen = MotionCapsules(steps=1, settings={"train.batch_size": 8}).fit(walks)
    assert chosen.config_.train.batch_size == 8


def test_what_it_cannot_read(walks):
    with pytest.raises(NotFittedError):
        MotionCapsules().transform(walks)
    with pytest.raises(InputError, match=r"got float64 of shape \(90, 16\)"):
        MotionCapsules().fit(walks[..., 0])
    with pytest.raises(InputError, match=r"expected sequences of a length that one of .* got 31"):
        MotionCapsules().fit(np.zeros((80, 31, 2)))
    broken = walks.copy()
    broken[7, 3] = np.nan
    with pytest.raises(InputError, match="sequence 7, frame 3"):
        MotionCapsules().fit(broken)
    with pytest.raises(InputError, match=r"settings: unknown key 'model\.capsules'"):
        MotionCapsules(settings={"model.capsules": 3}).fit(walks)
    with pytest.raises(InputError, match=r"the model expects 'x' of shape \(n, 16, 2\)"):
        MotionCapsules(steps=1).fit(walks).transform(walks[:, :8])
