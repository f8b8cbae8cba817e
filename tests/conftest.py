"""What all tests share: the same examples on every run, and the lax mode of `make test LAX=1`."""
import pytest
from hypothesis import settings

settings.register_profile("book", deadline=None, derandomize=True, database=None)
settings.load_profile("book")


@pytest.fixture
def locked(request):
    """Skip a test that only holds for the versions of the lock when the run is a lax one."""
    if request.config.getoption("--nbval-lax", default=False):
        pytest.skip("lax mode: installed versions may differ from the lock")
