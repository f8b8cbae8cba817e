"""Benchmarks: `make bench` prints one table, our times beside those of peers. They never fail on
time.

A benchmark is a file `bench_NAME.py` whose `main` yields rows `(job, seconds)` or `(job, seconds,
peer, seconds of the peer)`: what is timed, the seconds that one call, draw or pair takes, and the
same of a peer or of a limit.
"""

import importlib
import statistics
import time

HEADER = ("benchmark", "job", "time", "peer", "its time", "ratio")
WIDTHS = (12, 46, 9, 26, 9, 9)  # characters; a longer name moves the rest of its line
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def medians(jobs, repeats=7, clock=time.perf_counter):
    """Return the median seconds of each job, `{name: function}`, run in turns so that a busy moment
    hits all alike.

    `clock` may be `time.process_time`, which does not see other processes at all.
    """
    seconds = {name: [] for name in jobs}
    for job in jobs.values():
        job()  # caches, compiled kernels
    for _ in range(repeats):
        for name, job in jobs.items():
            start = clock()
            job()
            seconds[name].append(clock() - start)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def shown(seconds):
    """Return a time with three digits, in the largest unit of which it is at least one."""
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def line(*columns):
    """Return a line of the table: names to the left, numbers to the right."""
    names = (0, 1, 3)
    padded = [
        text.ljust(width) if i in names else text.rjust(width)
        for i, (text, width) in enumerate(zip(columns, WIDTHS, strict=True))
    ]
    return " ".join(padded).rstrip()


def row(benchmark, job, seconds, peer=None, peer_seconds=None):
    """Return the line of one measurement."""
    if peer is None:
        return line(benchmark, job, shown(seconds), "", "", "")
    return line(
        benchmark, job, shown(seconds), peer, shown(peer_seconds), f"{seconds / peer_seconds:.4g}"
    )


def run(benchmark):
    """Run one benchmark and print its rows as they come."""
    for measured in importlib.import_module(f"tests.bench.bench_{benchmark}").main():
        print(row(benchmark, *measured), flush=True)
