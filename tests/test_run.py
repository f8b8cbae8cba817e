"""Reruns of one chapter: refusals before any kernel, failures that leave nothing, papermill."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from dputils.book import chapter, run, sweep
from tools import setup

PARAMETERS = """epsilon: float = 1.0  # privacy budget of the chapter, range (0, 20]
seed: int = 1  # seed of all random streams, range [0, 4294967295]
dataset: str = "randhie"  # embedded table, one of randhie, anes96
detail: bool = False  # whether to draw the fine grid too"""
BODY = """import sys, time
rng = chapter.stream(seed, "noise")
noise = rng.laplace(scale=1 / epsilon, size=100)
if seed == 3:
    raise ArithmeticError("a line\\nand another")
if seed == 4:
    time.sleep(60)
mine = sys.executable"""
CLOSE = "chapter.results(None, mean_error=abs(noise).mean(), counts=[1, 2], python=mine)"


def toy(folder, close=CLOSE, parameters=PARAMETERS):
    """Write a small chapter and return its path."""
    path = folder / "97-toy.ipynb"
    cells = [
        new_code_cell(parameters, id="p", metadata={"tags": ["parameters"]}),
        new_code_cell(
            "from dputils.book import chapter\nchapter.open('97-toy', globals())", id="o"
        ),
        new_code_cell(BODY, id="b"),
        new_code_cell(close, id="r", metadata={"tags": ["results"]}),
    ]
    nbformat.write(new_notebook(cells=cells), path)
    return path


@pytest.fixture
def path(tmp_path):
    return toy(tmp_path)


@pytest.fixture
def no_kernel(monkeypatch):
    """Make a kernel start fail the test."""
    monkeypatch.setattr(run, "_papermill", lambda *_: pytest.fail("a kernel was about to start"))


@pytest.fixture
def book(tmp_path, monkeypatch):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in ("00-how", "03-laplace-mechanism", "12-mwem", "03-laplace-mechanism.out"):
        (folder / f"{name}.ipynb").touch()
    monkeypatch.setattr(chapter, "BOOK", folder)
    return folder


def test_find_takes_the_name_of_what_has_no_number(book):
    there = book / "reference-machinery.ipynb"
    there.touch()
    assert run.find("reference-machinery") == there
    for part in ("re", "reference"):
        with pytest.raises(ValueError, match=f"unknown chapter '{part}'"):
            run.find(part)


@pytest.mark.parametrize("name", ["3", "03", 3, "03-laplace-mechanism"])
def test_find_takes_numbers_and_names(book, name):
    assert run.find(name) == book / "03-laplace-mechanism.ipynb"


@pytest.mark.parametrize(
    "name, message",
    [
        (
            "03-laplace-mechanisn",
            "unknown chapter '03-laplace-mechanisn': did you mean '03-laplace-mechanism'?",
        ),
        ("77", "unknown chapter '77': there are 00-how, 03-laplace-mechanism, 12-mwem"),
        ("x.ipynb", "there is no notebook 'x.ipynb'"),
        *(
            (name, f"unknown chapter {name!r}: there are 00-how, 03-laplace-mechanism, 12-mwem")
            for name in ("", " ", "-3", "+3", "3.0", "0x3", "003")
        ),
    ],
)
def test_find_refuses(book, name, message):
    with pytest.raises(ValueError) as refusal:
        run.find(name)
    assert str(refusal.value) == message


def test_check_tells_what_stands_against_a_run(path):
    assert run.check(path, {"epsilon": 3, "detail": True}) == []
    assert run.check(path, {"epsilon": 30, "seeds": 1}) == [
        "epsilon must be in (0, 20], got 30.0",
        "unknown parameter 'seeds': did you mean 'seed'?",
    ]
    assert run.check("no.ipynb", {}) == ["there is no notebook 'no.ipynb'"]


