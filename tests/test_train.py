import math

import numpy as np
import pytest
import small
import torch
from torch import nn

from mocaps import losses, train
from mocaps.data import batches
from mocaps.data.trajectory20 import Trajectory20
from mocaps.errors import InputError
from mocaps.probe import OnlineProbe


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def weights(*modules):
    return [tensor.clone() for module in modules for tensor in module.state_dict().values()]


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def timeless(records):
    return [{k: v for k, v in r.items() if k != "seconds"} for r in records]


def trained(config, source=None, state=None, **options):
    """Weights, records, saved states and outcome of one call of fit from the seed's start."""
    source = source or small.stream(config)
    model, probe = small.modules(config)
    probe = probe if source.num_classes else None
    records, states = [], []
    outcome = train.fit(
        model,
        source,
        config,
        probe=probe,
        state=state,
        on_epoch=records.append,
        save=states.append,
        **options,
    )
    modules = (model,) if probe is None else (model, probe)
    return weights(*modules), records, states, outcome


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    config = small.config(train__steps=12)
    first, records, _, outcome = trained(config)
    again, records_again, _, _ = trained(config)
    other, _, _, _ = trained(small.config(train__steps=12, train__seed=1))
    assert same(first, again)
    assert timeless(records) == timeless(records_again)
    assert not same(first, other)
    assert (outcome.finished, outcome.step, outcome.kept) == (True, 12, "last")
    assert [r["step"] for r in records] == [5, 10, 12]


@pytest.mark.parametrize(
    ("stop_at", "schedule"),
    [(0, "constant"), (5, "cosine"), (7, "constant"), (16, "constant"), (17, "cosine")],
)
def test_a_stopped_run_goes_on_bit_for_bit(stop_at, schedule):
    # 23 steps in chunks of 16 and epochs of 5; noise on the activations draws from torch's state.
    config = small.config(train__steps=23, train__schedule=schedule, model__activation_noise=2)
    whole, records, _, _ = trained(config)
    asked = iter(range(1000))
    _, before, states, stopped = trained(config, stop=lambda: next(asked) == stop_at)
    assert states[-1].step == stop_at
    assert not stopped.finished
    resumed, after, _, outcome = trained(config, state=states[-1])
    assert outcome.finished
    assert same(whole, resumed)
    assert timeless(before + after) == timeless(records)


def test_a_raised_budget_continues_as_if_it_had_been_so_from_the_start():
    short, long = small.config(train__steps=7), small.config(train__steps=14)
    _, _, states, _ = trained(short)
    assert same(trained(long, state=states[-1])[0], trained(long)[0])


def test_the_random_state_of_the_caller_is_left_alone():
    config = small.config(train__steps=3, model__activation_noise=2)
    source, (model, probe) = small.stream(config), small.modules(config)
    before = torch.get_rng_state()
    train.fit(model, source, config, probe=probe)
    assert torch.equal(before, torch.get_rng_state())


def test_patience_ends_a_run_and_the_best_epoch_is_kept(monkeypatch):
    accuracies = iter([0.1, 0.3, 0.2, 0.3, 0.1] + [0.9] * 2)
    monkeypatch.setattr(train._Loop, "accuracy", lambda *_: next(accuracies))
    config = small.config(train__patience=3)
    kept, records, states, outcome = trained(config)
    assert (outcome.kept, outcome.kept_step, outcome.step) == ("best", 10, 25)
    assert [r["best_step"] for r in records] == [5, 10, 10, 10, 10]
    two_epochs = trained(small.config(train__steps=10))
    assert same(kept, two_epochs[0])
    assert same(kept, list(train.kept_weights(states[-1], config.train).values()))


def test_best_weights_survive_a_resume(monkeypatch):
    def scripted(accuracies):
        values = iter(accuracies)
        monkeypatch.setattr(train._Loop, "accuracy", lambda *_: next(values))

    config = small.config(train__patience=2)
    scripted([0.5, 0.4, 0.3])
    whole = trained(config)[0]
    scripted([0.5, 0.4])
    asked = iter(range(1000))
    _, _, states, _ = trained(config, stop=lambda: next(asked) == 12)
    scripted([0.3])
    resumed, _, _, outcome = trained(config, state=states[-1])
    assert (outcome.kept_step, outcome.step) == (5, 15)
    assert same(whole, resumed)


def test_the_probe_sends_no_gradient_back():
    config = small.config(train__steps=6)
    source = small.stream(config)
    with_probe = trained(config, source)[0]
    without = trained(config, small.unlabelled(source))[0]
    assert same(with_probe[: len(without)], without)


def test_without_labels_validation_is_by_the_loss():
    config = small.config(train__epochs=3, train__patience=0)
    _, records, _, outcome = trained(config, small.unlabelled(small.stream(config)))
    assert outcome.step == 15
    best = min(records, key=lambda r: r["validation_loss"])
    assert outcome.kept_step == best["step"]
    assert "probe" not in records[0]


def test_minutes_are_a_budget():
    config = small.config(train__minutes=0.001)
    _, _, _, outcome = trained(config)
    assert outcome.finished
    assert outcome.kept == "last"
    assert outcome.seconds >= 0.06


