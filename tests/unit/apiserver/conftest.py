"""A store with one namespace, and a moment to write at."""

from datetime import UTC, datetime

import pytest

from bireme.apiserver.kinds import NAMESPACE
from bireme.apiserver.store import Store


@pytest.fixture
def now() -> datetime:
    return datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)


@pytest.fixture
def store(now: datetime) -> Store:
    made = Store()
    made.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    return made
