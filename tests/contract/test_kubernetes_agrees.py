"""What we took from Kubernetes is what the pinned Kubernetes says."""

import json
from pathlib import Path

import pytest
from hack.kubernetes_schema import TARGET, render
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.api.quantity import parse_quantity
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")

ROOT = Path(__file__).parents[2]

# Thousandths and more: the API server rounds what is finer in any list of resources. And no notation that
# is canonical but for a sign or a letter: it hands those back as they came.
QUANTITIES = [
    "0", "1", "-1", "100m", "1500m", "0.5", ".5", "1.5Gi", "1024Mi", "1023Mi", "0.1Ki",
    "0.5Ki", "12e6", "1e3", "1.5e3", "1e-3", "1k", "1000k",
    "1.2k", "16G", "1Ei", "1E", "0.001", "1000000n", "2500000u", "2048", "2Ki", "0.25Mi", "1000000",
    "9007199254740993", "0Gi", "0.0", "1.10", "500e-3", "3e9", "10e1", "7Ti", "1.5Ti",
    "8191Pi", "0.3Gi",
]  # fmt: skip


def test_the_schema_of_pods_is_the_servers(control_plane: ControlPlane) -> None:
    if control_plane.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: that cluster may be of another version")
    openapi = json.loads(control_plane.kubectl("get", "--raw", "/openapi/v3/api/v1").stdout)
    version = json.loads(TARGET.read_text())["kubernetes"]
    assert render(openapi, version) == TARGET.read_text()


def canonical(control_plane: ControlPlane, quantities: list[str]) -> list[str]:
    """What the API server makes of each, in one call: a LimitRange takes any amount of anything."""
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "quantities", "namespace": "default"},
        "spec": {
            "limits": [
                {"type": f"example.com/t{index}", "max": {"cpu": text}}
                for index, text in enumerate(quantities)
            ]
        },
    }
    reply = control_plane.kubectl(
        "create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(limits)
    )
    return [item["max"]["cpu"] for item in json.loads(reply.stdout)["spec"]["limits"]]


def test_quantities_are_written_as_the_server_writes_them(control_plane: ControlPlane) -> None:
    assert [str(parse_quantity(text)) for text in QUANTITIES] == canonical(control_plane, QUANTITIES)


@settings(max_examples=10)
@given(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=60),
    st.sampled_from(["", "k", "Ki", "Mi", "e2", "e3"]),
)
def test_generated_quantities_too(control_plane: ControlPlane, numbers: list[int], suffix: str) -> None:
    texts = [f"{number % 10**12}{suffix}" for number in numbers]
    assert [str(parse_quantity(text)) for text in texts] == canonical(control_plane, texts)
