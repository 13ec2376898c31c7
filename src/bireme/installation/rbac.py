"""Who may do what: the least that each of our processes needs, and what users get.

No wildcards; no escalate, bind or impersonate; Secrets are neither listed nor watched; nobody may write a
webhook configuration. The rules are data: `bireme doctor` asks the API server about each of them, a test
reads from an audit log that each is used, and `make generate` writes them into docs/concepts/security.md.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from bireme.api.kinds import COLOSSALAI_JOB, GENERIC_JOB, KUBEFLOW_MPI_JOB, MPI_JOB, POD_GROUP, QUEUE
from bireme.installation.expressions import Namespace, Not, Value
from bireme.installation.names import (
    CONTROLLER,
    JOB_POLICIES,
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
JOB_POLICIES_ON: Final = Value("networkPolicy.jobs")
WEBHOOKS_ON: Final = Value("webhooks.enabled")
SCHEDULER_ON: Final = Value("scheduler.enabled")


class Rule(NamedTuple):
    """Verbs on resources of one group; of these names only, where some are given."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str = ""
    """For the table in the docs."""
    names: tuple[str, ...] = ()

    def tree(self) -> Tree:
        rule: Tree = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


_BATCH: Final = tuple(kind.plural for kind in (GENERIC_JOB, MPI_JOB, COLOSSALAI_JOB))
_BLOCKS: Final = (
    "no request is made of these; the API server asks for them where "
    "OwnerReferencesPermissionEnforcement is on"
)
_LEASE: Final = "to take turns; a name can't bind `create`"


def _below(resources: Iterable[str], subresource: str) -> tuple[str, ...]:
    return tuple(f"{resource}/{subresource}" for resource in resources)


CONTROLLER_RULES: Final = (
    Rule(GENERIC_JOB.group, _BATCH, FOLLOW, "to see them"),
    Rule(GENERIC_JOB.group, _below(_BATCH, "status"), ("update",), "nobody else writes it"),
    Rule(GENERIC_JOB.group, _below(_BATCH, "finalizers"), ("update",), _BLOCKS),
    Rule(
        POD_GROUP.group,
        (POD_GROUP.plural,),
        (*READ, "create", "patch", "delete"),
        "of jobs with a queue; `patch` lowers the members when a replica has finished",
    ),
    Rule(
        "",
        ("pods",),
        (*READ, "create", "patch", "delete"),
        "`patch` sets a deadline that stops a pod and keeps it",
    ),
    Rule("", ("services",), (*READ, "create", "delete"), "names of replicas"),
    Rule("", ("configmaps",), (*READ, "create", "patch"), "hostfiles and scripts"),
    Rule(
        "",
        ("secrets",),
        ("get", "create"),
        "the ssh keys of a job; `get` tells whether one that is there is the job's own",
    ),
    Rule("", ("events",), ("create", "patch"), "what becomes of jobs"),
)
"""In every namespace whose jobs are run."""

_KUBEFLOW_JOBS: Final = (KUBEFLOW_MPI_JOB.plural,)
KUBEFLOW_RULES: Final = (
    Rule(
        KUBEFLOW_MPI_JOB.group, _KUBEFLOW_JOBS, (*FOLLOW, "delete"), "`delete` for `ttlSecondsAfterFinished`"
    ),
    Rule(KUBEFLOW_MPI_JOB.group, _below(_KUBEFLOW_JOBS, "status"), ("update",), "nobody else writes it"),
    Rule(KUBEFLOW_MPI_JOB.group, _below(_KUBEFLOW_JOBS, "finalizers"), ("update",), _BLOCKS),
    Rule("", ("serviceaccounts",), ("get", "create"), "of launchers"),
    Rule(RBAC, ("roles", "rolebindings"), ("get", "create"), "of launchers"),
)
"""There too, for MPIJobs of Kubeflow."""

JOB_POLICY_RULES: Final = (
    Rule(
        "networking.k8s.io",
        ("networkpolicies",),
        ("get", "create"),
        "of jobs; `get` tells whether one that is there is the job's own",
    ),
)
"""There too, where each job gets a NetworkPolicy."""

LAUNCHER_RULES: Final = (
    Rule("", ("pods",), ("get",), "to grant it to launchers: who grants a permission must hold it"),
    Rule(
        "",
        ("pods/exec",),
        ("get", "create"),
        "never used by the controller: a launcher reaches its own workers by exec, by name",
    ),
)
"""What a launcher gets, each on its own workers alone. To grant it, the controller must hold it."""

LEASE_RULES: Final = (
    Rule("coordination.k8s.io", ("leases",), ("create",), _LEASE),
    Rule("coordination.k8s.io", ("leases",), ("get", "update"), "to take turns", (CONTROLLER,)),
)
"""In the namespace of the installation."""

