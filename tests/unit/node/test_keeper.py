"""The keeper of a pod, where the API server can save nothing."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import MagicMock

import pytest

from bireme.kube.errors import ServerError
from bireme.node.folders import NodeFolder
from bireme.node.keeper import Keeper
from bireme.testing.simulation.loop import VirtualLoop, run

GONE_SECONDS = 20.0


class DeletedError(Exception):
    """The pod is taken away: that is all we want to see."""


class FullDisk:
    """A client whose writes are not saved for a while."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.tried: list[str] = []

    async def patch(self, *_args: Any, **_options: Any) -> None:
        self._write("status")

    async def delete(self, *_args: Any, **_options: Any) -> None:
        self._write("delete")
        raise DeletedError

    def _write(self, what: str) -> None:
        self.tried.append(what)
        if self._loop.time() < GONE_SECONDS:
            raise ServerError(507, "InsufficientStorage", "the write was not saved")


def test_a_pod_whose_last_status_is_not_saved_is_tried_again_now_and_then(tmp_path: Path) -> None:
    loop = VirtualLoop(Random(1))
    client = FullDisk(loop)
    metadata = {
        "uid": "1",
        "namespace": "default",
        "name": "pod",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    spec = {"containers": [{"name": "main", "image": "x"}]}
    pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}

    async def main() -> None:
        written: Any = client
        keeper = Keeper(
            pod, written, NodeFolder(tmp_path), MagicMock(), MagicMock(), MagicMock(),
            lambda: datetime(2026, 1, 1, tzinfo=UTC), {},
        )  # fmt: skip
        with pytest.raises(DeletedError):
            await keeper.run()

    run(loop, main())
    assert client.tried[-2:] == ["status", "delete"]
    assert 5 < len(client.tried) < 20
