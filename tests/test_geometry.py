"""Transformations form a group, move points as said, and stay what they promise to be."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mocaps import geometry

numbers = st.floats(-4, 4, allow_nan=False, width=32)


def make(d, draws):
    parameters = [torch.tensor(v, dtype=torch.float64) for v in draws]
    return geometry.matrix(geometry.similarity(parameters, 1.5, d))


def drawn(data, d):
    """A transformation. Made outside of the strategy, where the shape checks may draw numbers."""
    count = geometry.num_similarity_parameters(d)
    return make(d, data.draw(st.lists(numbers, min_size=count, max_size=count)))


dimensions = pytest.mark.parametrize("d", [2, 3])


@dimensions
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_group(d, data):
    T, U, V = (drawn(data, d) for _ in range(3))
    p = torch.linspace(-2, 2, 5 * d, dtype=torch.float64).view(5, d)
    identity = torch.eye(d, d + 1, dtype=torch.float64)
    close(geometry.compose(T, geometry.inverse(T)), identity)
    close(geometry.compose(geometry.inverse(T), T), identity)
    close(geometry.compose(geometry.compose(T, U), V), geometry.compose(T, geometry.compose(U, V)))
    close(geometry.apply(geometry.compose(T, U), p), geometry.apply(T, geometry.apply(U, p)))
    square = geometry.homogeneous(T) @ geometry.homogeneous(U)
    close(geometry.homogeneous(geometry.compose(T, U)), square)


@dimensions
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_similarity_is_one(d, data):
    T = drawn(data, d)
    linear = T[:, :-1]
    scale = geometry.scale(T)
    assert 0 < scale < 1
    close(linear @ linear.T, scale**2 * torch.eye(d, dtype=torch.float64))
    assert torch.linalg.det(linear) > 0
    assert T[:, -1].abs().max() <= 1.5


def test_rotations_in_space_are_exponentials():
    theta = torch.randn(20, 3, dtype=torch.float64) * torch.logspace(-12, 0.4, 20)[:, None].double()
    R = torch.stack([torch.stack(row, -1) for row in geometry.rotation(theta.unbind(-1))], -2)
    x, y, z = theta.unbind(-1)
    o = torch.zeros_like(x)
    K = torch.stack([o, -z, y, z, o, -x, -y, x, o], -1).unflatten(-1, (3, 3))
    close(R, torch.linalg.matrix_exp(K))


def test_a_rotation_has_a_gradient_at_rest():
    theta = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    R = geometry.rotation(theta.unbind(-1))
    (gradient,) = torch.autograd.grad(R[2][1], theta)
    close(gradient, torch.tensor([1.0, 0, 0]).double())
    assert torch.autograd.gradcheck(
        lambda v: torch.stack([e for row in geometry.rotation(v.unbind(-1)) for e in row]),
        torch.tensor([0.3, -1.2, 0.7], dtype=torch.float64, requires_grad=True),
    )


@pytest.mark.parametrize("degrees", [-179, -90, -1, 0, 30, 179])
def test_angle(degrees):
    turn = math.radians(degrees)
    parameters = [torch.tensor(v, dtype=torch.float64) for v in (0.3, 1, -1, turn)]
    T = geometry.matrix(geometry.similarity(parameters, 1.5, 2))
    assert math.degrees(geometry.angle(T)) == pytest.approx(degrees)
    axis = turn * torch.tensor([0.6, 0, 0.8], dtype=torch.float64)
    parameters = [torch.tensor(v, dtype=torch.float64) for v in (0.3, 1, -1, 2, *axis.tolist())]
    T = geometry.matrix(geometry.similarity(parameters, 1.5, 3))
    assert math.degrees(geometry.angle(T)) == pytest.approx(abs(degrees), abs=1e-6)


def test_squash_bounds():
    wild = [[torch.tensor(v) for v in row] for row in ([9.0, 9, 9], [-9, -9, -9])]
    T = geometry.matrix(geometry.squash(wild, 1.5))
    assert T[0].tolist() == pytest.approx([2, 1.5, 1.5], abs=1e-3)
    assert T[1].tolist() == pytest.approx([-1.5, 0, -1.5], abs=1e-3)


def test_the_released_angle_never_passes_75_degrees():
    """Its transformations cannot turn far."""
    theta = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    s = torch.full_like(theta, 20.0)
    o = torch.zeros_like(theta)
    T = geometry.matrix(geometry.squashed_similarity([s, o, o, theta], 1.5))
    assert 74 < geometry.angle(T).abs().max().rad2deg() < 75


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
