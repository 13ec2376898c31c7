"""Where a pod's volumes are, or can be made."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bireme.scheduling.labels import any_term_selects, selects
from bireme.scheduling.objects import Claim, Json, Node, StorageClass, Volume
from bireme.scheduling.requests import asked, available

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


class Reach(NamedTuple):
    """The nodes from which a claim can be used: any of the alternatives; None is every node."""

    alternatives: list[list[Json]] | None

    def includes(self, node: Node) -> bool:
        if self.alternatives is None:
            return True
        name, labels = node.metadata.name, node.metadata.labels
        return any(any_term_selects(terms, name, labels) for terms in self.alternatives)


class Unusable(NamedTuple):
    """Why a claim can't be used by any pod now."""

    message: str


class Storage:
    """Claims, volumes and storage classes, by name."""

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.is_local = False
        """Whether a claim is a folder of the only node, which is made when it is needed."""

    def reach(self, namespace: str, name: str) -> Reach | Unusable:
        """From where a claim can be used, or why it can't."""
        if self.is_local:
            return Reach(None)
        claim = self.claims.get((namespace, name))
        if claim is None:
            return Unusable(f"PersistentVolumeClaim {name} does not exist")
        if claim.metadata.deletion_timestamp is not None:
            return Unusable(f"PersistentVolumeClaim {name} is being deleted")
        if claim.spec.volume_name:
            return self._bound(claim)
        return self._unbound(claim)

    def _bound(self, claim: Claim) -> Reach | Unusable:
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is None:
            return Unusable(f"PersistentVolume {claim.spec.volume_name} does not exist")
        return Reach(_alternatives([volume]))

    def _unbound(self, claim: Claim) -> Reach | Unusable:
        kind = self._class_of(claim)
        name = claim.metadata.name
        if kind is None or kind.volume_binding_mode != "WaitForFirstConsumer":
            return Unusable(f"PersistentVolumeClaim {name} is not bound yet")
        matching = [volume for volume in self.volumes.values() if _suits(volume, claim, kind.metadata.name)]
        if kind.provisioner == _NO_PROVISIONER:
            if not matching:
                return Unusable(f"no PersistentVolume suits the PersistentVolumeClaim {name}")
            return Reach(_alternatives(matching))
        if not kind.allowed_topologies:
            return Reach(None)
        provisioned = [_topology_terms(kind.allowed_topologies)]
        return Reach(provisioned + (_alternatives(matching) or []))

    def _class_of(self, claim: Claim) -> StorageClass | None:
        if claim.spec.storage_class_name is not None:
            return self.classes.get(claim.spec.storage_class_name)
        defaults = [
            each for each in self.classes.values() if each.metadata.annotations.get(_DEFAULT_CLASS) == "true"
        ]
        return defaults[0] if defaults else None

    def needs_node(self, namespace: str, name: str) -> bool:
        """Whether the provisioner waits to be told a node."""
        claim = self.claims.get((namespace, name))
        if claim is None or claim.spec.volume_name:
            return False
        kind = self._class_of(claim)
        return kind is not None and kind.volume_binding_mode == "WaitForFirstConsumer"


def _alternatives(volumes: Iterable[Volume]) -> list[list[Json]] | None:
    terms = [(each.spec.node_affinity.get("required") or {}).get("nodeSelectorTerms") for each in volumes]
    if any(each is None for each in terms):
        return None
    return [each for each in terms if each is not None]


def _suits(volume: Volume, claim: Claim, kind: str) -> bool:
    """Whether a volume that nobody has yet could become the claim's."""
    spec = volume.spec
    wanted: Mapping[str, str] = claim.spec.resources.get("requests") or {}
    if (
        spec.claim_ref is not None
        or spec.storage_class_name != kind
        or volume.status.phase not in ("", "Available")
    ):
        return False
    if spec.volume_mode != claim.spec.volume_mode or not set(claim.spec.access_modes) <= set(
        spec.access_modes
    ):
        return False
    if claim.spec.selector is not None and not selects(claim.spec.selector, volume.metadata.labels):
        return False
    size = asked("storage", wanted.get("storage", "0"))
    return available("storage", spec.capacity.get("storage", "0")) >= size


def _topology_terms(topologies: Iterable[Json]) -> list[Json]:
    return [
        {
            "matchExpressions": [
                {"key": each["key"], "operator": "In", "values": each["values"]}
                for each in topology.get("matchLabelExpressions") or ()
            ]
        }
        for topology in topologies
    ]
