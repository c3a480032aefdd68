"""The terms on inputs whose value is known."""

import math

import pytest
import torch

from mocaps.capsules import SnippetCapsules
from mocaps.config import LossConfig
from mocaps.losses import (
    SPREAD,
    LossTerms,
    contrast_loss,
    segment_loss,
    smoothness_loss,
    snippet_loss,
    sparsity_loss,
    spread_loss,
)


def test_reconstruction_sums_over_time_and_axes_and_averages_over_the_batch():
    x = torch.zeros(3, 4, 2)
    assert snippet_loss(x + 2, x) == 4 * 2 * 4
    found = SnippetCapsules(torch.ones(3, 2, 5, 2, 3), torch.full((3, 2, 5), 3.0))
    none = SnippetCapsules(torch.zeros(3, 2, 5, 2, 3), torch.zeros(3, 2, 5))
    assert segment_loss(found, none) == 2 * 5 * (6 + 9)


def test_smoothness_counts_every_step_or_borders_alone():
    x = torch.arange(8.0)[None, :, None]
    assert smoothness_loss(x) == 7
    x = torch.tensor([0.0, 0, 0, 0, 5, 5, 5, 5])[None, :, None]
    assert smoothness_loss(x, every=4) == 25
    assert smoothness_loss(x, every=8) == 0


def test_sparsity():
    assert sparsity_loss(torch.tensor([[3.0, 4.0], [0.0, 0.0]])) == 12.5


def test_contrast_of_views_that_tell_nothing():
    """All alike: every candidate is as good, log n of all and log (n - 1) of the others."""
    nu = torch.ones(10, 3)
    alike = contrast_loss(nu, 0.1, positive_in_denominator=True)
    assert alike.item() == pytest.approx(math.log(5), abs=1e-5)
    assert contrast_loss(nu, 0.1).item() == pytest.approx(math.log(4), abs=1e-5)


def test_contrast_of_views_that_tell_all():
    """Each sample in a direction of its own, both views the same."""
    nu = torch.eye(4).repeat(2, 1)
    expected = math.log(3) - 1 / 0.5
    assert contrast_loss(nu, 0.5).item() == pytest.approx(expected, abs=1e-5)
    expected = math.log(math.exp(2) + 3) - 2
    found = contrast_loss(nu, 0.5, positive_in_denominator=True)
    assert found.item() == pytest.approx(expected, abs=1e-5)


def test_centred_contrast_does_not_see_a_shift():
    torch.manual_seed(0)
    nu = torch.rand(12, 5)
    torch.testing.assert_close(contrast_loss(nu, centred=True), contrast_loss(nu + 3, centred=True))
    assert contrast_loss(nu) != pytest.approx(contrast_loss(nu + 3).item(), abs=1e-3)


def test_total_weighs_each_term():
    terms = LossTerms(*(torch.tensor(float(10**i)) for i in range(6)))
    weights = LossConfig(snippet=1, segment=2, contrast=3, smoothness=4, sparsity=5, spread=6)
    assert terms.total(weights) == 1 + 20 + 300 + 4000 + 50000 + 600000
    with pytest.raises(ValueError, match="expected at least one loss weight above 0"):
        terms.total(LossConfig(snippet=0, segment=0, contrast=0, smoothness=0, sparsity=0))


def test_spread_is_how_far_activations_move_in_all():
    swing = (torch.arange(40) % 2).float()[:, None] - 0.5
    right = 0.5 + swing * 2 * SPREAD / 5**0.5 * (39 / 40) ** 0.5
    right = torch.cat([right.expand(-1, 5), torch.full((40, 3), 0.4)], 1)  # three that stay off
    assert spread_loss(right).item() == pytest.approx(0, abs=1e-4)
    assert spread_loss(0.4 + 0.1 * (right - 0.4)).item() == pytest.approx(
        math.log(10) ** 2, rel=1e-3
    )
    assert spread_loss(right * 1.5) > 0.1
    assert spread_loss(torch.full((40, 2), 0.4)).isfinite()
