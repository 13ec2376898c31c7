"""Where the objects of each kind live in the API."""

from typing import Final, NamedTuple
from urllib.parse import quote

from bireme.api.kinds import KINDS, Kind, find_kind


class Resource(NamedTuple):
    """A collection of the API; the core group is the empty one."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """The name as kubectl and RBAC have it: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of an object, or of the collection: of one namespace, or of all where it is None.

        A namespace is not looked at where objects have none.
        """
        scope = f"/namespaces/{_segment(namespace)}" if self.namespaced and namespace else ""
        one = f"/{_segment(name)}" if name else ""
        below = f"/{_segment(subresource)}" if subresource else ""
        return f"{version_path(self.group, self.version)}{scope}/{_segment(self.plural)}{one}{below}"


def version_path(group: str, version: str) -> str:
    """Return the URL path of a version of an API group, where its resources are listed."""
    return f"/apis/{_segment(group)}/{_segment(version)}" if group else f"/api/{_segment(version)}"


def _segment(text: str) -> str:
    """Quote one segment of a path. It may come from a manifest, and hold anything."""
    if text in (".", ".."):
        # A proxy would resolve these.
        return text.replace(".", "%2E")
    # Names of roles hold colons, and those are written as they are. A manifest in JSON can hold a surrogate.
    return quote(text, safe=":", errors="surrogatepass")


PODS: Final = Resource("", "v1", "pods", "Pod")
SERVICES: Final = Resource("", "v1", "services", "Service")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS: Final = Resource("", "v1", "events", "Event")
PERSISTENT_VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
_RBAC: Final = "rbac.authorization.k8s.io"
ROLES: Final = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS: Final = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES: Final = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(
    _RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)

RESOURCES_BY_KIND: Final[dict[str, Resource]] = {
    resource.kind: resource
    for resource in (
        PODS,
        SERVICES,
        CONFIG_MAPS,
        SECRETS,
        SERVICE_ACCOUNTS,
        EVENTS,
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        STORAGE_CLASSES,
        NODES,
        NAMESPACES,
        DEPLOYMENTS,
        NETWORK_POLICIES,
        LEASES,
        ROLES,
        ROLE_BINDINGS,
        CLUSTER_ROLES,
        CLUSTER_ROLE_BINDINGS,
        PRIORITY_CLASSES,
        CRDS,
    )
}
"""Kubernetes' own kinds."""


def resource_of(kind: Kind) -> Resource:
    """The collection of one of our kinds."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)


def resource_for(kind: str, api_version: str | None = None) -> Resource:
    """The collection of the objects of a kind, Kubernetes' own or ours.

    Raises LookupError where the kind is not known, or where, as for MPIJob, it takes the API version to
    tell which one is meant.
    """
    if api_version is not None and (ours := find_kind(api_version, kind)) is not None:
        return resource_of(ours)
    found = [resource_of(each) for each in KINDS if each.kind == kind]
    found += [resource for resource in (RESOURCES_BY_KIND.get(kind),) if resource is not None]
    found = [resource for resource in found if api_version in (None, resource.api_version)]
    if len(found) != 1:
        raise LookupError(f"{len(found) or 'no'} resources of kind {kind}, {api_version or 'any version'}")
    return found[0]
