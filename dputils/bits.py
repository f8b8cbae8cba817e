"""Random bits: the one function through which every exact sampler reads its source of randomness.

A source is a `np.random.Generator`, reproducible and pseudo-random, for experiments; or `SYSTEM`,
the bits of the operating system, for releases. Both are asked for whole bytes, which are read as
little-endian: a seed gives the same draws on every platform.
"""

import os
from types import SimpleNamespace

import numpy as np

SYSTEM = SimpleNamespace(is_operating_system=True, bytes=os.urandom)
_WIDTHS = (8, 16, 32, 64)


def words(k, n, rng):
    """Return `n` independent numbers of `k` fair bits each.

    Parameters
    ----------
    k : int, 1 to 64, or 0 for zeros
    n : int
    rng : numpy.random.Generator or SYSTEM
        `rng.bytes` is called once, for n numbers of the next width of 8, 16, 32 or 64 bits; the top
        k bits of each count.

    Returns
    -------
    unsigned integer array of shape (n,)
    """
    width = next(width for width in _WIDTHS if width >= k)
    return np.frombuffer(rng.bytes(n * width // 8), dtype=f"<u{width // 8}") >> (width - k)


def number(k, rng):
    """Return one number of `k` fair bits as a Python integer; k is a multiple of 8, of any size."""
    return int.from_bytes(words(8, k // 8, rng).tobytes(), "little")
