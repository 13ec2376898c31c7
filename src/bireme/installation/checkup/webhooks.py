"""Whether the webhooks are asked, trusted, and answer."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, get_args

from bireme.installation.checkup.facts import (
    APPLY,
    DEPLOYMENTS,
    MUTATING,
    SECRETS,
    VALIDATING,
    Facts,
    Finding,
    Object,
    Severity,
)
from bireme.installation.expressions import World, resolve
from bireme.installation.names import WEBHOOKS, cluster_name
from bireme.installation.values import FailurePolicy, default_values, overlay
from bireme.installation.webhooks import QUEUE_POLICY, QUEUES, build_webhooks

_SOON: Final = timedelta(days=14)
"""cert-manager renews certificates a month before they end: one that is this near to it was not."""
_AUTHORITY_SOON: Final = timedelta(days=90)
"""An authority is renewed by the administrator alone."""
_RENEW: Final = (
    "`bireme manifests --context CONTEXT | kubectl apply --server-side --force-conflicts -f -` renews it;"
    f" with Helm, delete the Secret {WEBHOOKS} and upgrade"
)
_FIELDS: Final = ("rules", "namespaceSelector", "objectSelector", "matchConditions", "matchPolicy")
_STAKES: Final[dict[bool, tuple[str, Severity, str]]] = {
    True: ("queue-webhook", "error", "not everybody is asked who may use a queue"),
    False: ("webhook", "warning", "what is wrong in a job may be found later, by the controller"),
}
"""Of webhooks that guard queues, and of the others."""


def check_webhooks(facts: Facts) -> Iterator[Finding]:
    if not facts.layout.webhooks and facts.is_unseen(DEPLOYMENTS, WEBHOOKS):
        return
    if not facts.layout.webhooks:
        message = (
            "webhooks are off: nobody asks who may use a queue, and only the controller finds wrong jobs"
        )
        yield Finding(
            "webhooks-off", "warning", message, "set webhooks.enabled to true, unless that is meant"
        )
        return
    name = str(resolve(cluster_name(WEBHOOKS), World({"watchNamespace": facts.layout.watched}, "", "")))
    if any(facts.is_unseen(resource, name) for resource in (MUTATING, VALIDATING)):
        return
    if any(configuration is None for configuration in facts.configurations):
        message = f"the webhooks are not registered: a WebhookConfiguration {WEBHOOKS} is missing"
        yield Finding("webhooks-missing", "error", message, APPLY)
        return
    yield from _registered(facts)
    if facts.certificate is not None or not facts.is_unseen(SECRETS, WEBHOOKS):
        yield from _certificate(facts)
    yield from _endpoints(facts)
    if facts.webhook_answer or (facts.webhooks is not None and facts.webhooks.deployment is not None):
        yield from _answer(facts)


def _registered(facts: Facts) -> Iterator[Finding]:
    """Whether each is asked what it was installed for."""
    troubles = [trouble for pair in _pairs(facts) for trouble in _trouble(*pair)]
    yield from troubles
    if not troubles:
        yield Finding("webhooks-registered", "ok", f"the webhooks are those of version {facts.version}")


def _pairs(facts: Facts) -> Iterator[tuple[Object, Object | None]]:
    """Each webhook that should be there, with the one that is."""
    parts = [part.object for part in build_webhooks() if "webhooks" in part.object]
    for part, found in zip(parts, facts.configurations, strict=True):
        configuration = resolve(part, _world(facts))
        by_name = {each["name"]: each for each in (found or {}).get("webhooks") or ()}
        for webhook in configuration["webhooks"]:
            yield webhook, by_name.get(webhook["name"])


def _world(facts: Facts) -> World:
    layout = facts.layout
    policy = _annotation(facts.configurations[-1], QUEUE_POLICY)
    webhooks = {"queueFailurePolicy": policy} if policy in get_args(FailurePolicy) else {}
    given = {
        "watchNamespace": layout.watched,
        "kubeflow": {"enabled": layout.kubeflow},
        "scheduler": {"enabled": layout.scheduler},
        "gangEngine": layout.engine,
        "webhooks": webhooks,
    }
    return World(overlay(default_values(), given), facts.namespace, facts.version)


def _annotation(obj: Object | None, name: str) -> str:
    return str(((obj or {"metadata": {}})["metadata"].get("annotations") or {}).get(name, ""))


def _trouble(wanted: Object, found: Object | None) -> Iterator[Finding]:
    name, guards = wanted["name"], wanted["name"].endswith(QUEUES)
    prefix, severity, loss = _STAKES[guards]
    if found is None:
        yield Finding(f"{prefix}-missing", severity, f"the webhook {name} is missing: {loss}", APPLY)
    elif changed := list(_changed(wanted, found)):
        message = f"the webhook {name} was changed ({', '.join(changed)}): {loss}"
        yield Finding(f"{prefix}-changed", severity, message, APPLY)
    elif guards and found["failurePolicy"] == "Ignore":
        message = f"where the webhook {name} gives no answer, anybody may use any queue"
        fix = "set webhooks.queueFailurePolicy to Fail, unless that is meant"
        yield Finding("queue-webhook-ignored", "warning", message, fix)


def _changed(wanted: Object, found: Object) -> Iterator[str]:
    """The fields that decide whether somebody is asked, and who."""
    for field in _FIELDS:
        if (found.get(field) or None) != (wanted.get(field) or None):
            yield field
    # Of the others the policy is anybody's choice, which is written down nowhere else.
    if wanted["name"].endswith(QUEUES) and found["failurePolicy"] not in ("Fail", wanted["failurePolicy"]):
        yield "failurePolicy"
    service = found["clientConfig"].get("service")
    # Who is called by a URL is told by the certificate, which must be for that name.
    if service is not None and service != wanted["clientConfig"]["service"]:
        yield "clientConfig"


def _certificate(facts: Facts) -> Iterator[Finding]:
    certificate, own = facts.certificate, facts.layout.own_certificates
    what = "the authority of the webhooks" if own else "the certificate of the webhooks"
    fix = f"`kubectl -n {facts.namespace} describe certificate {WEBHOOKS}`: cert-manager makes it"
    if own:
        fix = _RENEW
    if certificate is None:
        message = f"the Secret {WEBHOOKS} is missing, or holds no certificate"
        yield Finding("certificate-missing", "error", message, APPLY if own else fix)
    elif certificate.until <= facts.now:
        message = f"{what} has ended at {certificate.until:%Y-%m-%d %H:%M} UTC"
        yield Finding("certificate-ended", "error", message, fix)
    elif missing := sorted(_hosts(facts) - set(certificate.hosts or _hosts(facts))):
        message = f"{what} is not for {', '.join(missing)}"
        yield Finding("certificate-name", "error", message, fix)
    elif not all(certificate.trusted_by):
        message = (
            f"the API server does not trust the webhooks: their caBundle is not that of the Secret {WEBHOOKS}"
        )
        yield Finding("certificate-not-trusted", "error", message, APPLY if own else fix)
    elif certificate.until - facts.now < (_AUTHORITY_SOON if own else _SOON):
        message = f"{what} ends at {certificate.until:%Y-%m-%d}, and was not renewed"
        yield Finding("certificate-ends", "warning", message, fix)
    else:
        yield Finding("certificate", "ok", f"{what} is good until {certificate.until:%Y-%m-%d}")


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


def _endpoints(facts: Facts) -> Iterator[Finding]:
    """An API server that has a connection still gets answers; the next one would find nobody."""
    if facts.webhook_endpoints == 0:
        message = f"the Service {WEBHOOKS} has no endpoint: new connections to the webhooks fail"
        fix = f"compare its selector with the labels of the webhooks' pods, which must be ready; or {APPLY}"
        yield Finding("webhook-service", "error", message, fix)


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
