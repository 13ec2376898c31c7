"""A checkup of webhooks, by facts alone: quiet about what was installed, loud about what was taken away."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from bireme import __version__
from bireme.installation.checkup import Facts, Finding, examine
from bireme.installation.checkup.facts import Component
from bireme.installation.checkup.permissions import needed
from bireme.installation.names import CONTROLLER, SCHEDULER
from bireme.installation.objects import build_objects
from bireme.installation.values import read_values

Object = dict[str, Any]
HOME = "tools"
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
    objects = build_objects(read_values(values), HOME)

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
        tuple(find(kind) for kind in kinds),
    )


def registered(facts: Facts) -> list[Finding]:
    """What is said about the registration of webhooks."""
    return [each for each in examine(facts) if each.check.startswith(("webhook-", "queue-webhook-"))]


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
        wanted = needed(facts_of(values).layout, HOME)
        return any(
            each.resource == "podgroups" and each.verb == "get" and not each.namespace for each in wanted
        )

    assert not reads_all_groups(VALUES["one-namespace"])
    assert reads_all_groups(VALUES["scheduler-of-one-namespace"])
