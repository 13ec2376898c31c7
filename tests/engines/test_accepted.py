"""What an engine is sent is taken by its own definitions, on a real API server and field by field."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from bireme.admission import default
from bireme.api.kinds import find_kind
from bireme.installation.authority import Authority
from bireme.installation.objects import build_objects
from bireme.planning import Observed, Settings, plan
from bireme.planning.actions import Create, CreatePod
from bireme.planning.engines import ENGINES
from bireme.planning.observed import Keys
from support.control_plane import BinariesMissingError, ControlPlane
from support.fixtures import unavailable
from support.gang_engines import install_engine_crds
from support.installation import Object, apply, as_list
from support.values import complete_values

pytestmark = pytest.mark.xdist_group("gang_engines")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "registry.example/x:1", "command": ["x"]}]}}
SCHEDULER = {"t9kScheduler": {"queue": "research", "priority": 7}}
GENERIC = {"replicaSpecs": [{"type": "worker", "replicas": 3, "restartPolicy": {}, "template": TEMPLATE}]}
MPI = {"worker": {"replicas": 2, "template": TEMPLATE}, "mpirun": {"command": ["x"]}}
JOBS: dict[str, dict[str, Any]] = {"GenericJob": GENERIC, "MPIJob": MPI}


@pytest.fixture(scope="module")
def plane(gang_plane: ControlPlane) -> ControlPlane:
    try:
        install_engine_crds(gang_plane, "volcano", "coscheduling", "kueue")
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    gang_plane.kubectl("wait", "--for=create", "--timeout=60s", "serviceaccount/default")
    return gang_plane


def sent(engine: str, kind: str) -> list[Object]:
    """All that is created for a job with a queue and a priority."""
    api_version = "batch.tensorstack.dev/v1beta1"
    metadata = {"name": f"{engine}-{kind.lower()}", "namespace": "default", "uid": "u"}
    manifest: dict[str, Any] = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": {**JOBS[kind], "scheduler": SCHEDULER},
    }
    known = find_kind(api_version, kind)
    assert known is not None
    job: Any = msgspec.convert(default(manifest), known.struct)
    made = plan(Observed(job, keys=Keys("a", "b", "c", "d"), settings=Settings(gang_engine=engine)), NOW)
    return [action.object for action in made.actions if isinstance(action, Create | CreatePod)]


def try_to_create(plane: ControlPlane, objects: list[Object]) -> list[Object]:
    """What they would become; a field that the API server does not know, and would drop, is an error."""
    command = ("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    return list(documents(plane.kubectl(*command, input=as_list(objects)).stdout))


def documents(text: str) -> Iterator[Object]:
    """The JSON objects that kubectl prints, one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        found, end = decoder.raw_decode(text, at)
        at = end + 1
        yield found


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_objects_of_a_job_are_taken_field_by_field(plane: ControlPlane, engine: str, kind: str) -> None:
    apply(plane, classes(engine, {7}))
    objects = sent(engine, kind)
    made = try_to_create(plane, objects)
    assert [each["metadata"]["name"] for each in made] == [each["metadata"]["name"] for each in objects]
    for asked, got in zip(objects, made, strict=True):
        if asked["kind"] == "PodGroup":
            assert got["apiVersion"] == asked["apiVersion"]
            assert asked["spec"].items() <= got["spec"].items()


def classes(engine: str, priorities: set[int]) -> list[Object]:
    """The classes of priority that an installation brings for the engine."""
    objects = build_objects(
        complete_values({"gangEngine": engine, "crds": {"install": False}}), "bireme-system", Authority()
    )
    return [
        each
        for each in objects
        if each["kind"] in ("PriorityClass", "WorkloadPriorityClass") and each["value"] in priorities
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_there_is_a_class_for_every_priority_of_a_job(plane: ControlPlane, engine: str) -> None:
    brought = classes(engine, set(range(1, 101)))
    assert [each["value"] for each in brought] == list(range(1, 101))
    assert len(try_to_create(plane, brought[:3])) == 3
