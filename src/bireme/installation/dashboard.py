"""A Grafana dashboard of the controller and the scheduler."""

import json
from collections.abc import Sequence
from typing import Any, Final

_HEIGHT: Final = 8
_WIDTH: Final = 12
_PANELS: Final[tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]] = (
    ("Jobs by phase", "short", (("sum by (phase) (bireme_jobs)", "{{phase}}"),)),
    ("Jobs by kind", "short", (("sum by (kind) (bireme_jobs)", "{{kind}}"),)),
    ("Jobs by namespace", "short", (("sum by (job_namespace) (bireme_jobs)", "{{job_namespace}}"),)),
    (
        "From creation until every replica runs",
        "s",
        (
            (
                "histogram_quantile(0.5, sum by (le) (rate(bireme_job_start_seconds_bucket[10m])))",
                "half of them",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(bireme_job_start_seconds_bucket[10m])))",
                "99 of 100",
            ),
        ),
    ),
    (
        "Passes",
        "ops",
        (("sum by (result) (rate(controller_runtime_reconcile_total[5m]))", "{{result}}"),),
    ),
    (
        "Length of a pass, 99 of 100",
        "s",
        (
            (
                (
                    "histogram_quantile(0.99, sum by (le, controller)"
                    " (rate(controller_runtime_reconcile_time_seconds_bucket[5m])))"
                ),
                "{{controller}}",
            ),
        ),
    ),
    (
        "Jobs that wait for the controller",
        "short",
        (("workqueue_depth", "{{name}}"), ("rate(workqueue_retries_total[5m])", "tried again, a second")),
    ),
    (
        "Calls of the API server",
        "ops",
        (("sum by (method, code) (rate(rest_client_requests_total[5m]))", "{{method}} {{code}}"),),
    ),
    (
        "Who leads, and days until the certificate ends",
        "short",
        (
            ("leader_election_master_status", "leads: {{pod}}"),
            ("bireme_webhook_certificate_expiry_seconds / 86400", "days: {{pod}}"),
        ),
    ),
    (
        "Groups that wait, by queue",
        "short",
        (("sum by (queue) (bireme_scheduler_waiting_groups)", "{{queue}}"),),
    ),
    (
        "Groups that wait, by reason",
        "short",
        (
            ("sum by (reason) (bireme_scheduler_waiting_groups)", "{{reason}}"),
            ("sum(bireme_scheduler_groups)", "all groups"),
        ),
    ),
    (
        "Pods bound",
        "ops",
        (("sum by (result) (rate(bireme_scheduler_binds_total[5m]))", "{{result}}"),),
    ),
    (
        "Length of a round of the scheduler",
        "s",
        (
            (
                "histogram_quantile(0.5, sum by (le) (rate(bireme_scheduler_round_seconds_bucket[5m])))",
                "half of them",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(bireme_scheduler_round_seconds_bucket[5m])))",
                "99 of 100",
            ),
        ),
    ),
)


def build_dashboard() -> str:
    """The dashboard as Grafana reads it."""
    dashboard: dict[str, Any] = {
        "uid": "bireme",
        "title": "Bireme",
        "tags": ["bireme"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
            ]
        },
        "panels": [_panel(index, *panel) for index, panel in enumerate(_PANELS)],
    }
    return json.dumps(dashboard, indent=1)


def _panel(index: int, title: str, unit: str, queries: Sequence[tuple[str, str]]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    place = {"h": _HEIGHT, "w": _WIDTH, "x": index % 2 * _WIDTH, "y": index // 2 * _HEIGHT}
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": source, "expr": query, "legendFormat": legend}
            for number, (query, legend) in enumerate(queries)
        ],
    }
