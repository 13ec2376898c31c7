"""The checks, each of which looks at the facts for itself."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from bireme.api.crd import build_crd
from bireme.api.kinds import KINDS, KUBEFLOW_MPI_JOB
from bireme.installation.checkup.facts import Facts, Finding, Object, layout_of
from bireme.installation.names import CONTROLLER, OURS, WEBHOOKS

_APPLY: Final = "apply `bireme manifests` anew, or `helm upgrade`"
_SOON: Final = timedelta(days=14)
"""Certificates are renewed a month before they end: one that is this near to it was not."""
_MOST_SHOWN: Final = 5


def examine(facts: Facts) -> list[Finding]:
    """Every finding, in the order in which things depend on each other."""
    return [finding for check in CHECKS for finding in check(facts)]


def _crds(facts: Facts) -> Iterator[Finding]:
    layout = layout_of(facts.deployment)
    troubles = []
    for kind in KINDS:
        if kind is KUBEFLOW_MPI_JOB and not layout.kubeflow:
            continue
        found = facts.crds.get(kind.crd_name)
        trouble = _crd_trouble(kind.crd_name, found, build_crd(kind))
        if trouble is not None:
            troubles.append(trouble)
    yield from troubles
    if not troubles:
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


def _deployment(facts: Facts) -> Iterator[Finding]:
    deployment = facts.deployment
    if deployment is None:
        message = f"there is no Deployment {CONTROLLER} in the namespace {facts.namespace}"
        fix = "name its namespace with -n, or install: `bireme manifests | kubectl apply --server-side -f -`"
        yield Finding("controller-missing", "error", message, fix)
        return
    wanted = deployment["spec"].get("replicas", 1)
    ready = [pod for pod in facts.pods if _is_ready(pod)]
    if len(ready) < wanted:
        message = f"{len(ready)} of {wanted} pods of the controller are ready{_why_not(facts.pods)}"
        fix = f"`kubectl -n {facts.namespace} describe pods -l app.kubernetes.io/name=bireme`, and their logs"
        yield Finding("controller-not-ready", "warning" if ready else "error", message, fix)
    else:
        yield Finding("controller", "ok", f"{len(ready)} pods of the controller are ready")
    yield from _versions(facts)


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _why_not(pods: tuple[Object, ...]) -> str:
    """The first reason that a container or the scheduler gives."""
    for pod in pods:
        status = pod.get("status") or {}
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason"):
                return f": {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
        for condition in status.get("conditions") or ():
            if condition["status"] != "True" and condition.get("message"):
                return f": {condition['message']}"
    return ""


def _versions(facts: Facts) -> Iterator[Finding]:
    images = sorted({_image(pod["spec"]) for pod in facts.pods})
    if len(images) > 1:
        message = f"the pods of the controller run different images: {', '.join(images)}"
        fix = f"see `kubectl -n {facts.namespace} rollout status deployment {CONTROLLER}`"
        yield Finding("controller-versions", "warning", message, fix)
    assert facts.deployment is not None
    labels = facts.deployment["metadata"].get("labels") or {}
    installed = labels.get("app.kubernetes.io/version", "")
    if installed != facts.version:
        message = f"the controller is of version {installed or 'unknown'}, this program of {facts.version}"
        yield Finding(
            "version-differs", "warning", message, "use the same version of both; or upgrade the older one"
        )


def _image(spec: Object) -> str:
    image: str = spec["containers"][0].get("image", "")
    return image


def _lease(facts: Facts) -> Iterator[Finding]:
    spec = (facts.lease or {}).get("spec") or {}
    holder = spec.get("holderIdentity")
    if not holder:
        message = "no controller leads" if facts.lease else "no controller has ever led"
        fix = f"see why its pods do not run, or can't write the Lease {CONTROLLER} in {facts.namespace}"
        yield Finding("no-leader", "error", message, fix)
    elif facts.lease_moves or _is_fresh(spec, facts.now):
        yield Finding("leader", "ok", f"{holder} leads")
    else:
        message = f"{holder} led last, and has not renewed its lease since {spec.get('renewTime')}"
        fix = f"see the logs of the Deployment {CONTROLLER}: it is stopped, or can't reach the API server"
        yield Finding("lease-stale", "error", message, fix)


def _is_fresh(spec: Object, now: datetime) -> bool:
    renewed = spec.get("renewTime")
    if not renewed:
        return False
    return now - datetime.fromisoformat(renewed) < timedelta(seconds=spec.get("leaseDurationSeconds", 15))


def _permissions(facts: Facts) -> Iterator[Finding]:
    if not facts.denied:
        yield Finding("permissions", "ok", "the controller's account may do all that it needs")
        return
    shown = ", ".join(map(str, facts.denied[:_MOST_SHOWN]))
    more = len(facts.denied) - _MOST_SHOWN
    message = f"the controller's account may not: {shown}" + (f", and {more} more" if more > 0 else "")
    yield Finding(
        "permission-missing", "error", message, f"{_APPLY}: roles or bindings are missing or changed"
    )


def _webhooks(facts: Facts) -> Iterator[Finding]:
    if not layout_of(facts.deployment).webhooks:
        message = (
            "webhooks are off: nobody asks who may use a queue, and only the controller finds wrong jobs"
        )
        yield Finding(
            "webhooks-off", "warning", message, "set webhooks.enabled to true, unless that is meant"
        )
        return
    if any(configuration is None for configuration in facts.configurations):
        message = f"the webhooks are not registered: a WebhookConfiguration {WEBHOOKS} is missing"
        yield Finding("webhooks-missing", "error", message, _APPLY)
        return
    yield from _certificate(facts)
    yield from _answer(facts)


def _certificate(facts: Facts) -> Iterator[Finding]:
    certificate = facts.certificate
    fix = f"empty the Secret {WEBHOOKS} in {facts.namespace}: the controller fills it anew within a minute"
    if certificate is None:
        message = f"the Secret {WEBHOOKS} holds no certificate"
        yield Finding(
            "certificate-missing", "error", message, "the controller's log says why it can't make one"
        )
    elif certificate.until <= facts.now:
        message = f"the certificate of the webhooks has ended at {certificate.until:%Y-%m-%d %H:%M} UTC"
        yield Finding("certificate-ended", "error", message, fix)
    elif missing := sorted(_hosts(facts) - set(certificate.hosts)):
        message = f"the certificate of the webhooks is not for {', '.join(missing)}"
        yield Finding("certificate-name", "error", message, fix)
    elif not all(certificate.trusted_by):
        message = (
            "the API server does not trust the webhooks: their caBundle is not that of their certificate"
        )
        restart = f"the controller mends that within a minute; its log in {facts.namespace} says why it can't"
        yield Finding("certificate-not-trusted", "error", message, restart)
    elif certificate.until - facts.now < _SOON:
        message = f"the certificate of the webhooks ends at {certificate.until:%Y-%m-%d}, and was not renewed"
        yield Finding("certificate-ends", "warning", message, "the controller's log says what is in the way")
    else:
        yield Finding("certificate", "ok", f"the certificate is good until {certificate.until:%Y-%m-%d}")


def _hosts(facts: Facts) -> set[str]:
    """The names by which the API server calls the webhooks."""
    hosts = set()
    for configuration in facts.configurations:
        for webhook in (configuration or {}).get("webhooks") or ():
            client = webhook["clientConfig"]
            service = client.get("service")
            if service:
                hosts.add(f"{service['name']}.{service['namespace']}.svc")
            else:
                hosts.add(client["url"].partition("://")[2].partition("/")[0].rpartition(":")[0])
    return hosts


def _answer(facts: Facts) -> Iterator[Finding]:
    if facts.webhook_answer == "refused":
        yield Finding("webhooks", "ok", "the API server asks the webhooks, and they answer")
        return
    if facts.webhook_answer == "accepted":
        message = "a wrong job was let in: the API server did not ask the webhooks, or got no answer"
    else:
        message = f"the webhooks can't be asked: {facts.webhook_answer}"
    fix = (
        f"see that the Service {WEBHOOKS} in {facts.namespace} has endpoints, and that firewalls and"
        " NetworkPolicies let the API server reach the pods' port 9443"
    )
    yield Finding("webhooks-unreachable", "error", message, fix)


def _other_operators(facts: Facts) -> Iterator[Finding]:
    if not layout_of(facts.deployment).kubeflow:
        return
    if facts.operators:
        message = f"another operator runs MPIJobs too: {', '.join(facts.operators)}"
        fix = "run one of the two: docs/guides/migrating-from-mpi-operator.md, or kubeflow.enabled=false"
        yield Finding("other-operator", "error", message, fix)


def _queues(facts: Facts) -> Iterator[Finding]:
    if missing := sorted(facts.used_queues - facts.queues):
        message = f"jobs wait in queues that do not exist: {', '.join(missing[:_MOST_SHOWN])}"
        yield Finding(
            "queue-missing", "warning", message, "create them, or resubmit those jobs with another queue"
        )
    if facts.used_queues and not facts.has_scheduler:
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
        names = ", ".join(facts.closed_namespaces[:_MOST_SHOWN])
        message = f"NetworkPolicies let nothing in to the pods of jobs in {names}"
        fix = "allow TCP among the pods of a job: ports 2222 (ssh), 29500 (torchrun) and what ranks choose"
        yield Finding("network-closed", "warning", message, fix)


def _unseen(facts: Facts) -> Iterator[Finding]:
    for what in facts.unseen:
        yield Finding("unseen", "warning", f"could not look at {what}", "run this as an administrator")


CHECKS: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    _crds,
    _deployment,
    _lease,
    _permissions,
    _webhooks,
    _other_operators,
    _queues,
    _network,
    _unseen,
)
