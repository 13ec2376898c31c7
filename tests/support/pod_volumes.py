"""Valid volumes and claims of pods, by chance."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Object = dict[str, Any]
Fields = Mapping[str, Callable[[], Any]]


class Chance:
    """What the makers of objects have in common."""

    namespace = ""

    def __init__(self, random: Random) -> None:
        self._random = random

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def pick(self, *values: Any) -> Any:
        return self._random.choice(values)

    def pick_object(self, *values: Object) -> Object:
        return self._random.choice(values)

    def some(self, fields: Fields, probability: float = 0.3) -> Object:
        return {name: make() for name, make in fields.items() if self.chance(probability)}

    def several(self, make: Callable[[], Any], least: int = 1) -> list[Any]:
        return [make() for _ in range(self._random.randint(least, 2))]

    def labels(self, prefix: str) -> Object:
        return {f"{prefix}{index}": self.pick("", "v", "w") for index in range(self._random.randint(0, 2))}

    def time(self) -> str:
        text: str = self.pick("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.999Z", "2026-01-02T04:04:05+01:00")
        return text

    def cpu(self) -> Any:
        return self.pick("1", 2, "500m", "0.5", "1.0005", "2e3", "1k", 0.25, "0", "1000m")

    def memory(self) -> Any:
        return self.pick("1Gi", "1024Mi", "1.5Gi", "1e9", 1000000, "128974848", "129M", "1000Ki", "0.5Ki")


class PodVolumes(Chance):
    """Makes what pods mount, and what they share with other kinds."""

    def _image(self) -> str:
        image: str = self.pick(
            "i", "i:latest", "i:1", "localhost:5000/i", "registry.example/i:latest", "Upper/Case",
            "i@sha256:" + "a" * 64, "i:latest@sha256:" + "b" * 64, "not an image",
        )  # fmt: skip
        return image

    def _selector(self) -> Object:
        return self.pick_object(
            {},
            {"matchLabels": {"a": "b"}},
            {"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]},
            {"matchLabels": {}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
        )

    def _volume(self, name: str) -> Object:
        items = self.some(
            {"items": lambda: [{"key": "k", "path": "p", **self.some({"mode": lambda: self.pick(0, 0o600)})}]}
        )
        mode = self.some({"defaultMode": lambda: self.pick(0, 0o400)})
        downward = [
            {"path": "f", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "r", "resourceFieldRef": {"containerName": "c0", "resource": "limits.cpu"}},
        ]
        source = self.pick(
            {},
            {"emptyDir": {}},
            {"emptyDir": {"medium": "Memory", "sizeLimit": self.pick("1Gi", "1024Mi", "0", 5)}},
            {"hostPath": {"path": "/h"}},
            {"hostPath": {"path": "/h", "type": self.pick("", "Directory")}},
            {"secret": {"secretName": "s", **items, **mode, **self.some({"optional": lambda: False})}},
            {"configMap": {"name": "c", **items, **mode, **self.some({"optional": lambda: True})}},
            {"downwardAPI": {"items": downward, **mode}},
            {"persistentVolumeClaim": {"claimName": "pvc", "readOnly": self.pick(True, False)}},
            {"nfs": {"server": "s", "path": "/p", "readOnly": False}},
            {"image": {"reference": self._image()}},
            {"image": {"reference": "i", "pullPolicy": "Never"}},
            {"csi": {"driver": "d.example", "readOnly": False, "fsType": "", "volumeAttributes": {}}},
            {"ephemeral": {"volumeClaimTemplate": {"spec": self.claim_spec()}}},
            {"projected": {"sources": self._sources(), **mode}},
            {"iscsi": {"targetPortal": "192.0.2.1", "iqn": "iqn.2026-01.example:x", "lun": 0}},
            {"fc": {"targetWWNs": ["w"], "lun": 0}},
            {"cephfs": {"monitors": ["m"]}},
            {"rbd": {"monitors": ["m"], "image": "i"}},
            {"azureDisk": {"diskName": "n", "diskURI": "https://u"}},
            {"flexVolume": {"driver": "d/x", "options": {}}},
        )
        return {"name": name, **source}

    def _sources(self) -> list[Object]:
        return [
            self.pick(
                {"secret": {"name": "s", "optional": False}},
                {"configMap": {"name": "c", "items": []}},
                {"downwardAPI": {"items": [{"path": "f", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                {"serviceAccountToken": {"path": "t"}},
                {"serviceAccountToken": {"path": "t", "audience": "a", "expirationSeconds": 600}},
            )
        ][: self.pick(0, 1, 1)]

    def claim_spec(self) -> Object:
        spec: Object = {
            "accessModes": self.pick(["ReadWriteOnce"], ["ReadOnlyMany", "ReadWriteMany"]),
            "resources": {"requests": {"storage": self.pick("1Gi", "1024Mi", "0.5Gi", "1e9", 5)}},
        }
        sources = self.pick_object(
            {},
            {},
            {"dataSource": {"kind": "PersistentVolumeClaim", "name": "p"}},
            {"dataSource": {"kind": "VolumeSnapshot", "name": "p", "apiGroup": "snapshot.storage.k8s.io"}},
            {"dataSource": {"kind": "Other", "name": "p", "apiGroup": "example.com"}},
            {"dataSourceRef": {"kind": "Other", "name": "p", "apiGroup": "example.com"}},
        )
        more = self.some(
            {
                "storageClassName": lambda: self.pick("", "fast"),
                "volumeMode": lambda: self.pick("Filesystem", "Block", None),
                "volumeName": lambda: self.pick("", "pv"),
                "selector": self._selector,
                "volumeAttributesClassName": lambda: "vac",
            }
        )
        return spec | sources | more
