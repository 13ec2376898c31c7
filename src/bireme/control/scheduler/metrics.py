"""What the scheduler counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)


class SchedulerMetrics:
    """The scheduler's own metrics; figures are asked for when somebody reads them."""

    def __init__(
        self,
        registry: CollectorRegistry,
        statistics: Callable[[], Mapping[str, int]],
        waiting: Callable[[], Iterable[tuple[str, str]]],
    ) -> None:
        """`waiting` gives queue and reason of each group that waits."""
        self.round_seconds = Histogram(
            "bireme_scheduler_round_seconds",
            "How long a round takes to decide.",
            buckets=_SECONDS,
            registry=registry,
        )
        registry.register(_Collector(statistics, waiting))


class _Collector(Collector):
    def __init__(
        self, statistics: Callable[[], Mapping[str, int]], waiting: Callable[[], Iterable[tuple[str, str]]]
    ) -> None:
        self._statistics, self._waiting = statistics, waiting

    def collect(self) -> Iterable[Metric]:
        figures = self._statistics()
        binds = CounterMetricFamily("bireme_scheduler_binds", "Calls that bind a pod.", labels=["result"])
        binds.add_metric(["bound"], figures["bound"])
        binds.add_metric(["failed"], figures["failed"])
        yield binds
        yield GaugeMetricFamily("bireme_scheduler_groups", "Groups that are known.", figures["units"])
        waits = GaugeMetricFamily(
            "bireme_scheduler_waiting_groups", "Groups that wait, by reason.", labels=["queue", "reason"]
        )
        for (queue, reason), count in sorted(Counter(self._waiting()).items()):
            waits.add_metric([queue, reason], count)
        yield waits
