"""The optimiser is the library's, bit for bit, and goes on from its state."""

import torch
from torch import nn

from mocaps.adam import Adam


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(3, 3))


def gradients(net, step):
    """Of the first two layers; the last one gets none."""
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(step))
    loss = net[:3](x).square().sum()
    return torch.autograd.grad(loss, net.parameters(), allow_unused=True)


def test_it_is_the_librarys():
    ours, theirs = model(), model()
    a, b = Adam(ours.parameters(), 1e-2), torch.optim.Adam(theirs.parameters(), 1e-2, fused=True)
    for step in range(20):
        if step == 10:
            a.learning_rate = b.param_groups[0]["lr"] = 3e-3
        for p, g in zip(theirs.parameters(), gradients(theirs, step), strict=True):
            p.grad = g
        a.step(gradients(ours, step)), b.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(p, q)
    assert torch.equal(ours[3].weight, model()[3].weight)


def test_it_goes_on_from_its_state():
    whole, parted = model(), model()
    a, b = Adam(whole.parameters(), 1e-2), Adam(parted.parameters(), 1e-2)
    for step in range(6):
        if step == 3:
            state = b.state()
            b = Adam(parted.parameters(), 1e-2)
            b.load(state)
        a.step(gradients(whole, step)), b.step(gradients(parted, step))
    for p, q in zip(whole.parameters(), parted.parameters(), strict=True):
        assert torch.equal(p, q)
