"""What the controller counts, under the names that stock dashboards of controllers expect."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)
MOST_NAMESPACES: Final = 200
"""Of the namespaces with the most jobs each has series of its own: 200 x 4 kinds x 7 phases at the most."""
OTHER_NAMESPACES: Final = "(other)"
"""No namespace can have this name."""
_START_SECONDS: Final = (1, 2, 5, 10, 30, 60, 300, 1800, 7200)


class Metrics:
    """All metrics of one process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = CounterMetric(
            "controller_runtime_reconcile_total",
            "Passes over jobs, by outcome.",
            ["controller", "result"],
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a pass takes.",
            ["controller"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.start_seconds = Histogram(
            "bireme_job_start_seconds",
            "From a job's creation until its first pod ran.",
            ["kind"],
            buckets=_START_SECONDS,
            registry=self.registry,
        )
        self.leader = Gauge(
            "leader_election_master_status", "1 while this process leads.", ["name"], registry=self.registry
        )

        self.reviews = CounterMetric(
            "bireme_webhook_reviews_total",
            "What webhooks were asked, and how they answered.",
            ["webhook", "result"],
            registry=self.registry,
        )

    def watch_certificate(self, seconds_left: Callable[[], float]) -> None:
        """Show how long the certificate of the webhooks is still good for."""
        gauge = Gauge(
            "bireme_webhook_certificate_expiry_seconds",
            "Seconds until the certificate of the webhooks ends.",
            registry=self.registry,
        )
        gauge.set_function(seconds_left)

    def watch_queue(self, name: str, statistics: Callable[[], Mapping[str, int]]) -> None:
        """Show a queue's figures when somebody asks for them."""
        self.registry.register(_QueueCollector(name, statistics))

    def watch_calls(self, counts: Callable[[], Mapping[tuple[str, str, str], int]]) -> None:
        """Show the client's calls by verb, resource and code."""
        self.registry.register(_CallCollector(counts))

    def watch_jobs(self, phases: Callable[[], Mapping[tuple[str, str, str], int]]) -> None:
        """Show how many jobs of each namespace and kind are in each phase."""
        self.registry.register(_JobCollector(phases))

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)


class _QueueCollector(Collector):
    def __init__(self, name: str, statistics: Callable[[], Mapping[str, int]]) -> None:
        self._name = name
        self._statistics = statistics

    def collect(self) -> Iterable[Metric]:
        figures = self._statistics()
        depth = GaugeMetricFamily("workqueue_depth", "Jobs that wait for a worker.", labels=["name"])
        depth.add_metric([self._name], figures["depth"])
        yield depth
        for metric, key, text in (
            ("workqueue_adds", "adds", "Jobs put into the queue."),
            ("workqueue_retries", "retries", "Jobs put back after a failure."),
        ):
            family = CounterMetricFamily(metric, text, labels=["name"])
            family.add_metric([self._name], figures[key])
            yield family


class _CallCollector(Collector):
    def __init__(self, counts: Callable[[], Mapping[tuple[str, str, str], int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "rest_client_requests", "Calls of the API server.", labels=["method", "resource", "code"]
        )
        for (verb, resource, code), count in sorted(self._counts().items()):
            family.add_metric([verb, resource, code], count)
        yield family


class _JobCollector(Collector):
    def __init__(self, phases: Callable[[], Mapping[tuple[str, str, str], int]]) -> None:
        self._phases = phases

    def collect(self) -> Iterable[Metric]:
        # Not `namespace`: Prometheus has a label of that name for the pod that it scrapes.
        labels = ["job_namespace", "kind", "phase"]
        family = GaugeMetricFamily("bireme_jobs", "Jobs by namespace, kind and phase.", labels=labels)
        for (namespace, kind, phase), count in sorted(bounded(self._phases()).items()):
            family.add_metric([namespace, kind, phase], count)
        yield family


def bounded(phases: Mapping[tuple[str, str, str], int]) -> dict[tuple[str, str, str], int]:
    """Count the jobs of all but the busiest namespaces together."""
    totals: Counter[str] = Counter()
    for (namespace, _, _), count in phases.items():
        totals[namespace] += count
    busiest = sorted(totals, key=lambda namespace: (-totals[namespace], namespace))[:MOST_NAMESPACES]
    named = frozenset(busiest)
    result: Counter[tuple[str, str, str]] = Counter()
    for (namespace, kind, phase), count in phases.items():
        result[namespace if namespace in named else OTHER_NAMESPACES, kind, phase] += count
    return dict(result)
