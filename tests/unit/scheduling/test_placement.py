"""Which nodes pods go to."""

from typing import Any

import msgspec
import pytest

from bireme.scheduling import Policy
from bireme.scheduling.objects import Claim, StorageClass, Volume
from bireme.scheduling.shape import Shape
from support.scheduling import Cluster, node, queue


def _cluster(*nodes: Any, **options: Any) -> Cluster:
    return Cluster(*nodes, queues=(queue("q"),), **options)


def _place(cluster: Cluster, spec: dict[str, Any], pods: int = 1, **options: Any) -> list[str]:
    cluster.submit("job", "q", pods, spec=spec, cpu=1, **options)
    cluster.settle()
    return cluster.nodes_of("job")


def test_a_pod_goes_where_it_leaves_the_least_unused() -> None:
    cluster = _cluster(node("empty", cpu=8), node("used", cpu=8), node("small", cpu=2))
    cluster.add_pod("there", node="used", scheduler="other", cpu=6)
    assert _place(cluster, {}) == ["used"]


def test_a_gang_uses_few_nodes() -> None:
    cluster = _cluster(*(node(f"n{number}", cpu=2) for number in range(4)), node("wide", cpu=4))
    cluster.submit("gang", "q", 4, cpu=1)
    cluster.settle()
    assert cluster.nodes_of("gang") == ["wide"] * 4


def test_a_node_with_devices_is_left_to_those_who_need_them() -> None:
    cluster = _cluster(node("gpu", cpu=4, gpu=4), node("plain", cpu=64))
    assert _place(cluster, {}) == ["plain"]
    cluster.submit("wants", "q", 2, gpu=2)
    cluster.settle()
    assert cluster.nodes_of("wants") == ["gpu", "gpu"]


def test_a_gang_is_packed_into_one_domain_if_it_fits() -> None:
    nodes = [node(f"{rack}{number}", {"rack": rack}, cpu=1) for rack in "ab" for number in range(3)]
    cluster = _cluster(*nodes, node("big", cpu=2), policy=Policy(topology=("rack",)))
    cluster.add_pod("there", node="a0", scheduler="other", cpu=1)
    cluster.submit("two", "q", 2, cpu=1)
    cluster.submit("three", "q", 3, cpu=1)
    cluster.settle()
    assert cluster.nodes_of("two") == ["a1", "a2"]
    assert cluster.nodes_of("three") == ["b0", "b1", "b2"]


_TAINT = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("node_options", "spec", "fits"),
    [
        ({"spec": _TAINT}, {}, False),
        ({"spec": _TAINT}, {"tolerations": [{"key": "k", "operator": "Exists"}]}, True),
        ({"spec": _TAINT}, {"tolerations": [{"key": "k", "value": "v"}]}, True),
        ({"spec": _TAINT}, {"tolerations": [{"key": "k", "value": "w"}]}, False),
        ({"spec": _TAINT}, {"tolerations": [{"operator": "Exists"}]}, True),
        ({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}, {}, True),
        ({"spec": {"unschedulable": True}}, {}, False),
        ({"labels": {"a": "b"}}, {"nodeSelector": {"a": "b"}}, True),
        ({"labels": {"a": "c"}}, {"nodeSelector": {"a": "b"}}, False),
    ],
    ids=[
        "taint",
        "tolerates key",
        "tolerates value",
        "other value",
        "tolerates all",
        "mere preference",
        "cordoned",
        "selector",
        "other label",
    ],
)
def test_labels_and_taints_decide_who_gets_in(
    node_options: dict[str, Any], spec: dict[str, Any], fits: bool
) -> None:
    cluster = _cluster(node("n", node_options.get("labels"), node_options.get("spec"), cpu=1))
    assert _place(cluster, spec) == (["n"] if fits else [""])
    assert cluster.reason("job") == ("" if fits else "DoesNotFitAnyNode")


def _node_affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("expression", "nodes"),
    [
        ({"key": "size", "operator": "Gt", "values": ["5"]}, ["b"]),
        ({"key": "size", "operator": "Lt", "values": ["5"]}, ["a"]),
        ({"key": "size", "operator": "NotIn", "values": ["3"]}, ["b"]),
        ({"key": "other", "operator": "Exists"}, [""]),
    ],
    ids=["greater", "less", "not in", "exists"],
)
def test_node_affinity_is_obeyed(expression: dict[str, Any], nodes: list[str]) -> None:
    cluster = _cluster(node("a", {"size": "3"}, cpu=1), node("b", {"size": "9"}, cpu=1))
    assert _place(cluster, _node_affinity(expression)) == nodes


