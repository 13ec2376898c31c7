"""What Prometheus scrapes, and when it raises an alarm: only about metrics that there are."""

from typing import Any, Final

from bireme.installation.dashboard import build_dashboard
from bireme.installation.expressions import Merged, Namespace, Value
from bireme.installation.names import CONTROLLER, labels, selector
from bireme.installation.parts import Part, Tree

_MONITORING: Final = "monitoring.coreos.com/v1"


def build_monitoring() -> list[Part]:
    """Each with its own switch, as each needs somebody who knows it."""
    return [
        Part(_service_monitor(), (Value("metrics.serviceMonitor.enabled"),)),
        Part(_prometheus_rule(), (Value("metrics.prometheusRule.enabled"),)),
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
            "selector": {"matchLabels": selector("controller")},
            "endpoints": [{"port": "health", "path": "/metrics", "interval": "30s"}],
        },
    }


def _prometheus_rule() -> Tree:
    return {
        "apiVersion": _MONITORING,
        "kind": "PrometheusRule",
        "metadata": _found_by("prometheusRule"),
        "spec": {"groups": [{"name": "bireme", "rules": ALERTS}]},
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
        "It is renewed long before that: the controller's log says what is in the way.",
    ),
]
