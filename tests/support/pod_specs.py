"""Valid pod specs and statuses, by chance."""

from support.pod_volumes import Object, PodVolumes


class PodSpecs(PodVolumes):
    """Makes pod specs. Containers are `c0`, `c1`, volumes `v0` to `v3`."""

    def pod_spec(self) -> Object:
        spec: Object = {"containers": [self._container(f"c{i}") for i in range(self.pick(1, 1, 2))]}
        spec |= self.some(
            {
                "initContainers": lambda: [self._init("i0"), self._sidecar("i1")][: self.pick(0, 1, 2)],
                "restartPolicy": lambda: self.pick("", "Always", "OnFailure", "Never"),
                "terminationGracePeriodSeconds": lambda: self.pick(0, 5, -1, None),
                "activeDeadlineSeconds": lambda: 60,
                "dnsPolicy": lambda: self.pick("", "ClusterFirst", "Default"),
                "nodeSelector": lambda: self.labels("n"),
                "serviceAccountName": lambda: self.pick("", "default", "other"),
                "serviceAccount": lambda: self.pick("", "default"),
                "automountServiceAccountToken": lambda: False,
                "nodeName": lambda: self.pick("", "node"),
                "hostNetwork": lambda: self.pick(True, False),
                "hostPID": lambda: self.pick(True, False),
                "hostIPC": lambda: self.pick(True, False),
                "securityContext": self._pod_security,
                "imagePullSecrets": lambda: self.pick([], [{"name": "s"}]),
                "hostname": lambda: self.pick("", "h"),
                "subdomain": lambda: self.pick("", "s"),
                "affinity": self._affinity,
                "schedulerName": lambda: self.pick("", "nobody"),
                "tolerations": lambda: self.several(self._toleration, least=0),
                "hostAliases": lambda: [{"ip": "192.0.2.1", "hostnames": self.pick([], ["a"])}],
                "priorityClassName": lambda: self.pick("", "system-node-critical", "urgent"),
                "dnsConfig": self._dns,
                "readinessGates": lambda: self.pick([], [{"conditionType": "example.com/ready"}]),
                "runtimeClassName": lambda: "rc",
                "enableServiceLinks": lambda: self.pick(True, False),
                "topologySpreadConstraints": lambda: [self._spread()],
                "setHostnameAsFQDN": lambda: self.pick(True, False),
                "schedulingGates": lambda: self.pick([], [{"name": "example.com/g"}]),
                "resourceClaims": lambda: [{"name": "claim", "resourceClaimName": "rc"}],
                "os": lambda: {"name": "linux"},
            },
            0.2,
        )
        if self.chance(0.15) and not spec.get("hostNetwork"):
            spec["resources"] = self._pod_resources()
        if self.chance(0.15):
            spec["shareProcessNamespace"] = not spec.get("hostPID", False)
        if spec.get("hostIPC") and spec.get("securityContext"):
            spec["securityContext"].pop("sysctls", None)
        # All volumes are there, as any container may mount any of them.
        spec["volumes"] = [self._volume(f"v{index}") for index in range(4)]
        return spec

    # ---- containers

    def _container(self, name: str) -> Object:
        made = {"name": name, "image": self._image(), **self._common(name)}
        return made | self.some(
            {
                "lifecycle": self._lifecycle,
                "livenessProbe": lambda: self._probe(is_live=True),
                "readinessProbe": lambda: self._probe(is_live=False),
                "startupProbe": lambda: self._probe(is_live=True),
            }
        )

    def _init(self, name: str) -> Object:
        return {"name": name, "image": self._image(), **self._common(name)}

    def _sidecar(self, name: str) -> Object:
        return self._container(name) | {"restartPolicy": "Always"}

    def _common(self, name: str) -> Object:
        return self.some(
            {
                "command": lambda: self.pick([], ["sh", ""]),
                "args": lambda: ["-c", "x"],
                "workingDir": lambda: self.pick("", "/w"),
                "ports": lambda: self._ports(name),
                "envFrom": lambda: [
                    self.pick(
                        {"configMapRef": {"name": "c"}},
                        {"prefix": "P_", "secretRef": {"name": "s", "optional": False}},
                    )
                ],
                "env": lambda: self.several(self._variable),
                "resources": self._resources,
                "volumeMounts": self._mounts,
                "terminationMessagePath": lambda: self.pick("", "/m"),
                "terminationMessagePolicy": lambda: self.pick("File", "FallbackToLogsOnError"),
                "imagePullPolicy": lambda: self.pick("", "Always", "Never"),
                "securityContext": self._security,
                "stdin": lambda: self.pick(True, False),
                "stdinOnce": lambda: self.pick(True, False),
                "tty": lambda: self.pick(True, False),
            }
        )

    def _ports(self, name: str) -> list[Object]:
        # Ports of the host must differ between containers.
        base = 1000 + sum(name.encode()) * 10
        return [
            {
                "containerPort": base + index,
                **self.some(
                    {
                        "protocol": lambda: self.pick("", "TCP", "UDP"),
                        "hostIP": lambda: self.pick("", "127.0.0.1"),
                    }
                ),
                **({"name": f"p{index}"} if self.chance(0.3) else {}),
            }
            for index in range(self.pick(0, 1, 2))
        ]

    def _variable(self) -> Object:
        name = self.pick("A", "a.b", "with space")
        source = self.pick(
            {"fieldRef": {"fieldPath": "metadata.name"}},
            {"fieldRef": {"fieldPath": "status.podIP", "apiVersion": ""}},
            {"resourceFieldRef": {"resource": "limits.cpu"}},
            {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi", "containerName": "c0"}},
            {"configMapKeyRef": {"name": "c", "key": "k"}},
            {"secretKeyRef": {"name": "s", "key": "k", "optional": False}},
        )
        return self.pick_object({"name": name}, {"name": name, "value": ""}, {"name": name, "value": "x"},
                         {"name": name, "valueFrom": source})  # fmt: skip

    def _resources(self) -> Object:
        # A limit of 5000 is above all requests.
        return self.pick_object(
            {},
            {"limits": {}},
            {"limits": {"cpu": self.cpu(), "memory": self.memory()}},
            {"limits": {"cpu": 5000, "memory": "1Ti"}, "requests": {"cpu": self.cpu()}},
            {"requests": {"memory": self.memory(), "cpu": self.cpu()}},
            {"limits": {"example.com/gpu": 1, "ephemeral-storage": self.memory()}},
            {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}},
        )

    def _pod_resources(self) -> Object:
        return self.pick_object(
            {},
            {"limits": {"cpu": "100000", "memory": "10Ti"}},
            {"requests": {"cpu": "100000", "memory": "10Ti"}},
            {"limits": {"cpu": "100000", "memory": "10Ti"}, "requests": {"cpu": "90000"}},
        )

    def _mounts(self) -> list[Object]:
        return [
            {
                "name": f"v{index}",
                "mountPath": f"/m{index}",
                **self.some(
                    {
                        "readOnly": lambda: self.pick(True, False),
                        "subPath": lambda: self.pick("", "sub"),
                        "mountPropagation": lambda: self.pick("None", "HostToContainer"),
                        "recursiveReadOnly": lambda: "Disabled",
                    }
                ),
            }
            for index in range(self.pick(0, 1, 2))
        ]

    def _lifecycle(self) -> Object:
        return self.some(
            {
                "postStart": lambda: {"exec": {"command": ["x"]}},
                "preStop": lambda: self.pick({"httpGet": {"port": 80}}, {"sleep": {"seconds": 0}}),
            }
        )

    def _probe(self, *, is_live: bool) -> Object:
        handler = self.pick_object(
            {"exec": {"command": ["x"]}},
            {"httpGet": {"port": 80}},
            {
                "httpGet": {
                    "port": "web",
                    "path": "p",
                    "scheme": "HTTPS",
                    "host": "",
                    "httpHeaders": [{"name": "A", "value": ""}],
                }
            },
            {"tcpSocket": {"port": 80, "host": "h"}},
            {"grpc": {"port": 80}},
            {"grpc": {"port": 80, "service": "s"}},
        )
        timing = self.some(
            {
                "initialDelaySeconds": lambda: self.pick(0, 5),
                "timeoutSeconds": lambda: self.pick(0, 5),
                "periodSeconds": lambda: self.pick(0, 5),
                "failureThreshold": lambda: self.pick(0, 5),
                "successThreshold": lambda: 1 if is_live else self.pick(0, 2),
            }
        )
        grace = self.some({"terminationGracePeriodSeconds": lambda: 5}) if is_live else {}
        return handler | timing | grace

    # ---- security

    def _security(self) -> Object:
        return self.some(
            {
                "capabilities": lambda: self.pick({}, {"add": ["NET_ADMIN"], "drop": []}),
                "privileged": lambda: False,
                "seLinuxOptions": lambda: self.pick({}, {"level": "s0"}),
                "runAsUser": lambda: self.pick(0, 1000),
                "runAsGroup": lambda: self.pick(0, 1000),
                "runAsNonRoot": lambda: self.pick(True, False),
                "readOnlyRootFilesystem": lambda: self.pick(True, False),
                "allowPrivilegeEscalation": lambda: self.pick(True, False),
                "procMount": lambda: "Default",
                "seccompProfile": lambda: {"type": "RuntimeDefault"},
                "appArmorProfile": lambda: {"type": "Localhost", "localhostProfile": "p"},
            }
        )

    def _pod_security(self) -> Object:
        return self.some(
            {
                "seLinuxOptions": lambda: self.pick({}, {"user": "u", "role": "", "type": "t"}),
                "runAsUser": lambda: self.pick(0, 1000),
                "runAsGroup": lambda: 0,
                "runAsNonRoot": lambda: self.pick(True, False),
                "supplementalGroups": lambda: self.pick([], [0, 5]),
                "supplementalGroupsPolicy": lambda: self.pick("Merge", "Strict"),
                "fsGroup": lambda: 0,
                "fsGroupChangePolicy": lambda: self.pick("Always", "OnRootMismatch"),
                "sysctls": lambda: [{"name": "kernel.shm_rmid_forced", "value": ""}][: self.pick(0, 1)],
                "seccompProfile": lambda: {"type": "Unconfined"},
                "seLinuxChangePolicy": lambda: "Recursive",
            }
        )

    # ---- where pods go

    def _toleration(self) -> Object:
        return self.pick_object(
            {"operator": "Exists"},
            {"key": "k", "value": ""},
            {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "k", "effect": "NoExecute", "tolerationSeconds": self.pick(0, 5)},
        )

    def _affinity(self) -> Object:
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        expression = self.pick(
            {"key": "k", "operator": "Exists"},
            {"key": "k", "operator": "In", "values": ["a"]},
            {"key": "k", "operator": "Gt", "values": ["1"]},
        )
        node = self.some(
            {
                key: lambda: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]},
                preferred: lambda: [{"weight": 1, "preference": {"matchExpressions": [expression]}}],
            },
            0.7,
        )
        pods = self.some(
            {
                key: lambda: [self._pod_term()],
                preferred: lambda: [{"weight": 5, "podAffinityTerm": self._pod_term()}],
            },
            0.7,
        )
        chosen = {"nodeAffinity": lambda: node, "podAffinity": lambda: pods, "podAntiAffinity": lambda: pods}
        return self.some(chosen, 0.6)

    def _pod_term(self) -> Object:
        term: Object = {"topologyKey": "zone"}
        if self.chance(0.7):
            term["labelSelector"] = self._selector()
            term |= self.some({"matchLabelKeys": lambda: ["l0"], "mismatchLabelKeys": lambda: ["l1"]})
        return term | self.some(
            {
                "namespaces": lambda: self.pick([], ["n"]),
                "namespaceSelector": lambda: self.pick({}, self._selector()),
            }
        )

    def _spread(self) -> Object:
        spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        return (
            spread
            | self.some(
                {
                    "labelSelector": self._selector,
                    "minDomains": lambda: 1,
                    "nodeAffinityPolicy": lambda: self.pick("Honor", "Ignore"),
                    "nodeTaintsPolicy": lambda: "Honor",
                }
            )
            | (
                {"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["l0"]}
                if self.chance(0.3)
                else {}
            )
        )

    def _dns(self) -> Object:
        return self.some(
            {
                "nameservers": lambda: self.pick([], ["192.0.2.1"]),
                "searches": lambda: self.pick([], ["example.com"]),
                "options": lambda: [{"name": "ndots", "value": self.pick("", "2")}, {"name": "x"}],
            }
        )

    # ---- status

    def pod_status(self) -> Object:
        return self.some(
            {
                "phase": lambda: self.pick("", "Running", "Failed"),
                "conditions": lambda: [
                    {
                        "type": "Ready",
                        "status": "False",
                        **self.some({"lastProbeTime": self.time, "lastTransitionTime": self.time}),
                    }
                ],
                "message": lambda: self.pick("", "m"),
                "reason": lambda: self.pick("", "R"),
                "hostIP": lambda: "192.0.2.1",
                "podIP": lambda: self.pick("", "192.0.2.2"),
                "podIPs": lambda: self.pick([], [{"ip": "192.0.2.3"}]),
                "startTime": lambda: self.pick(self.time(), None),
                "containerStatuses": lambda: [self._container_status("c0")],
                "initContainerStatuses": lambda: self.pick([], [self._container_status("i0")]),
                "observedGeneration": lambda: self.pick(0, 1),
            },
            0.5,
        )

    def _container_status(self, name: str) -> Object:
        state = self.pick(
            {},
            {"waiting": {"reason": "R"}},
            {"waiting": {}},
            {"running": {"startedAt": self.time()}},
            {"running": {}},
            {"terminated": {"exitCode": self.pick(0, 1), "finishedAt": self.time(), "signal": 0}},
        )
        status: Object = {"name": name, "state": state}
        return status | self.some(
            {
                "lastState": lambda: {"terminated": {"exitCode": 0}},
                "ready": lambda: self.pick(True, False),
                "restartCount": lambda: self.pick(0, 2),
                "image": lambda: "i",
                "imageID": lambda: "",
                "containerID": lambda: "x://1",
                "started": lambda: self.pick(True, False),
                "allocatedResources": lambda: {"cpu": "0.5"},
                "resources": lambda: self.pick({}, {"limits": {"cpu": "1000m"}}),
            }
        )
