"""What our accounts must be allowed, one by one, for the API server to be asked about."""

from collections.abc import Iterator, Sequence
from typing import Any

from bireme.installation import rbac
from bireme.installation.checkup.facts import Layout, Permission
from bireme.installation.expressions import World, resolve


def needed(layout: Layout, namespace: str) -> list[Permission]:
    """All permissions of the controller in an installation of this layout."""
    world = World({"watchNamespace": layout.watched}, namespace, "")
    jobs = [*rbac.CONTROLLER_RULES]
    if layout.kubeflow:
        jobs += [*rbac.KUBEFLOW_RULES, *rbac.LAUNCHER_RULES]
    at_home = [*rbac.LEASE_RULES]
    cluster: list[rbac.Rule] = []
    if layout.webhooks:
        at_home += rbac.CERTIFICATE_READ_RULES
        cluster += rbac.WEBHOOK_RULES
        if layout.watched and layout.scheduler:
            cluster += rbac.PLACED_RULES
        if layout.own_certificates:
            at_home += rbac.CERTIFICATE_WRITE_RULES
            cluster += rbac.TRUST_RULES
    return [
        *_permissions(jobs, layout.watched, world),
        *_permissions(at_home, namespace, world),
        *_permissions(cluster, "", world),
    ]


def needed_by_scheduler(namespace: str) -> list[Permission]:
    world = World({}, namespace, "")
    return [
        *_permissions(rbac.SCHEDULER_RULES, "", world),
        *_permissions(rbac.SCHEDULER_HOME_RULES, namespace, world),
    ]


def _permissions(rules: Sequence[rbac.Rule], namespace: str, world: World) -> Iterator[Permission]:
    for rule in rules:
        names: Sequence[Any] = rule.names or ("",)
        for name in names:
            for resource in rule.resources:
                for verb in rule.verbs:
                    yield Permission(verb, rule.group, resource, str(resolve(name, world)), namespace)
