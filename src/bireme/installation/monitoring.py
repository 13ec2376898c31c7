"""What Prometheus scrapes, and when it raises an alarm: only about metrics that there are."""

from typing import Any, Final

from bireme.installation.dashboard import build_dashboard
from bireme.installation.expressions import Merged, Namespace, Value
from bireme.installation.names import CONTROLLER, OURS, SCHEDULER, labels
from bireme.installation.parts import Part, Tree
from bireme.installation.rbac import SCHEDULER_ON

_MONITORING: Final = "monitoring.coreos.com/v1"


def build_monitoring() -> list[Part]:
    """Each with its own switch, as each needs somebody who knows it."""
    return [
        Part(_service_monitor(), (Value("metrics.serviceMonitor.enabled"),)),
        Part(_prometheus_rule(CONTROLLER, ALERTS), (Value("metrics.prometheusRule.enabled"),)),
        Part(
            _prometheus_rule(SCHEDULER, SCHEDULER_ALERTS),
            (Value("metrics.prometheusRule.enabled"), SCHEDULER_ON),
        ),
        Part(_dashboard_config(), (Value("metrics.dashboard.enabled"),)),
    ]


def _found_by(setting: str) -> Tree:
    """Metadata with the labels by which somebody finds the object, beside our own."""
    return {
        "name": CONTROLLER,
        "namespace": Namespace(),
        "labels": Merged(labels("controller"), Value(f"metrics.{setting}.labels")),
    }


def _service_monitor() -> Tree:
    return {
        "apiVersion": _MONITORING,
        "kind": "ServiceMonitor",
        "metadata": _found_by("serviceMonitor"),
        "spec": {
            # The Services of controller and scheduler: only those for metrics have such a port.
            "selector": {"matchLabels": dict(OURS)},
            "endpoints": [{"port": "health", "path": "/metrics", "interval": "30s"}],
        },
    }


def _prometheus_rule(name: str, alerts: list[Tree]) -> Tree:
    group = "bireme" if name == CONTROLLER else name
    return {
        "apiVersion": _MONITORING,
        "kind": "PrometheusRule",
        "metadata": {**_found_by("prometheusRule"), "name": name},
        "spec": {"groups": [{"name": group, "rules": alerts}]},
    }


def _dashboard_config() -> Tree:
    metadata = {**_found_by("dashboard"), "name": "bireme-dashboard"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"bireme.json": build_dashboard()},
    }


def _alert(name: str, expression: str, minutes: int, severity: str, summary: str, fix: str) -> Tree:
    alert: dict[str, Any] = {
        "alert": name,
        "expr": expression,
        "for": f"{minutes}m",
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": fix},
    }
    return alert


ALERTS: Final = [
    _alert(
        "BiremeNoLeader",
        f'(sum(leader_election_master_status{{name="{CONTROLLER}"}}) or vector(0)) < 1',
        5,
        "critical",
        "No Bireme controller leads: no job goes on.",
        f"Look at the pods of the Deployment {CONTROLLER}, and run `bireme doctor`.",
    ),
    _alert(
        "BiremePassesFail",
        'sum by (controller) (rate(controller_runtime_reconcile_total{result="error"}[10m])) > 0.1',
        15,
        "warning",
        "Passes over {{ $labels.controller }} fail again and again.",
        "The controller's log names the jobs and the reason.",
    ),
    _alert(
        "BiremeQueueIsLong",
        'workqueue_depth{name="jobs"} > 1000',
        15,
        "warning",
        "{{ $value }} jobs wait for the controller.",
        "The API server may be slow: look at rest_client_requests_total by code.",
    ),
    _alert(
        "BiremeIsRefused",
        'sum by (resource, method) (increase(rest_client_requests_total{code="403"}[10m])) > 0',
        10,
        "warning",
        "The API server refuses to let the controller {{ $labels.method }} {{ $labels.resource }}.",
        "Run `bireme doctor`: it compares the controller's permissions with those it needs. A full quota "
        "answers with the same code.",
    ),
    _alert(
        "BiremeCertificateRunsOut",
        "min(bireme_webhook_certificate_expiry_seconds) < 7 * 24 * 3600",
        60,
        "warning",
        "The certificate of Bireme's webhooks ends in less than a week.",
        "It is renewed long before that, unless its authority ends: run `bireme doctor`, and read the log of "
        "the webhooks.",
    ),
]

SCHEDULER_ALERTS: Final = [
    _alert(
        "BiremeSchedulerNoLeader",
        f'(sum(leader_election_master_status{{name="{SCHEDULER}"}}) or vector(0)) < 1',
        5,
        "critical",
        "No Bireme scheduler leads: no queued job starts.",
        f"Look at the pods of the Deployment {SCHEDULER}, and run `bireme doctor`.",
    ),
    _alert(
        "BiremeSchedulerBindsFail",
        'sum(rate(bireme_scheduler_binds_total{result="failed"}[10m])) > 0.1',
        15,
        "warning",
        "The scheduler decides, but pods can't be bound.",
        "The scheduler's log names the pods and the API server's answer.",
    ),
    _alert(
        "BiremeSchedulerIsSlow",
        "histogram_quantile(0.99, sum by (le) (rate(bireme_scheduler_round_seconds_bucket[10m]))) > 5",
        15,
        "warning",
        "A round of the scheduler takes {{ $value }} s.",
        "Queued jobs start later than they could: give it more CPU, or look for very large groups.",
    ),
]
