"""The kinds that plays are about: where they are, what they are made of, and what may be changed of them."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import yaml

from bireme import admission
from bireme.apiserver import kinds
from bireme.apiserver.kinds import Kind
from support.core_objects import CoreObjects
from support.differential.calls import Object
from support.differential.widgets import WIDGETS, widget

EXAMPLES = Path(__file__).parents[3] / "examples"
SPACE = "diff-<n>"


class Subject(NamedTuple):
    kind: Kind
    make: Callable[[Random], Object]
    """A valid object, without metadata."""
    changes: tuple[Object, ...]
    """Merge patches of what is not metadata."""
    statuses: tuple[Object, ...] = ()
    wrong: tuple[Object, ...] = ()
    """Merge patches that a schema refuses."""

    @property
    def head(self) -> Object:
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind}

    @property
    def collection(self) -> str:
        root = f"/apis/{self.kind.api_version}" if self.kind.group else "/api/v1"
        place = f"/namespaces/{SPACE}" if self.kind.namespaced else ""
        return f"{root}{place}/{self.kind.plural}"

    def name(self, letter: str) -> str:
        return letter if self.kind.namespaced else f"diff-<n>-{letter}"

    def path(self, letter: str, subresource: str = "") -> str:
        path = f"{self.collection}/{self.name(letter)}"
        return f"{path}/{subresource}" if subresource else path

    def key(self, letter: str) -> str:
        """As placeholders name it."""
        return f"{self.kind.kind}/{self.name(letter)}"

    def manifest(self, random: Random, metadata: Object) -> Object:
        return {**self.head, **self.make(random), "metadata": metadata}


def _core(
    kind: Kind, *changes: Object, statuses: tuple[Object, ...] = (), wrong: tuple[Object, ...] = ()
) -> Subject:
    def make(random: Random) -> Object:
        objects = CoreObjects(random.getrandbits(32))
        objects.namespace = SPACE
        made = {key: value for key, value in objects.make(kind.kind, "a").items() if key != "metadata"}
        # An empty list of rules is null when it is read again, but its writer owns it.
        # A key without a value is written once more by the next write.
        return {key: value for key, value in made.items() if value not in ([], {"n": None})}

    return Subject(kind, make, changes, statuses, wrong)


def _ours(
    kind: Kind, file: str, *changes: Object, statuses: tuple[Object, ...], wrong: tuple[Object, ...]
) -> Subject:
    """A kind of ours. As the webhook that fills in defaults is not there, they are filled in already."""
    documents = yaml.safe_load_all((EXAMPLES / file).read_text())
    example = next(each for each in documents if each["kind"] == kind.kind)
    content = {
        key: value for key, value in admission.default(example).items() if key not in ("metadata", "status")
    }
    return Subject(kind, lambda _: content, changes, statuses, wrong)


def _find(plural: str, group: str = "") -> Kind:
    return next(
        each for each in kinds.OURS if (each.plural, each.group or group) == (plural, group or each.group)
    )


READY: Object = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-02T03:04:05Z"}
JOB_STATUSES: tuple[Object, ...] = ({"phase": "Running"}, {"phase": "Failed"}, {})
CONFIG_MAPS = _core(
    kinds.CONFIG_MAP,
    {"data": {"a": "2"}},
    {"data": {"b": "3", "a": None}},
    {"data": None},
    {"data": {}},
    {"binaryData": {"x": "AAEC"}},
    {"immutable": True},
    {"immutable": None},
    {"data": {"bad key": ""}},
    wrong=({"data": {"a": 1}}, {"data": []}, {"immutable": "yes"}, {"binaryData": {"a": "?"}}),
)
SECRETS = _core(
    kinds.SECRET,
    {"stringData": {"a": "b"}},
    {"data": {"a": "Yg=="}},
    {"data": {"a": None}},
    {"type": "other"},
    {"data": None},
    {"immutable": True},
    wrong=({"data": {"a": "%"}}, {"stringData": {"a": None, "b": 1}}),
)
SERVICES = _core(
    kinds.SERVICE,
    {"spec": {"selector": {"app": "b"}}},
    {"spec": {"publishNotReadyAddresses": True}},
    {"spec": {"selector": None}},
    {"spec": {"sessionAffinity": "Other"}},
    statuses=({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}, {"loadBalancer": {}}),
    wrong=({"spec": {"ports": {}}}, {"spec": {"ports": [{"port": "x"}]}}),
)
ACCOUNTS = _core(
    kinds.SERVICE_ACCOUNT,
    {"automountServiceAccountToken": False},
    {"imagePullSecrets": [{"name": "s"}]},
    {"secrets": None},
    wrong=({"secrets": "none"},),
)
PODS = _core(
    kinds.POD,
    {"spec": {"activeDeadlineSeconds": 50}},
    {"spec": {"activeDeadlineSeconds": 40}},
    {"spec": {"nodeName": "other"}},
    {"spec": {"terminationGracePeriodSeconds": 1}},
    statuses=(
        {"phase": "Running"},
        {"phase": "Failed", "reason": "Evicted"},
        {"phase": "Succeeded"},
        {"conditions": [READY]},
        {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]},
        {"phase": "Pending"},
    ),
    wrong=({"spec": {"containers": {}}}, {"spec": {"containers": [{"name": 1}]}}, {"spec": []}),
)
EVENTS = _core(kinds.EVENT, {"message": "other"}, {"count": 3}, {"reason": "Other"}, {"type": "Warning"})
LEASES = _core(
    kinds.LEASE,
    {"spec": {"holderIdentity": "b"}},
    {"spec": {"leaseTransitions": 4}},
    {"spec": None},
    {"spec": {"leaseDurationSeconds": 0}},
    wrong=({"spec": {"renewTime": "now"}},),
)
ROLES = _core(
    kinds.ROLE,
    {"rules": None},
    {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    {"rules": [{"verbs": []}]},
)
BINDINGS = _core(
    kinds.ROLE_BINDING,
    {"subjects": [{"kind": "User", "name": "u"}]},
    {"subjects": None},
    {"roleRef": {"name": "other"}},
    {"subjects": [{"kind": "Other", "name": ""}]},
)
CLAIMS = _core(
    kinds.PERSISTENT_VOLUME_CLAIM,
    {"spec": {"accessModes": ["ReadOnlyMany"]}},
    {"spec": {"volumeName": "v"}},
    statuses=({"phase": "Bound"}, {"phase": "Lost"}),
)
PRIORITIES = _core(
    kinds.PRIORITY_CLASS,
    {"description": "other"},
    {"description": None},
    {"value": 5},
    {"preemptionPolicy": "Never"},
    wrong=({"value": "high"},),
)
NODES = _core(
    kinds.NODE,
    {"spec": {"unschedulable": True}},
    {"spec": {"unschedulable": None}},
    {"spec": {"providerID": "x://1"}},
    statuses=({"phase": "Running"}, {"nodeInfo": {"kernelVersion": "6"}}),
)
NAMESPACES = _core(
    kinds.NAMESPACE, {"spec": {"finalizers": ["example.com/x"]}}, statuses=({"phase": "Active"},)
)

GENERIC_JOBS = _ours(
    _find("genericjobs"),
    "genericjob-services.yaml",
    {"spec": {"cleanUpPolicy": "All"}},
    {"spec": {"cleanUpPolicy": "None"}},
    statuses=JOB_STATUSES,
    wrong=(
        {"spec": {"replicaSpecs": None}},
        {"spec": {"cleanUpPolicy": "Some"}},
        {"spec": {"replicaSpecs": "x"}},
        {"spec": None},
    ),
)
MPI_JOBS = _ours(
    _find("mpijobs", "batch.tensorstack.dev"),
    "mpijob-tuned.yaml",
    statuses=JOB_STATUSES,
    wrong=({"spec": {"worker": None}}, {"spec": {"worker": {"replicas": "x"}}}),
)
COLOSSAL_JOBS = _ours(
    _find("colossalaijobs"),
    "colossalaijob.yaml",
    statuses=JOB_STATUSES,
    wrong=({"spec": {"worker": None}}, {"spec": 1}),
)
KUBEFLOW_JOBS = _ours(
    _find("mpijobs", "kubeflow.org"),
    "mpijob-kubeflow.yaml",
    statuses=({"startTime": "2020-01-02T03:04:05Z"}, {}),
    wrong=({"spec": {"mpiReplicaSpecs": []}}, {"spec": None}),
)
POD_GROUPS = _ours(
    _find("podgroups"),
    "podgroup.yaml",
    {"spec": {"minMember": 4}},
    {"spec": {"priority": 3}},
    statuses=({"phase": "Running"}, {}),
    wrong=({"spec": {"minMember": "x"}}, {"spec": {"roles": [{"name": "a"}, {"name": "a"}]}}),
)
QUEUES = _ours(
    _find("queues"),
    "queue.yaml",
    {"spec": {"priority": 7}},
    {"spec": {"maxDuration": None}},
    statuses=({"phase": "Open"}, {}),
    wrong=({"spec": {"priority": "x"}}, {"spec": {"quota": []}}),
)
WIDGET_OBJECTS = Subject(
    WIDGETS,
    widget,
    (
        {"spec": {"size": 3}},
        {"spec": {"size": None}},
        {"spec": {"parts": [{"name": "x", "count": 2}]}},
        {"spec": {"free": {"any": [1, {"x": None}]}}},
        {"spec": {"tags": ["b", "a"]}},
        {"spec": {"port": "web"}},
        {"spec": {"parts": None, "labels": {"k": "v"}}},
    ),
    ({"phase": "On"}, {"conditions": [{"type": "A", "status": "True"}]}, {}),
    (
        {"spec": {"size": "x"}},
        {"spec": {"size": 99}},
        {"spec": {"tags": ["a", "a"]}},
        {"spec": {"color": "pink"}},
        {"spec": {"parts": [{"count": 1}]}},
        {"spec": {"parts": [{"name": "x"}, {"name": "x"}]}},
        {"spec": []},
    ),
)

CORE = (CONFIG_MAPS, SECRETS, SERVICES, ACCOUNTS, PODS, EVENTS, LEASES, ROLES, BINDINGS)
OURS = (GENERIC_JOBS, MPI_JOBS, COLOSSAL_JOBS, KUBEFLOW_JOBS, POD_GROUPS, QUEUES)