def test_a_notebook_without_the_two_cells_is_refused(tmp_path, no_kernel):
    nbformat.write(new_notebook(), tmp_path / "essay.ipynb")
    with pytest.raises(ValueError, match="essay.ipynb has no cell tagged 'results', it needs one"):
        run.execute(tmp_path / "essay.ipynb", {})


def test_all_problems_come_in_one_message_before_any_kernel(path, no_kernel, capsys, monkeypatch):
    monkeypatch.chdir(path.parent)
    wrong = [
        "epsilonn=2",
        "seed=-1",
        "dataset=adult",
        "detail=maybe",
        "epsilon=abc",
        "epsilon=1",
        "nothing",
        "=3",
    ]
    status = run.main(
        [str(path), *(word for pair in wrong for word in ("-p", pair)), "--timeout", "0"]
    )
    out, err = capsys.readouterr()
    assert status == 2 and out == ""
    assert err.splitlines() == [
        f"dputils.run: {path} does not run:",
        "  epsilon is given twice",
        "  -p nothing must be written name=value",
        "  -p =3 must be written name=value",
        "  unknown parameter 'epsilonn': did you mean 'epsilon'?",
        "  seed must be in [0, 4294967295], got -1",
        "  dataset must be one of randhie, anes96, got 'adult'",
        "  detail must be True or False, got 'maybe'",
        "  epsilon must be a number, got 'abc'",
        "  --timeout must be at least 1, got 0",
    ]
    assert [p.name for p in path.parent.iterdir()] == ["97-toy.ipynb"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("seed=1.0", "seed must be an integer, got '1.0'"),
        ("seed=one", "seed must be an integer, got 'one'"),
        ("epsilon=nan", "epsilon must be in (0, 20], got nan"),
        ("epsilon=0", "epsilon must be in (0, 20], got 0.0"),
        ("detail=1", "detail must be True or False, got '1'"),
        ("epsilon=", "epsilon must be a number, got ''"),
    ],
)
def test_texts_of_the_wrong_type_are_refused(path, no_kernel, capsys, text, message):
    assert run.main([str(path), "-p", text]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "pair, message",
    [
        (
            f"seed={'9' * 5000}",
            "seed must be an integer, got '99999999999999999999999999999... (5,002 characters)",
        ),
        (
            f"seed={'9' * 4000}",
            "seed must be in [0, 4294967295], got a whole number of about 4,000 digits",
        ),
        (f"epsilon=1{'0' * 400}", "epsilon must be in (0, 20], got inf"),
        ("x" * 5000, f"-p {'x' * 30}... (5,000 characters) must be written name=value"),
    ],
)
def test_long_values_are_not_echoed_whole(path, no_kernel, capsys, pair, message):
    assert run.main([str(path), "-p", pair]) == 2
    refusal = capsys.readouterr().err
    assert message in refusal and len(refusal) < 400


def test_an_epsilon_beyond_all_floats_is_refused(path, no_kernel):
    with pytest.raises(
        ValueError, match=r"^epsilon must be in \(0, 20\], got a whole number of about 400 digits$"
    ):
        run.execute(path, {"epsilon": 10**400})


@pytest.mark.parametrize("content", ["[]", "{}", "3", "", "no JSON"])
def test_a_file_that_is_no_notebook_is_refused(tmp_path, no_kernel, capsys, content):
    path = tmp_path / "list.ipynb"
    path.write_text(content)
    for command, arguments in ((run, []), (sweep, ["-o", str(tmp_path / "out")])):
        assert command.main([str(path), *arguments]) == 2
        assert capsys.readouterr().err.splitlines()[1:] == ["  list.ipynb is not a notebook"]
    assert [p.name for p in tmp_path.iterdir()] == ["list.ipynb"]


