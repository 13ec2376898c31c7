"""What a checkup looks at, and what it says."""

from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from bireme.installation.names import WEBHOOKS

Object = dict[str, Any]
APPLY: Final = "apply `bireme manifests` anew, or `helm upgrade`"
"""What mends most."""
MOST_SHOWN: Final = 5
CRDS: Final = "customresourcedefinitions.apiextensions.k8s.io"
DEPLOYMENTS: Final = "deployments.apps"
LEASES: Final = "leases.coordination.k8s.io"
SECRETS: Final = "secrets"
VALIDATING: Final = "validatingwebhookconfigurations.admissionregistration.k8s.io"
MUTATING: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
QUEUES: Final = "queues.scheduler.tensorstack.dev"
"""Collections, as `unseen` names them."""
Severity = Literal["ok", "warning", "error"]


class Finding(NamedTuple):
    """What one check has found. `check` is a stable word for programs; an `ok` has nothing to fix."""

    check: str
    severity: Severity
    message: str
    fix: str = ""


class Layout(NamedTuple):
    """How controller and webhooks run, by their Deployments' arguments, and whether there is a scheduler."""

    watched: str = ""
    kubeflow: bool = False
    webhooks: bool = True
    own_certificates: bool = True
    engine: str = "bireme"
    scheduler: bool = False
    job_policies: bool = False


class Permission(NamedTuple):
    """Something that an account must be allowed to do; in all namespaces where none is named."""

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {kind}{named}" + (f" in {self.namespace}" if self.namespace else "")


class Certificate(NamedTuple):
    """What the webhooks' Secret holds: our authority, or a certificate of somebody else's."""

    until: datetime
    hosts: tuple[str, ...] | None
    """The names that it is for; None of an authority, which signs for any."""
    trusted_by: tuple[bool, ...]
    """Of each webhook: whether the API server trusts it there."""


class Component(NamedTuple):
    """A program of ours, as far as it is there."""

    name: str
    """Of its Deployment, its account and its lease, if it takes turns."""
    deployment: Object | None = None
    pods: tuple[Object, ...] = ()
    lease: Object | None = None
    takes_turns: bool = True
    lease_moves: bool = False
    """Whether the lease was renewed while we looked: clocks may differ, but this is seen."""
    denied: tuple[Permission, ...] | None = ()
    """None where nobody would say."""

    @property
    def word(self) -> str:
        """What it is called in findings; `webhooks` are the registered ones there."""
        return "webhook-server" if self.name == WEBHOOKS else self.name.removeprefix("bireme-")


class Facts(NamedTuple):
    """A cluster, as far as it could be seen.

    `unseen` names what the user may not look at: a collection, or one object of it. What is missing from
    the facts for that reason may exist, and no check may say otherwise.
    """

    namespace: str
    version: str
    now: datetime
    crds: dict[str, Object | None]
    """Ours by name; those that are not asked for may be missing."""
    controller: Component
    scheduler: Component | None = None
    """The one of this installation, None where it has none."""
    webhooks: Component | None = None
    """Those of this installation, None where it has none."""
    configurations: tuple[Object | None, ...] = ()
    certificate: Certificate | None = None
    webhook_answer: str = ""
    """What became of an object that our webhook must refuse: `refused`, `accepted`, or an error."""
    operators: tuple[str, ...] = ()
    """Other operators for MPIJobs, as namespace/name."""
    queues: frozenset[str] = frozenset()
    used_queues: frozenset[str] = frozenset()
    has_scheduler: bool = False
    has_dns: bool = True
    closed_namespaces: tuple[str, ...] = ()
    """With a NetworkPolicy that lets nothing in."""
    unseen: tuple[str, ...] = ()
    webhook_endpoints: int | None = None
    """Ready endpoints of the webhooks' Service; None where that is not known."""
    nodes_not_ready: tuple[str, ...] = ()

    def is_unseen(self, resource: str, name: str = "") -> bool:
        """Whether the user may not look at an object or, without a name, list a collection."""
        return (f"{resource} {name}" if name else resource) in self.unseen

    @property
    def layout(self) -> Layout:
        served = self.webhooks
        return layout_of(
            self.controller.deployment,
            served.deployment if served is not None else None,
            webhooks=served is not None,
            scheduler=self.scheduler is not None,
        )


def layout_of(controller: Object | None, server: Object | None, *, webhooks: bool, scheduler: bool) -> Layout:
    """By the arguments of the Deployments of controller and webhooks."""
    arguments = _arguments(controller)
    return Layout(
        _value(arguments, "--namespace="),
        "--kubeflow" in arguments,
        webhooks,
        "--certificates-from=external" not in _arguments(server),
        _value(arguments, "--gang-engine=") or "bireme",
        scheduler,
        "--job-network-policies" in arguments,
    )


def _arguments(deployment: Object | None) -> list[str]:
    if deployment is None:
        return []
    (container, *_) = deployment["spec"]["template"]["spec"]["containers"]
    arguments: list[str] = container.get("args") or []
    return arguments


def _value(arguments: list[str], option: str) -> str:
    return next((each.removeprefix(option) for each in arguments if each.startswith(option)), "")
