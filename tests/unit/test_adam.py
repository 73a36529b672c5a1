"""Our Adam: PyTorch's to the bit, kept and restored like any module, without its compiler."""

import subprocess
import sys

import torch
from torch import nn

from dpgist.training.adam import Adam

BETAS, SMALLEST = (0.5, 0.99), 1e-8


class Pair(nn.Module):
    """Two layers, of which ``forward`` can do without the second."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 2), nn.Linear(2, 1)

    def forward(self, x, *, both):
        found = torch.tanh(self.first(x))
        return self.second(found).sum() if both else found.sum()


def pair():
    torch.manual_seed(0)
    return Pair()


def descend(network, optimiser, steps):
    """Steps of falling rates, every third without the second layer."""
    for step in steps:
        rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))
        network(rows, both=step % 3 != 0).backward()
        optimiser(network, 0.1 / (1 + step))


def ours(adam):
    return lambda network, rate: adam.step(rate)


def theirs(adam):
    def step(network, rate):
        adam.param_groups[0]["lr"] = rate
        adam.step()
        adam.zero_grad()

    return step


def same(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_it_takes_the_steps_that_pytorch_takes():
    network, other = pair(), pair()
    known = torch.optim.Adam(other.parameters(), betas=BETAS, eps=SMALLEST)
    descend(network, ours(Adam(network, betas=BETAS, smallest_moment=SMALLEST)), range(20))
    assert not same(network, other)
    descend(other, theirs(known), range(20))
    assert same(network, other)


def test_a_restored_one_goes_on_to_the_same_bits():
    network, other = pair(), pair()
    whole = Adam(network, betas=BETAS, smallest_moment=SMALLEST)
    descend(network, ours(whole), range(10))
    other.load_state_dict(network.state_dict())
    fresh, restored = (Adam(other, betas=BETAS, smallest_moment=SMALLEST) for _ in range(2))
    restored.load_state_dict({name: kept.clone() for name, kept in whole.state_dict().items()})
    descend(network, ours(whole), range(10, 20))
    descend(other, ours(restored), range(10, 20))
    assert same(network, other)
    descend(network, ours(whole), range(20, 22))
    descend(other, ours(fresh), range(20, 22))
    assert not same(network, other)


def test_training_does_not_import_a_compiler():
    code = """
import sys
from tests.made_gists import MIXED, gist_of, mixed_table
from dpgist import Merf, Training, train
gist = gist_of(mixed_table(50), MIXED, Merf(joint_frequencies=10, pair_frequencies=10))
for generator in ("mixture", "network"):
    train(gist, Training(generator=generator, steps=2), device="cpu")
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
