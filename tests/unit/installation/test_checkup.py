"""A checkup, by facts alone: quiet about what was installed, loud about what was taken away."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bireme import __version__
from bireme.api.kinds import KINDS
from bireme.installation.authority import Authority
from bireme.installation.checkup import Facts, Finding, examine
from bireme.installation.checkup.facts import Certificate, Component
from bireme.installation.checkup.permissions import needed_by_webhooks
from bireme.installation.names import CONTROLLER, SCHEDULER, WEBHOOKS
from bireme.installation.objects import build_objects
from support.values import complete_values

Object = dict[str, Any]
HOME = "tools"
AUTHORITY = Authority(b"certificate", b"key")
VALUES: dict[str, Object] = {
    "default": {},
    "one-namespace": {"watchNamespace": "team"},
    "scheduler": {"scheduler": {"enabled": True}},
    "scheduler-of-one-namespace": {"watchNamespace": "team", "scheduler": {"enabled": True}},
    "another-engine": {"gangEngine": "volcano"},
    "kubeflow": {"kubeflow": {"enabled": True}},
    "cert-manager": {"webhooks": {"certManager": {"enabled": True}, "failurePolicy": "Fail"}},
}


def facts_of(values: Object) -> Facts:
    """What would be found of an installation, as far as webhooks are concerned."""
    objects = build_objects(complete_values(values), HOME, AUTHORITY)

    def find(kind: str, name: str = "") -> Object | None:
        found = (each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(name))
        return copy.deepcopy(next(found, None))

    scheduler = find("Deployment", SCHEDULER)
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return Facts(
        HOME,
        __version__,
        datetime.now(UTC),
        {},
        Component(CONTROLLER, find("Deployment", CONTROLLER)),
        Component(SCHEDULER, scheduler) if scheduler else None,
        Component(WEBHOOKS, find("Deployment", WEBHOOKS), takes_turns=False),
        tuple(find(kind) for kind in kinds),
    )


def registered(facts: Facts) -> list[Finding]:
    """What is said about the registration of webhooks."""
    found = [each for each in examine(facts) if each.check.startswith(("webhook-", "queue-webhook-"))]
    return [each for each in found if not each.check.startswith("webhook-server")]


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_what_was_installed_is_as_it_should_be(values: Object) -> None:
    assert registered(facts_of(values)) == []


Change = Callable[[Object], object]
QUEUE_WEBHOOKS = [f"{what}.queues.bireme.dev" for what in ("jobs", "podgroups", "pods")]
WEAKER: dict[str, tuple[str, Change]] = {
    "rules": ("rules", lambda hook: hook["rules"][0].update(operations=["CREATE"])),
    "no-rules": ("rules", lambda hook: hook.update(rules=[])),
    "namespaces": (
        "namespaceSelector",
        lambda hook: hook.update(namespaceSelector={"matchLabels": {"a": "b"}}),
    ),
    "objects": ("objectSelector", lambda hook: hook.update(objectSelector={"matchLabels": {"a": "b"}})),
    "conditions": (
        "matchConditions",
        lambda hook: hook["matchConditions"].append({"name": "never", "expression": "false"}),
    ),
    "matches": ("matchPolicy", lambda hook: hook.update(matchPolicy="Exact")),
    "policy": ("failurePolicy", lambda hook: hook.update(failurePolicy="Ignore")),
    "path": ("clientConfig", lambda hook: hook["clientConfig"]["service"].update(path="/validate")),
}


@pytest.mark.parametrize("name", QUEUE_WEBHOOKS)
@pytest.mark.parametrize(("field", "change"), WEAKER.values(), ids=WEAKER)
def test_a_queue_webhook_that_is_asked_less_is_an_error(name: str, field: str, change: Change) -> None:
    facts = facts_of(VALUES["scheduler-of-one-namespace"])
    change(webhook(facts, name))
    (finding,) = registered(facts)
    assert (finding.check, finding.severity) == ("queue-webhook-changed", "error")
    assert f"the webhook {name} was changed ({field})" in finding.message
    assert finding.fix


@pytest.mark.parametrize("name", QUEUE_WEBHOOKS)
def test_a_queue_webhook_that_is_missing_is_an_error(name: str) -> None:
    facts = facts_of({})
    validating = facts.configurations[1]
    assert validating is not None
    validating["webhooks"].remove(webhook(facts, name))
    (finding,) = registered(facts)
    assert (finding.check, finding.severity) == ("queue-webhook-missing", "error")
    assert name in finding.message


def test_a_policy_that_was_chosen_is_warned_of_and_a_stricter_one_is_not() -> None:
    facts = facts_of({"webhooks": {"queueFailurePolicy": "Ignore"}})
    assert {(each.check, each.severity) for each in registered(facts)} == {
        ("queue-webhook-ignored", "warning")
    }
    assert len(registered(facts)) == len(QUEUE_WEBHOOKS)
    for name in QUEUE_WEBHOOKS:
        webhook(facts, name)["failurePolicy"] = "Fail"
    assert registered(facts) == []


def test_another_webhook_that_was_changed_is_warned_of() -> None:
    facts = facts_of({})
    webhook(facts, "validate.bireme.dev")["rules"].pop()
    (finding,) = registered(facts)
    assert (finding.check, finding.severity) == ("webhook-changed", "warning")


def webhook(facts: Facts, name: str) -> Object:
    hooks: list[Object] = [hook for each in facts.configurations for hook in (each or {})["webhooks"]]
    return next(hook for hook in hooks if hook["name"] == name)


def test_webhooks_for_all_namespaces_need_the_groups_of_all() -> None:
    def reads_all_groups(values: Object) -> bool:
        wanted = needed_by_webhooks(facts_of(values).layout, HOME)
        return any(
            each.resource == "podgroups" and each.verb == "get" and not each.namespace for each in wanted
        )

    assert not reads_all_groups(VALUES["one-namespace"])
    assert reads_all_groups(VALUES["scheduler-of-one-namespace"])


def pod(name: str, *, ready: bool, waiting: Object | None = None) -> Object:
    state = {"waiting": waiting} if waiting else {"running": {}}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "controller", "image": "registry.example/bireme:9"}]},
        "status": {
            "conditions": conditions,
            "containerStatuses": [{"name": "controller", "state": state}],
        },
    }


def with_pods(facts: Facts, *pods: Object) -> Facts:
    return facts._replace(controller=facts.controller._replace(pods=pods))


def of_check(facts: Facts, check: str) -> Finding:
    return next(finding for finding in examine(facts) if finding.check == check)


def test_a_deployment_that_is_scaled_to_zero_is_said_to_be() -> None:
    facts = facts_of({})
    assert facts.controller.deployment is not None
    facts.controller.deployment["spec"]["replicas"] = 0
    finding = of_check(facts, "controller-scaled-to-zero")
    assert finding.severity == "error"
    assert "kubectl -n tools scale deployment bireme-controller --replicas=2" in finding.fix


@pytest.mark.parametrize(
    ("ready", "check", "severity"),
    [(2, "controller-pod-waiting", "warning"), (0, "controller-not-ready", "error")],
    ids=["during a roll-out", "at first"],
)
def test_an_image_that_can_not_be_pulled_is_named(ready: int, check: str, severity: str) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    pods = [pod(f"old-{index}", ready=True) for index in range(ready)]
    finding = of_check(with_pods(facts_of({}), *pods, pod("new", ready=False, waiting=waiting)), check)
    assert finding.severity == severity
    assert "new: ImagePullBackOff (image registry.example/bireme:9): Back-off" in finding.message


def test_a_service_without_endpoints_is_an_error() -> None:
    finding = of_check(facts_of({})._replace(webhook_endpoints=0), "webhook-service")
    assert (finding.severity, "bireme-webhooks" in finding.message) == ("error", True)
    checks = [each.check for each in examine(facts_of({})._replace(webhook_endpoints=1))]
    assert "webhook-service" not in checks


def test_nodes_that_are_not_ready_are_named() -> None:
    finding = of_check(facts_of({})._replace(nodes_not_ready=("a", "b")), "node-not-ready")
    assert finding.message == "2 nodes are not ready: a, b"


def test_a_user_who_may_see_nothing_gets_no_errors_and_one_warning() -> None:
    crds = [f"customresourcedefinitions.apiextensions.k8s.io {kind.crd_name}" for kind in KINDS]
    unseen = (
        *crds,
        f"deployments.apps {CONTROLLER}",
        f"deployments.apps {SCHEDULER}",
        f"deployments.apps {WEBHOOKS}",
        "pods",
        f"leases.coordination.k8s.io {CONTROLLER}",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io bireme-webhooks",
        "validatingwebhookconfigurations.admissionregistration.k8s.io bireme-webhooks",
        "secrets bireme-webhooks",
        "deployments.apps",
        "queues.scheduler.tensorstack.dev",
    )
    facts = Facts(
        HOME,
        __version__,
        datetime.now(UTC),
        {},
        Component(CONTROLLER, denied=None),
        configurations=(None, None),
        used_queues=frozenset({"training"}),
        unseen=unseen,
    )
    (finding,) = examine(facts)
    assert (finding.check, finding.severity) == ("unseen", "warning")
    assert f"deployments.apps {CONTROLLER}" in finding.message


def certified(until: datetime) -> Facts:
    return facts_of({})._replace(certificate=Certificate(until, None, (True, True)))


@pytest.mark.parametrize(
    ("days", "check", "severity"),
    [
        (-1, "certificate-ended", "error"),
        (80, "certificate-ends", "warning"),
        (100, "certificate", "ok"),
    ],
)
def test_end_of_the_authority_is_told_in_time(days: int, check: str, severity: str) -> None:
    finding = of_check(certified(datetime.now(UTC) + timedelta(days=days)), check)
    assert finding.severity == severity
    assert severity == "ok" or "bireme manifests --context" in finding.fix


def test_webhooks_are_checked_like_the_other_components() -> None:
    facts = facts_of({})
    assert facts.webhooks is not None
    gone = facts._replace(webhooks=facts.webhooks._replace(deployment=None))
    assert of_check(gone, "webhook-server-missing").severity == "error"
    assert "no Deployment bireme-webhooks" in of_check(gone, "webhook-server-missing").message
    checks = {finding.check for finding in examine(facts)}
    assert "webhook-server-permissions" in checks
    assert "webhook-server-no-leader" not in checks
