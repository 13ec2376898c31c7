"""A short slice of the API server's benchmark: it runs, and measures what its names say."""

import math

import pytest
from bench import apiserver

pytestmark = pytest.mark.xdist_group("control_plane")

SLICE = apiserver.Load(pods=300, read_seconds=0.3, watchers=5, watched_writes=50)


def test_the_embedded_server_is_measured() -> None:
    results = {
        result.name.removeprefix("embedded: "): result for result in apiserver.measure(SLICE, with_peer=False)
    }
    assert list(results) == [
        "reads",
        "durable pod creates",
        "the server's CPU for a pod create",
        "list of 300 pods",
        "watch delivery p99, 5 watchers",
        "from nothing to ready",
        "RSS with 300 pods",
    ]
    assert 1 < results["reads"].measured < 100_000
    assert 1 < results["durable pod creates"].measured < 100_000
    assert 0.1 < results["the server's CPU for a pod create"].measured < 100
    assert 20 < results["RSS with 300 pods"].measured < 500
    assert all(0 < result.measured < math.inf for result in results.values())
