"""The kinds that a store serves, as data."""

from typing import Final

import msgspec

from bireme.api import kinds as api
from bireme.apiserver import formats
from bireme.apiserver.crd_rules import CrdRules
from bireme.apiserver.data import DataRules, SecretRules
from bireme.apiserver.events import EventRules
from bireme.apiserver.leases import LeaseRules
from bireme.apiserver.namespaces import NamespaceRules
from bireme.apiserver.nodes import NodeRules
from bireme.apiserver.pods import PodRules
from bireme.apiserver.priority import PriorityClassRules
from bireme.apiserver.rbac import RoleBindingRules, RoleRules
from bireme.apiserver.rules import Object, Rules
from bireme.apiserver.service_accounts import ServiceAccountRules
from bireme.apiserver.services import ServiceRules
from bireme.apiserver.volumes import ClaimRules

_ETCD_NAMES: Final = {"services": "services/specs", "nodes": "minions"}


class Column(msgspec.Struct, frozen=True, kw_only=True, rename={"json_path": "jsonPath"}):
    """A column of `kubectl get`, as a CRD defines it."""

    name: str
    type: str
    json_path: str
    description: str = ""
    format: str = ""
    priority: int = 0


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """All that the store must know of a kind. One version of a kind is served, and stored."""

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True
    custom: bool = False
    """Defined by a CRD: no strategic merge patch, and a status write leaves the metadata alone."""
    has_status: bool = False
    """Whether there is a status subresource."""
    has_generation: bool = False
    unconditional: bool = True
    """Whether a replacement needs no resourceVersion."""
    create_on_update: bool = False
    returns_deleted: bool = False
    """Whether a deletion is answered with the object itself, not with a Status."""
    collected: bool = True
    """Whether the garbage collector cares: Events own nothing."""
    free_finalizers: bool = False
    """Whether the names of finalizers need no domain; those of custom kinds never do."""
    name_format: formats.NameFormat = formats.dns_subdomain
    fields: tuple[str, ...] = ()
    """What a field selector may name, beside the object's name and namespace."""
    rules: Rules = msgspec.field(default_factory=Rules)
    definition: str = ""
    """The name of its OpenAPI definition; a CRD brings its own schema."""
    crd_schema: Object = msgspec.field(default_factory=dict)
    """Its `openAPIV3Schema`; empty but for custom kinds."""
    singular: str = ""
    """In small letters; the kind's name in small letters where it is empty."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    """What a CRD shows beside the name; other kinds are printed by code."""
    subresources: tuple[str, ...] = ()
    """Those beside `status`."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`pods`, or `genericjobs.batch.tensorstack.dev`: the key of a kind."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def key(self, namespace: str, name: str) -> str:
        """Where an object stands; lists are sorted by it."""
        return f"{namespace}/{name}" if self.namespaced else name

    def place(self, key: str) -> tuple[str, str]:
        """The namespace and the name that a key stands for."""
        namespace, _, name = key.rpartition("/")
        return namespace, name

    def etcd_key(self, namespace: str, name: str) -> str:
        """Where a real server would keep an object: it names that in errors."""
        resource = f"{self.group}/{self.plural}" if self.custom else _ETCD_NAMES.get(self.plural, self.plural)
        return f"/registry/{resource}/{self.key(namespace, name)}"

    def key_of(self, obj: Object) -> str:
        return self.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


