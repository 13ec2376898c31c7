"""Headless Services: names under which replicas are reached, ready or not."""

from bireme.api.generic import GenericJob, ServicePort
from bireme.planning.actions import Manifest
from bireme.planning.identity import (
    JOB_UID_LABEL,
    REPLICA_INDEX_LABEL,
    REPLICA_TYPE_LABEL,
    child_metadata,
    replica_name,
)
from bireme.planning.observed import Job


def build_replica_services(job: GenericJob) -> list[Manifest]:
    """One Service per replica, named like its pod; none without service ports."""
    if job.spec.service is None:
        return []
    ports = [_port(port) for port in job.spec.service.ports]
    metadata = child_metadata(job, "")
    return [
        _headless(
            {**metadata, "name": replica_name(job, replica.type, index)},
            ports,
            {
                JOB_UID_LABEL: job.metadata.uid,
                REPLICA_TYPE_LABEL: replica.type,
                REPLICA_INDEX_LABEL: str(index),
            },
        )
        for replica in job.spec.replica_specs
        for index in range(replica.replicas)
    ]


def build_workers_service(job: Job, name: str) -> Manifest:
    """One Service for all pods of the job, which then have host names under it."""
    return _headless(child_metadata(job, name), [], {JOB_UID_LABEL: job.metadata.uid})


def _port(port: ServicePort) -> Manifest:
    result: Manifest = {"port": port.port, "targetPort": port.port, "protocol": port.protocol}
    if port.name:
        result = {"name": port.name, **result}
    if port.app_protocol:
        result["appProtocol"] = port.app_protocol
    return result


def _headless(metadata: Manifest, ports: list[Manifest], selector: dict[str, str]) -> Manifest:
    spec: Manifest = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    if ports:
        spec["ports"] = ports
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
