"""Rules for Queue and PodGroup."""

from collections.abc import Mapping
from typing import Any

from bireme.admission.pods import check_resources
from bireme.admission.problems import Findings
from bireme.admission.words import describe
from bireme.api.job import SchedulePolicy
from bireme.api.names import MAX_LABEL, is_label_value, is_qualified_name
from bireme.api.paths import Path
from bireme.api.scheduler import PodGroup, Queue


def is_queued(scheduler: SchedulePolicy | None) -> bool:
    """Whether a job names a queue: a scheduler that is empty means the cluster's own."""
    return scheduler is not None and scheduler.t9k_scheduler is not None


def check_queue(queue: Queue, out: Findings) -> None:
    """Report every problem that the schema can't."""
    spec = queue.spec
    if len(queue.metadata.name) > MAX_LABEL:
        message = (
            f"has {len(queue.metadata.name)} characters; pods carry it as a label, so at most {MAX_LABEL}"
        )
        out.error(("metadata", "name"), "name-too-long", message, value=queue.metadata.name)
    if spec.quota is not None:
        check_resources({"requests": spec.quota.requests}, ("spec", "quota"), out)
    for field, selector in (
        ("nodeSelector", spec.node_selector),
        ("namespaceSelector", spec.namespace_selector),
    ):
        if selector is not None:
            _check_selector(selector, ("spec", field), out)


def _check_selector(selector: Mapping[str, Any], path: Path, out: Findings) -> None:
    for key, value in (selector.get("matchLabels") or {}).items():
        where = (*path, "matchLabels", key)
        if not is_qualified_name(key):
            out.error(where, "label-key", f"{describe(key)} is not a valid key", value=key, at_key=True)
        elif not is_label_value(value):
            out.error(where, "label-value", f"{describe(value)} is not a label value", value=value)
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        _check_expression(expression, (*path, "matchExpressions", index), out)


def _check_expression(expression: Mapping[str, Any], path: Path, out: Findings) -> None:
    operator, values = expression.get("operator"), expression.get("values") or ()
    key = expression.get("key")
    if key and not is_qualified_name(key):
        out.error((*path, "key"), "label-key", f"{describe(key)} is not a valid key", value=key)
    if operator in ("In", "NotIn") and not values:
        out.error((*path, "values"), "too-few", f"{operator} needs at least one value")
    elif operator in ("Exists", "DoesNotExist") and values:
        out.error((*path, "values"), "too-many", f"{operator} takes no values", hint="remove them")


def check_pod_group(group: PodGroup, out: Findings) -> None:
    """Report every problem that the schema can't."""
    spec = group.spec
    by_role = sum(role.min_member for role in spec.roles)
    if spec.min_member and by_role > spec.min_member:
        message = f"roles ask for {by_role} members together, more than minMember {spec.min_member}"
        out.warn(("spec", "roles"), "members", message, hint=f"raise minMember to {by_role}", at_key=True)
    if spec.topology_policy is not None:
        out.warn(
            ("spec", "topologyPolicy"), "ignored", "accepted for compatibility, and ignored", at_key=True
        )
