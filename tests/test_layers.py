"""The layers against the library's own."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mocaps import geometry
from mocaps.layers import BiLSTM, CapsuleHeads, HalvingConv, similarity_in_the_plane


@pytest.mark.parametrize("time", [2, 3, 7, 8, 32])
def test_halving_conv_is_conv1d(time):
    torch.manual_seed(0)
    layer = HalvingConv(3, 5).double()
    library = nn.Conv1d(3, 5, 4, 2, 1, bias=False).double()
    norm = nn.BatchNorm1d(5).double()
    library.weight.data = layer.weight.detach()
    x = torch.randn(6, 3, time, dtype=torch.float64)
    for _ in range(2):  # the second pass with running moments
        expected = F.leaky_relu(norm(library(x)), 0.01)
        torch.testing.assert_close(layer(x.permute(1, 2, 0)).permute(2, 0, 1), expected)
        layer.eval(), norm.eval()


def test_a_layer_first_used_in_inference_mode_still_trains():
    layer = HalvingConv(2, 3)
    x = torch.randn(2, 10, 4)
    with torch.inference_mode():
        layer(x)
    layer(x).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_bilstm_is_the_librarys(steps):
    torch.manual_seed(0)
    H, features, constant_features = 4, 3, 2
    ours = BiLSTM(features, constant_features, H).double()
    library = nn.LSTM(features + constant_features, H, bidirectional=True).double()
    for direction, suffix in enumerate(["", "_reverse"]):
        for name, value in (
            ("weight_ih", torch.cat([ours.weight_input, ours.weight_constant], -1)[direction]),
            ("weight_hh", ours.weight_hidden[direction]),
            ("bias_ih", ours.bias_input[direction]),
            ("bias_hh", ours.bias_hidden[direction]),
        ):
            i, f, o, g = value.detach().chunk(4)
            getattr(library, f"{name}_l0{suffix}").data = torch.cat([i, f, g, o])
    x = torch.randn(features, steps, 6, dtype=torch.float64, requires_grad=True)
    constant = torch.randn(constant_features, dtype=torch.float64, requires_grad=True)
    whole = torch.cat([x, constant[:, None, None].expand(-1, steps, 6)]).permute(1, 2, 0)
    _, (h, _) = library(whole)
    expected = torch.cat([h[0], h[1]], -1).T
    found = ours(x, constant)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    a = torch.autograd.grad((found * weights).sum(), (x, constant, *ours.parameters()))
    b = torch.autograd.grad((expected * weights).sum(), (x, constant))
    torch.testing.assert_close(a[:2], b)
    assert torch.autograd.gradcheck(ours, (x, constant))


def test_capsule_heads_are_lists_of_layers():
    torch.manual_seed(0)
    layer = CapsuleHeads(6, 3, 4, 2).double()
    nn.init.normal_(layer.bias)
    x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    hidden = F.relu(F.linear(x.T, layer.hidden_weight, layer.hidden_bias[:, 0])).view(5, 3, 4)
    expected = torch.stack(
        [F.linear(hidden[:, k], layer.weight[k], layer.bias[k, :, 0]).T for k in range(3)]
    )
    found = layer(x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(layer(x, first=1), found[:, :1])
    weights = torch.randn_like(found)
    a = torch.autograd.grad((found * weights).sum(), (x, *layer.parameters()))
    b = torch.autograd.grad((expected * weights).sum(), (x, *layer.parameters()))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("columns", [True, False])
def test_similarity_in_the_plane_is_geometrys(columns):
    torch.manual_seed(0)
    p = (2 * torch.randn(5, 4, 3, 2, dtype=torch.float64)).requires_grad_()
    expected = geometry.matrix(geometry.similarity(p.unbind(1), 1.5, 2))  # capsule, rest, row, col
    expected = expected.permute(0, 4, 3, 1, 2) if columns else expected.permute(0, 3, 4, 1, 2)
    found = similarity_in_the_plane(p, 1.5, columns)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    (a,) = torch.autograd.grad((found * weights).sum(), p)
    (b,) = torch.autograd.grad((expected * weights).sum(), p)
    torch.testing.assert_close(a, b)
