"""The permissions of our accounts as Markdown, for docs/concepts/security.md. PURE."""

from collections.abc import Iterator, Sequence
from typing import Final

from bireme.installation import rbac
from bireme.installation.engines import GROUPS, engine_rules
from bireme.installation.names import CONTROLLER, SCHEDULER, WEBHOOKS

BEGIN: Final = "<!-- permissions: made by `make generate` from src/bireme/installation/rbac.py -->"
END: Final = "<!-- end of permissions -->"
_JOBS: Final = "in the namespaces whose jobs are run"
_HOME: Final = "in the namespace of the installation"
_CLUSTER: Final = "in the cluster"
_OLDER: Final = tuple(
    rule._replace(why="not used: pods of older versions serve webhooks with it during an upgrade")
    for rule in rbac.WEBHOOK_RULES
)
_TABLES: Final[tuple[tuple[str, str, Sequence[tuple[str, Sequence[rbac.Rule]]]], ...]] = (
    (CONTROLLER, "", ((_JOBS, rbac.CONTROLLER_RULES), (_HOME, rbac.LEASE_RULES))),
    (CONTROLLER, "kubeflow.enabled", ((_JOBS, (*rbac.KUBEFLOW_RULES, *rbac.LAUNCHER_RULES)),)),
    (CONTROLLER, "networkPolicy.jobs", ((_JOBS, rbac.JOB_POLICY_RULES),)),
    (CONTROLLER, "webhooks.enabled", ((_CLUSTER, _OLDER),)),
    *(
        (CONTROLLER, f"gangEngine={engine}", ((_JOBS, engine_rules(group)),))
        for engine, group in GROUPS.items()
    ),
    (
        WEBHOOKS,
        "webhooks.enabled",
        (
            (_CLUSTER, rbac.WEBHOOK_RULES),
            (f"{_JOBS}; in all, with `scheduler.enabled`", rbac.WEBHOOK_GROUP_RULES),
            (_HOME, rbac.WEBHOOK_HOME_RULES),
        ),
    ),
    (
        SCHEDULER,
        "scheduler.enabled",
        ((_CLUSTER, rbac.SCHEDULER_RULES), (_HOME, rbac.SCHEDULER_HOME_RULES)),
    ),
)


def permission_tables() -> str:
    """One table for each account, between the two marks."""
    return "\n".join((BEGIN, *_lines(), END))


def _lines() -> Iterator[str]:
    for account, switch, places in _TABLES:
        when = f", with `{switch}`" if switch else ""
        yield f"\nAccount `{account}`{when}:\n"
        yield "| what | verbs | where | why |"
        yield "|---|---|---|---|"
        for where, rules in places:
            yield from (
                f"| {_what(rule)} | {', '.join(rule.verbs)} | {where} | {rule.why} |" for rule in rules
            )
    yield ""


def _what(rule: rbac.Rule) -> str:
    suffix = f".{rule.group}" if rule.group else ""
    resources = ", ".join(f"`{_named(each, suffix)}`" for each in rule.resources)
    return resources + "".join(f" `{name}`" for name in rule.names)


def _named(resource: str, suffix: str) -> str:
    """As kubectl names it: the group stands before a subresource."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}{suffix}{slash}{subresource}"
