"""What is told to help a group that waits, on a machine that is the only node."""

from typing import Any

import pytest

from bireme.scheduling.objects import Profiles
from bireme.scheduling.reasons import (
    AskForNone,
    AwaitEnd,
    GrowNode,
    LabelNode,
    Remedy,
    WriteProfile,
)
from bireme.scheduling.remedies import apply
from bireme.scheduling.units import Key
from support.scheduling import NAMESPACE, Cluster, node, queue


@pytest.mark.parametrize(
    ("spec", "job", "expected"),
    [
        ({"nodeSelector": {"matchLabels": {"zone": "mars"}}}, {"cpu": 1}, [LabelNode("n", {"zone": "mars"})]),
        (
            {"nodeSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x", "y"]}]}},
            {"cpu": 1},
            [LabelNode("n", {"zone": "x"})],
        ),
        (
            {"nodeSelector": {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}},
            {"cpu": 1},
            [],
        ),
        ({}, {"cpu": 1, "spec": {"nodeSelector": {"gpu": "a100"}}}, [LabelNode("n", {"gpu": "a100"})]),
        ({}, {"cpu": 6}, [GrowNode("n", {"cpu": 6000}), AwaitEnd(["team/holder-0"])]),
        ({}, {"cpu": 1, "gpu": 2}, [AskForNone("n", ["nvidia.com/gpu"])]),
        ({}, {"cpu": 3}, [AwaitEnd(["team/holder-0"])]),
    ],
    ids=["queue's label", "expression", "no way", "pod's label", "too large", "device", "busy"],
)
def test_remedies_are_for_the_only_node_and_help(
    spec: dict[str, Any], job: dict[str, Any], expected: list[Remedy]
) -> None:
    cluster = Cluster(
        node("n", {"disk": "ssd"}, cpu=4, memory="8Gi"), queues=(queue("q", **spec), queue("free"))
    )
    cluster.submit("holder", "free", cpu=2)
    cluster.settle()
    cluster.submit("job", "q", **job)
    remedies = cluster.explain_here("job").remedies
    assert remedies == expected
    for remedy in remedies:
        assert apply(remedy, cluster.state, cluster.state.units[Key(NAMESPACE, "job")])
    cluster.settle()
    assert ("job" in cluster.running()) == bool(expected)


@pytest.mark.parametrize(
    ("profiles", "said"),
    [(Profiles(), "is missing"), (Profiles({}, frozenset({"small"})), "can't be read")],
    ids=["missing", "unreadable"],
)
def test_shape_profile_that_is_not_there_is_to_be_written(profiles: Profiles, said: str) -> None:
    cluster = Cluster(node("n", cpu=4), queues=(queue("q", resourceShapeProfile="small"),))
    cluster.state.profiles = profiles
    cluster.submit("job", "q", cpu=2)
    explanation = cluster.explain("job")
    assert explanation.reason == "Misconfigured"
    assert said in explanation.message
    assert explanation.remedies == [WriteProfile("q", "small", {"cpu": 2000})]
    apply(explanation.remedies[0], cluster.state, cluster.state.units[Key(NAMESPACE, "job")])
    cluster.settle()
    assert cluster.running() == {"job"}
