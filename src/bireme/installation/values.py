"""What may be set of an installation: the values of the chart, and of `bireme manifests`.

One struct serves both, values.yaml with its comments, and values.schema.json.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


class Group(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of every group of values: a name that is not known is refused."""


class Image(Group, frozen=True):
    """The image of controller and webhooks; launchers of Kubeflow's MPIJobs take kubectl from it."""

    repository: Annotated[
        str,
        Meta(
            description="Where it is, with its registry. There is no default: the owner of such a name on a "
            "public registry would get the controller's permissions."
        ),
    ] = ""
    tag: Annotated[str, Meta(description="Which one; the chart's version when empty.")] = ""
    digest: Annotated[
        str,
        Meta(description="Which one, `sha256:…`; wins over the tag.", pattern=r"^(sha256:[0-9a-f]{64})?$"),
    ] = ""
    pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"], Meta(description="When nodes ask for it anew.")
    ] = "IfNotPresent"
    pull_secrets: Annotated[
        list[dict[str, str]], Meta(description="Secrets for the registry, each `{name: …}`.")
    ] = []


class Kubeflow(Group, frozen=True):
    """MPIJob of kubeflow.org/v1alpha2."""

    enabled: Annotated[
        bool,
        Meta(
            description="Install that CRD and run its jobs. Off, as another operator may own it. "
            "The controller then holds pods/exec, to grant it to launchers."
        ),
    ] = False


class Resources(Group, frozen=True):
    """As a container's resources are."""

    requests: Annotated[dict[str, str | int], Meta(description="What is set aside.")] = msgspec.field(
        default_factory=lambda: {"cpu": "100m", "memory": "128Mi"}
    )
    limits: Annotated[dict[str, str | int], Meta(description="The most it gets.")] = msgspec.field(
        default_factory=lambda: {"memory": "1Gi"}
    )


class Controller(Group, frozen=True):
    """The controller's Deployment."""

    replicas: Annotated[int, Meta(description="One leads, the others wait.", ge=1)] = 2
    keep_messages: Annotated[
        bool, Meta(description="Keep the end of a failed replica's output in its job's status.")
    ] = True
    log_format: Annotated[Literal["json", "text"], Meta(description="How logs are written.")] = "json"
    resources: Annotated[Resources, Meta(description="Of the container.")] = Resources()
    node_selector: Annotated[dict[str, str], Meta(description="Labels of the nodes it may be on.")] = {}
    tolerations: Annotated[list[dict[str, Any]], Meta(description="Taints it bears.")] = []
    affinity: Annotated[dict[str, Any], Meta(description="As a pod's affinity.")] = {}
    priority_class_name: Annotated[str, Meta(description="Its priority class, none when empty.")] = ""
    pod_annotations: Annotated[dict[str, str], Meta(description="More annotations of its pods.")] = {}


class Scheduler(Group, frozen=True):
    """The scheduler of queues."""

    enabled: Annotated[
        bool,
        Meta(description="Place the pods of queued jobs. It serves the whole cluster, one is enough."),
    ] = False
    replicas: Annotated[int, Meta(description="One leads, the others wait.", ge=1)] = 2
    preemption: Annotated[
        bool, Meta(description="Let queues take from preemptible queues of lower priority.")
    ] = True
    backfill: Annotated[
        bool, Meta(description="Put off starts that would delay a known start of a group ahead.")
    ] = True
    topology: Annotated[
        str,
        Meta(
            description="Labels of nodes, the narrowest domain first, with commas between: a group is "
            "packed into one domain if it fits."
        ),
    ] = ""
    permissions: Annotated[
        bool,
        Meta(
            description="Let the scheduler, too, ask queues' namespaceSelector; who is allowed by RBAC alone "
            "is then not. For installations without webhooks."
        ),
    ] = False
    log_format: Annotated[Literal["json", "text"], Meta(description="How logs are written.")] = "json"
    resources: Annotated[Resources, Meta(description="Of the container.")] = Resources()
    node_selector: Annotated[dict[str, str], Meta(description="Labels of the nodes it may be on.")] = {}
    tolerations: Annotated[list[dict[str, Any]], Meta(description="Taints it bears.")] = []
    affinity: Annotated[dict[str, Any], Meta(description="As a pod's affinity.")] = {}
    priority_class_name: Annotated[str, Meta(description="Its priority class, none when empty.")] = ""
    pod_annotations: Annotated[dict[str, str], Meta(description="More annotations of its pods.")] = {}


