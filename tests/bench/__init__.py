"""Benchmarks: one `bench_<subject>.py` each, with a `main()` that prints one line per job. `make bench` runs them all.

They are no tests: a slow machine fails nothing. A line gives the median of interleaved runs and its ratio to a peer or
to a limit.
"""
import statistics
import time


def medians(jobs, repeats=7):
    """Return the median seconds of each job, `{name: function}`, run in turns so that a busy moment hits all alike."""
    seconds = {name: [] for name in jobs}
    for job in jobs.values():
        job()  # caches, compiled kernels
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in seconds.items()}
