"""Calibration of Gaussian noise: time per pair (epsilon, delta) against dp_accounting's search and
scipy's root finder.

Targets: at most 0.2 ms for one pair, and about a second for a million pairs at once (a microsecond
a pair).
"""

import numpy as np
from dp_accounting import gaussian_mechanism

from dputils import discrete_gaussian
from dputils.accounting import curves, renyi
from tests.bench import medians

CASES = ((1.0, 1e-6), (0.01, 1e-9), (100.0, 1e-20), (1e-6, 1e-300))
SCALAR = 20  # calls per scalar job
PAIRS = 1_000_000  # pairs per vectorised job


def repeat(function, *arguments):
    """A job of `SCALAR` calls of a function."""

    def job():
        for _ in range(SCALAR):
            function(*arguments)

    return job


def scalars():
    """One pair at a time, beside dp-accounting: mu of (epsilon, delta), and epsilon of mu."""
    for epsilon, delta in CASES:
        mu = curves.gaussian_mu(epsilon, delta)
        seconds = medians(
            {
                "mu": repeat(curves.gaussian_mu, epsilon, delta),
                "their sigma": repeat(gaussian_mechanism.get_sigma_gaussian, epsilon, delta),
                "epsilon": repeat(curves.gaussian_epsilon, mu, delta),
                "their epsilon": repeat(gaussian_mechanism.get_epsilon_gaussian, 1 / mu, delta),
            }
        )
        for ours, theirs in (("mu", "their sigma"), ("epsilon", "their epsilon")):
            job = f"{ours} at epsilon {epsilon:g}, delta {delta:g}"
            yield job, seconds[ours] / SCALAR, "dp-accounting", seconds[theirs] / SCALAR


def arrays():
    """A million pairs at once, drawn over the whole range and over a usual one."""
    rng = np.random.default_rng(1)
    for name, low, high, least in (("whole range", -6, 3, -300), ("usual", -2, 1, -12)):
        epsilon, delta = 10 ** rng.uniform(low, high, PAIRS), 10 ** rng.uniform(least, -1, PAIRS)
        mu, rho = (
            curves.gaussian_mu(epsilon, delta),
            np.maximum(renyi.zcdp_rho(epsilon, delta), 1e-300),
        )
        jobs = {
            "gaussian_mu": lambda: curves.gaussian_mu(epsilon, delta),
            "gaussian_epsilon": lambda: curves.gaussian_epsilon(mu, delta),
            "gaussian_log_delta": lambda: curves.gaussian_log_delta(epsilon, mu),
            "zcdp_rho": lambda: renyi.zcdp_rho(epsilon, delta),
            "zcdp_epsilon": lambda: renyi.zcdp_epsilon(rho, delta),
        }
        for job, seconds in medians(jobs, repeats=3).items():
            yield f"{job}, a pair of a million, {name}", seconds / PAIRS


def discrete():
    """The exact discrete delta and its calibration."""
    jobs = {
        f"discrete_delta at sigma {sigma:g}": repeat(discrete_gaussian.delta, 1 / sigma, sigma)
        for sigma in (1.0, 100.0, 1e4)
    }
    jobs["discrete_sigma at (1, 1e-6)"] = repeat(discrete_gaussian.sigma, 1, 1, 1e-6)
    jobs["zcdp_epsilon, one pair"] = repeat(renyi.zcdp_epsilon, 0.1, 1e-6)
    for name, seconds in medians(jobs, repeats=3).items():
        yield name, seconds / SCALAR


def main():
    """Yield seconds per call or pair."""
    yield from scalars()
    yield from arrays()
    yield from discrete()
