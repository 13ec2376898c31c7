"""Who may do what: the least that the controller needs, and what users get.

No wildcards; no escalate, bind or impersonate; Secrets are neither listed nor watched. The rules are data:
`bireme doctor` asks the API server about each of them.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from bireme.api.kinds import COLOSSALAI_JOB, GENERIC_JOB, KUBEFLOW_MPI_JOB, MPI_JOB, POD_GROUP, QUEUE
from bireme.installation.expressions import Namespace, Not, Value
from bireme.installation.names import (
    CONTROLLER,
    KUBEFLOW,
    LAUNCHER,
    SCHEDULER,
    WATCHED,
    WEBHOOKS,
    cluster_name,
)
from bireme.installation.parts import Part, Tree, metadata

RBAC: Final = "rbac.authorization.k8s.io"
READ: Final = ("get", "list", "watch")
FOLLOW: Final = ("list", "watch")
KUBEFLOW_ON: Final = Value("kubeflow.enabled")
WEBHOOKS_ON: Final = Value("webhooks.enabled")
SCHEDULER_ON: Final = Value("scheduler.enabled")
OWN_CERTIFICATES: Final = Not(Value("webhooks.certManager.enabled"))


class Rule(NamedTuple):
    """Verbs on resources of one group; of these names only, where some are given."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[Any, ...] = ()

    def tree(self) -> Tree:
        rule: Tree = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


_BATCH: Final = tuple(kind.plural for kind in (GENERIC_JOB, MPI_JOB, COLOSSALAI_JOB))


def _below(resources: Iterable[str], subresource: str) -> tuple[str, ...]:
    return tuple(f"{resource}/{subresource}" for resource in resources)


CONTROLLER_RULES: Final = (
    Rule(GENERIC_JOB.group, _BATCH, FOLLOW),
    Rule(GENERIC_JOB.group, _below(_BATCH, "status"), ("update",)),
    # Where OwnerReferencesPermissionEnforcement is on, whoever sets blockOwnerDeletion must hold these.
    Rule(GENERIC_JOB.group, _below(_BATCH, "finalizers"), ("update",)),
    Rule(POD_GROUP.group, (POD_GROUP.plural,), (*READ, "create", "patch", "delete")),
    Rule("", ("pods",), (*READ, "create", "patch", "delete")),
    Rule("", ("services",), (*READ, "create", "delete")),
    Rule("", ("configmaps",), (*READ, "create", "patch")),
    # get: whether a Secret of that name is the job's own, when it is there already.
    Rule("", ("secrets",), ("get", "create")),
    Rule("", ("events",), ("create", "patch")),
)
"""In every namespace whose jobs are run."""

_KUBEFLOW_JOBS: Final = (KUBEFLOW_MPI_JOB.plural,)
KUBEFLOW_RULES: Final = (
    Rule(KUBEFLOW_MPI_JOB.group, _KUBEFLOW_JOBS, (*FOLLOW, "delete")),
    Rule(KUBEFLOW_MPI_JOB.group, _below(_KUBEFLOW_JOBS, "status"), ("update",)),
    Rule(KUBEFLOW_MPI_JOB.group, _below(_KUBEFLOW_JOBS, "finalizers"), ("update",)),
    Rule("", ("serviceaccounts",), ("get", "create")),
    Rule(RBAC, ("roles", "rolebindings"), ("get", "create")),
)
"""There too, for MPIJobs of Kubeflow."""

LAUNCHER_RULES: Final = (
    Rule("", ("pods",), ("get",)),
    Rule("", ("pods/exec",), ("get", "create")),
)
"""What a launcher gets, each on its own workers alone. To grant it, the controller must hold it."""

LEASE_RULES: Final = (
    # A name can't bind creation, as the API server does not know it yet.
    Rule("coordination.k8s.io", ("leases",), ("create",)),
    Rule("coordination.k8s.io", ("leases",), ("get", "update"), (CONTROLLER,)),
)
"""In the namespace of the installation."""