class Crds(Group, frozen=True):
    """The CustomResourceDefinitions."""

    install: Annotated[
        bool,
        Meta(
            description="Install and upgrade them with this release. They stay when it is uninstalled, and "
            "with them all jobs. A CRD that is not Bireme's is never replaced."
        ),
    ] = True


class Rbac(Group, frozen=True):
    """Permissions of users."""

    aggregate: Annotated[
        bool,
        Meta(description="Add the kinds to the cluster's roles view, edit and admin."),
    ] = True
    read_queues: Annotated[
        bool,
        Meta(
            description="Let every authenticated user read Queues, which belong to no namespace: a role in "
            "one does not reach them."
        ),
    ] = True


class CertManager(Group, frozen=True):
    """Certificates from cert-manager, instead of Bireme's own."""

    enabled: Annotated[bool, Meta(description="Needs cert-manager, and an issuer.")] = False
    issuer_kind: Annotated[Literal["Issuer", "ClusterIssuer"], Meta(description="What issues them.")] = (
        "ClusterIssuer"
    )
    issuer_name: Annotated[str, Meta(description="Its name.", min_length=1)] = "bireme"


FailurePolicy = Literal["Ignore", "Fail"]


class Webhooks(Group, frozen=True):
    """Admission, with a Deployment of its own: defaults, validation, and who may use a queue."""

    enabled: Annotated[
        bool,
        Meta(description="Without them the controller checks jobs, but nobody asks who may use a queue."),
    ] = True
    replicas: Annotated[int, Meta(description="All of them serve.", ge=1)] = 2
    port: Annotated[int, Meta(description="Of the pods, above 1023.", ge=1024, le=65535)] = 9443
    failure_policy: Annotated[
        FailurePolicy,
        Meta(description="For defaults and validation: the controller checks again, so jobs need not wait."),
    ] = "Ignore"
    queue_failure_policy: Annotated[
        FailurePolicy,
        Meta(description="For the permission to use a queue, which nobody else asks about."),
    ] = "Fail"
    cert_manager: Annotated[CertManager, Meta(description="Certificates from cert-manager.")] = CertManager()
    log_format: Annotated[Literal["json", "text"], Meta(description="How logs are written.")] = "json"
    resources: Annotated[Resources, Meta(description="Of the container.")] = Resources(
        limits={"memory": "512Mi"}
    )
    node_selector: Annotated[dict[str, str], Meta(description="Labels of the nodes it may be on.")] = {}
    tolerations: Annotated[list[dict[str, Any]], Meta(description="Taints it bears.")] = []
    affinity: Annotated[dict[str, Any], Meta(description="As a pod's affinity.")] = {}
    priority_class_name: Annotated[str, Meta(description="Its priority class, none when empty.")] = ""
    pod_annotations: Annotated[dict[str, str], Meta(description="More annotations of its pods.")] = {}


class Monitored(Group, frozen=True):
    """An object for monitoring, which needs the operator that knows it."""

    enabled: Annotated[bool, Meta(description="Whether there is one.")] = False
    labels: Annotated[dict[str, str], Meta(description="Labels by which it is found.")] = {}


class Dashboard(Group, frozen=True):
    """A Grafana dashboard in a ConfigMap."""

    enabled: Annotated[bool, Meta(description="Whether there is one.")] = False
    labels: Annotated[dict[str, str], Meta(description="Labels by which Grafana's sidecar finds it.")] = (
        msgspec.field(default_factory=lambda: {"grafana_dashboard": "1"})
    )


class Metrics(Group, frozen=True):
    """Monitoring."""

    service_monitor: Annotated[Monitored, Meta(description="For Prometheus' operator.")] = Monitored()
    prometheus_rule: Annotated[Monitored, Meta(description="Alerts, for Prometheus' operator.")] = Monitored()
    dashboard: Annotated[Dashboard, Meta(description="A Grafana dashboard in a ConfigMap.")] = Dashboard()


