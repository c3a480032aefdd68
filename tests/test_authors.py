"""The authors' released weights give the authors' outputs, and train on from there."""

import dataclasses

import numpy as np
import pytest
import torch

from mocaps.authors import load_authors
from mocaps.config import preset
from mocaps.data.trajectory20 import Trajectory20
from mocaps.disturb import views
from mocaps.errors import InputError
from mocaps.losses import objective


def outputs(model, classifier, x):
    o = model(x)
    both = {
        "snippet_params": o.snippets,
        "snippet_params_reconstructed": o.snippets_from_segments,
    }
    return {
        "mu": o.snippets.mu,
        "x_hat": o.reconstruction,
        "segment_raw": o.segments.raw,
        "nu": o.segments.nu,
        "x_hat_from_segments": o.reconstruction_from_segments,
        "segment_templates": torch.nn.functional.pad(model.segment_templates(), (1, 0), value=1.0),
        "logits": classifier(o.segments.nu),
        **{k: torch.cat([c.mu[..., None], c.A.flatten(-2)], -1) for k, c in both.items()},
    }


def test_reference(shared):
    """Every array, to 1e-5, absolute and relative to the array's largest number.

    Element by element at 1e-5 + 1e-5 |element| all hold but 11 of the 44,800 raw outputs (off by up
    to 4.6e-5 among numbers of up to 52) and some logits made from them: there the reference, itself
    float32, is 5.7e-5 from what float64 gives, and nobody who rounds in another order can do better
    (folding the templates into the LSTM's bias is another order).
    """
    model, classifier = load_authors(shared / "authors_t20_weights.npz")
    reference = np.load(shared / "authors_t20_reference.npz")
    x = torch.from_numpy(reference["x"])
    with torch.no_grad():
        found = outputs(model, classifier, x)
        exact = outputs(model.double(), classifier.double(), x.double())
    checked = set(reference.files) - {"x", "label"}
    assert checked == set(found)
    for name in checked:
        expected, ours = reference[name], found[name].numpy()
        off = np.abs(ours - expected)
        assert off.max() <= 1e-5 * max(1, np.abs(expected).max()), name
        beyond = off > 1e-5 + 1e-5 * np.abs(expected)
        if name not in ("segment_raw", "logits"):
            assert not beyond.any(), name
        # Where the reference is beyond that tolerance, our rounding is no worse than its own.
        ours_off = np.abs(ours - exact[name].numpy()).max()
        their_off = np.abs(expected - exact[name].numpy()).max()
        assert ours_off <= max(1e-5, 1.5 * their_off), name
    assert np.array_equal(found["logits"].argmax(1).numpy(), reference["logits"].argmax(1))


def test_training_goes_on_without_a_jump(shared):
    """From their weights, no loss term moves by more than its own spread over batches."""
    torch.manual_seed(0)
    model, _ = load_authors(shared / "authors_t20_weights.npz")
    config = preset("authors")
    stream = Trajectory20(32, seed=0)
    adam = torch.optim.Adam(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(0)
    model.train()
    records = []
    for step in range(120):
        x, _ = stream[64 * step : 64 * (step + 1)]
        both = views(x, config.disturb, generator, 64)[0]
        terms, _ = objective(model, both, config.loss)
        records.append([getattr(terms, f.name).item() for f in dataclasses.fields(terms)])
        if step >= 40:  # the first forty only look
            adam.zero_grad()
            terms.total(config.loss).backward()
            adam.step()
    before, after = np.array(records[:40]), np.array(records[-40:])
    spread = before.std(0)
    assert (np.abs(after.mean(0) - before.mean(0)) <= 2 * spread + 0.05 * before.mean(0)).all()


def test_what_is_not_theirs_is_refused(tmp_path):
    with pytest.raises(InputError, match="found no such file"):
        load_authors(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(InputError, match=r"expected an \.npz file of arrays"):
        load_authors(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(InputError, match=r"expected the array 'mcae\.0"):
        load_authors(tmp_path / "other.npz")