_QUEUEING: Final = (POD_GROUP.plural, QUEUE.plural)
SCHEDULER_RULES: Final = (
    Rule("", ("nodes", "namespaces", "persistentvolumes"), FOLLOW),
    Rule("", ("persistentvolumeclaims",), (*FOLLOW, "patch")),
    Rule("storage.k8s.io", ("storageclasses",), FOLLOW),
    # get: where a pod is whose binding was not confirmed. patch: the deadline of one that maxDuration ends.
    Rule("", ("pods",), (*READ, "patch", "delete")),
    Rule("", ("pods/binding",), ("create",)),
    Rule("", ("pods/status",), ("patch",)),
    Rule("", ("events",), ("create", "patch")),
    Rule(QUEUE.group, _QUEUEING, FOLLOW),
    Rule(QUEUE.group, _below(_QUEUEING, "status"), ("patch",)),
)
"""In the cluster: the scheduler of queues counts every pod on every node."""
SCHEDULER_HOME_RULES: Final = (
    Rule("coordination.k8s.io", ("leases",), ("create",)),
    Rule("coordination.k8s.io", ("leases",), ("get", "update"), (SCHEDULER,)),
    # A name binds list and watch that select it by metadata.name.
    Rule("", ("configmaps",), FOLLOW, ("resource-shapes",)),
)
"""In the namespace of the installation."""

CERTIFICATE_READ_RULES: Final = (Rule("", ("secrets",), ("get",), (WEBHOOKS,)),)
CERTIFICATE_WRITE_RULES: Final = (
    Rule("", ("secrets",), ("update",), (WEBHOOKS,)),
    # In case that Secret is deleted. A name can't bind creation, as with leases.
    Rule("", ("secrets",), ("create",)),
)
"""There too: the certificates of the webhooks, in a Secret that the installation brings, empty."""

_CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
WEBHOOK_RULES: Final = (
    Rule(QUEUE.group, (QUEUE.plural,), ("get",)),
    Rule("", ("namespaces",), ("get",)),
    Rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
)
"""In the cluster: who may use a queue."""
PLACED_RULES: Final = (Rule(POD_GROUP.group, (POD_GROUP.plural,), ("get",)),)
"""In the cluster, where one namespace is watched and the scheduler places the pods of all: their queues."""
TRUST_RULES: Final = (
    Rule("admissionregistration.k8s.io", _CONFIGURATIONS, ("get", "patch"), (cluster_name(WEBHOOKS),)),
)
"""In the cluster: to tell the API server which authority to trust."""

_ALL_VERBS: Final = (*READ, "create", "update", "patch", "delete", "deletecollection")
EDIT_RULES: Final = (
    Rule(GENERIC_JOB.group, _BATCH, _ALL_VERBS),
    Rule(POD_GROUP.group, (POD_GROUP.plural,), _ALL_VERBS),
)
KUBEFLOW_EDIT_RULES: Final = (Rule(KUBEFLOW_MPI_JOB.group, _KUBEFLOW_JOBS, _ALL_VERBS),)
VIEW_RULES: Final = (
    Rule(GENERIC_JOB.group, _BATCH, READ),
    Rule(GENERIC_JOB.group, _below(_BATCH, "status"), ("get",)),
    Rule(POD_GROUP.group, (POD_GROUP.plural,), READ),
    Rule(POD_GROUP.group, _below((POD_GROUP.plural,), "status"), ("get",)),
)
QUEUE_VIEW_RULES: Final = (
    Rule(QUEUE.group, (QUEUE.plural,), READ),
    Rule(QUEUE.group, _below((QUEUE.plural,), "status"), ("get",)),
)
"""In the cluster, as Queues have no namespace: a binding in a namespace grants nothing of them."""
KUBEFLOW_VIEW_RULES: Final = (
    Rule(KUBEFLOW_MPI_JOB.group, _KUBEFLOW_JOBS, READ),
    Rule(KUBEFLOW_MPI_JOB.group, _below(_KUBEFLOW_JOBS, "status"), ("get",)),
)


