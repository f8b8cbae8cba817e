"""Selection: processor time per candidate at a million candidates, in draws of numpy's
standard_exponential.

Targets: the exponential mechanism at most 2.5 draws per candidate, and faster than numpy's own
weighted choice; the exact release faster than opendp's noisy maximum, whatever the scores are.
Linear: nanoseconds per candidate at 10^5 beside those at 10^6.
"""

from time import process_time as clock

import numpy as np

from dputils import noise, selection
from tests.bench import medians

M = 1_000_000
FLOATING = {
    "exponential_release": selection.exponential_release,
    "permute_and_flip_release": selection.permute_and_flip_release,
    **{
        f"noisy_max_release {name}": lambda *a, name=name, **k: selection.noisy_max_release(
            *a, noise=name, **k
        )
        for name in selection.NOISES
    },
    "top_k_release k=10": lambda scores, *a, **k: selection.top_k_release(scores, 10, *a, **k),
}


def beside(seconds, peers):
    """Yield a row for each job and peer: seconds per candidate."""
    for name in seconds:
        if name not in peers:
            for peer in peers:
                yield name, seconds[name] / M, peer, seconds[peer] / M


def floating(rng):
    """The releases in floating point beside one exponential draw per candidate and beside numpy's
    weighted choice.
    """
    scores = rng.normal(scale=10, size=M)

    def choice():
        weights = np.exp((scores - scores.max()) / 2)
        return rng.choice(M, p=weights / weights.sum())

    jobs = {"standard_exponential": lambda: rng.standard_exponential(M), "rng.choice": choice}
    jobs |= {
        name: lambda release=release: release(scores, 1, 1.0, rng=rng)
        for name, release in FLOATING.items()
    }
    yield from beside(medians(jobs, 8, clock), ["standard_exponential", "rng.choice"])
    fewer = scores[: M // 10]
    jobs = {
        f"{name}, 1e5": lambda release=release: release(fewer, 1, 1.0, rng=rng)
        for name, release in FLOATING.items()
    }
    for name, seconds in medians(jobs, 8, clock).items():
        yield name, seconds / len(fewer)


def exact(rng):
    """The exact release, from the operating system's bits, beside opendp's noisy maximum (exact,
    permute-and-flip).
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    theirs = dp.m.make_noisy_max(domain, dp.linf_distance(T="i64"), dp.max_divergence(), scale=2.0)
    counts, fine = rng.integers(0, 1000, M), rng.integers(0, 2**20, M)
    cases = {
        "counts to 1000": (counts, 1, 1.0),
        "counts, epsilon 1e-6": (counts, 1, 1e-6),
        "counts, epsilon 1e3": (counts, 1, 1e3),
        "all equal": (np.zeros(M, int), 1, 1.0),
        "one far ahead": (np.r_[2**50, counts[1:]], 1, 1.0),
        "grid of 2^-20": (fine, 2**20, 1.0),
        "grid of 2^-20, one ahead": (np.r_[24 * 2**20, fine[1:]], 2**20, 1.0),
        "spread over 2^53": (rng.integers(0, 2**53, M), 1, 1.0),
    }
    jobs = {
        "opendp, counts to 1000": lambda: theirs(counts),
        "standard_exponential": lambda: rng.standard_exponential(M),
    }
    jobs |= {
        f"exact_release {name}": lambda case=case: selection.exact_release(*case, rng=noise.SYSTEM)
        for name, case in cases.items()
    }
    yield from beside(medians(jobs, 5, clock), ["opendp, counts to 1000", "standard_exponential"])


def small():
    """One release among three candidates, and the laws of a few and of many."""
    rng, scores = np.random.default_rng(1), [2, 1, 0]
    jobs = {
        name: lambda release=release: [release(scores, 1, 1.0, rng=rng) for _ in range(200)]
        for name, release in (FLOATING | {"exact_release": selection.exact_release}).items()
        if "top" not in name
    }
    for name, seconds in medians(jobs).items():
        yield f"{name}, 3 candidates, a release", seconds / 200
    many = rng.normal(scale=10, size=M)
    for name, job in {
        "permute_and_flip_law, 1e6": lambda: selection.permute_and_flip_law(many, 2.0),
        "noisy_max_law laplace, 1e3": lambda: selection.noisy_max_law(many[:1000], 2.0, "laplace"),
    }.items():
        yield f"{name}, whole", medians({name: job}, repeats=3)[name]


def main():
    """Yield seconds per candidate, and per release or law where the row says so."""
    rng = np.random.default_rng(1)
    yield from floating(rng)
    yield from exact(rng)
    yield from small()
