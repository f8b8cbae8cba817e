"""List, lock, installed versions and metadata agree, and no file names a package registry."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError, distribution, version
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import lock, setup

ROOT = setup.ROOT
SKIPPED = {
    ".venv",
    ".git",
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    ".ipynb_checkpoints",
    "build",
}
# Written in parts, so that this file passes its own test.
REGISTRY = re.compile(
    "|".join(
        [
            "py" + r"pi\.org",
            "python" + "hosted",
            "index" + "[-_]url",
            "find" + "[-_]links",
            r"https?://\S*/" + "simple",
            "conda" + r"\.anaconda",
            "npm" + r"js\.(?:org|com)",
        ]
    ),
    re.IGNORECASE,
)


def files():
    """Yield the text files of the project."""
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT).parts
        if (
            path.is_file()
            and not SKIPPED.intersection(inside)
            and not inside[0].endswith(".egg-info")
        ):
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def lock_lines():
    return [Requirement(line) for line in lock.versions(setup.LOCK.read_text(encoding="utf-8"))]


def test_the_list_is_what_conda_reads():
    dependencies = yaml.safe_load(lock.LIST.read_text(encoding="utf-8"))["dependencies"]
    pip = dependencies[-1]["pip"]
    assert dependencies[:2] == [f"python=3.{setup.admitted()[0]}", "pip"]
    assert pip[:2] == ["-c .ci/versions.txt", "-e ."]
    assert lock.listed() == pip[2:]


def test_the_list_names_packages_without_versions_once():
    names = [canonicalize_name(name) for name in lock.listed()]
    assert names == lock.listed()
    assert len(set(names)) == len(names) > 10


def test_every_listed_name_is_in_the_lock():
    missing = set(lock.listed()) - {canonicalize_name(line.name) for line in lock_lines()}
    assert not missing, (
        f"in environment.yml, not in requirements.lock: {sorted(missing)}; run make lock"
    )


def test_the_lock_pins_one_version_a_line():
    lines = lock_lines()
    assert all(
        line.url is None and re.fullmatch(r"==[^*,]+", str(line.specifier)) for line in lines
    )


def test_every_package_of_the_lock_has_hashes_and_conda_gets_the_same_versions():
    text = setup.LOCK.read_text(encoding="utf-8")
    blocks = re.split(r"(?m)^(?=\S)", text)[1:]
    assert len(blocks) == len(lock_lines()) > 100
    for block in blocks:
        head, *hashes = block.rstrip("\n").split(" \\\n")
        assert hashes and all(
            re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line) for line in hashes
        ), head
    assert lock.VERSIONS.read_text(encoding="utf-8").splitlines() == lock.versions(text)


def test_uv_is_the_one_of_the_lock(monkeypatch, tmp_path):
    version_, lines = setup.locked("uv")
    assert (
        version_ == lock.version_of("uv")
        and lines.startswith("uv==")
        and lines.count("--hash=sha256:") > 3
    )
    assert setup.locked("no-such-package") is None
    other = tmp_path / "uv"
    other.write_text("#!/bin/sh\necho uv 0.0.1\n")
    other.chmod(0o755)
    monkeypatch.setattr(setup.shutil, "which", lambda name: str(other))
    assert setup.find_uv() != str(other)
    other.write_text(f"#!/bin/sh\necho uv {version_}\n")
    assert setup.find_uv() == str(other)


@pytest.mark.parametrize("uv", ["/a/uv", None])
def test_the_lock_is_installed_with_its_hashes_and_this_folder_by_itself(monkeypatch, uv):
    commands = []
    monkeypatch.setattr(
        setup.subprocess,
        "run",
        lambda command, **_: (
            commands.append(list(map(str, command))) or SimpleNamespace(returncode=0)
        ),
    )
    assert setup.install(uv) == ("uv" if uv else "pip")
    first, last = commands
    assert (
        {"--require-hashes", "--no-deps"} < set(first)
        and str(setup.LOCK) in first
        and "-e" not in first
    )
    assert {"--no-deps", "--no-build-isolation", "-e"} < set(last) and first[0] == (
        uv or str(setup.PYTHON)
    )


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_the_lock_serves_every_admitted_python_and_system(python, system):
    machine = {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": system,
        "platform_system": {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}[system],
    }
    lines = [line for line in lock_lines() if line.marker is None or line.marker.evaluate(machine)]
    names = [canonicalize_name(line.name) for line in lines]
    assert set(lock.listed()) <= set(names)
    assert len(set(names)) == len(names)


def test_the_lock_is_what_is_installed(locked):
    for name, line in lock.pinned().items():
        assert version(name) == lock.version_of(name), (
            f"{name}: not the version of the lock ({line})"
        )


def test_the_lock_holds_nothing_that_the_list_does_not_need(locked):
    needed, todo = set(), [Requirement(name) for name in lock.listed()]
    while todo:
        asked = todo.pop()
        key = (canonicalize_name(asked.name), frozenset(asked.extras))
        if key in needed:
            continue
        needed.add(key)
        for line in map(Requirement, distribution(asked.name).requires or []):
            if line.marker is None or any(
                line.marker.evaluate({"extra": extra}) for extra in ("", *asked.extras)
            ):
                todo.append(line)
    unneeded = set(lock.pinned()) - {name for name, _ in needed}
    assert not unneeded, (
        f"in requirements.lock, not needed by environment.yml: {sorted(unneeded)}; run make lock"
    )


def test_dputils_is_imported_from_this_folder_everywhere(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", "import dputils; print(dputils.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert found == str(ROOT / "dputils" / "__init__.py")


def test_this_python_is_admitted():
    low, high = setup.admitted()
    assert low <= sys.version_info[1] < high
    assert (
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
        == f">=3.{low},<3.{high}"
    )


def test_the_readme_names_the_admitted_pythons():
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("no README.md yet")
    low, high = setup.admitted()
    named = {
        int(minor) for minor in re.findall(r"\b3\.(\d\d)\b", readme.read_text(encoding="utf-8"))
    }
    assert named == set(range(low, high))


def test_no_file_names_a_package_registry():
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in files()
        if (match := REGISTRY.search(text))
    ]
    assert not found, found


@pytest.mark.parametrize(
    "address",
    [
        "https://py" + "pi.org/p",
        "--index" + "-url x",
        "https://python" + "hosted.org",
        "https://mirror.example/" + "simple",
    ],
)
def test_a_registry_address_would_be_found(address):
    assert REGISTRY.search(address)


def test_the_other_checks_would_notice(monkeypatch, tmp_path):
    changed = tmp_path / "requirements.lock"
    text = setup.LOCK.read_text(encoding="utf-8")
    changed.write_text(
        re.sub(r"(?m)^numpy==.*\n", "numpy==0.1 \\\n", text) + "not-needed-at-all==1.0\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(setup, "LOCK", changed)
    with pytest.raises(AssertionError, match="numpy: not the version of the lock"):
        test_the_lock_is_what_is_installed(None)
    changed.write_text(text.replace("scipy==", "scipi=="), encoding="utf-8")
    with pytest.raises(AssertionError, match="scipy"):
        test_every_listed_name_is_in_the_lock()
    changed.write_text(text + "not-needed-at-all==1.0\n", encoding="utf-8")
    with pytest.raises(PackageNotFoundError):
        test_the_lock_is_what_is_installed(None)
    with pytest.raises(AssertionError, match="not-needed-at-all"):
        test_the_lock_holds_nothing_that_the_list_does_not_need(None)


@pytest.mark.parametrize("minor", [10, 14])
def test_another_python_is_refused_in_one_sentence(monkeypatch, minor):
    monkeypatch.setattr(setup.sys, "version_info", (3, minor, 0))
    with pytest.raises(SystemExit, match=r"the book needs Python 3\.11 to 3\.13"):
        setup.main(["--probe"])


def ignored(*names):
    """Return which of the names git ignores."""
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *names], cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout.split()


def test_git_ignores_what_the_examples_of_the_readme_write_and_no_result_of_the_book():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    written = [
        "out.ipynb",
        "results/03-laplace-mechanism.csv",
        "03-laplace-mechanism.out.ipynb",
        ".ruff_cache/x",
        "build/x",
    ]
    assert ignored(*written) == written
    assert (
        ignored("data/results/gaussian_sigma.csv", "data/results/new.csv", "notebooks/07-a.ipynb")
        == []
    )


def test_clean_removes_all_that_git_ignores(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    folder = tmp_path / "book"
    for name in ("Makefile", ".gitignore", "tools/setup.py", "tools/__init__.py", "pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True)
    for name in (
        ".venv/bin/x",
        "dputils.egg-info/x",
        "build/site/x",
        ".pytest_cache/x",
        ".hypothesis/x",
        ".ruff_cache/x",
        "a/__pycache__/x",
        "notebooks/.ipynb_checkpoints/x",
        "out.ipynb",
        "03-a.out.ipynb",
        "results/x.csv",
        "notebooks/03-a.partial",
        "build.work/x",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "mine.txt").write_text("a reader's own file, which git does not ignore")
    subprocess.run(["make", "-C", folder, "-s", "clean"], check=True, capture_output=True)
    left = subprocess.run(
        [*git, "status", "--ignored", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert left.stdout == "?? mine.txt\n"


def test_ci_tests_the_book_once():
    steps = [
        step["run"]
        for step in yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"][
            "locked"
        ]["steps"]
        if "run" in step
    ]
    assert steps == ["make test"]


def test_the_lab_starts_for_any_user_and_asks_nobody_for_news(port):
    command = [
        "make",
        "-s",
        "lab",
        f"ARGS=--no-browser --ServerApp.port={port} --IdentityProvider.token=secret",
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as lab:
        try:
            assert any("/lab?token=" in line for line in lab.stdout)
            address = f"http://localhost:{port}/lab"
            page = fetch(f"{address}?token=secret")
            config = json.loads(
                re.search(r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)[
                    1
                ]
            )
            assert config["news"] == {"disabled": True}
            assert json.loads(fetch(f"{address}/api/update?token=secret")) == {"notification": None}
            assert (
                config["extensionManager"]["can_install"] is False
                and config["extensionManager"]["name"] == "read-only"
            )
        finally:
            os.killpg(lab.pid, signal.SIGTERM)


def fetch(address):
    """Return what a local server answers, without a proxy between; it says where it is before it
    listens there.
    """
    opener, end = (
        urllib.request.build_opener(urllib.request.ProxyHandler({})),
        time.monotonic() + 30,
    )
    while True:
        try:
            with opener.open(address, timeout=30) as answer:
                return answer.read().decode()
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_ci_calls_the_test_command():
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert text.rstrip().endswith("exec make test </dev/null")