NAMESPACE: Final = Kind(
    definition="io.k8s.api.core.v1.Namespace", short_names=("ns",), subresources=("finalize",),
    plural="namespaces", kind="Namespace", namespaced=False, has_status=True, returns_deleted=True,
    name_format=formats.dns_label, fields=("status.phase",), rules=NamespaceRules(),
)  # fmt: skip
POD: Final = Kind(
    definition="io.k8s.api.core.v1.Pod", short_names=("po",), categories=("all",),
    subresources=("attach", "binding", "eviction", "exec", "log", "portforward"),
    plural="pods", kind="Pod", has_status=True, has_generation=True, returns_deleted=True, rules=PodRules(),
    fields=("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
            "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"),
)  # fmt: skip
SERVICE: Final = Kind(
    definition="io.k8s.api.core.v1.Service", short_names=("svc",), categories=("all",),
    plural="services", kind="Service", has_status=True, create_on_update=True, returns_deleted=True,
    name_format=formats.dns_label, fields=("spec.clusterIP", "spec.type"),
    rules=ServiceRules(),
)  # fmt: skip
CONFIG_MAP: Final = Kind(
    definition="io.k8s.api.core.v1.ConfigMap",
    short_names=("cm",),
    plural="configmaps",
    kind="ConfigMap",
    rules=DataRules(),
)
SECRET: Final = Kind(
    definition="io.k8s.api.core.v1.Secret",
    plural="secrets",
    kind="Secret",
    fields=("type",),
    rules=SecretRules(),
)
SERVICE_ACCOUNT: Final = Kind(
    definition="io.k8s.api.core.v1.ServiceAccount",
    short_names=("sa",),
    plural="serviceaccounts",
    kind="ServiceAccount",
    returns_deleted=True,
    rules=ServiceAccountRules(),
)
NODE: Final = Kind(
    definition="io.k8s.api.core.v1.Node",
    short_names=("no",),
    plural="nodes",
    kind="Node",
    namespaced=False,
    has_status=True,
    fields=("spec.unschedulable",),
    rules=NodeRules(),
)
EVENT: Final = Kind(
    definition="io.k8s.api.core.v1.Event", short_names=("ev",),
    plural="events", kind="Event", create_on_update=True, collected=False, rules=EventRules(),
    free_finalizers=True, name_format=formats.path_segment,
    fields=("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
            "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
            "reason", "reportingComponent", "source", "type"),
)  # fmt: skip
LEASE: Final = Kind(
    definition="io.k8s.api.coordination.v1.Lease",
    group="coordination.k8s.io",
    plural="leases",
    kind="Lease",
    free_finalizers=True,
    unconditional=False,
    create_on_update=True,
    rules=LeaseRules(),
)
ROLE: Final = Kind(
    definition="io.k8s.api.rbac.v1.Role",
    group="rbac.authorization.k8s.io", plural="roles", kind="Role", create_on_update=True,
    name_format=formats.path_segment, rules=RoleRules(),
)  # fmt: skip
ROLE_BINDING: Final = Kind(
    definition="io.k8s.api.rbac.v1.RoleBinding",
    group="rbac.authorization.k8s.io", plural="rolebindings", kind="RoleBinding", create_on_update=True,
    name_format=formats.path_segment, rules=RoleBindingRules(),
)  # fmt: skip

PERSISTENT_VOLUME_CLAIM: Final = Kind(
    definition="io.k8s.api.core.v1.PersistentVolumeClaim", plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim", short_names=("pvc",), has_status=True, returns_deleted=True,
    rules=ClaimRules(),
)  # fmt: skip
PRIORITY_CLASS: Final = Kind(
    definition="io.k8s.api.scheduling.v1.PriorityClass", group="scheduling.k8s.io", plural="priorityclasses",
    kind="PriorityClass", short_names=("pc",), namespaced=False, rules=PriorityClassRules(),
)  # fmt: skip
CUSTOM_RESOURCE_DEFINITION: Final = Kind(
    definition="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    group="apiextensions.k8s.io", plural="customresourcedefinitions", kind="CustomResourceDefinition",
    short_names=("crd", "crds"), categories=("api-extensions",), namespaced=False, has_status=True,
    has_generation=True, unconditional=False, free_finalizers=True, rules=CrdRules(),
)  # fmt: skip

CORE: Final = (
    NAMESPACE, NODE, POD, SERVICE, CONFIG_MAP, SECRET, SERVICE_ACCOUNT, EVENT, LEASE, ROLE, ROLE_BINDING,
    PERSISTENT_VOLUME_CLAIM, PRIORITY_CLASS, CUSTOM_RESOURCE_DEFINITION,
)  # fmt: skip


def custom(kind: api.Kind) -> Kind:
    """One of our own kinds, as an API server serves it from its CRD."""
    return Kind(
        group=kind.group, version=kind.version, plural=kind.plural, kind=kind.kind,
        namespaced=kind.namespaced, custom=True, has_status=True, has_generation=True, unconditional=False,
    )  # fmt: skip


OURS: Final = tuple(custom(kind) for kind in api.KINDS)
