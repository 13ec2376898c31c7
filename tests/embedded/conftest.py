"""One daemon for all tests that need not break it."""

from collections.abc import Iterator

import pytest

from support.commands import Bireme, daemon
from support.here import Here


@pytest.fixture(scope="session")
def bireme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    with daemon(tmp_path_factory.mktemp("embedded")) as commands:
        yield commands


@pytest.fixture(autouse=True)
def _no_job_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "here" in request.fixturenames:
        here: Here = request.getfixturevalue("here")
        here.clear()
