"""One daemon for all tests that need not break it."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bireme.node.machine import look
from support.commands import Bireme, daemon
from support.here import Here

_SAMPLED = {"rootless": 3, "root": 8}
"""One in how many attacks on podman is played outside of the heavy tier."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    attacks = [item for item in items if item.path.name == "test_podman_attacks.py"]
    for user, sample in _SAMPLED.items():
        played = [item for item in attacks if re.search(rf"\[{user}[-\]]", item.name)]
        for number, item in enumerate(played):
            if number % sample:
                item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def bireme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    with daemon(tmp_path_factory.mktemp("embedded")) as commands:
        yield commands


@pytest.fixture(scope="module")
def nameless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """As `here`, where pods get no host names and no mounts."""
    made = Here(tmp_path_factory.mktemp("nameless"), msgspec.structs.replace(look(), isolation="none"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that a stranger can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="bireme-home-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _no_job_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in {"here", "nameless"} & set(request.fixturenames):
        here: Here = request.getfixturevalue(name)
        here.clear()