@pytest.mark.parametrize("link", [None, "symbolic", "hard"])
def test_a_notebook_of_the_book_is_no_output(path, book, no_kernel, capsys, link):
    own = book / "12-mwem.ipynb"
    out = own if link is None else path.parent / "link.ipynb"
    if link is not None:
        out.symlink_to(own) if link == "symbolic" else out.hardlink_to(own)
    assert run.main([str(path), "-o", str(out)]) == 2
    assert "  -o would overwrite a notebook of the book, 12-mwem.ipynb\n" in capsys.readouterr().err
    with pytest.raises(
        ValueError, match="^out would overwrite a notebook of the book, 12-mwem.ipynb$"
    ):
        run.execute(path, {}, out)
    assert own.read_bytes() == b""


def test_an_executed_copy_in_the_book_may_be_replaced(path, book):
    assert run.output_problems(path, book / "03-laplace-mechanism.out.ipynb") == []
    assert run.output_problems(path, book / "04-new.ipynb") == []
    assert run.output_problems(book / "12-mwem.ipynb", book / "12-mwem.ipynb") == [
        "would overwrite the chapter itself"
    ]
    assert not [p for p in book.iterdir() if p.suffix != ".ipynb"]


def test_a_folder_that_takes_no_file_is_refused(path, no_kernel, capsys, tmp_path):
    if not Path("/proc/self").is_dir():
        pytest.skip("this system has no /proc, a folder in which nobody can make a file")
    for out in ("/proc", "/proc/x.ipynb"):
        assert run.main([str(path), "-o", out]) == 2
        assert "  -o names a folder that cannot be written to: /proc (" in capsys.readouterr().err
    for out in ("/proc", "/proc/x"):
        assert sweep.main([str(path), "-o", out]) == 2
        refusal = capsys.readouterr().err
        assert (
            f"  -o names a folder that cannot be {'made' if out[5:] else 'written to'}: {out} ("
            in refusal
        )


def test_a_disk_that_fills_up_during_the_run_is_told_in_one_line(path, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run, "execute", full)
    assert run.main([str(path), "-o", str(path.parent / "out.ipynb")]) == 1
    assert capsys.readouterr().err == "dputils.run: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    "out, message",
    [
        ("no/such/out.ipynb", "-o names a folder that does not exist: no/such"),
        ("out.txt", "-o must name an .ipynb file or a folder that exists, got out.txt"),
        ("97-toy.ipynb", "-o would overwrite the chapter itself"),
    ],
)
def test_outputs_that_cannot_be_are_refused(path, no_kernel, capsys, monkeypatch, out, message):
    monkeypatch.chdir(path.parent)
    assert run.main([str(path), "-o", out]) == 2
    assert message in capsys.readouterr().err


def test_refusals_of_the_function(path, no_kernel):
    with pytest.raises(
        ValueError, match=r"^epsilon must be in \(0, 20\], got -1.0; unknown parameter 'sede'"
    ):
        run.execute(path, {"epsilon": -1.0, "sede": 2})
    with pytest.raises(ValueError, match="timeout must be at least 1, got 0"):
        run.execute(path, {}, timeout=0)


