"""Make `.venv` hold what requirements.lock says: `python -m tools.setup [--no-uv]`, called by make.

Only the standard library and pip are needed. `uv` does the same several times faster and is used
when it can be had. The stamp is written last and holds the folder's name; without a fitting stamp
the environment is built anew, so that an interrupted set-up or a copied folder never passes for a
finished one.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / ".stamp"
LOCK = ROOT / "requirements.lock"
PIP = (PYTHON, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input")


def admitted():
    """Return the lowest and the first refused minor version of Python 3, as pyproject.toml says."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', text)
    return int(found[1]), int(found[2])


def runs(*command, **options):
    """Return whether a command exists and succeeds; its output is dropped."""
    try:
        return (
            subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
            ).returncode
            == 0
        )
    except OSError:
        return False


def create():
    """Create an empty environment with pip, also where the system's Python comes without
    `ensurepip`.
    """
    base = getattr(sys, "_base_executable", None) or sys.executable
    if not runs(base, "-m", "venv", "--clear", VENV):
        subprocess.run([base, "-m", "venv", "--clear", "--without-pip", VENV], check=True)
        subprocess.run([base, "-m", "pip", "--python", PYTHON, "install", "-qq", "pip"], check=True)


def locked(name):
    """Return what the lock says about one package, `(version, lines)`, the lines with its hashes;
    None if nothing.
    """
    found = re.search(
        rf"(?m)^{re.escape(name)}==(\S+).*(?:\n .*)*", LOCK.read_text(encoding="utf-8")
    )
    return found and (found[1], f"{found[0]}\n")


def find_uv():
    """Return a `uv` of the locked version: the one on the PATH, the one in the environment, one
    that pip installs there.

    None if there is none, or if the lock does not name it.
    """
    version, lines = locked("uv") or (None, None)
    for candidate in filter(None, (shutil.which("uv"), str(BIN / "uv"))):
        if version and says(candidate, "--version").split()[1:2] == [version]:
            return candidate
    if version:
        with TemporaryDirectory() as folder:
            wanted = Path(folder) / "uv.txt"
            wanted.write_text(lines, encoding="utf-8")
            runs(*PIP, "--require-hashes", "--no-deps", "-r", wanted)
    return str(BIN / "uv") if runs(BIN / "uv", "--version") else None


def says(*command):
    """Return what a command prints, nothing if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        return ""


def install(uv):
    """Install the lock, with its hashes, by `uv` if it is given and works, else by pip. Return
    which did.

    Then install this folder, editable: no hash can be checked for it, so it is a step of its own,
    and it is built with what the lock has installed, not with something that is fetched for it.
    """
    lock = ["--require-hashes", "--no-deps", "-r", LOCK]
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    command = [uv, "pip", "install", "--quiet", "--python", PYTHON, *lock]
    tool = (
        "uv" if uv and subprocess.run(command, env=environment, cwd=ROOT).returncode == 0 else "pip"
    )
    if tool == "pip":
        if uv:
            print("uv did not succeed; trying pip", flush=True)
        subprocess.run([*PIP, *lock], check=True, cwd=ROOT)
    subprocess.run([*PIP, "--no-deps", "--no-build-isolation", "-e", ROOT], check=True, cwd=ROOT)
    return tool


def main(arguments):
    """Set up, or with `--probe` only say by the exit status whether this interpreter will do."""
    low, high = admitted()
    if sys.version_info[0] != 3 or not low <= sys.version_info[1] < high:
        sys.exit(
            f"the book needs Python 3.{low} to 3.{high - 1}, "
            f"this is {sys.version.split()[0]} ({sys.executable})"
        )
    if "--probe" in arguments:
        return
    start = time.monotonic()
    use_uv = "--no-uv" not in arguments
    count = len(re.findall(r"(?m)^\S+==", LOCK.read_text(encoding="utf-8")))
    print(
        f"Setting up .venv: Python {sys.version.split()[0]}, {count} packages, "
        f"{'some seconds with uv, ' if use_uv else ''}about a minute with pip",
        flush=True,
    )
    whole = (
        STAMP.exists()
        and STAMP.read_text(encoding="utf-8") == str(ROOT)
        and runs(PYTHON, "-m", "pip", "--version")
    )
    STAMP.unlink(missing_ok=True)
    if not whole:
        create()
    tool = install(find_uv() if use_uv else None)
    # Build matplotlib's font cache now: done in a notebook it may print a warning there.
    subprocess.run([PYTHON, "-c", "import matplotlib.font_manager"], check=True)
    STAMP.write_text(str(ROOT), encoding="utf-8")
    print(f"Ready after {time.monotonic() - start:.0f} s ({tool})", flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.CalledProcessError as error:
        command = " ".join(map(str, error.cmd[:6]))
        sys.exit(f"set-up failed: {command} ... ended with status {error.returncode}")
    except KeyboardInterrupt:
        sys.exit("set-up interrupted; the next make starts it again")
