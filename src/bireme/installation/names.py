"""What the objects of an installation are called, and the labels by which they are found."""

from typing import Any, Final

from bireme.installation.expressions import Choice, Text, Value, Version, text

APP: Final = "bireme"
CONTROLLER: Final = "bireme-controller"
"""The controller's Deployment, ServiceAccount, lease and role."""
SCHEDULER: Final = "bireme-scheduler"
"""The same of the scheduler of queues."""
KUBEFLOW: Final = "bireme-kubeflow"
JOB_POLICIES: Final = "bireme-job-network-policies"
LAUNCHER: Final = "bireme-kubeflow-launcher"
"""What the controller holds so that it may grant it to launchers."""
WEBHOOKS: Final = "bireme-webhooks"
"""The webhooks' Deployment, ServiceAccount, Service, and the Secret of their authority."""
METRICS: Final = "bireme-metrics"
SCHEDULER_METRICS: Final = "bireme-scheduler-metrics"
WEBHOOK_METRICS: Final = "bireme-webhooks-metrics"
DEFAULT_NAMESPACE: Final = "bireme-system"
WATCHED: Final = Value("watchNamespace")
OURS: Final = {"app.kubernetes.io/name": APP}
"""The label that tells our CRDs from somebody else's. Helm puts its own name into managed-by."""


def cluster_name(name: str) -> Choice:
    """The name of an object without a namespace: one installation for each namespace may be in a cluster."""
    rest = name.removeprefix(APP)
    return Choice(WATCHED, Text(f"{APP}-%s{rest}", (WATCHED,)), name)


def selector(component: str) -> dict[str, str]:
    """The labels of a component's pods, which never change."""
    return {**OURS, "app.kubernetes.io/component": component}


def labels(component: str) -> dict[str, Any]:
    return {
        **selector(component),
        "app.kubernetes.io/version": Version(),
        "app.kubernetes.io/part-of": APP,
    }


def account_user(namespace: Any) -> Text:
    """The controller, as the API server calls it."""
    return text(f"system:serviceaccount:%s:{CONTROLLER}", namespace)
