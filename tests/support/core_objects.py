"""Valid objects of Kubernetes' own kinds, by chance: of any field some, in any of its notations."""

import base64
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from support.pod_specs import PodSpecs

Object = dict[str, Any]


class CoreObjects(PodSpecs):
    """Makes objects; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        super().__init__(Random(seed))

    def make(self, kind: str, name: str) -> Object:
        """An object without a namespace."""
        body: Object = getattr(self, f"_{kind.lower()}")()
        return {**body, "metadata": {"name": name, **self._metadata()}}

    def _metadata(self) -> Object:
        return self.some(
            {
                "labels": lambda: self.labels("l"),
                "annotations": lambda: {"note": self.pick("", "x", "ü")},
                "finalizers": lambda: self.pick([], ["example.com/f"]),
            }
        )

    def _pod(self) -> Object:
        return {"spec": self.pod_spec(), **self.some({"status": lambda: {"phase": "Running"}})}

    def _configmap(self) -> Object:
        return self.some(
            {
                "data": lambda: self.pick({}, {"a": "1"}, {"a": "", "b.c": "x\ny"}, None),
                "binaryData": lambda: self.pick({"bin": "AAEC"}, {"bin2": ""}),
                "immutable": lambda: self.pick(True, False, None),
            }
        )

    def _secret(self) -> Object:
        key = base64.b64encode(b"key").decode()
        typed = self.pick(
            {},
            {"type": ""},
            {"type": "Opaque"},
            {"type": "example.com/own"},
            {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "c", "tls.key": ""}},
            {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": key}},
            {"type": "kubernetes.io/basic-auth", "stringData": {"username": "u"}},
            {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}},
        )
        plain = self.some(
            {
                "data": lambda: self.pick({"a": key, "e": ""}, {"a": "a2V5\n"}, {"n": None}),
                "stringData": lambda: self.pick({}, {"a": "over", "z": "ü"}),
                "immutable": lambda: self.pick(True, False),
            }
        )
        return typed if "data" in typed or "stringData" in typed else {**plain, **typed}

    def _serviceaccount(self) -> Object:
        return self.some(
            {
                "secrets": lambda: [{"name": "s", "namespace": "other", "kind": "Secret"}, {}],
                "imagePullSecrets": lambda: self.pick([], [{"name": "p"}], [{}]),
                "automountServiceAccountToken": lambda: self.pick(True, False),
            }
        )

    def _role(self) -> Object:
        def rule() -> Object:
            return {
                "apiGroups": self.pick([""], ["", "apps"], ["*"]),
                "resources": ["pods"],
                "verbs": self.pick(["get"], ["*"]),
                **self.some({"resourceNames": lambda: self.pick([], ["a"])}),
            }

        return self.some({"rules": lambda: self.several(rule, least=0)}, 0.8)

    def _rolebinding(self) -> Object:
        def subject() -> Object:
            return self.pick_object(
                {"kind": "ServiceAccount", "name": "a", "namespace": "n"},
                {"kind": "User", "name": "u"},
                {"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "ServiceAccount", "name": "a", "apiGroup": ""},
            )

        role = {"kind": self.pick("Role", "ClusterRole"), "name": "r"}
        group = self.some({"apiGroup": lambda: self.pick("", "rbac.authorization.k8s.io")})
        subjects = self.some({"subjects": lambda: self.several(subject, least=0)}, 0.8)
        return {"roleRef": role | group, **subjects}

    def _priorityclass(self) -> Object:
        return self.some(
            {
                "value": lambda: self.pick(0, -5, 1000, 1_000_000_000),
                "description": lambda: self.pick("", "text"),
                "preemptionPolicy": lambda: self.pick("Never", "PreemptLowerPriority", None),
                "globalDefault": lambda: False,
            },
            0.7,
        )

    def _lease(self) -> Object:
        spec: Callable[[], Object] = lambda: self.some(  # noqa: E731
            {
                "holderIdentity": lambda: self.pick("", "me"),
                "leaseDurationSeconds": lambda: 15,
                "leaseTransitions": lambda: self.pick(0, 3),
                "acquireTime": lambda: self.pick("2026-01-02T03:04:05.000000Z", None),
                "renewTime": lambda: self.pick(
                    "2026-01-02T03:04:05.123456Z", "2026-01-02T05:04:05.000001+02:00"
                ),
                "strategy": lambda: "OldestEmulationVersion",
            }
        )
        return self.some({"spec": spec}, 0.9)

    def _event(self) -> Object:
        body: Object = {
            "involvedObject": {"namespace": self.namespace, **self.some(self._object_reference())}
        }
        body |= self.some(
            {
                "reason": lambda: self.pick("", "Started"),
                "message": lambda: "text",
                "source": lambda: self.pick({}, {"component": "c", "host": ""}),
                "firstTimestamp": lambda: self.pick(self.time(), None),
                "lastTimestamp": self.time,
                "count": lambda: self.pick(0, 1),
                "type": lambda: self.pick("", "Normal", "Warning"),
                "series": lambda: self.pick(
                    {}, {"count": 2, "lastObservedTime": "2026-01-02T03:04:05.123456Z"}
                ),
                "action": lambda: self.pick("", "a"),
                "related": lambda: {"kind": "Pod"},
                "reportingComponent": lambda: self.pick("", "c"),
                "reportingInstance": lambda: self.pick("", "c-1"),
            }
        )
        if self.chance(0.3):
            body |= {"eventTime": "2026-01-02T03:04:05.123456Z", "action": "a", "reason": "R"}
            body |= {"reportingComponent": "example.com/c", "reportingInstance": "c-1"}
        return body

    def _object_reference(self) -> Mapping[str, Callable[[], Any]]:
        return {
            "apiVersion": lambda: "v1",
            "kind": lambda: "Pod",
            "name": lambda: "p",
            "uid": lambda: "u",
            "resourceVersion": lambda: "5",
            "fieldPath": lambda: "spec.containers{c}",
        }

    def _namespace(self) -> Object:
        return self.some(
            {
                "spec": lambda: self.pick({}, {"finalizers": []}, {"finalizers": ["example.com/f"]}),
                "status": lambda: self.pick({}, {"phase": "Active"}),
            }
        )

    # ---- Services

    def _service(self) -> Object:
        kind = self.pick("", "ClusterIP", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "headless")
        spec: Object = {"type": kind} if kind not in ("", "headless") else {}
        if kind == "headless":
            spec["clusterIP"] = "None"
        if kind == "ExternalName":
            spec["externalName"] = self.pick("example.com", "example.com.")
        if kind not in ("headless", "ExternalName") or self.chance(0.5):
            spec["ports"] = self._service_ports()
        spec |= self.some(
            {
                "selector": lambda: self.pick({}, {"app": "a"}, {"app": ""}),
                "sessionAffinity": lambda: self.pick("", "None"),
                "publishNotReadyAddresses": lambda: self.pick(True, False),
            }
        )
        if kind != "ExternalName":
            spec |= self._service_traffic(kind)
        return {"spec": spec}

    def _service_traffic(self, kind: str) -> Object:
        made = self.some(
            {
                "sessionAffinity": lambda: "ClientIP",
                "sessionAffinityConfig": lambda: self.pick(
                    {}, {"clientIP": {}}, {"clientIP": {"timeoutSeconds": 5}}
                ),
                "internalTrafficPolicy": lambda: self.pick("Cluster", "Local"),
                "trafficDistribution": lambda: self.pick("PreferClose", "PreferSameNode"),
                "ipFamilies": lambda: self.pick([], ["IPv4"]),
                "ipFamilyPolicy": lambda: self.pick("SingleStack", "PreferDualStack"),
            }
        )
        if kind in ("", "ClusterIP"):
            made |= self.some({"externalIPs": lambda: ["192.0.2.1"]})
        if kind in ("NodePort", "LoadBalancer"):
            made |= self.some({"externalTrafficPolicy": lambda: self.pick("", "Cluster", "Local")})
        if kind == "LoadBalancer":
            made |= self.some(
                {
                    "allocateLoadBalancerNodePorts": lambda: self.pick(True, False),
                    "loadBalancerClass": lambda: "example.com/lb",
                    "loadBalancerSourceRanges": lambda: ["10.0.0.0/8"],
                    "loadBalancerIP": lambda: "192.0.2.9",
                }
            )
        return made

    def _service_ports(self) -> list[Object]:
        ports = [
            {
                "port": 80 + index,
                **self.some(
                    {
                        "protocol": lambda: self.pick("", "TCP", "UDP", "SCTP"),
                        "targetPort": lambda: self.pick(0, 8080, "web", 81),
                        "appProtocol": lambda: self.pick("http", "kubernetes.io/h2c"),
                    }
                ),
            }
            for index in range(self.pick(1, 1, 2, 3))
        ]
        if len(ports) > 1:
            return [port | {"name": f"p{index}"} for index, port in enumerate(ports)]
        return [ports[0] | self.some({"name": lambda: self.pick("", "web")})]

    # ---- claims and nodes

    def _persistentvolumeclaim(self) -> Object:
        return {"spec": self.claim_spec(), **self.some({"status": lambda: self.pick({}, {"phase": "Bound"})})}

    def _node(self) -> Object:
        spec = lambda: self.some(  # noqa: E731
            {
                "podCIDR": lambda: "10.1.0.0/24",
                "podCIDRs": lambda: self.pick([], ["10.1.0.0/24"]),
                "providerID": lambda: "x://1",
                "unschedulable": lambda: self.pick(True, False),
                "taints": lambda: [
                    {
                        "key": "k",
                        "effect": "NoSchedule",
                        **self.some({"value": lambda: "v", "timeAdded": self.time}),
                    }
                ],
            }
        )
        return self.some({"spec": spec, "status": self.node_status}, 0.8)

    def node_status(self) -> Object:
        return self.some(
            {
                "capacity": lambda: {"cpu": self.cpu(), "memory": self.memory(), "pods": "110"},
                "allocatable": lambda: self.pick({}, {"cpu": self.cpu()}),
                "phase": lambda: self.pick("", "Running"),
                "conditions": lambda: [{"type": "Ready", "status": "True", **self.some(self._node_times())}],
                "addresses": lambda: self.pick([], [{"type": "Hostname", "address": "h"}]),
                "daemonEndpoints": lambda: self.pick({}, {"kubeletEndpoint": {"Port": 10250}}),
                "nodeInfo": lambda: {
                    "kernelVersion": "6",
                    **self.some({"swap": lambda: self.pick({}, {"capacity": 5})}),
                },
                "images": lambda: [{"names": self.pick([], ["a:b"]), "sizeBytes": self.pick(0, 5)}, {}],
                "volumesInUse": lambda: self.pick([], ["v"]),
                "volumesAttached": lambda: [{"name": "v", "devicePath": ""}],
                "runtimeHandlers": lambda: [{"name": "", "features": {"userNamespaces": False}}, {}],
                "features": lambda: self.pick({}, {"supplementalGroupsPolicy": True}),
            }
        )

    def _node_times(self) -> Mapping[str, Callable[[], Any]]:
        return {
            "lastHeartbeatTime": self.time,
            "lastTransitionTime": self.time,
            "reason": lambda: self.pick("", "R"),
            "message": lambda: "m",
        }

    def service_status(self) -> Object:
        ports = lambda: self.pick([], [{"port": 80, "protocol": "TCP"}])  # noqa: E731
        ingress = self.pick({"ip": "192.0.2.7"}, {"hostname": "h"}, {"ip": "192.0.2.8", "ipMode": "Proxy"})
        balancer = self.pick({}, {"ingress": []}, {"ingress": [ingress | self.some({"ports": ports})]})
        return self.some({"loadBalancer": lambda: balancer, "conditions": self.conditions}, 0.8)

    def claim_status(self) -> Object:
        return self.some(
            {
                "phase": lambda: self.pick("", "Bound", "Lost"),
                "accessModes": lambda: self.pick([], ["ReadWriteOnce"]),
                "capacity": lambda: self.pick({}, {"storage": self.memory()}),
                "conditions": lambda: [{"type": "Resizing", "status": "True"}],
            }
        )

    def conditions(self) -> list[Object]:
        return [
            {
                "type": "A",
                "status": "True",
                "reason": "R",
                "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
                **self.some({"observedGeneration": lambda: self.pick(0, 1)}),
            }
        ]
