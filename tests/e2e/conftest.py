"""A namespace for each end-to-end test; and the order of them."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from support.cluster import Cluster
from support.stage import Stage
from support.stage import stage as new_stage

HERE: Final = Path(__file__).parent
LONGEST_NAME: Final = 50
PARTLY: Final = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Rights come last: they are judged by what all others have asked of the API server."""
    items.sort(key=lambda item: item.path.name == "test_rights.py")


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.config.stash[PARTLY] = True


@pytest.fixture(scope="session")
def is_whole_run(request: pytest.FixtureRequest) -> bool:
    """Whether every end-to-end test is run, none left out."""
    files = {path.name for path in HERE.glob("test_*.py")}
    seen = {item.path.name for item in request.session.items}
    return files <= seen and not request.config.stash.get(PARTLY, default=False)


@pytest.fixture
def stage(cluster: Cluster, controller: str, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A namespace named after the test; a long name is cut, and a digest tells it from others."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: LONGEST_NAME - len(digest) - 1].strip('-')}-{digest}"
    with new_stage(cluster, name) as new:
        yield new