class Switch(Group, frozen=True):
    """Something that is there or not."""

    enabled: Annotated[bool, Meta(description="Whether there is one.")] = True


class NetworkPolicy(Group, frozen=True):
    """What may reach the pods of controller, scheduler and webhooks, and what they may reach."""

    enabled: Annotated[bool, Meta(description="Whether there are some.")] = True
    jobs: Annotated[
        bool,
        Meta(
            description="Create one for each job, too, that lets only its own pods in: the ports of MPI, "
            "torchrun and services have no login. Other clients then can't reach the service ports of a job."
        ),
    ] = False
    restrict_egress: Annotated[
        bool, Meta(description="Let them reach DNS and the API server's ports alone.")
    ] = False
    api_server_ports: Annotated[
        list[dict[str, Any]],
        Meta(description="Of the API server itself, behind its Service, as a NetworkPolicy has ports."),
    ] = msgspec.field(
        default_factory=lambda: [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]
    )


class Values(Group, frozen=True):
    """Values of the Bireme chart."""

    watch_namespace: Annotated[
        str,
        Meta(
            description="Run the jobs of this namespace only, with permissions there alone; of all when "
            "empty. The namespace must exist. A scheduler serves all namespaces, and so do then the webhooks "
            "that guard queues.",
            pattern="^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$",
        ),
    ] = ""
    image: Annotated[Image, Meta(description="The image of controller and webhooks.")] = Image()
    controller: Annotated[Controller, Meta(description="The controller's Deployment.")] = Controller()
    kubeflow: Annotated[Kubeflow, Meta(description="MPIJob of kubeflow.org/v1alpha2.")] = Kubeflow()
    scheduler: Annotated[Scheduler, Meta(description="The scheduler of queues.")] = Scheduler()
    gang_engine: Annotated[
        Literal["bireme", "t9k", "volcano", "coscheduling", "native", "kueue"],
        Meta(description="Who places the pods of queued jobs: Bireme's scheduler, or another."),
    ] = "bireme"
    crds: Annotated[Crds, Meta(description="The CustomResourceDefinitions.")] = Crds()
    rbac: Annotated[Rbac, Meta(description="Permissions of users.")] = Rbac()
    webhooks: Annotated[Webhooks, Meta(description="Defaults, validation, and who may use a queue.")] = (
        Webhooks()
    )
    metrics: Annotated[Metrics, Meta(description="Monitoring.")] = Metrics()
    pod_disruption_budget: Annotated[
        Switch, Meta(description="Lets one pod of each Deployment be taken away at a time.")
    ] = Switch()
    network_policy: Annotated[
        NetworkPolicy, Meta(description="What may reach our pods, and the pods of jobs.")
    ] = NetworkPolicy()
    global_: Annotated[
        dict[str, Any], Meta(description="Helm's, for charts that hold this one; not read.")
    ] = msgspec.field(name="global", default_factory=dict)


class ValuesError(Exception):
    """A value that can't be; the message names it."""


def default_values() -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(Values())
    return plain


def overlay(values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Values with others laid over them, by Helm's rules: maps are merged, all else is replaced."""
    result = dict(values)
    for name, value in given.items():
        old = result.get(name)
        result[name] = overlay(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def read_values(given: dict[str, Any]) -> dict[str, Any]:
    """The values with all defaults filled in. Raises ValuesError."""
    try:
        values = msgspec.convert(overlay(default_values(), given), Values)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        path = place.strip("`").removeprefix("$").removeprefix(".") or "the values"
        raise ValuesError(f"{path}: {message}") from error
    plain: dict[str, Any] = msgspec.to_builtins(values)
    return plain


def values_schema() -> dict[str, Any]:
    """The JSON schema that Helm checks values with."""
    (schema,), components = msgspec.json.schema_components([Values], ref_template="#/$defs/{name}")
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **components.pop("Values"),
        "$defs": components,
        **({} if "$ref" in schema else schema),
    }
