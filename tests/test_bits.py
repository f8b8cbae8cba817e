"""bits: what a source is asked for, which of its bits count, and that nothing but the source is
asked.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from dputils import bits, geometric, noise
from tests.oracles import Script

WRITTEN = bytes(range(1, 65))


@pytest.mark.parametrize(
    "k, width", [(1, 8), (8, 8), (9, 16), (16, 16), (31, 32), (33, 64), (64, 64)]
)
def test_words_are_the_top_bits_of_little_endian_numbers(k, width):
    size = width // 8
    whole = [int.from_bytes(WRITTEN[i : i + size], "little") for i in range(0, 8 * size, size)]
    assert bits.words(k, 8, Script(WRITTEN)).tolist() == [word >> width - k for word in whole]
    assert bits.words(0, 3, Script(WRITTEN)).tolist() == [0, 0, 0]


def test_one_number_of_many_bits():
    assert bits.number(48, Script(WRITTEN)) == int.from_bytes(WRITTEN[:6], "little")


def test_system_bits_are_the_operating_systems_and_fresh_in_every_process():
    assert noise.SYSTEM is bits.SYSTEM and bits.SYSTEM.bytes is os.urandom
    program = (
        "from dputils import noise\n"
        "print(noise.discrete_laplace(10**6, 64, rng=noise.SYSTEM).tolist())"
    )
    command = [sys.executable, "-c", program]
    runs = {subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2)}
    assert len(runs) == 2  # 64 equal draws of scale 10^6 by chance: far below 1e-300


@pytest.fixture
def written(monkeypatch):
    """SYSTEM with bits written down; every other source of randomness is out of order."""

    def refuse(*_, **__):
        raise AssertionError("a source of randomness other than the one that was passed")

    script = Script(np.random.default_rng(1).bytes(1 << 16))
    for name in ("default_rng", "Generator", "PCG64", "SeedSequence", "RandomState"):
        monkeypatch.setattr(np.random, name, type(name, (), {"__init__": refuse}))
    monkeypatch.setattr(os, "urandom", refuse)
    monkeypatch.setattr(bits.SYSTEM, "bytes", script.bytes)
    return script


def test_under_system_every_bit_comes_from_it_and_nothing_else_is_asked(written):
    """A generator seeded with a few of its bits, however well hidden, would draw other numbers."""
    drawn = [
        bits.words(11, 5, bits.SYSTEM).tolist(),
        noise.integers(1000, 7, rng=noise.SYSTEM).tolist(),
        noise.discrete_laplace(10, 50, rng=noise.SYSTEM).tolist(),
        noise.discrete_gaussian(1000, 50, rng=noise.SYSTEM).tolist(),
        geometric.release([3, 4], 1, 0.5, rng=noise.SYSTEM).tolist(),
    ]
    read = written.tell()
    assert read >= 2 * 5 + 2 * 7 + 2 * 50 + (2 + 1 + 2) * 50 + 2 * 2
    written.seek(0)
    replayed = [
        bits.words(11, 5, written).tolist(),
        noise.integers(1000, 7, rng=written).tolist(),
        noise.discrete_laplace(10, 50, rng=written).tolist(),
        noise.discrete_gaussian(1000, 50, rng=written).tolist(),
        geometric.release([3, 4], 1, 0.5, rng=written).tolist(),
    ]
    assert drawn == replayed and written.tell() == read


def test_a_generator_is_asked_for_its_bytes():
    rng, twin = np.random.default_rng(3), np.random.default_rng(3)
    assert bits.words(16, 9, rng).tolist() == np.frombuffer(twin.bytes(18), "<u2").tolist()