def _pod_rule(sort: str, key: str = "host", **labels: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {sort: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _hosts(count: int, cpu: int = 4) -> list[Any]:
    return [node(f"n{each}", {"host": f"n{each}", "zone": f"z{each % 2}"}, cpu=cpu) for each in range(count)]


def test_pods_that_want_to_be_apart_are() -> None:
    cluster = _cluster(*_hosts(3))
    rule = _pod_rule("podAntiAffinity", app="x")
    assert _place(cluster, rule, 3, labels={"app": "x"}) == ["n0", "n1", "n2"]


def test_more_pods_that_want_to_be_apart_than_nodes_wait() -> None:
    cluster = _cluster(*_hosts(3))
    assert _place(cluster, _pod_rule("podAntiAffinity", app="x"), 4, labels={"app": "x"}) == [""] * 4
    assert cluster.reason("job") == "DoesNotFitAnyNode"


def test_a_pod_on_a_node_keeps_those_away_that_it_wants_apart() -> None:
    cluster = _cluster(*_hosts(2))
    rule = _pod_rule("podAntiAffinity", app="x")
    cluster.add_pod("there", node="n0", scheduler="other", spec=rule, cpu=3)
    assert _place(cluster, {}, labels={"app": "x"}) == ["n1"]


def test_pods_that_want_to_be_together_are_in_one_domain() -> None:
    cluster = _cluster(*_hosts(4, cpu=2))
    rule = _pod_rule("podAffinity", "zone", app="x")
    assert _place(cluster, rule, 4, labels={"app": "x"}) in (
        ["n0", "n0", "n2", "n2"],
        ["n1", "n1", "n3", "n3"],
    )


def test_what_started_in_the_same_round_is_a_neighbour_too() -> None:
    cluster = _cluster(*_hosts(2))
    cluster.submit("first", "q", labels={"app": "x"}, cpu=1)
    rule = _pod_rule("podAntiAffinity", app="x")
    cluster.submit("second", "q", spec=rule, cpu=1)
    cluster.settle()
    assert cluster.nodes_of("first") != cluster.nodes_of("second")


def test_pods_are_spread_as_evenly_as_asked() -> None:
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    constraint["labelSelector"] = {"matchLabels": {"app": "x"}}
    cluster = _cluster(*_hosts(4))
    spec = {"topologySpreadConstraints": [constraint]}
    zones = [name[-1] in "02" for name in _place(cluster, spec, 4, labels={"app": "x"})]
    assert sum(zones) == 2


def test_a_port_of_the_node_is_given_once() -> None:
    container = {
        "name": "c",
        "ports": [{"containerPort": 1, "hostPort": 80}],
        "resources": {"requests": {"cpu": "1"}},
    }
    cluster = _cluster(*_hosts(2))
    assert _place(cluster, {"containers": [container]}, 2) == ["n0", "n1"]
    cluster.submit("third", "q", spec={"containers": [container]})
    assert cluster.round().starts == []


def test_a_node_takes_no_more_pods_than_it_says() -> None:
    cluster = _cluster(node("n", cpu=100, pods=2))
    assert _place(cluster, {}, 3) == [""] * 3


def _with_claim(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def _put_claim(cluster: Cluster, **spec: Any) -> None:
    claim = msgspec.convert({"metadata": {"name": "data", "namespace": "team"}, "spec": spec}, Claim)
    cluster.state.storage.claims["team", "data"] = claim


def _volume(name: str, zone: str, **spec: Any) -> Volume:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
    body = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, **spec}
    return msgspec.convert({"metadata": {"name": name}, "spec": body}, Volume)


def test_a_pod_goes_where_its_volume_is() -> None:
    cluster = _cluster(*_hosts(2))
    _put_claim(cluster, volumeName="pv")
    cluster.state.storage.volumes["pv"] = _volume("pv", "z1")
    assert _place(cluster, _with_claim("data")) == ["n1"]


def test_a_claim_that_waits_for_its_consumer_goes_where_the_class_may_make_volumes() -> None:
    cluster = _cluster(*_hosts(2))
    _put_claim(cluster, storageClassName="late")
    topology = [{"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}]}]
    body = {
        "metadata": {"name": "late"},
        "provisioner": "x",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": topology,
    }
    cluster.state.storage.classes["late"] = msgspec.convert(body, StorageClass)
    assert _place(cluster, _with_claim("data")) == ["n1"]
    assert cluster.state.storage.needs_node("team", "data")


def test_a_local_volume_that_nobody_has_yet_decides_the_node() -> None:
    cluster = _cluster(*_hosts(2))
    _put_claim(
        cluster, storageClassName="local", accessModes=["RWO"], resources={"requests": {"storage": "5"}}
    )
    body = {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    cluster.state.storage.classes["local"] = msgspec.convert(body, StorageClass)
    options = {"storageClassName": "local", "accessModes": ["RWO"]}
    cluster.state.storage.volumes = {
        "small": _volume("small", "z0", capacity={"storage": "4"}, **options),
        "large": _volume("large", "z1", capacity={"storage": "6"}, **options),
    }
    assert _place(cluster, _with_claim("data")) == ["n1"]


@pytest.mark.parametrize("claims", [{}, {"storageClassName": "unknown"}], ids=["no claim", "not bound"])
def test_a_claim_that_can_not_be_used_is_told(claims: dict[str, Any]) -> None:
    cluster = _cluster(*_hosts(2))
    if claims:
        _put_claim(cluster, **claims)
    assert _place(cluster, _with_claim("data")) == [""]
    assert cluster.reason("job") == "Misconfigured"
    assert "PersistentVolumeClaim data" in cluster.explain("job").message


def test_a_small_pod_that_can_use_one_node_only_has_it_before_the_large_ones() -> None:
    cluster = Cluster(*(node(name, {"name": name}, cpu=4) for name in ("a", "b", "c")), queues=(queue("q"),))
    cluster.submit("gang", "q", 2, least=3, cpu=4)
    cluster.add_pod("master", "gang", spec={"nodeSelector": {"name": "a"}}, cpu=1)
    cluster.settle()
    assert cluster.nodes_of("gang") == ["a", "b", "c"]


HOSTS = "kubernetes.io/hostname"


def _rule(kind: str, **labels: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTS}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_who_is_kept_away_by_a_neighbour_holds_up_nobody_of_another_kind() -> None:
    cluster = Cluster(node("n", {HOSTS: "n"}, cpu=8), queues=(queue("q"),))
    cluster.add_pod("guard", scheduler="", node="n", cpu=1, spec=_rule("podAntiAffinity", team="a"))
    cluster.submit("kept-away", "q", labels={"team": "a"}, cpu=1)
    cluster.submit("welcome", "q", labels={"team": "b"}, cpu=1)
    cluster.settle()
    assert "welcome" in cluster.running()
    waiting = cluster.explain("kept-away")
    assert (waiting.reason, "there is room" in waiting.message) == ("WaitingForResources", True)


def test_a_pod_that_wants_to_be_near_one_on_a_full_node_is_told_so_and_of_no_remedy_that_does_not_help() -> (
    None
):
    cluster = Cluster(node("n", {HOSTS: "n"}, cpu=4), node("m", {HOSTS: "m"}, cpu=4), queues=(queue("q"),))
    cluster.add_pod("data", scheduler="", node="n", cpu=4, labels={"app": "data"})
    cluster.submit("near", "q", cpu=1, spec=_rule("podAffinity", app="data"))
    waiting = cluster.explain("near")
    assert (waiting.reason, "there is room" in waiting.message) == ("WaitingForResources", True)
    assert waiting.remedies == []


def test_the_place_that_is_claimed_is_kept_clear_of_neighbours_that_would_spoil_it() -> None:
    queues = (queue("high", priority=2), queue("low", priority=1))
    cluster = Cluster(node("n", {HOSTS: "n"}, cpu=4), queues=queues)
    cluster.submit("victim", "low", cpu=3, labels={"app": "b"})
    cluster.settle()
    cluster.submit("winner", "high", cpu=2, labels={"app": "a"}, spec=_rule("podAntiAffinity", app="b"))
    cluster.submit("thief", "low", cpu=1, labels={"app": "b"})
    decisions = cluster.round()
    assert [evict.pods for evict in decisions.evictions] == [("victim-0",)]
    assert decisions.starts == []


@pytest.mark.parametrize("asks", [{"cpu": "10E"}, {"memory": "10E"}], ids=str)
def test_a_request_that_no_machine_could_meet_is_counted_and_told(asks: dict[str, Any]) -> None:
    cluster = Cluster(node("n", cpu=4, memory="8Gi"), queues=(queue("q"),))
    for number in range(3):
        cluster.add_pod(f"other-{number}", scheduler="", node="n", **asks)
    cluster.submit("modest", "q", cpu=1, memory="1Gi")
    cluster.submit("vast", "q", 2, **asks)
    assert cluster.reason("modest") == "WaitingForResources"
    assert cluster.explain("vast").reason == "DoesNotFitAnyNode"
    for number in range(3):
        cluster.state.remove_pod(f"other-{number}")
    cluster.settle()
    assert "modest" in cluster.running()


def test_shapes_that_no_pod_has_any_more_are_forgotten_and_their_numbers_not_used_again() -> None:
    cluster = Cluster(node("n", cpu=4), queues=(queue("q"),))

    def shape_of(name: str, cpu: str) -> Shape:
        cluster.add_pod(name, queue="q", cpu=cpu)
        return cluster.state.pods[name].shape

    kept = shape_of("stays", "1m")
    others = [shape_of("changes", f"{number}m").number for number in range(2, 1500)]
    assert shape_of("same", "1m") is kept
    again = shape_of("changes", "2m").number
    assert len({kept.number, *others, again}) == len(others) + 2
