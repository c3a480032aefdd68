"""What is replayed equals what would have been run, bit for bit."""

import pytest
import small
import torch
from torch import nn

from mocaps import baselines, replay, train
from mocaps import config as configs
from mocaps.data import batches
from mocaps.probe import OnlineProbe
from mocaps.replay import Repeated


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def same(a, b):
    pairs = zip(a, b, strict=True)
    return all(x is y if x is None else torch.equal(x, y) for x, y in pairs)


def inputs(n=6, *shape):
    draws = torch.Generator().manual_seed(0)
    return [torch.randn(*(shape or (4, 3)), generator=draws) for _ in range(n)]


def linear_descent():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2))

    def descent(x):
        loss = net(x).square().sum()
        return [loss.detach(), *torch.autograd.grad(loss, list(net.parameters()))]

    return net, descent


def test_values_gradients_and_what_changes_in_place():
    (a, run), (b, once) = linear_descent(), linear_descent()
    repeated = Repeated(once)
    for x in inputs():
        assert same(run(x), repeated(x))
        assert same(a.state_dict().values(), b.state_dict().values())
        with torch.no_grad():  # parameters are read as they are
            for p, q in zip(a.parameters(), b.parameters(), strict=True):
                p.mul_(0.9), q.mul_(0.9)
    assert repeated.why_not is None
    assert len(repeated.calls) > 10


def in_place(x):
    total = torch.zeros_like(x)  # written: made anew every time
    for row in x.clone().unbind(0):
        total += row.sigmoid_()
    rest = torch.ones(3)  # read alone: made once
    return [total + rest, total[1:].T]


def views(x):
    y = x * 2
    y.T[1:].mul_(3)
    return [y, y.unflatten(1, (3, 1))[:, 1:], x.expand(2, 4, 3)]


def several_at_once(x):
    values, places = x.sort(1)
    return [values, places, *torch.var_mean(x, 0), x.logsumexp(1)]


def drawn(x):
    return [x + torch.empty_like(x).uniform_(), torch.rand(2) + x.sum()]


def without_some(x):
    return [x.exp(), None, x]


@pytest.mark.parametrize("function", [in_place, views, several_at_once, drawn, without_some])
def test_small_functions(function):
    repeated, generator = Repeated(function), torch.get_rng_state()
    for i, x in enumerate(inputs()):
        torch.set_rng_state(generator)
        torch.manual_seed(i)
        wanted = function(x)
        torch.manual_seed(i)
        assert same(wanted, repeated(x))
    assert repeated.why_not is None


def test_memory_is_used_again():
    def chain(x):
        for _ in range(50):
            x = x * 1.5 - 0.5
        return [x]

    repeated = Repeated(chain)
    for x in inputs(3, 100, 100):
        assert same(chain(x), repeated(x))
    places = {y.data_ptr() for call in repeated.calls for y in call.keywords.values()}
    assert len(repeated.calls) == 100
    assert len(places) <= 3


def branches(x):
    return [x * (2 if x.sum() > 0 else 3)]


def selects(x):
    return [x[x > 0] * 2]


@pytest.mark.parametrize("function", [branches, selects])
def test_a_function_that_looks_at_numbers_is_run_as_it_is(function):
    repeated = Repeated(function)
    for x in inputs():
        assert same(function(x), repeated(x))
    assert "depends on a tensor's numbers" in repeated.why_not
    assert not repeated.calls


def test_nor_is_one_elsewhere_than_on_the_processor():
    repeated = Repeated(lambda x: [x * 2])
    assert repeated(torch.empty(3, device="meta"))[0].is_meta
    assert "elsewhere than on the processor" in repeated.why_not


def test_and_one_on_inputs_of_another_shape():
    repeated = Repeated(in_place)
    for x in [*inputs(2), *inputs(2, 1, 3), *inputs(2)]:
        assert same(in_place(x), repeated(x))


def test_nor_is_one_that_needs_much_memory(monkeypatch):
    monkeypatch.setattr(replay, "LIMIT", 1000)
    (a, run), (b, once) = linear_descent(), linear_descent()
    repeated = Repeated(lambda x: [torch.cat([x] * 50), *once(x)])
    for x in inputs(3):
        assert same(run(x), repeated(x)[1:])
    assert same(a.state_dict().values(), b.state_dict().values())
    assert repeated.why_not == "it needs too much memory"


CONFIGURATIONS = {
    "paper": {},
    "authors": {},
    "equivariant": {},
    "paper, one layer": {"model.num_segment_capsules": "0", "model.snippet_length": "32"},
    "paper, planes": {"model.num_points": "2", "model.planes": "true"},
    "equivariant, a body in space": {"model.num_points": "3", "model.dimension": "3"},
    "paper, an LSTM": {"baseline.kind": '"lstm"', "baseline.hidden": "12"},
    "paper, a 1D-Conv": {"baseline.kind": '"conv"', "baseline.hidden": "12"},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_training_ends_with_the_same_bits(name, monkeypatch):
    """Replayed and run; the noise on activations is drawn alike."""
    settings = {"train.steps": "6", "train.batch_size": "8", **CONFIGURATIONS[name]}
    config = configs.with_settings(configs.preset(name.split(",")[0]), settings)
    draws = torch.Generator().manual_seed(1)
    x = torch.randn(64, *batches.input_shape(config), generator=draws).cumsum(1)
    source = batches.Batches(lambda a, b: (x[a:b], torch.arange(a, b) % 20), 6, x[:8], None, 20)

    def trained():
        torch.manual_seed(0)
        model = baselines.build(config)
        probe = OnlineProbe(config.num_features, 20)
        records = []
        train.fit(
            model,
            source,
            config,
            probe=probe,
            objective=baselines.objective,
            on_epoch=records.append,
        )
        return [*model.state_dict().values(), *probe.state_dict().values()], records

    replayed, records = trained()
    monkeypatch.setattr(train, "Repeated", lambda function: function)
    run, records_of_run = trained()
    assert same(replayed, run)
    for record in records + records_of_run:
        del record["seconds"]
    assert records == records_of_run


def test_trainings_are_replayed(monkeypatch):
    made = []
    monkeypatch.setattr(train, "Repeated", lambda f: made.append(Repeated(f)) or made[-1])
    config = small.config(train__steps=3)
    model, probe = small.modules(config)
    train.fit(model, small.stream(config), config, probe=probe)
    assert made[0].why_not is None
    assert len(made[0].calls) > 200
