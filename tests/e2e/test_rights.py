"""What our accounts may do is what they have done in this whole run: nothing is missing, nothing unused.

Judged by the API server's own account of all requests, against the roles as they are in the cluster.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from support import audit
from support.cluster import Cluster
from support.fixtures import unavailable
from support.installed import ACCOUNTS, NAMESPACE

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

NEVER_SEEN: Final = {
    ("", "", "pods/exec"): "launchers get it for their own workers, and who grants a permission must hold it",
    ("", "", "/finalizers"): "no request: a plugin asks whether we may, where blockOwnerDeletion is set",
    ("controller", "get", "queues"): "held for controllers of older versions, which serve webhooks",
    ("controller", "get", "namespaces"): "so is this",
    ("controller", "create", "subjectaccessreviews"): "so is this",
    ("webhooks", "get", "configmaps"): "needs a pod that is resized in a queue with a shape profile",
    ("scheduler", "patch", "events"): "needs the same news of one group twice, as of a second preemption",
}
"""Ends of account, verb and resource, with the reason why no run need show the permission in use."""


class Grant(NamedTuple):
    """One verb on one resource: in one namespace or everywhere, of some names or all."""

    user: str
    verb: str
    resource: str
    namespace: str
    names: tuple[str, ...]

    def covers(self, request: audit.Request) -> bool:
        is_there = not self.namespace or self.namespace == request.namespace
        is_named = not self.names or request.name in self.names
        same = (self.user, self.verb, self.resource) == (request.user, request.verb, request.resource)
        return same and is_there and is_named

    @property
    def width(self) -> tuple[bool, bool]:
        return not self.names, not self.namespace


@pytest.fixture
def requests(cluster: Cluster, controller: str) -> list[audit.Request]:
    if controller != "chart" or cluster.node is None:
        raise unavailable("needs the chart's rights, and the API server's audit log")
    return audit.read(cluster.node.audit_log, ACCOUNTS)


def grants(cluster: Cluster) -> list[Grant]:
    """Of all roles that are bound to our accounts."""
    kinds = "clusterroles,clusterrolebindings,roles,rolebindings"
    told = cluster.kubectl.run(["get", kinds, "--all-namespaces", "-o", "json"])
    assert told.code == 0, told.stderr
    items = json.loads(told.stdout)["items"]
    rules = {_key(each["kind"], each["metadata"]): each.get("rules") or [] for each in items}
    return [grant for each in items for grant in _bound(each, rules)]


def _key(kind: str, metadata: dict[str, Any]) -> tuple[str, str, str]:
    return kind, metadata.get("namespace", ""), metadata["name"]


def _bound(binding: dict[str, Any], rules: dict[tuple[str, str, str], Any]) -> Iterator[Grant]:
    namespace = binding["metadata"].get("namespace", "")
    for subject in binding.get("subjects") or ():
        if (subject["kind"], subject.get("namespace")) == ("ServiceAccount", NAMESPACE):
            role = binding["roleRef"]
            found = rules[role["kind"], namespace if role["kind"] == "Role" else "", role["name"]]
            user = f"system:serviceaccount:{NAMESPACE}:{subject['name']}"
            for rule in found:
                yield from _of_rule(user, namespace, rule)


def _of_rule(user: str, namespace: str, rule: dict[str, Any]) -> Iterator[Grant]:
    names = tuple(rule.get("resourceNames") or ())
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Grant(user, verb, f"{resource}.{group}" if group else resource, namespace, names)


def used(granted: list[Grant], requests: list[audit.Request]) -> set[Grant]:
    """Those that some request needed: of several that cover it, the narrowest."""
    found: set[Grant] = set()
    kinds = {(each.user, each.verb, each.resource, each.namespace, each.name): each for each in requests}
    for request in kinds.values():
        covering = [grant for grant in granted if grant.covers(request)]
        least = min((grant.width for grant in covering), default=None)
        found.update(grant for grant in covering if grant.width == least)
    return found


def matches(grant: Grant, ends: tuple[str, str, str]) -> bool:
    words = grant.user, grant.verb, grant.resource.partition(".")[0]
    return all(word.endswith(end) for word, end in zip(words, ends, strict=True))


def is_never_seen(grant: Grant) -> bool:
    return any(matches(grant, ends) for ends in NEVER_SEEN)


def test_our_accounts_were_refused_nothing(requests: list[audit.Request]) -> None:
    assert {request.user for request in requests} == set(ACCOUNTS)
    assert [request.message for request in requests if not request.is_allowed] == []


def test_our_accounts_hold_nothing_that_was_not_used(
    cluster: Cluster, requests: list[audit.Request], is_whole_run: bool
) -> None:
    if not is_whole_run:
        pytest.skip("only a whole run uses every permission")
    granted = grants(cluster)
    assert {grant.user for grant in granted} == set(ACCOUNTS)
    unused = set(granted) - used(granted, requests)
    assert sorted(grant for grant in unused if not is_never_seen(grant)) == []
    assert [ends for ends in NEVER_SEEN if not any(matches(grant, ends) for grant in granted)] == []
