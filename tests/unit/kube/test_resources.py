"""Paths and kinds of the API."""

import pytest

from bireme.api.kinds import KINDS, KUBEFLOW_MPI_JOB, MPI_JOB, POD_GROUP, QUEUE
from bireme.kube.resources import (
    CLUSTER_ROLES,
    LEASES,
    NODES,
    PODS,
    RESOURCES_BY_KIND,
    Resource,
    resource_for,
    resource_of,
)


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("ns",), "/api/v1/namespaces/ns/pods"),
        (PODS, ("ns", "a"), "/api/v1/namespaces/ns/pods/a"),
        (PODS, ("ns", "a", "status"), "/api/v1/namespaces/ns/pods/a/status"),
        (NODES, (None, "n"), "/api/v1/nodes/n"),
        (NODES, ("ns", "n"), "/api/v1/nodes/n"),
        (LEASES, ("ns", "l"), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
        (
            CLUSTER_ROLES,
            (None, "system:a"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a",
        ),
        (PODS, ("ns", "../secrets?x"), "/api/v1/namespaces/ns/pods/..%2Fsecrets%3Fx"),
    ],
)
def test_paths(resource: Resource, arguments: tuple[str | None, ...], path: str) -> None:
    assert resource.path(*arguments) == path


def test_our_kinds_are_resources() -> None:
    assert resource_of(QUEUE).path() == "/apis/scheduler.tensorstack.dev/v1beta1/queues"
    for kind in KINDS:
        assert resource_for(kind.kind, kind.api_version) == resource_of(kind)


def test_a_kind_alone_is_enough_where_it_is_the_only_one() -> None:
    assert resource_for("PodGroup") == resource_of(POD_GROUP)
    for kind, resource in RESOURCES_BY_KIND.items():
        assert resource_for(kind) == resource_for(kind, resource.api_version) == resource


def test_two_kinds_of_one_name_are_told_apart_by_their_version() -> None:
    assert resource_for("MPIJob", MPI_JOB.api_version) != resource_for("MPIJob", KUBEFLOW_MPI_JOB.api_version)
    with pytest.raises(LookupError, match="2 resources of kind MPIJob"):
        resource_for("MPIJob")


@pytest.mark.parametrize("arguments", [("Unknown",), ("Pod", "v2")])
def test_an_unknown_kind_is_no_resource(arguments: tuple[str, ...]) -> None:
    with pytest.raises(LookupError, match="no resources"):
        resource_for(*arguments)