_QUEUEING: Final = (POD_GROUP.plural, QUEUE.plural)
SCHEDULER_RULES: Final = (
    Rule("", ("nodes", "namespaces", "persistentvolumes"), FOLLOW, "where pods fit"),
    Rule("", ("persistentvolumeclaims",), (*FOLLOW, "patch"), "`patch` tells a provisioner the node"),
    Rule("storage.k8s.io", ("storageclasses",), FOLLOW, "where pods fit"),
    Rule(
        "",
        ("pods",),
        (*READ, "patch", "delete"),
        "`get` where a binding was not confirmed; `delete` to preempt; `patch` sets the deadline of a "
        "pod that `maxDuration` ends",
    ),
    Rule("", ("pods/binding",), ("create",), "to place pods"),
    Rule("", ("pods/status",), ("patch",), "the condition DisruptionTarget, before a pod is stopped"),
    Rule(
        "", ("events",), ("create", "patch"), "why a group waits; `patch` counts an event that is said again"
    ),
    Rule(QUEUE.group, _QUEUEING, FOLLOW, "what waits"),
    Rule(QUEUE.group, _below(_QUEUEING, "status"), ("patch",), "what is held, and why a group waits"),
)
"""In the cluster: the scheduler of queues counts every pod on every node."""
SCHEDULER_HOME_RULES: Final = (
    Rule("coordination.k8s.io", ("leases",), ("create",), _LEASE),
    Rule("coordination.k8s.io", ("leases",), ("get", "update"), "to take turns", (SCHEDULER,)),
    # A name binds list and watch that select it by metadata.name.
    Rule("", ("configmaps",), FOLLOW, "shape profiles", ("resource-shapes",)),
)
"""In the namespace of the installation."""

WEBHOOK_RULES: Final = (
    Rule(QUEUE.group, (QUEUE.plural,), ("get",), "who may use a queue"),
    Rule("", ("namespaces",), ("get",), "who may use a queue: labels for its `namespaceSelector`"),
    Rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "who may use a queue"),
)
"""In the cluster, of the webhooks."""
WEBHOOK_GROUP_RULES: Final = (
    Rule(POD_GROUP.group, (POD_GROUP.plural,), ("get",), "the queue of a pod in a group"),
)
"""Wherever pods are asked about: in the watched namespace, or in all."""
WEBHOOK_HOME_RULES: Final = (
    Rule("", ("configmaps",), ("get",), "shape profiles, when a pod is resized", ("resource-shapes",)),
)
"""In the namespace of the installation."""

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
    """Our accounts, their roles and bindings, and what users get."""
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
    webhooks = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(WEBHOOKS, "webhooks", Namespace()),
    }
    everywhere = Not(WATCHED)
    # Our scheduler places the pods of all namespaces, and so all are asked about.
    elsewhere = (WEBHOOKS_ON, WATCHED, SCHEDULER_ON)
    return [
        Part(account),
        Part(scheduler, (SCHEDULER_ON,)),
        Part(webhooks, (WEBHOOKS_ON,)),
        *cluster_grant(SCHEDULER, SCHEDULER_RULES, SCHEDULER_ON, holder=SCHEDULER),
        *grant(SCHEDULER, SCHEDULER_HOME_RULES, Namespace(), SCHEDULER_ON, holder=SCHEDULER),
        *cluster_grant(CONTROLLER, CONTROLLER_RULES, everywhere),
        *grant(CONTROLLER, CONTROLLER_RULES, WATCHED, WATCHED),
        *cluster_grant(KUBEFLOW, KUBEFLOW_RULES, everywhere, KUBEFLOW_ON),
        *grant(KUBEFLOW, KUBEFLOW_RULES, WATCHED, WATCHED, KUBEFLOW_ON),
        *cluster_grant(JOB_POLICIES, JOB_POLICY_RULES, everywhere, JOB_POLICIES_ON),
        *grant(JOB_POLICIES, JOB_POLICY_RULES, WATCHED, WATCHED, JOB_POLICIES_ON),
        *cluster_grant(LAUNCHER, LAUNCHER_RULES, everywhere, KUBEFLOW_ON),
        *grant(LAUNCHER, LAUNCHER_RULES, WATCHED, WATCHED, KUBEFLOW_ON),
        *grant(f"{CONTROLLER}-lease", LEASE_RULES, Namespace()),
        *_webhook_grant(),
        *grant(WEBHOOKS, WEBHOOK_HOME_RULES, Namespace(), WEBHOOKS_ON, holder=WEBHOOKS),
        *cluster_grant(f"{WEBHOOKS}-groups", WEBHOOK_GROUP_RULES, WEBHOOKS_ON, everywhere, holder=WEBHOOKS),
        *grant(f"{WEBHOOKS}-groups", WEBHOOK_GROUP_RULES, WATCHED, WEBHOOKS_ON, WATCHED, holder=WEBHOOKS),
        *cluster_grant(f"{WEBHOOKS}-placed", WEBHOOK_GROUP_RULES, *elsewhere, holder=WEBHOOKS),
        _user_role("edit", EDIT_RULES, ("edit", "admin")),
        _user_role("view", VIEW_RULES, ("view", "edit", "admin")),
        _user_role("queues-view", QUEUE_VIEW_RULES, ("view", "edit", "admin")),
        Part(_queue_readers(), (Value("rbac.aggregate"), Value("rbac.readQueues"))),
        _user_role("kubeflow-edit", KUBEFLOW_EDIT_RULES, ("edit", "admin"), KUBEFLOW_ON),
        _user_role("kubeflow-view", KUBEFLOW_VIEW_RULES, ("view", "edit", "admin"), KUBEFLOW_ON),
    ]


def _webhook_grant() -> list[Part]:
    """The webhooks' role. The controller holds it, too: in older versions its pods serve the webhooks, and
    during an upgrade they must answer until the new pods do."""
    role, binding = cluster_grant(WEBHOOKS, WEBHOOK_RULES, WEBHOOKS_ON, holder=WEBHOOKS)
    older = {"kind": "ServiceAccount", "name": CONTROLLER, "namespace": Namespace()}
    binding.object["subjects"].append(older)
    return [role, binding]


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
