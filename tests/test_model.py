"""The model against loops from the equations, its properties, and its counts."""

import dataclasses

import naive
import pytest
import torch

from mocaps.config import LossConfig, ModelConfig, preset
from mocaps.errors import InputError
from mocaps.losses import objective
from mocaps.model import MCAE, MultiPointMCAE, build, parameter_count

SMALL = ModelConfig(  # without noise, so that two passes are one
    length=16, num_snippet_capsules=3, num_segment_capsules=4, activation_noise=0.0
)
VARIANTS = {
    "paper": (SMALL, preset("paper").loss),
    "as printed": (
        dataclasses.replace(SMALL, normalised_mixtures=False),
        LossConfig(positive_in_denominator=False),
    ),
    "authors": (dataclasses.replace(SMALL, transformation="squashed"), preset("authors").loss),
    "in space": (dataclasses.replace(SMALL, dimension=3), LossConfig(centred=True)),
    "short snippets": (dataclasses.replace(SMALL, snippet_length=4), preset("paper").loss),
    "odd snippets": (dataclasses.replace(SMALL, length=14, snippet_length=7), preset("paper").loss),
    "long snippets": (dataclasses.replace(SMALL, snippet_length=16), preset("authors").loss),
}


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def awake(model):
    """Parameters spread out, so that no term of an equation is near nothing."""
    with torch.no_grad():
        for p in model.parameters():
            p += 0.3 * torch.randn_like(p)
        model.snippet.templates[..., 0] = 0
    return model


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.usefixtures("double")
def test_losses_and_gradients_are_those_of_the_equations(name):
    torch.manual_seed(1)
    config, weights = VARIANTS[name]
    model = awake(MCAE(config))
    x = torch.randn(4, config.length, config.dimension)
    terms, _ = objective(model, x, weights)
    expected, total = naive.losses(model, x, weights)
    for term, value in expected.items():
        torch.testing.assert_close(getattr(terms, term), value, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(terms.total(weights), total, rtol=1e-10, atol=1e-10)
    names, parameters = zip(*model.named_parameters(), strict=True)
    ours = torch.autograd.grad(terms.total(weights), parameters)
    theirs = torch.autograd.grad(total, parameters, allow_unused=True)
    for parameter, a, b in zip(names, ours, theirs, strict=True):
        b = torch.zeros_like(a) if b is None else b
        torch.testing.assert_close(
            a, b, rtol=1e-10, atol=1e-10, msg=lambda m, p=parameter: f"{p}: {m}"
        )


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.usefixtures("double")
def test_outputs_are_those_of_the_equations(name):
    torch.manual_seed(2)
    config, _ = VARIANTS[name]
    model = awake(MCAE(config))
    x = torch.randn(4, config.length, config.dimension)
    output = model(x)
    d = config.dimension
    for n, sample in enumerate(naive.explain(model, x)):
        for i in range(config.num_snippets):
            close(output.snippets.A[n, i], torch.stack(sample.A[i])[:, :d])
            close(output.snippets.mu[n, i], torch.stack(sample.mu[i]))
            close(output.snippets_from_segments.A[n, i], torch.stack(sample.A_hat[i])[:, :d])
            close(output.snippets_from_segments.mu[n, i], torch.stack(sample.mu_hat[i]))
        close(output.reconstruction[n], sample.x_hat)
        close(output.reconstruction_from_segments[n], sample.x_hat_from_segments)
        close(output.segments.B[n], torch.stack(sample.B)[:, :d])
        close(output.segments.nu[n], sample.nu)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_parameter_counts():
    """277,360 and 270,460 with classifiers of 80 x 20 + 20; the paper rounds the first to 277k."""
    classifier = torch.nn.Linear(80, 20)
    authors, paper = MCAE(preset("authors").model), MCAE(preset("paper").model)
    assert parameter_count(authors, classifier, classifier) == 277_360
    assert parameter_count(paper, classifier) == 270_460


@pytest.mark.parametrize("name", ["paper", "authors"])
@pytest.mark.parametrize("length", [8, 32, 64])
def test_nu_depends_on_no_other_sample(name, length):
    torch.manual_seed(0)
    config = dataclasses.replace(preset(name).model, length=length)
    model = MCAE(config).eval()
    x = torch.randn(5, length, 2)
    whole = model.embed(x)
    torch.testing.assert_close(model.embed(x.flip(0)).flip(0), whole)
    torch.testing.assert_close(torch.cat([model.embed(part) for part in x.split(2)]), whole)
    torch.testing.assert_close(model(x).representation, whole)


def test_segment_templates_explain_themselves():
    """nu of one capsule alone and B the identity: A_hat, mu_hat decode to its template."""
    torch.manual_seed(0)
    model = MCAE(SMALL)
    M, (S, N) = SMALL.num_segment_capsules, (SMALL.num_snippets, SMALL.num_snippet_capsules)
    B = torch.eye(3)[:, :2].expand(M, 3, 2)[..., None].expand(M, 3, 2, M)
    A, mu = model.segment.decode(B, torch.eye(M))
    assert A.shape == (N, 3, 2, S, M)
    points = model.snippet.decode(A, mu, model.snippet.points).permute(3, 2, 0, 1).flatten(1, 2)
    torch.testing.assert_close(points, model.segment_templates())


def test_the_single_layer_model_is_a_configuration():
    config = ModelConfig(snippet_length=32, num_snippet_capsules=80, num_segment_capsules=0)
    model = MCAE(config)
    output = model(torch.randn(3, 32, 2))
    assert output.segments is None
    assert output.representation.shape == (3, 80)
    terms, nu = objective(model, torch.randn(4, 32, 2), LossConfig())
    terms.total(LossConfig()).backward()
    assert nu.shape == (4, 80)
    assert terms.segment == 0


def test_activation_noise_is_for_training_alone():
    torch.manual_seed(0)
    model = MCAE(preset("authors").model)
    x = torch.randn(4, 32, 2)
    assert not torch.equal(model(x).segments.nu, model(x).segments.nu)
    model.eval()
    assert torch.equal(model(x).segments.nu, model(x).segments.nu)


def test_points_planes_and_bodies_fold_into_the_batch():
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL, num_points=5, planes=True)
    model = build(config).eval()
    assert isinstance(model, MultiPointMCAE)
    x = torch.randn(2, 16, 2, 5, 3)  # batch, time, bodies, points, axes
    nu = model.embed(x)
    assert nu.shape == (2, 3 * 5 * 4) == (2, config.num_features)
    for plane, axes in enumerate([(0, 1), (1, 2), (2, 0)]):
        for point in range(5):
            alone = torch.stack([model.mcae.embed(x[:, :, b, point][..., axes]) for b in range(2)])
            at = 4 * (5 * plane + point)
            torch.testing.assert_close(nu[:, at : at + 4], alone.mean(0))
    one_body = model.embed(x[:, :, 0])
    torch.testing.assert_close(one_body, model.embed(x[:, :, :1]))


def test_multi_point_objective_contrasts_the_concatenation():
    torch.manual_seed(0)
    model = build(dataclasses.replace(SMALL, num_points=3))
    terms, nu = objective(model, torch.randn(4, 16, 3, 2), LossConfig())
    assert nu.shape == (4, 12)
    terms.total(LossConfig()).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_wrong_shape_is_named():
    with pytest.raises(
        ValueError, match=r"expected sequences of shape \(batch, 16, 2\), got \(4, 8, 2\)"
    ):
        MCAE(SMALL)(torch.zeros(4, 8, 2))
    with pytest.raises(ValueError, match=r"expected points of shape .*5, 3\), got \(2, 16, 4, 3\)"):
        build(dataclasses.replace(SMALL, num_points=5, planes=True)).embed(torch.zeros(2, 16, 4, 3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"snippet_length": 7},
            "snippet_length: expected at least 2 and a divisor of length = 32, got 7",
        ),
        ({"dimension": 4}, "dimension: expected 2 or 3, got 4"),
        ({"num_segment_capsules": 0}, "snippet_length: expected equal to length"),
        ({"transformation": "squashed", "dimension": 3}, "dimension: expected 2 for the squashed"),
    ],
)
def test_sizes_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        ModelConfig(**settings)
