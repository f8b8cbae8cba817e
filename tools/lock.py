"""The list and the lock: `python -m tools.lock [--upgrade]` writes requirements.lock from environment.yml.

Versions already in the lock are kept where they still fit; `--upgrade` takes the newest. One lock serves all admitted
versions of Python on Linux, macOS and Windows, through markers.
"""
import os
import re
import subprocess
import sys

from tools import setup

LIST = setup.ROOT / "environment.yml"


def listed():
    """Return the names under `pip:` in environment.yml, as written there, without `-c` and `-e`."""
    text = LIST.read_text(encoding="utf-8")
    entries = re.findall(r"^ +- ([^#\n]+)", text.split("- pip:\n", 1)[1], flags=re.MULTILINE)
    return [entry.strip() for entry in entries if not entry.startswith("-")]


def pinned():
    """Return the lines of requirements.lock as `packaging` requirements whose markers apply here, by canonical name."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
    lines = [Requirement(line) for line in setup.LOCK.read_text(encoding="utf-8").splitlines()]
    return {canonicalize_name(line.name): line for line in lines if line.marker is None or line.marker.evaluate()}


def version_of(name):
    """Return the version that the lock pins for `name` on this machine, or None."""
    line = pinned().get(name)
    return str(line.specifier).removeprefix("==") if line else None


def main(arguments):
    """Resolve the list and write the lock; nothing is written when that fails."""
    if not setup.PYTHON.exists():
        setup.create()
    uv = setup.find_uv() or sys.exit("make lock needs uv, which could be neither found nor installed")
    python = f"3.{setup.admitted()[0]}"
    command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", python, "--no-header",
               "--no-annotate", "--output-file", setup.LOCK.name, *arguments, "-"]
    subprocess.run(command, input="\n".join(listed()) + "\n", text=True, cwd=setup.ROOT, check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"})
    print(f"{setup.LOCK.name}: {len(setup.LOCK.read_text(encoding='utf-8').splitlines())} packages")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
