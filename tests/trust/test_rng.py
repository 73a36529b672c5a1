"""T-RNG, T-NOSEED, T-FRESH: nobody can choose, repeat or share the noise."""

import inspect
import os
import random
import subprocess
import sys

import numpy as np
import torch

import dpgist as dg
from dpgist.privacy import curator, noise
from dpgist.privacy.noise import SystemBits, add_rounded_gaussian

ZEROS = np.zeros(2_000, np.int64)


def draw():
    return curator.add_rounded_gaussian(ZEROS, noise_std=1e6)


def test_no_seed_reaches_the_noise():
    for function in (add_rounded_gaussian, SystemBits.__init__, curator.release_plan):
        names = set(inspect.signature(function).parameters)
        assert not names & {"seed", "rng", "key", "random_state", "generator"}
    assert "random" not in {name for name, _ in inspect.getmembers(noise, inspect.ismodule)}


def test_seeding_every_generator_does_not_repeat_the_noise():
    pairs = []
    for _ in range(2):
        random.seed(7)
        np.random.seed(7)  # noqa: NPY002
        torch.manual_seed(7)
        pairs.append(draw())
    assert not np.array_equal(*pairs)


def test_two_releases_are_uncorrelated():
    first, second = (
        curator.add_rounded_gaussian(np.zeros(200_000, np.int64), noise_std=1e6) for _ in range(2)
    )
    correlation = np.corrcoef(first, second)[0, 1]
    assert abs(correlation) < 5 / np.sqrt(200_000)


FORKS = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("noise", sys.argv[1])
noise = importlib.util.module_from_spec(spec)
spec.loader.exec_module(noise)
seen = set()
for _ in range(1000):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        draws = noise.add_rounded_gaussian(noise.np.zeros(4, int), noise_std=1e9)
        os.write(writing, draws.tobytes())
        os._exit(0)
    os.close(writing)
    seen.add(os.read(reading, 32))
    os.close(reading)
    os.waitpid(child, 0)
print(len(seen))
"""


def test_a_thousand_forked_processes_draw_a_thousand_noises():
    """The sampler alone in a small process, because forking a large one takes long."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, noise.__file__], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1000"]


def test_the_key_is_drawn_from_the_operating_system(monkeypatch):
    asked = []
    system = os.urandom
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(n) or system(n))
    SystemBits()
    assert asked == [32]


def test_the_seed_of_the_public_calls_is_for_public_randomness_only():
    assert "public" in inspect.getdoc(dg.release).lower()
