"""The style of the code: ruff's rules and format, and what ruff does not see. The rules stand in
pyproject.toml.
"""

import ast
import io
import subprocess
import sys
import tokenize

import nbformat
import pytest

from tools import setup

FILES = sorted(
    path for folder in ("dputils", "tools", "tests") for path in (setup.ROOT / folder).rglob("*.py")
)
NOTEBOOKS = sorted((setup.ROOT / "notebooks").glob("*.ipynb"))
WIDTH = 88  # characters of a line of code that a page of the website shows


def ruff(*arguments):
    """Run ruff in the project's folder, without a cache, and return `(status, what it says)`."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *map(str, arguments), "--no-cache"],
        cwd=setup.ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout


def packed(source):
    """Return the lines on which several statements stand: joined by a semicolon, or as a tuple that
    nobody keeps.
    """
    tuples = [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(part, ast.Call) for part in node.value.elts)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    joined = [
        token.start[0] for token in tokens if token.type == tokenize.OP and token.string == ";"
    ]
    return sorted({*tuples, *joined})


def name_of(path):
    return str(path.relative_to(setup.ROOT))


@pytest.mark.parametrize("folder", ["dputils", "tools", "tests"])
@pytest.mark.parametrize("rules", [("check", "--output-format=concise"), ("format", "--check")])
def test_the_rules_are_kept(rules, folder):
    status, said = ruff(*rules, folder)
    assert status == 0, said


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_the_rules_are_kept_in_notebooks(path):
    config = f"line-length={WIDTH}"
    status, said = ruff("check", "--output-format=concise", "--config", config, path)
    assert status == 0, said


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_one_statement_a_line(path):
    assert packed(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_one_statement_a_line_in_notebooks(path):
    cells = nbformat.read(path, as_version=4).cells
    code = [(i, cell.source) for i, cell in enumerate(cells, 1) if cell.cell_type == "code"]
    assert [(i, lines) for i, source in code if (lines := packed(source))] == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("a(), b()", [1]),
        ("x = 1\na(), x", [2]),
        ("x = 1; y = 2", [1]),
        ("if x: a(); b()", [1]),
        ("(a(),\n b())", [1]),
        ("x = a(), b()", []),
        ("print('a; b')  # a; b", []),
        ("x, y\n'a(), b()'", []),
    ],
)
def test_packed_statements_are_found(source, lines):
    assert packed(source) == lines


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"""A."""\n\n\ndef area(x):\n    return x\n', "D103"),
        ("def area(x):\n    return x\n", "D100"),
        ('"""A."""\nimport os\n', "F401"),
        ('"""A."""\nimport numpy as np\n\nnp.random.seed(1)\n', "NPY002"),
        ('"""A."""\nx = ' + "1 + " * 24 + "1\n", "E501"),
        ('"""A."""\nimport sys\nimport os\n\nprint(os, sys)\n', "I001"),
        ('"""A."""\n\n\ndef area(x=[]):\n    """B."""\n    return x\n', "B006"),
    ],
)
def test_the_rules_would_notice(tmp_path, text, rule):
    (tmp_path / "part.py").write_text(text)
    config = setup.ROOT / "pyproject.toml"
    status, said = ruff(
        "check", "--config", config, "--output-format=concise", tmp_path / "part.py"
    )
    assert status == 1 and rule in said
