"""What tests of accounting share."""

import mpmath
import pytest


@pytest.fixture
def many_digits():
    """Let mpmath reckon with 80 digits."""
    with mpmath.workdps(80):
        yield
