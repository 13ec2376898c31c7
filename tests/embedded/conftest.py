"""One daemon for all tests that need not break it."""

from collections.abc import Iterator

import pytest

from support.commands import Bireme, daemon


@pytest.fixture(scope="session")
def bireme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    with daemon(tmp_path_factory.mktemp("embedded")) as commands:
        yield commands
