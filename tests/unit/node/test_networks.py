"""Which network a job's pods are in."""

from typing import Any

import pytest

from bireme.node.networks import Sort, choose_network

Object = dict[str, Any]


def job(kind: str, **spec: Any) -> Object:
    return {"kind": kind, "spec": spec}


def on_host(value: bool) -> Object:
    return {"template": {"spec": {"hostNetwork": value}}}


JOBS: dict[str, tuple[Object, tuple[Sort, Sort, Sort]]] = {
    # connected with slirp4netns, connected without it, not connected
    "GenericJob": (job("GenericJob"), ("machine", "machine", "machine")),
    "with ports": (job("GenericJob", service={"ports": [{"port": 1}]}), ("own", "own", "own")),
    "MPIJob": (job("MPIJob", worker={}), ("shared", "machine", "own")),
    "Kubeflow's": (job("MPIJob", mpiReplicaSpecs={"Worker": {}}), ("shared", "machine", "own")),
    "ColossalAIJob": (job("ColossalAIJob", worker={}), ("shared", "machine", "machine")),
    "hostNetwork": (job("MPIJob", worker=on_host(True)), ("machine", "machine", "machine")),
    "no hostNetwork": (job("MPIJob", worker=on_host(False)), ("shared", "machine", "own")),
    "Kubeflow's, hostNetwork of one": (
        job("MPIJob", mpiReplicaSpecs={"Launcher": {}, "Worker": on_host(True)}),
        ("machine", "machine", "machine"),
    ),
    "without a spec": ({"kind": "MPIJob"}, ("shared", "machine", "own")),
}


@pytest.mark.parametrize(("wanted", "sorts"), JOBS.values(), ids=JOBS)
def test_a_job_has_the_network_that_it_needs(wanted: Object, sorts: tuple[Sort, Sort, Sort]) -> None:
    assert sorts == (
        choose_network(wanted, is_connected=True, has_uplink=True),
        choose_network(wanted, is_connected=True, has_uplink=False),
        choose_network(wanted, is_connected=False, has_uplink=True),
    )
