"""What all tests share: the same examples on every run, and the lax mode of `make test LAX=1`."""

import secrets
import shutil
import socket
from contextlib import suppress

import pytest
from hypothesis import settings

import tools.warm

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)

settings.register_profile("book", deadline=None, derandomize=True, database=None)
settings.load_profile("book")


@pytest.fixture
def locked(request):
    """Skip a test that only holds for the versions of the lock when the run is a lax one."""
    if request.config.getoption("--nbval-lax", default=False):
        pytest.skip("lax mode: installed versions may differ from the lock")


@pytest.fixture(scope="session")
def warm(pytestconfig):
    """A warm parent of kernels for the tests of one worker (see `tools.warm`), None where there is
    no fork; it is in use only within `kernels.use(warm)`.
    """
    return tools.warm.parent(pytestconfig)


@pytest.fixture
def port():
    """A port at which nothing listens, below those that systems give to whoever asks for any: one
    of those could be taken again before a test's server has it.
    """
    while True:
        number = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", number)):
            return number


@pytest.fixture(scope="module")
def browser():
    """A Chromium that is installed here and finds no host.

    Its driver keeps an event loop in this thread, in which no other test could run its own.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        pytest.skip(
            f"no browser to look at the site with: none of {', '.join(BROWSERS)} is installed"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=found,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--host-resolver-rules=MAP * ~NOTFOUND",
            ],
        )
        yield started
        started.close()
