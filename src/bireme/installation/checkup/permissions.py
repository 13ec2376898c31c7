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
    if layout.job_policies:
        jobs += rbac.JOB_POLICY_RULES
    return [
        *_permissions(jobs, layout.watched, world),
        *_permissions(rbac.LEASE_RULES, namespace, world),
    ]


def needed_by_webhooks(layout: Layout, namespace: str) -> list[Permission]:
    world = World({}, namespace, "")
    asked_about = "" if layout.scheduler else layout.watched
    return [
        *_permissions(rbac.WEBHOOK_RULES, "", world),
        *_permissions(rbac.WEBHOOK_GROUP_RULES, asked_about, world),
        *_permissions(rbac.WEBHOOK_HOME_RULES, namespace, world),
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
