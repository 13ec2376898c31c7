"""Our Deployments and what stands around them: Services, disruption budgets, network policies."""

from collections.abc import Sequence
from typing import Any, Final

from bireme.installation.expressions import Choice, FirstSet, Namespace, Required, Value, Version, text
from bireme.installation.names import (
    CONTROLLER,
    METRICS,
    OURS,
    SCHEDULER,
    SCHEDULER_METRICS,
    WATCHED,
    WEBHOOK_METRICS,
    WEBHOOKS,
    labels,
    selector,
)
from bireme.installation.parts import Part, Tree, here
from bireme.installation.rbac import JOB_POLICIES_ON, SCHEDULER_ON, WEBHOOKS_ON

HEALTH_PORT: Final = 8081
DRAIN_SECONDS: Final = 10
"""How long a replica serves webhooks after SIGTERM: kube-proxy on every node learns of it in that time."""
GRACE_SECONDS: Final = 30
"""Longer than draining, and than ending the work in hand."""
CERTIFICATES: Final = "/certificates"
"""Where the webhooks' pods have their Secret."""
NOBODY: Final = 65532
"""The user of our image."""
_HEALTH: Final[Tree] = {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}
_REPOSITORY: Final = Required(
    Value("image.repository"),
    "image.repository is not set: build the image (Dockerfile), push it, and name it with its registry",
)
IMAGE: Final = Choice(
    Value("image.digest"),
    text("%s@%s", _REPOSITORY, Value("image.digest")),
    text("%s:%s", _REPOSITORY, FirstSet(Value("image.tag"), Version())),
)


def build_workload() -> list[Part]:
    """Two or more replicas that take turns, and how they are reached."""
    return [
        Part(build_deployment("controller", CONTROLLER, _arguments(), [_HEALTH])),
        Part(_service(METRICS, HEALTH_PORT, "health", "controller")),
        Part(_disruption_budget(CONTROLLER, "controller"), (Value("podDisruptionBudget.enabled"),)),
        Part(_network_policy(CONTROLLER, "controller", "health"), (Value("networkPolicy.enabled"),)),
    ]


def build_webhook_server() -> list[Part]:
    """The webhooks: every replica serves. Of its own, so that who overloads it does not stop jobs."""
    port = {"name": "webhooks", "containerPort": Value("webhooks.port"), "protocol": "TCP"}
    deployment = build_deployment(
        "webhooks", WEBHOOKS, _webhook_arguments(), [_HEALTH, port], [(_certificates(), CERTIFICATES)]
    )
    budget, policy = Value("podDisruptionBudget.enabled"), Value("networkPolicy.enabled")
    return [
        Part(deployment, (WEBHOOKS_ON,)),
        Part(_webhook_service(), (WEBHOOKS_ON,)),
        Part(_service(WEBHOOK_METRICS, HEALTH_PORT, "health", "webhooks"), (WEBHOOKS_ON,)),
        Part(_disruption_budget(WEBHOOKS, "webhooks"), (WEBHOOKS_ON, budget)),
        Part(_network_policy(WEBHOOKS, "webhooks", "health", "webhooks"), (WEBHOOKS_ON, policy)),
    ]


def _webhook_arguments() -> list[Any]:
    origin = Choice(Value("webhooks.certManager.enabled"), "external", "own")
    return [
        "webhooks",
        text("--home=%s", Namespace()),
        f"--certificates={CERTIFICATES}",
        text("--certificates-from=%s", origin),
        text("--port=%s", Value("webhooks.port")),
        f"--drain-seconds={DRAIN_SECONDS}",
        "--health-host=*",
        f"--health-port={HEALTH_PORT}",
        text("--log-format=%s", Value("webhooks.logFormat")),
    ]


def _certificates() -> Tree:
    """The Secret as files: only what is used, as a Secret of an older version holds more."""

    def items(*names: str) -> list[Tree]:
        return [{"key": name, "path": name} for name in names]

    chosen = Choice(
        Value("webhooks.certManager.enabled"), items("tls.crt", "tls.key"), items("ca.crt", "ca.key")
    )
    return {"name": "certificates", "secret": {"secretName": WEBHOOKS, "defaultMode": 0o440, "items": chosen}}


def build_scheduler() -> list[Part]:
    """The scheduler of queues, for whoever wants it."""
    budget, policy = Value("podDisruptionBudget.enabled"), Value("networkPolicy.enabled")
    return [
        Part(build_deployment("scheduler", SCHEDULER, _scheduler_arguments(), [_HEALTH]), (SCHEDULER_ON,)),
        Part(_service(SCHEDULER_METRICS, HEALTH_PORT, "health", "scheduler"), (SCHEDULER_ON,)),
        Part(_disruption_budget(SCHEDULER, "scheduler"), (SCHEDULER_ON, budget)),
        Part(_network_policy(SCHEDULER, "scheduler", "health"), (SCHEDULER_ON, policy)),
    ]


