"""The table "which mechanism when" of chapter 92 names functions that exist, and no experiment."""

import importlib
import re

import nbformat
import pytest

from dputils.book import run

PAGE = nbformat.read(run.find("92-from-the-question-to-the-interval"), as_version=4)
TABLE = next(cell.source for cell in PAGE.cells if "| what you want" in cell.source)
NAMES = sorted(set(re.findall(r"`(\w+)\.(\w*mechanism)`", TABLE)))


def test_the_table_is_read():
    assert len(NAMES) > 12


@pytest.mark.parametrize(("module", "function"), NAMES)
def test_each_function_exists(module, function):
    assert callable(getattr(importlib.import_module(f"dputils.{module}"), function))


def test_first_choices_are_fit_for_a_release():
    rounded = {("ratios", "mechanism"), ("selection", "top_k_mechanism")}
    rounded |= {("objectives", "objective_mechanism"), ("objectives", "output_mechanism")}
    assert not rounded & set(NAMES)
