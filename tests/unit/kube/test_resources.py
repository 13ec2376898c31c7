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
        (PODS, ("..", "."), "/api/v1/namespaces/%2E%2E/pods/%2E"),
        (PODS, ("ns", "a", "status?x"), "/api/v1/namespaces/ns/pods/a/status%3Fx"),
        (PODS, ("ns", "\ud800\x7f\xe9"), "/api/v1/namespaces/ns/pods/%ED%A0%80%7F%C3%A9"),
        (
            Resource("x y", "v1 HTTP/1.1\r\n", "a b/c", "K"),
            ("n\r\ns", "a\nb"),
            "/apis/x%20y/v1%20HTTP%2F1.1%0D%0A/namespaces/n%0D%0As/a%20b%2Fc/a%0Ab",
        ),
        (Resource("", "v1\r\n\r\nDELETE /x", "p", "K"), (), "/api/v1%0D%0A%0D%0ADELETE%20%2Fx/p"),
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
