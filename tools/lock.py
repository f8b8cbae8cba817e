"""The list and the lock: `python -m tools.lock [--upgrade]` writes requirements.lock from
environment.yml.

Versions already in the lock are kept where they still fit; `--upgrade` takes the newest. One lock
serves all admitted versions of Python on Linux, macOS and Windows, through markers, and holds the
hashes of every file that may be installed. Beside it .ci/versions.txt gets the versions alone, for
conda.
"""

import os
import re
import subprocess
import sys

from tools import setup

LIST = setup.ROOT / "environment.yml"
VERSIONS = setup.ROOT / ".ci" / "versions.txt"


def listed():
    """Return the names under `pip:` in environment.yml, as written there, without `-c` and `-e`."""
    text = LIST.read_text(encoding="utf-8")
    entries = re.findall(r"^ +- ([^#\n]+)", text.split("- pip:\n", 1)[1], flags=re.MULTILINE)
    return [entry.strip() for entry in entries if not entry.startswith("-")]


def pinned():
    """Return what requirements.lock pins here as `packaging` requirements, by canonical name."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = [Requirement(line) for line in versions(setup.LOCK.read_text(encoding="utf-8"))]
    return {
        canonicalize_name(line.name): line
        for line in lines
        if line.marker is None or line.marker.evaluate()
    }


def versions(text):
    """Return the lines of a lock without the hashes that follow each of them."""
    return [
        line.removesuffix("\\").rstrip()
        for line in text.splitlines()
        if "==" in line.partition(";")[0]
    ]


def version_of(name):
    """Return the version that the lock pins for `name` on this machine, or None."""
    line = pinned().get(name)
    return str(line.specifier).removeprefix("==") if line else None


def main(arguments):
    """Resolve the list and write the lock; nothing is written when that fails."""
    if not setup.PYTHON.exists():
        setup.create()
    uv = setup.find_uv() or sys.exit(
        "make lock needs uv, which could be neither found nor installed"
    )
    python = f"3.{setup.admitted()[0]}"
    command = [
        uv,
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--python-version",
        python,
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--output-file",
        setup.LOCK.name,
        *arguments,
        "-",
    ]
    subprocess.run(
        command,
        input="\n".join(listed()) + "\n",
        text=True,
        cwd=setup.ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
    )
    lines = versions(setup.LOCK.read_text(encoding="utf-8"))
    VERSIONS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{setup.LOCK.name}: {len(lines)} packages")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
