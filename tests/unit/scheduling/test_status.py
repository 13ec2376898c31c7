"""What PodGroups and Queues say of themselves."""

from datetime import timedelta

import msgspec
import pytest

from bireme.api.scheduler import PodCounts, PodGroupCondition, PodGroupStatus, QueueStatus
from bireme.scheduling.status import group_status, queue_status
from bireme.scheduling.units import Key
from support.scheduling import NAMESPACE, NOW, Cluster, node, queue

LATER = NOW + timedelta(hours=1)


def _told(cluster: Cluster, name: str) -> PodGroupStatus:
    """The status as it is now, written down."""
    unit = cluster.state.units[Key(NAMESPACE, name)]
    told = group_status(unit, None, None, cluster.now)
    assert unit.group is not None
    cluster.state.put_group(msgspec.structs.replace(unit.group, status=told))
    return told


def _condition(status: PodGroupStatus, name: str) -> PodGroupCondition:
    return next(each for each in status.conditions if each.type == name)


def test_a_condition_counts_its_changes_and_keeps_the_time_of_the_last() -> None:
    cluster = Cluster(node("n", cpu=9), queues=(queue("q"),))
    cluster.submit("g", "q", 1, least=2, cpu=1)
    first = _condition(_told(cluster, "g"), "SufficientGroupMember")
    assert (first.status, first.reason, first.transition_id) == ("False", "TooFewMembers", "1")
    assert first.last_transition_time == NOW
    cluster.now = LATER
    assert _condition(_told(cluster, "g"), "SufficientGroupMember") == first
    cluster.add_pod("g-1", "g", cpu=1)
    second = _condition(_told(cluster, "g"), "SufficientGroupMember")
    assert (second.status, second.reason, second.transition_id) == ("True", "Sufficient", "2")
    assert second.last_transition_time == LATER


def test_a_group_that_was_scheduled_once_has_been_for_ever() -> None:
    cluster = Cluster(node("n", cpu=9), queues=(queue("q"),))
    cluster.submit("g", "q", 2, cpu=1)
    assert _condition(_told(cluster, "g"), "GroupScheduled").status == "False"
    cluster.bind("g-0", "n")
    assert _condition(_told(cluster, "g"), "GroupScheduled").status == "False"
    cluster.bind("g-1", "n")
    scheduled = _condition(_told(cluster, "g"), "GroupScheduled")
    assert (scheduled.status, scheduled.transition_id) == ("True", "2")
    for uid in ("g-0", "g-1"):
        cluster.state.remove_pod(uid)
    after = _told(cluster, "g")
    assert _condition(after, "GroupScheduled") == scheduled
    assert _condition(after, "SufficientGroupMember").status == "False"


def _of_every_phase() -> Cluster:
    cluster = Cluster(node("n", cpu=99), queues=(queue("q"),))
    cluster.submit("g", "q", 7, cpu=1)
    for number, phase in enumerate(["Running", "Running", "Succeeded", "Failed", "Failed", "Unknown"]):
        cluster.bind(f"g-{number}", "n")
        cluster.finish(f"g-{number}", phase)
    return cluster


def test_a_group_counts_its_pods_by_phase() -> None:
    told = _told(_of_every_phase(), "g")
    assert (told.pending, told.running, told.succeeded, told.failed, told.unknown) == (1, 2, 1, 2, 1)
    assert told.allocated == {"cpu": "3"}


def _queue_told(cluster: Cluster) -> QueueStatus:
    units = cluster.state.by_queue.get("q", {}).values()
    told = queue_status(cluster.state.queues["q"], units, cluster.state.held.get("q", {}), cluster.now)
    cluster.state.put_queue(msgspec.structs.replace(cluster.state.queues["q"], status=told))
    return told


def test_a_queue_counts_groups_and_pods() -> None:
    cluster = _of_every_phase()
    cluster.add_pod("alone", queue="q", cpu=1)
    told = _queue_told(cluster)
    assert told.pods == PodCounts(pending=2, running=2, succeeded=1, failed=2, unknown=1)
    assert told.pod_groups is not None
    assert told.pod_groups.total == 1
    assert told.allocated == {"cpu": "3"}


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
def test_a_queue_says_whether_it_is_open(closed: bool) -> None:
    cluster = Cluster(queues=(queue("q", closed=closed),))
    (first,) = _queue_told(cluster).conditions
    assert (first.type, first.status, first.reason) == (
        "Open",
        "False" if closed else "True",
        "Closed" if closed else "Open",
    )
    cluster.now = LATER
    assert _queue_told(cluster).conditions == (first,)
    spec = msgspec.structs.replace(cluster.state.queues["q"].spec, closed=not closed)
    cluster.state.put_queue(msgspec.structs.replace(cluster.state.queues["q"], spec=spec))
    (second,) = _queue_told(cluster).conditions
    assert second.status != first.status
    assert second.last_transition_time == LATER
