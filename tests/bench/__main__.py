"""Run the benchmarks, each in a process of its own: `python -m tests.bench [NAME ...]`, called by
`make bench`.
"""

import subprocess
import sys
from pathlib import Path

from tests import bench


def main(wanted):
    """Print one table of the benchmarks that are wanted, all without a name; return the exit
    status.
    """
    files = sorted(Path(__file__).parent.glob("bench_*.py"))
    names = [path.stem.removeprefix("bench_") for path in files]
    if unknown := [name for name in wanted if name not in names]:
        sys.exit(f"no benchmark {unknown[0]!r}; there are: {', '.join(names) or 'none'}")
    print(bench.line(*bench.HEADER), flush=True)
    status = 0
    for name in wanted or names:
        command = [sys.executable, "-c", f"from tests import bench; bench.run({name!r})"]
        status |= subprocess.run(command).returncode
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