def _scheduler_arguments() -> list[Any]:
    def switch(name: str) -> Choice:
        return Choice(Value(f"scheduler.{name}"), f"--{name}", f"--no-{name}")

    return [
        "scheduler",
        text("--home=%s", Namespace()),
        switch("preemption"),
        switch("backfill"),
        switch("permissions"),
        text("--topology=%s", Value("scheduler.topology")),
        "--health-host=*",
        f"--health-port={HEALTH_PORT}",
        text("--log-format=%s", Value("scheduler.logFormat")),
    ]


def build_deployment(
    component: str,
    name: str,
    arguments: list[Any],
    ports: list[Tree],
    volumes: Sequence[tuple[Tree, str]] = (),
) -> Tree:
    """A component of ours, under the rules of Pod Security's restricted level.

    Its settings are the values named like the component. Each of `volumes` is mounted read-only.
    """

    def setting(path: str) -> Value:
        return Value(f"{component}.{path}")

    container = {
        "name": component,
        "image": IMAGE,
        "imagePullPolicy": Value("image.pullPolicy"),
        "args": arguments,
        "ports": ports,
        "resources": setting("resources"),
        # On a node that is busy, Python may take a minute to start: that is no reason to start it again.
        "startupProbe": {**_probe("/healthz", 2), "failureThreshold": 150},
        "livenessProbe": _probe("/healthz", 20),
        "readinessProbe": _probe("/readyz", 5),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
            *({"name": volume["name"], "mountPath": path, "readOnly": True} for volume, path in volumes),
        ],
    }
    pod = {
        "serviceAccountName": name,
        "imagePullSecrets": Value("image.pullSecrets"),
        "priorityClassName": setting("priorityClassName"),
        "nodeSelector": setting("nodeSelector"),
        "tolerations": setting("tolerations"),
        "affinity": setting("affinity"),
        "topologySpreadConstraints": [_spread(component)],
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "fsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        # In memory, as keys pass through it.
        "volumes": [
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            *(volume for volume, _ in volumes),
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": here(name, component),
        "spec": {
            "replicas": setting("replicas"),
            "selector": {"matchLabels": selector(component)},
            "template": {
                "metadata": {"labels": labels(component), "annotations": setting("podAnnotations")},
                "spec": pod,
            },
        },
    }


def _arguments() -> list[Any]:
    keep = Choice(Value("controller.keepMessages"), "--keep-messages", "--no-keep-messages")
    return [
        "controller",
        text("--namespace=%s", WATCHED),
        text("--lease-namespace=%s", Namespace()),
        Choice(Value("kubeflow.enabled"), "--kubeflow", "--no-kubeflow"),
        text("--gang-engine=%s", Value("gangEngine")),
        text("--controller-image=%s", IMAGE),
        Choice(JOB_POLICIES_ON, "--job-network-policies", "--no-job-network-policies"),
        "--health-host=*",
        f"--health-port={HEALTH_PORT}",
        keep,
        text("--log-format=%s", Value("controller.logFormat")),
    ]


def _probe(path: str, period_seconds: int) -> Tree:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 5,
    }


def _spread(component: str) -> Tree:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(component)},
    }


def _service(name: str, port: int, target: str, component: str) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": here(name, component),
        "spec": {
            "selector": selector(component),
            "ports": [{"name": target, "port": port, "targetPort": target, "protocol": "TCP"}],
        },
    }


def _webhook_service() -> Tree:
    """Whichever of our pods has the port `webhooks`.

    In older versions the controller's pods have it: during an upgrade they answer until the new pods do.
    """
    service = _service(WEBHOOKS, 443, "webhooks", "webhooks")
    return {**service, "spec": {**service["spec"], "selector": dict(OURS)}}


def _disruption_budget(name: str, component: str) -> Tree:
    # Not minAvailable: with a single replica that would keep a node from ever being drained.
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": here(name, component),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(component)}},
    }


def _network_policy(name: str, component: str, *ports: str) -> Tree:
    # From anywhere: an API server has no label that a policy could name.
    ingress = [{"ports": [{"port": port, "protocol": "TCP"} for port in ports]}]
    dns = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    restricted = Value("networkPolicy.restrictEgress")
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": here(name, component),
        "spec": {
            "podSelector": {"matchLabels": selector(component)},
            "policyTypes": Choice(restricted, ["Ingress", "Egress"], ["Ingress"]),
            "ingress": ingress,
            "egress": Choice(restricted, [dns, {"ports": Value("networkPolicy.apiServerPorts")}], []),
        },
    }
