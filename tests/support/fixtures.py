"""Fixtures over the real programs; each starts on demand, once per pytest-xdist worker.

Mark tests that use `control_plane` with `@pytest.mark.xdist_group("control_plane")`, so that only one
worker starts it.
"""

import os
from collections.abc import Iterator

import pytest

from support.control_plane import BinariesMissingError, ControlPlane
from support.embedded import EmbeddedServer
from support.here import Here


def unavailable(reason: str) -> BaseException:
    """Return a skip; but in CI a failure, where a skip would go unseen."""
    if os.environ.get("CI") == "true":
        return pytest.fail.Exception(reason, pytrace=False)
    return pytest.skip.Exception(reason)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(parent=tmp_path_factory.getbasetemp())
    try:
        plane.start(deadline_seconds=180)
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    yield plane
    plane.stop()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(parent=tmp_path_factory.getbasetemp())
    try:
        server.start()
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    yield server
    server.stop()


# For one module: its thread draws random numbers, which Hypothesis would take for its own.
@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """The embedded mode in this process; tests delete the jobs that they make."""
    made = Here(tmp_path_factory.mktemp("here"))
    made.start()
    yield made
    made.stop()