def test_a_description_ends_quietly_when_nobody_reads_on():
    command = [sys.executable, "-m", "dputils.run", "2", "--describe"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=setup.ROOT)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_describe_lists_the_parameters_without_a_kernel(path, no_kernel, capsys):
    assert run.main([str(path), "--describe"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "epsilon: float = 1.0      privacy budget of the chapter, in (0, 20]"
    assert len(lines) == 4


def test_a_run_from_another_folder(path, tmp_path, capsys, monkeypatch):
    elsewhere = tmp_path / "elsewhere {x}"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert run.main([str(path), "-p", "epsilon=2", "-p", "detail=true"]) == 0
    out, err = capsys.readouterr()
    written = elsewhere / "97-toy.out.ipynb"
    assert (
        err == ""
        and out.startswith("wrote 97-toy.out.ipynb\n  mean_error = ")
        and "  counts.1 = 2\n" in out
    )
    assert list(elsewhere.iterdir()) == [written]
    record = chapter.read_record(written)
    assert record["parameters"] == {"epsilon": 2.0, "seed": 1, "dataset": "randhie", "detail": True}
    assert record["results"]["python"] == sys.executable  # the kernel of this environment
    notebook = nbformat.read(written, as_version=4)
    assert notebook.cells[1].source == "# Parameters\nepsilon = 2.0\ndetail = True\n"
    assert "papermill" not in written.read_text()  # its clock times and paths are gone
    kept = {
        key: value
        for key, value in run.execute(path, {"epsilon": 2.0, "detail": True}, written).items()
    }
    # a second run gives the same notebook
    assert kept == record and nbformat.read(written, as_version=4) == notebook


def test_the_kernel_has_the_environment_of_a_rerun_and_this_process_keeps_its_own(
    tmp_path, monkeypatch, capfd
):
    for name in run.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    names = sorted(run.ENVIRONMENT)
    close = f"""import os
seen = [os.environ.get(name, '') for name in {names}]
chapter.results(None, seen=seen, hash=hash('a'))"""
    path = toy(tmp_path, close)
    first, second = run.execute(path, {})["results"], run.execute(path, {})["results"]
    assert dict(zip(names, first["seen"])) == run.ENVIRONMENT
    assert first["hash"] == second["hash"]  # the seed of the hashes is set before the kernel starts
    assert {name: os.environ[name] for name in names if name in os.environ} == {
        "PYTHONHASHSEED": "7"
    }
    assert capfd.readouterr().err == ""  # no word of the kernel's on the terminal


def test_a_failure_is_one_sentence_and_leaves_nothing(path, capsys):
    out = path.parent / "out.ipynb"
    out.write_text("an older result")
    assert run.main([str(path), "-p", "seed=3", "-o", str(out)]) == 1
    assert (
        capsys.readouterr().err
        == "dputils.run: 97-toy failed in cell [4]: ArithmeticError: a line and another\n"
    )
    assert out.read_text() == "an older result" and len(list(path.parent.iterdir())) == 2


def test_a_cell_out_of_time_fails(path, capsys):
    assert (
        run.main(
            [str(path), "-p", "seed=4", "-o", str(path.parent / "out.ipynb"), "--timeout", "1"]
        )
        == 1
    )
    assert capsys.readouterr().err == "dputils.run: 97-toy failed: a cell took longer than 1 s\n"
    assert len(list(path.parent.iterdir())) == 1


def test_a_run_without_a_record_fails(path, monkeypatch):
    monkeypatch.setattr(run, "_papermill", lambda path, *_: nbformat.read(path, as_version=4))
    with pytest.raises(
        RuntimeError, match="97-toy: the results cell of the notebook holds no record"
    ):
        run.execute(path, {}, path.parent / "out.ipynb")
    assert not (path.parent / "out.ipynb").exists()


def test_plain_papermill_ends_with_the_same_sentence(path, tmp_path):
    import papermill

    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    with pytest.raises(papermill.PapermillExecutionError) as failure:
        papermill.execute_notebook(
            path,
            tmp_path / "out.ipynb",
            {"epsilon": -1, "seed": 2.5},
            kernel_name="python3",
            language="python",
            progress_bar=False,
            execution_timeout=60,
            extra_arguments=run.KERNEL,
        )
    sentence = "; ".join(run.check(path, {"epsilon": -1, "seed": 2.5}))
    assert sentence == "epsilon must be in (0, 20], got -1.0; seed must be an integer, got 2.5"
    assert str(failure.value).strip().splitlines()[-1] == "ValueError: " + sentence
    assert failure.value.traceback == ["ValueError: " + sentence]


def test_files_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    run.write_whole({tmp_path / "a": b"whole"})
    monkeypatch.setattr(run.os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        run.write_whole({tmp_path / "a": b"other", tmp_path / "b": b"new"})
    assert (tmp_path / "a").read_bytes() == b"whole" and len(list(tmp_path.iterdir())) == 1
