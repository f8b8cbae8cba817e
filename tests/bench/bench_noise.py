"""Noise: time per sample against numpy's floating samplers and opendp's vector release; time to
build a table.

Targets: exact integer noise at most 1.5 times numpy's own floating Laplace and normal for scales 1
to 1,000, and at least 100 times faster than opendp (ratios of 0.01 and less).
"""

import time

import numpy as np

from dputils import inversion, noise
from tests.bench import medians

N = 2_000_000  # samples per job of ours and numpy's
N_OPENDP = 2_000  # opendp is linear in the number of samples and thousands of times slower
SCALES = (1, 10, 100, 1000)


def opendp_release(maker, scale):
    """A job that releases a vector of `N_OPENDP` integers with opendp's noise."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    norm = dp.l1_distance(T="i64") if maker is dp.m.make_laplace else dp.l2_distance(T="f64")
    measurement = maker(dp.vector_domain(dp.atom_domain(T="i64")), norm, scale=float(scale))
    values = np.zeros(N_OPENDP, dtype=np.int64)
    return lambda: measurement(values)


def against_numpy(rng):
    """The floating and exact samplers beside numpy's, all interleaved."""
    jobs = {
        "numpy laplace": lambda: rng.laplace(0.0, 1.0, N),
        "numpy normal": lambda: rng.normal(0.0, 1.0, N),
        "laplace (floating)": lambda: noise.laplace(1.0, N, rng=rng),
        "gaussian (floating)": lambda: noise.gaussian(1.0, N, rng=rng),
    }
    for scale in (*SCALES, 10**6):
        jobs[f"discrete_laplace {scale}"] = lambda scale=scale: noise.discrete_laplace(
            scale, N, rng=rng
        )
        jobs[f"discrete_gaussian {scale}"] = lambda scale=scale: noise.discrete_gaussian(
            scale, N, rng=rng
        )
    jobs["bernoulli_exp 1/10"] = lambda: noise.bernoulli_exp(0.1, N, rng=rng)
    seconds = medians(jobs)
    for name in list(jobs)[2:]:
        peer = "numpy normal" if "gaussian" in name else "numpy laplace"
        yield name, seconds[name] / N, peer, seconds[peer] / N


def system_against_generator(rng):
    """The same exact draws from the operating system's bits."""
    for sampler, scale in ((noise.discrete_laplace, 10), (noise.discrete_gaussian, 1000)):
        jobs = {
            "generator": lambda: sampler(scale, N, rng=rng),
            "SYSTEM": lambda: sampler(scale, N, rng=noise.SYSTEM),
        }
        seconds = medians(jobs, repeats=5)
        yield (
            f"{sampler.__name__} {scale}, SYSTEM",
            seconds["SYSTEM"] / N,
            "generator",
            seconds["generator"] / N,
        )


def against_opendp(rng):
    """The exact samplers beside opendp's vector release."""
    import opendp.prelude as dp

    for sampler, maker in (
        (noise.discrete_laplace, dp.m.make_laplace),
        (noise.discrete_gaussian, dp.m.make_gaussian),
    ):
        for scale in SCALES:
            jobs = {
                "ours": lambda: sampler(scale, N, rng=rng),
                "opendp": opendp_release(maker, scale),
            }
            seconds = medians(jobs, repeats=5)
            yield (
                f"{sampler.__name__} {scale}",
                seconds["ours"] / N,
                "opendp",
                seconds["opendp"] / N_OPENDP,
            )


def building(rng):
    """The first draw of a new scale, which builds its table, beside the next one."""
    for sampler, law in (
        (noise.discrete_laplace, inversion.laplace),
        (noise.discrete_gaussian, inversion.gaussian),
    ):
        for scale in SCALES:
            taken = []
            for _ in range(5):
                law.cache_clear()
                for _ in range(2):
                    start = time.perf_counter()
                    sampler(scale, rng=rng)
                    taken.append(time.perf_counter() - start)
            first, later = np.median(taken[::2]), np.median(taken[1::2])
            yield f"{sampler.__name__} {scale}, first draw", first, "next draw", later


def main():
    """Yield seconds per sample."""
    rng = np.random.default_rng(1)
    yield from against_numpy(rng)
    yield from system_against_generator(rng)
    yield from against_opendp(rng)
    yield from building(rng)
