"""A control plane of its own, as webhooks and permissions concern all who use it. It keeps an audit log."""

from collections.abc import Iterator

import pytest

from support.control_plane import ControlPlane
from support.installation import own_plane


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory.mktemp("installation")) as plane:
        yield plane
