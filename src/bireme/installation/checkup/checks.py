"""The checks, each of which looks at the facts for itself."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from bireme.api.crd import build_crd
from bireme.api.kinds import KINDS, KUBEFLOW_MPI_JOB
from bireme.installation.checkup.components import check_component
from bireme.installation.checkup.facts import (
    CRDS,
    DEPLOYMENTS,
    MOST_SHOWN,
    QUEUES,
    Facts,
    Finding,
    Object,
)
from bireme.installation.checkup.webhooks import check_webhooks
from bireme.installation.names import OURS


def examine(facts: Facts) -> list[Finding]:
    """Every finding, in the order in which things depend on each other."""
    return [finding for check in CHECKS for finding in check(facts)]


def _crds(facts: Facts) -> Iterator[Finding]:
    troubles, seen = [], 0
    for kind in KINDS:
        if kind is KUBEFLOW_MPI_JOB and not facts.layout.kubeflow:
            continue
        if facts.is_unseen(CRDS, kind.crd_name):
            continue
        seen += 1
        found = facts.crds.get(kind.crd_name)
        trouble = _crd_trouble(kind.crd_name, found, build_crd(kind))
        if trouble is not None:
            troubles.append(trouble)
    yield from troubles
    if seen and not troubles:
        yield Finding("crds", "ok", f"the CRDs are those of version {facts.version}")


def _crd_trouble(name: str, found: Object | None, wanted: Object) -> Finding | None:
    if found is None:
        return Finding(
            "crd-missing", "error", f"the CRD {name} is missing", "`bireme crds | kubectl apply -f -`"
        )
    if not is_ours(found):
        fix = "uninstall the operator that owns it first; Bireme never replaces a CRD that is not its own"
        return Finding("crd-foreign", "error", f"the CRD {name} belongs to somebody else", fix)
    if not _is_established(found):
        fix = f"`kubectl describe crd {name}` says what is in the way"
        return Finding("crd-not-established", "error", f"the CRD {name} is not served", fix)
    if not _is_same(found, wanted):
        fix = (
            "`bireme crds | kubectl apply -f -`, or `helm upgrade`; with the version that the controller has"
        )
        return Finding("crd-differs", "error", f"the CRD {name} is of another version", fix)
    return None


def is_ours(crd: Object) -> bool:
    labels = crd["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in OURS.items())


def _is_established(crd: Object) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _is_same(found: Object, wanted: Object) -> bool:
    def essence(crd: Object) -> list[Any]:
        return [
            (version["name"], version["served"], version["storage"], version.get("schema"))
            for version in crd["spec"]["versions"]
        ]

    return essence(found) == essence(wanted)


def _components(facts: Facts) -> Iterator[Finding]:
    for component in (facts.controller, facts.webhooks, facts.scheduler):
        if component is not None:
            yield from check_component(facts, component)


def _other_operators(facts: Facts) -> Iterator[Finding]:
    if not facts.layout.kubeflow:
        return
    if facts.operators:
        message = f"another operator runs MPIJobs too: {', '.join(facts.operators)}"
        fix = "run one of the two: docs/guides/migrating-from-mpi-operator.md, or kubeflow.enabled=false"
        yield Finding("other-operator", "error", message, fix)


def _queues(facts: Facts) -> Iterator[Finding]:
    missing = [] if facts.is_unseen(QUEUES) else sorted(facts.used_queues - facts.queues)
    if missing:
        message = f"jobs wait in queues that do not exist: {', '.join(missing[:MOST_SHOWN])}"
        yield Finding(
            "queue-missing", "warning", message, "create them, or resubmit those jobs with another queue"
        )
    if facts.used_queues and not facts.has_scheduler and not facts.is_unseen(DEPLOYMENTS):
        message = "jobs wait in queues, and no scheduler for queues runs: their pods stay Pending"
        yield Finding(
            "no-scheduler", "warning", message, "run `bireme scheduler`, or submit jobs without `scheduler`"
        )


def _network(facts: Facts) -> Iterator[Finding]:
    if not facts.has_dns:
        message = "no Service of the cluster's DNS was found: launchers find their workers by name"
        yield Finding(
            "no-dns", "warning", message, "install CoreDNS; its Service has the label k8s-app=kube-dns"
        )
    if facts.closed_namespaces:
        names = ", ".join(facts.closed_namespaces[:MOST_SHOWN])
        message = f"NetworkPolicies let nothing in to the pods of jobs in {names}"
        fix = "allow TCP among the pods of a job: ports 2222 (ssh), 29500 (torchrun) and what ranks choose"
        yield Finding("network-closed", "warning", message, fix)


def _nodes(facts: Facts) -> Iterator[Finding]:
    if names := facts.nodes_not_ready:
        shown = ", ".join(names[:MOST_SHOWN])
        message = f"{len(names)} node{'s are' if len(names) > 1 else ' is'} not ready: {shown}"
        fix = (
            f"`kubectl describe node {names[0]}`; its pods neither start nor end until it is back or deleted"
        )
        yield Finding("node-not-ready", "warning", message, fix)


def _unseen(facts: Facts) -> Iterator[Finding]:
    if facts.unseen:
        message = f"this user may not look at: {', '.join(facts.unseen)}; nothing is said about these"
        yield Finding("unseen", "warning", message, "run this as an administrator to check the whole")


CHECKS: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    _crds,
    _components,
    check_webhooks,
    _other_operators,
    _queues,
    _network,
    _nodes,
    _unseen,
)
