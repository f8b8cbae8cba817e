"""Run the benchmarks, each in a process of its own: `python -m tests.bench [NAME ...]`, called by `make bench`."""
import subprocess
import sys
from pathlib import Path

files = sorted(Path(__file__).parent.glob("bench_*.py"))
names = [path.stem.removeprefix("bench_") for path in files]
if unknown := [name for name in sys.argv[1:] if name not in names]:
    sys.exit(f"no benchmark {unknown[0]!r}; there are: {', '.join(names) or 'none'}")
status = 0
for name in sys.argv[1:] or names:
    print(f"-- {name}", flush=True)
    status |= subprocess.run([sys.executable, "-c", f"from tests.bench.bench_{name} import main; main()"]).returncode
sys.exit(status)
