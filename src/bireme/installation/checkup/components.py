"""Whether controller, scheduler and webhooks run, lead, and may do what they must."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from bireme.installation.checkup.facts import (
    APPLY,
    DEPLOYMENTS,
    LEASES,
    MOST_SHOWN,
    Component,
    Facts,
    Finding,
    Object,
)
from bireme.installation.names import CONTROLLER

_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})


def check_component(facts: Facts, component: Component) -> Iterator[Finding]:
    """Words for what is found of the others begin with their name; some of the controller's do not."""
    yield from _deployment(facts, component)
    prefix = "" if component.name == CONTROLLER else f"{component.word}-"
    checks = (_version, _lease, _permissions) if component.takes_turns else (_version, _permissions)
    for check in checks:
        for finding in check(facts, component):
            yield finding._replace(check=f"{prefix}{finding.check}")


def _deployment(facts: Facts, component: Component) -> Iterator[Finding]:
    word, deployment = component.word, component.deployment
    if deployment is None and facts.is_unseen(DEPLOYMENTS, component.name):
        return
    if deployment is None:
        message = f"there is no Deployment {component.name} in the namespace {facts.namespace}"
        fix = "name its namespace with -n, or install: `bireme manifests | kubectl apply --server-side -f -`"
        yield Finding(f"{word}-missing", "error", message, fix)
        return
    wanted = deployment["spec"].get("replicas", 1)
    ready = [pod for pod in component.pods if _is_ready(pod)]
    if facts.is_unseen("pods"):
        return
    if wanted == 0:
        message = f"the Deployment {component.name} is scaled to 0: no {word} runs"
        fix = f"`kubectl -n {facts.namespace} scale deployment {component.name} --replicas=2`"
        yield Finding(f"{word}-scaled-to-zero", "error", message, fix)
        return
    if len(ready) < max(wanted, 1):
        message = f"{len(ready)} of {wanted} pods of the {word} are ready{_why_not(component.pods)}"
        fix = f"`kubectl -n {facts.namespace} describe pods -l app.kubernetes.io/name=bireme`, and their logs"
        yield Finding(f"{word}-not-ready", "warning" if ready else "error", message, fix)
    else:
        yield Finding(word, "ok", f"{len(ready)} pods of the {word} are ready")
        if why := _waiting([pod for pod in component.pods if not _is_ready(pod)]):
            message = f"a new pod of the {word} does not start{why}"
            fix = f"see `kubectl -n {facts.namespace} rollout status deployment {component.name}`"
            yield Finding(f"{word}-pod-waiting", "warning", message, fix)
    images = sorted({_image(pod["spec"]) for pod in component.pods})
    if len(images) > 1:
        message = f"the pods of the {word} run different images: {', '.join(images)}"
        fix = f"see `kubectl -n {facts.namespace} rollout status deployment {component.name}`"
        yield Finding(f"{word}-versions", "warning", message, fix)


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _why_not(pods: Sequence[Object]) -> str:
    """The first reason that a container or the scheduler gives."""
    waiting = _waiting(pods)
    if waiting:
        return waiting
    for pod in pods:
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["status"] != "True" and condition.get("message"):
                return f": {condition['message']}"
    return ""


def _waiting(pods: Sequence[Object]) -> str:
    """The first pod whose container waits for more than its start, with the image and the reason."""
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason") or ""
            if reason and reason not in _STARTING:
                image = f" (image {_image(pod['spec'])})" if "Image" in reason else ""
                said = f": {waiting['message']}" if waiting.get("message") else ""
                return f": {pod['metadata']['name']}: {reason}{image}{said}"
    return ""


def _version(facts: Facts, component: Component) -> Iterator[Finding]:
    if component.deployment is None:
        return
    labels = component.deployment["metadata"].get("labels") or {}
    installed = labels.get("app.kubernetes.io/version", "")
    if installed != facts.version:
        version = installed or "unknown"
        message = f"the {component.word} is of version {version}, this program of {facts.version}"
        fix = "use the same version of both; or upgrade the older one"
        yield Finding("version-differs", "warning", message, fix)


def _image(spec: Object) -> str:
    image: str = spec["containers"][0].get("image", "")
    return image


def _lease(facts: Facts, component: Component) -> Iterator[Finding]:
    if component.lease is None and facts.is_unseen(LEASES, component.name):
        return
    spec = (component.lease or {}).get("spec") or {}
    holder, name = spec.get("holderIdentity"), component.name
    if not holder:
        message = f"no {component.word} leads" if component.lease else f"no {component.word} has ever led"
        fix = f"see why its pods do not run, or can't write the Lease {name} in {facts.namespace}"
        yield Finding("no-leader", "error", message, fix)
    elif component.lease_moves or _is_fresh(spec, facts.now):
        yield Finding("leader", "ok", f"{holder} leads")
    else:
        message = f"{holder} led last, and has not renewed its lease since {spec.get('renewTime')}"
        fix = f"see the logs of the Deployment {name}: it is stopped, or can't reach the API server"
        yield Finding("lease-stale", "error", message, fix)


def _is_fresh(spec: Object, now: datetime) -> bool:
    renewed = spec.get("renewTime")
    if not renewed:
        return False
    return now - datetime.fromisoformat(renewed) < timedelta(seconds=spec.get("leaseDurationSeconds", 15))


def _permissions(_facts: Facts, component: Component) -> Iterator[Finding]:
    account, denied = f"the {component.word}'s account", component.denied
    if denied is None:
        return
    if not denied:
        yield Finding("permissions", "ok", f"{account} may do all that it needs")
        return
    shown = ", ".join(map(str, denied[:MOST_SHOWN]))
    more = len(denied) - MOST_SHOWN
    message = f"{account} may not: {shown}" + (f", and {more} more" if more > 0 else "")
    yield Finding(
        "permission-missing", "error", message, f"{APPLY}: roles or bindings are missing or changed"
    )
