"""What Kubernetes' Go types say of a field, and their OpenAPI definitions don't.

A schema tells the types, and by its `default` which empty values are written all the same. It does not tell a
pointer from a value: a pointer to an empty value is written, an empty value is not. Nor does it tell all that
Go code fills in.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from bireme.apiserver.openapi.definitions import Schema, definition

CORE: Final = "io.k8s.api.core.v1."
APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

POINTERS: Final = frozenset({
    "acquireTime", "activeDeadlineSeconds", "allocateLoadBalancerNodePorts", "allowPrivilegeEscalation",
    "appProtocol", "automountServiceAccountToken", "blockOwnerDeletion", "controller",
    "currentVolumeAttributesClassName", "defaultMode", "deletionGracePeriodSeconds", "deletionTimestamp",
    "enableServiceLinks", "expirationSeconds", "fsGroup", "fsGroupChangePolicy", "gmsaCredentialSpec",
    "gmsaCredentialSpecName", "holderIdentity", "hostProcess", "hostUsers", "hostnameOverride", "immutable",
    "initiatorName", "internalTrafficPolicy", "ipFamilyPolicy", "ipMode", "leaseDurationSeconds",
    "leaseTransitions", "loadBalancerClass", "localhostProfile", "lun", "maxExpirationSeconds", "minDomains",
    "mode", "mountPropagation", "nodeAffinityPolicy", "nodeTaintsPolicy", "optional", "podGroupName",
    "preemptionPolicy", "preferredHolder", "priority", "privileged", "procMount", "readOnlyRootFilesystem",
    "recursiveReadOnly", "recursiveReadOnlyMounts", "renewTime", "resourceClaimName",
    "resourceClaimTemplateName", "runAsGroup", "runAsNonRoot", "runAsUser", "runAsUserName",
    "runtimeClassName", "seLinuxChangePolicy", "setHostnameAsFQDN", "shareProcessNamespace", "sizeLimit",
    "startTime", "started", "stopSignal", "storageClassName", "strategy", "supplementalGroupsPolicy",
    "terminationGracePeriodSeconds", "time", "timeAdded", "tolerationSeconds", "trafficDistribution",
    "userNamespaces", "volumeAttributesClassName", "volumeMode",
})  # fmt: skip
"""Fields that are pointers in every type that has them."""

NULL: Final = frozenset(
    {"monitors", "names", "nodeSelectorTerms", "requestMappings", "rules", "sources", "verbs"}
)
"""Lists that are written as null where they are empty."""

MICRO_TIMES: Final = frozenset({"acquireTime", "eventTime", "lastObservedTime", "renewTime"})


class GoType(NamedTuple):
    """What is special about one type."""

    pointers: frozenset[str] = frozenset()
    values: Mapping[str, Any] = {}
    """What stands where a field is left out, or empty if it is no pointer."""


def _type(*pointers: str, **values: Any) -> GoType:
    return GoType(frozenset(pointers), values)


_PROBE: Final = _type(timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
_CONTAINER: Final = _type(
    "restartPolicy", terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File"
)
_MODE: Final = _type(defaultMode=0o644)
_TYPES: Final[Mapping[str, GoType]] = {
    "AzureDiskVolumeSource": _type("cachingMode", "fsType", "kind", "readOnly"),
    "CSIVolumeSource": _type("fsType", "readOnly"),
    "ClientIPConfig": _type("timeoutSeconds"),
    "ClusterTrustBundleProjection": _type("name", "signerName"),
    "ConfigMapVolumeSource": _MODE,
    "Container": _CONTAINER,
    "DownwardAPIVolumeSource": _MODE,
    "EphemeralContainer": _CONTAINER,
    "HTTPGetAction": _type(path="/", scheme="HTTP", port=0),
    "HostPathVolumeSource": _type("type", type=""),
    "NodeSwapStatus": _type("capacity"),
    "NodeRuntimeHandler": _type(name=""),
    "ObjectFieldSelector": _type(apiVersion="v1"),
    "PersistentVolumeClaimSpec": _type(volumeMode="Filesystem"),
    "PodDNSConfigOption": _type("value"),
    "PortStatus": _type("error"),
    "Probe": _PROBE,
    "ProjectedVolumeSource": _MODE,
    "ResourceFieldSelector": _type(divisor="0"),
    "ResourceHealth": _type("message"),
    "ScaleIOVolumeSource": _type(secretRef=None),
    "SecretVolumeSource": _MODE,
    "ServiceAccountTokenProjection": _type(expirationSeconds=3600),
    "ServicePort": _type(targetPort=0),
    "TCPSocketAction": _type(port=0),
    "TypedLocalObjectReference": _type("apiGroup", apiGroup=None),
    "TypedObjectReference": _type("apiGroup", "namespace", apiGroup=None),
}
_EXTENSIONS: Final[Mapping[str, GoType]] = {
    "CustomResourceSubresources": _type("status"),
    "JSONSchemaProps": _type(
        "additionalItems", "additionalProperties", "default", "example", "items", "maxItems", "maxLength",
        "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not",
        "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields",
    ),
    "ServiceReference": _type("path", "port"),
    "WebhookClientConfig": _type("url"),
}  # fmt: skip
_ORDINARY: Final = GoType()


@cache
def _by_properties() -> dict[int, GoType]:
    """By the identity of a definition's properties: these are shared wherever the definition is used."""
    named = [(CORE, _TYPES), (APIEXTENSIONS, _EXTENSIONS)]
    return {
        id(definition(package + name)["properties"]): special
        for package, types in named
        for name, special in types.items()
    }


def go_type(schema: Schema) -> GoType:
    """What is special about the type of an object."""
    return _by_properties().get(id(schema["properties"]), _ORDINARY)
