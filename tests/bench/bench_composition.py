"""Composition: time of the exact and the numerical account, beside dp-accounting's own randomized response.

No target: both must be quick enough to redraw a figure while a slider moves.
"""
import math

from dputils.accounting import composition, losses
from dputils.accounting.costs import Gaussian, Pure
from tests.bench import medians


def main():
    """Print milliseconds per call, interleaved medians."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def theirs():
        flip = pld.from_randomized_response(2 / (1 + math.exp(0.1)), 2, value_discretization_interval=1e-3)
        return flip.self_compose(1000).get_epsilon_for_delta(1e-6)

    unequal = [Pure(round(0.01 + 0.00101 * i, 6)) for i in range(100)]
    jobs = {"exact, k = 1,000": lambda: losses.exact_pure_epsilon(0.1, 1000, 1e-6),
            "exact, k = 100,000": lambda: losses.exact_pure_epsilon(0.001, 10**5, 1e-6),
            "numerical, 1,000 equal": lambda: composition.numerical([Pure(0.1)] * 1000, 1e-6),
            "numerical, 100 unequal": lambda: composition.numerical(unequal, 1e-6),
            "numerical, 100 unequal and Gaussian": lambda: composition.numerical([*unequal, Gaussian(0.5)], 1e-6),
            "dp-accounting, 1,000 equal": theirs}
    for name, seconds in medians(jobs, repeats=5).items():
        print(f"{name:40} {seconds * 1e3:10.2f} ms", flush=True)
