"""The sparse vector technique: processor time per query at a million queries, none of which reaches
its threshold, beside the loop of the textbook in floating point.

Target: at most a fiftieth of the loop, from exact noise. Linear: nanoseconds per query at 10^5
beside those at 10^6.
"""

from time import process_time as clock

import numpy as np

from dputils import noise, sensitivity, sparse_vector
from tests.bench import medians

K = 1_000_000
LOOP = 50_000  # queries of the loop


def textbook(counts, threshold, c, epsilon, rng):
    """Algorithm 1 of Lyu, Su, Li 2017, a query at a time."""
    noisy, scale, answers = threshold + rng.laplace(0, 2 / epsilon), 4 * c / epsilon, []
    for count in counts:
        answers.append(count + rng.laplace(0, scale) >= noisy)
        if answers[-1]:
            c -= 1
            if not c:
                break
    return answers


def main():
    """Yield seconds per query."""
    rng, one = np.random.default_rng(1), sensitivity.of_scores(1, "add-remove")
    counts = rng.integers(0, 1000, K)
    some, threshold = counts[:LOOP].tolist(), 1_000_000
    loop = medians({"loop": lambda: textbook(some, threshold, 10, 1.0, rng)}, 5, clock)["loop"]
    for epsilon in (10.0, 1.0, 0.1):
        made = sparse_vector.mechanism(threshold, 10, one, epsilon)
        jobs = {
            f"epsilon {epsilon:g}": lambda made=made: made(counts, rng=rng),
            f"epsilon {epsilon:g}, system's bits": lambda made=made: made(counts, rng=noise.SYSTEM),
        }
        for name, seconds in medians(jobs, 5, clock).items():
            yield name, seconds / K, "textbook loop", loop / LOOP
        fewer = medians({"1e5": lambda made=made: made(counts[: K // 10], rng=rng)}, 5, clock)
        yield f"epsilon {epsilon:g}, 1e5 queries", fewer["1e5"] / (K // 10)
    stream = sparse_vector.stream_mechanism(0, 10, 1.0, neighbours="add-remove", unit="person")(
        [1] * 1000, rng=rng
    )
    asked = medians({"one": lambda: [stream(bool, 10**6) for _ in range(50)]}, 5, clock)
    yield "a question to a stream of 1000 records", asked["one"] / 50
