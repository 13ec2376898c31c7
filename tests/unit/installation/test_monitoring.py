"""Alarms and dashboard speak of metrics that there are, with labels that they have."""

import json
import re

import pytest

from bireme.control.controller import Controller
from bireme.control.metrics import MOST_NAMESPACES, OTHER_NAMESPACES, Metrics, bounded
from bireme.control.scheduler.metrics import SchedulerMetrics
from bireme.installation.authority import Authority
from bireme.installation.dashboard import build_dashboard
from bireme.installation.monitoring import ALERTS, SCHEDULER_ALERTS
from bireme.installation.objects import build_objects
from bireme.kube.client import Client
from support.values import complete_values
from unit.kube.scripted import ScriptedTransport

FUNCTIONS = {
    "sum", "by", "rate", "increase", "min", "max", "histogram_quantile", "vector", "or", "le",
}  # fmt: skip
ADDED_BY_PROMETHEUS = {"pod", "job", "instance", "namespace", "le"}
LABELS = {
    "bireme_jobs": {"job_namespace", "kind", "phase"},
    "bireme_scheduler_binds_total": {"result"},
    "bireme_scheduler_groups": set(),
    "bireme_scheduler_round_seconds_bucket": set(),
    "bireme_scheduler_waiting_groups": {"queue", "reason"},
    "bireme_job_start_seconds_bucket": {"kind"},
    "bireme_webhook_certificate_expiry_seconds": set(),
    "controller_runtime_reconcile_total": {"controller", "result"},
    "controller_runtime_reconcile_time_seconds_bucket": {"controller"},
    "leader_election_master_status": {"name"},
    "rest_client_requests_total": {"method", "resource", "code"},
    "workqueue_depth": {"name"},
    "workqueue_retries_total": {"name"},
}


def exported() -> str:
    """What the /metrics of controller and scheduler have names for."""
    metrics = Metrics()
    client = Client(ScriptedTransport())
    metrics.watch_calls(lambda: {("get", "pods", "200"): 1})
    metrics.watch_certificate(lambda: 1.0)
    Controller(client, metrics=metrics)
    SchedulerMetrics(metrics.registry, lambda: {"bound": 1, "failed": 0, "units": 1}, lambda: [("a", "b")])
    return metrics.text().decode()


def queries() -> list[tuple[str, str]]:
    """Every query, with the text that is filled in from its labels."""
    found = [(alert["expr"], str(alert["annotations"])) for alert in (*ALERTS, *SCHEDULER_ALERTS)]
    for panel in json.loads(build_dashboard())["panels"]:
        found += [(target["expr"], target["legendFormat"]) for target in panel["targets"]]
    return found


def names_in(query: str) -> set[str]:
    bare = re.sub(r'"[^"]*"', "", query)
    bare = re.sub(r"\{[^}]*\}|by \([^)]*\)|\[[^\]]*\]", "", bare)
    return set(re.findall(r"[a-z_]{3,}", bare)) - FUNCTIONS


@pytest.mark.parametrize(("query", "text"), queries(), ids=[query for query, _ in queries()])
def test_every_query_is_about_a_metric_that_is_exported(query: str, text: str) -> None:
    (name,) = names_in(query)
    family = re.sub("_(bucket|total)$", "", name)
    assert re.search(f"^# TYPE {family}(_total)? ", _TEXT, re.MULTILINE), name
    labels = set(re.findall(r"(\w+)=\"", query)) | {
        label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")
    }
    labels |= set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", text))
    assert labels <= LABELS[name] | ADDED_BY_PROMETHEUS


def test_jobs_of_many_namespaces_are_counted_together() -> None:
    phases = {(f"n{index:04}", "genericjobs", "Running"): 2 for index in range(MOST_NAMESPACES)}
    phases |= {("few", "genericjobs", "Running"): 1, ("fewer", "genericjobs", "Running"): 1}
    shown = bounded(phases)
    assert len(shown) == MOST_NAMESPACES + 1
    assert shown[OTHER_NAMESPACES, "genericjobs", "Running"] == 2


def test_each_component_has_a_service_that_the_service_monitor_selects() -> None:
    values = complete_values(
        {"scheduler": {"enabled": True}, "metrics": {"serviceMonitor": {"enabled": True}}}
    )
    objects = build_objects(values, "tools", Authority())
    monitor = next(each for each in objects if each["kind"] == "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    port = monitor["spec"]["endpoints"][0]["port"]
    scraped = {
        service["spec"]["selector"]["app.kubernetes.io/component"]
        for service in objects
        if service["kind"] == "Service"
        and wanted <= service["metadata"]["labels"].items()
        and port in [each["name"] for each in service["spec"]["ports"]]
    }
    assert scraped == {"controller", "scheduler", "webhooks"}


_TEXT = exported()