def test_losses_in_a_record_are_means_over_the_epoch():
    config = small.config(train__steps=5, train__learning_rate=1e-12)
    source, (model, probe) = small.stream(config), small.modules(config)
    records = []
    train.fit(model, source, config, probe=probe, on_epoch=records.append)
    total = sum(getattr(config.loss, t) * records[0][t] for t in train.TERMS)
    assert records[0]["total"] == pytest.approx(total, rel=1e-5)
    assert records[0]["probe"] == pytest.approx(math.log(20), rel=0.1)


def test_steps_are_those_of_backward_and_the_librarys_adam():
    """Of every parameter, whatever way round its gradient comes."""
    config = small.config(train__steps=6)
    ours, of_ours = small.modules(config)
    train.fit(ours, small.stream(config), config, probe=of_ours)

    theirs, of_theirs = small.modules(config)
    loop = train._Loop(theirs, small.stream(config), config, of_theirs, losses.objective)
    loop.restore(train.State())
    adam = torch.optim.Adam(loop.parameters, config.train.learning_rate)
    chunks = loop.chunks()
    theirs.train()
    for _ in range(6):
        views, labels = next(chunks)
        terms, nu = losses.objective(theirs, views, config.loss)
        adam.zero_grad()
        of_probe = torch.nn.functional.cross_entropy(of_theirs(nu), labels)
        (terms.total(config.loss) + of_probe).backward()
        adam.step()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-4, atol=1e-5), name
    for p, q in zip(of_ours.parameters(), of_theirs.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-4, atol=1e-5)


def test_a_loss_that_is_not_finite_stops_with_a_sentence_and_saves_nothing():
    config = small.config(train__steps=30)

    def objective(model, views, weights):
        terms, features = losses.objective(model, views, weights)
        if model.training:  # counted in a tensor: the objective is recorded once, then replayed
            count.add_(1)
        spoiled = torch.where(count == 9, torch.nan, terms.snippet)
        return losses.LossTerms(**(vars(terms) | {"snippet": spoiled})), features

    count = torch.zeros(())
    states = []
    with pytest.raises(train.Diverged, match=r"loss stopped being finite in step 9; .*0\.001"):
        train.fit(
            *(lambda m: (m[0], small.stream(config), config))(small.modules(config)),
            objective=objective,
            save=states.append,
        )
    assert states == []


def test_weights_that_are_not_finite_are_never_saved(monkeypatch):
    monkeypatch.setattr(train, "SAVE_EVERY", 0)
    config = small.config(train__steps=30)
    model, probe = small.modules(config)
    states = []

    def save(state):
        states.append(state)
        if len(states) == 3:
            with torch.no_grad():
                model.get_parameter("snippet.templates")[0, 0, 1] = torch.inf

    with pytest.raises(train.Diverged):
        train.fit(model, small.stream(config), config, probe=probe, save=save)
    assert all(bool(v.isfinite().all()) for s in states for v in s.tensors.values())


def test_another_module_with_embed_trains_on_the_contrast_alone():
    class Baseline(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def embed(self, x):
            return self.layer(x.flatten(1)).sigmoid()

    def objective(model, views, weights):
        features = model.embed(views)
        zero = features.new_zeros(())
        contrast = losses.contrast_of(features, weights)
        return losses.LossTerms(zero, zero, contrast, zero, zero, zero), features

    config = small.config(train__steps=60, train__learning_rate=0.01, train__batch_size=16)
    torch.manual_seed(0)
    model, probe, records = Baseline(), OnlineProbe(10, 20), []
    train.fit(
        model,
        small.stream(config),
        config,
        probe=probe,
        objective=objective,
        on_epoch=records.append,
    )
    assert records[-1]["contrast"] < records[0]["contrast"] - 0.1


def test_epochs_over_arrays_take_each_sequence_once_in_orders_of_their_own():
    config = small.config(train__batch_size=4)
    x = np.arange(30, dtype=np.float32).repeat(64).reshape(30, 32, 2)
    y = np.arange(30) % 3
    source = batches.of_arrays(x, y, config)
    assert source.steps_per_epoch == 6  # 27 to learn from, 3 held out
    assert source.num_classes == 3
    held_out = set(source.validation_x[:, 0, 0].tolist())
    seen, labels = source.take(0, 48)
    first, second = seen[:24, 0, 0].tolist(), seen[24:, 0, 0].tolist()
    assert len(set(first)) == 24
    assert len(set(second)) == 24
    assert first != second
    assert held_out.isdisjoint(first + second)
    assert labels is not None
    assert torch.equal(labels, seen[:, 0, 0].long() % 3)
    # What is at a place depends on the place alone.
    again, _ = batches.of_arrays(x, y, config).take(20, 30)
    assert torch.equal(again, seen[20:30])


def test_fit_on_arrays_without_labels():
    config = small.config(train__epochs=2, train__patience=0)
    x = Trajectory20(seed=5)[:50][0].numpy()
    _, records, _, outcome = trained(config, batches.of_arrays(x, None, config))
    assert outcome.finished
    assert len(records) == 2


def test_fewer_sequences_than_a_batch_are_refused():
    config = small.config(train__batch_size=64)
    with pytest.raises(InputError, match=r"at least train.batch_size = 64 .*got 36"):
        batches.of_arrays(np.zeros((40, 32, 2), np.float32), None, config)


def test_t20_refuses_models_of_other_data():
    with pytest.raises(InputError, match="dimension = 3"):
        batches.of(small.config(model__dimension=3))