def build_rbac() -> list[Part]:
    """The controller's account, roles and bindings, and what users get."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(CONTROLLER, "controller", Namespace()),
    }
    scheduler = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(SCHEDULER, "scheduler", Namespace()),
    }
    everywhere = Not(WATCHED)
    return [
        Part(account),
        Part(scheduler, (SCHEDULER_ON,)),
        *cluster_grant(SCHEDULER, SCHEDULER_RULES, SCHEDULER_ON, holder=SCHEDULER),
        *grant(SCHEDULER, SCHEDULER_HOME_RULES, Namespace(), SCHEDULER_ON, holder=SCHEDULER),
        *cluster_grant(CONTROLLER, CONTROLLER_RULES, everywhere),
        *grant(CONTROLLER, CONTROLLER_RULES, WATCHED, WATCHED),
        *cluster_grant(KUBEFLOW, KUBEFLOW_RULES, everywhere, KUBEFLOW_ON),
        *grant(KUBEFLOW, KUBEFLOW_RULES, WATCHED, WATCHED, KUBEFLOW_ON),
        *cluster_grant(LAUNCHER, LAUNCHER_RULES, everywhere, KUBEFLOW_ON),
        *grant(LAUNCHER, LAUNCHER_RULES, WATCHED, WATCHED, KUBEFLOW_ON),
        *grant(f"{CONTROLLER}-lease", LEASE_RULES, Namespace()),
        *grant(f"{WEBHOOKS}-certificates", CERTIFICATE_READ_RULES, Namespace(), WEBHOOKS_ON),
        *grant(f"{WEBHOOKS}-rotation", CERTIFICATE_WRITE_RULES, Namespace(), WEBHOOKS_ON, OWN_CERTIFICATES),
        *cluster_grant(WEBHOOKS, WEBHOOK_RULES, WEBHOOKS_ON),
        *cluster_grant(f"{WEBHOOKS}-placed", PLACED_RULES, WEBHOOKS_ON, WATCHED, SCHEDULER_ON),
        *cluster_grant(f"{WEBHOOKS}-trust", TRUST_RULES, WEBHOOKS_ON, OWN_CERTIFICATES),
        _user_role("edit", EDIT_RULES, ("edit", "admin")),
        _user_role("view", VIEW_RULES, ("view", "edit", "admin")),
        _user_role("queues-view", QUEUE_VIEW_RULES, ("view", "edit", "admin")),
        Part(_queue_readers(), (Value("rbac.aggregate"), Value("rbac.readQueues"))),
        _user_role("kubeflow-edit", KUBEFLOW_EDIT_RULES, ("edit", "admin"), KUBEFLOW_ON),
        _user_role("kubeflow-view", KUBEFLOW_VIEW_RULES, ("view", "edit", "admin"), KUBEFLOW_ON),
    ]


def cluster_grant(name: str, rules: Sequence[Rule], *when: Any, holder: str = CONTROLLER) -> list[Part]:
    """A role of the whole cluster, and that its holder has it."""
    named = cluster_name(name)
    return [
        Part(_role("ClusterRole", named, None, rules, holder), when),
        Part(_binding("ClusterRole", named, None, holder), when),
    ]


def grant(
    name: str, rules: Sequence[Rule], namespace: Any, *when: Any, holder: str = CONTROLLER
) -> list[Part]:
    """A role in one namespace, and that its holder has it."""
    return [
        Part(_role("Role", name, namespace, rules, holder), when),
        Part(_binding("Role", name, namespace, holder), when),
    ]


def _component(holder: str) -> str:
    return holder.removeprefix("bireme-")


def _role(kind: str, name: Any, namespace: Any, rules: Sequence[Rule], holder: str = CONTROLLER) -> Tree:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": metadata(name, _component(holder), namespace),
        "rules": [rule.tree() for rule in rules],
    }


def _binding(kind: str, name: Any, namespace: Any, holder: str) -> Tree:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata(name, _component(holder), namespace),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": holder, "namespace": Namespace()}],
    }


def _queue_readers() -> Tree:
    """Let whoever is known to the cluster read Queues: `kubectl get bireme` asks for them."""
    name = cluster_name("bireme-queues-view")
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata(name, "controller"),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:authenticated"}],
    }


def _user_role(name: str, rules: Sequence[Rule], roles: Sequence[str], *when: Any) -> Part:
    """What users of the cluster's own roles get; nobody but the controller writes a status."""
    role = _role("ClusterRole", cluster_name(f"bireme-{name}"), None, rules)
    aggregated = {f"{RBAC}/aggregate-to-{each}": "true" for each in roles}
    role["metadata"]["labels"] = {**role["metadata"]["labels"], **aggregated}
    return Part(role, (Value("rbac.aggregate"), *when))
