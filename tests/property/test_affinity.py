"""Indexed placement rules answer as the plain ones do, which ask every term about every pod and node."""

import os
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.scheduling import State
from bireme.scheduling.neighbours import Constraints, Neighbours
from bireme.scheduling.objects import Namespace, Node, Pod
from bireme.scheduling.placement import Eligible, place
from bireme.scheduling.room import Mask
from bireme.scheduling.units import Tracked
from support.plain_affinity import PlainNeighbours, allows, place_plainly, residents_of

EXAMPLES = 20_000 if os.environ.get("BIREME_LONG") else 200

_NEW = {"creationTimestamp": "2026-01-01T00:00:00Z"}
_keys = st.sampled_from(["app", "tier", "index"])
_values = st.sampled_from(["x", "y", "z"])
_labels = st.dictionaries(_keys, _values, max_size=3)
_namespaces = st.sampled_from(["team", "other"])
_expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        _keys,
        st.sampled_from(["In", "NotIn"]),
        st.lists(_values, min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        _keys,
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
    # What cannot be read selects nothing.
    st.just({"key": "app", "operator": "Near"}),
)
_selectors = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "matchLabels": st.dictionaries(_keys, _values, max_size=2),
            "matchExpressions": st.lists(_expressions, max_size=2),
        },
    ),
)
_topology = st.sampled_from(["host", "zone", "nowhere"])
_label_keys = {
    "matchLabelKeys": st.lists(_keys, max_size=1),
    "mismatchLabelKeys": st.lists(_keys, max_size=1),
}
_terms = st.fixed_dictionaries(
    {"topologyKey": _topology, "labelSelector": _selectors},
    optional={
        "namespaces": st.lists(_namespaces, max_size=2),
        "namespaceSelector": _selectors,
        **_label_keys,
    },
)
_constraints = st.fixed_dictionaries(
    {"topologyKey": _topology, "labelSelector": _selectors, "maxSkew": st.integers(1, 2)},
    optional={
        "minDomains": st.integers(1, 3),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        **_label_keys,
    },
)
_ports = st.lists(
    st.fixed_dictionaries(
        {"hostPort": st.integers(1, 2)},
        optional={"hostIP": st.sampled_from(["10.0.0.1", "10.0.0.2"]), "protocol": st.just("UDP")},
    ),
    max_size=2,
)
_rules = st.fixed_dictionaries(
    {},
    optional={
        "podAntiAffinity": st.lists(_terms, min_size=1, max_size=3),
        "podAffinity": st.lists(_terms, min_size=1, max_size=2),
        "spread": st.lists(_constraints, min_size=1, max_size=2),
        "ports": _ports,
    },
)
_pods = st.fixed_dictionaries({"namespace": _namespaces, "labels": _labels, "rules": _rules})
_bound = st.lists(st.tuples(_pods, st.integers(0, 5)), max_size=6)
_node_labels = st.lists(
    st.fixed_dictionaries({}, optional={"zone": _values, "host": st.sampled_from(["a", "b", "c", "d"])}),
    min_size=1,
    max_size=5,
)


def _put_node(state: State, number: int, labels: dict[str, str], spec: dict[str, Any] | None = None) -> None:
    body = {
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": spec or {},
        "status": {"allocatable": {"cpu": "4", "pods": "110"}},
    }
    state.put_node(msgspec.convert(body, Node))


def _put_pod(state: State, uid: str, pod: dict[str, Any], node: str = "") -> Tracked:
    rules = pod["rules"]
    affinity = {
        name: {"requiredDuringSchedulingIgnoredDuringExecution": rules[name]}
        for name in ("podAffinity", "podAntiAffinity")
        if name in rules
    }
    container = {"name": "main", "ports": rules.get("ports", []), "resources": {"requests": {"cpu": "1"}}}
    body = {
        "metadata": {**_NEW, "name": uid, "uid": uid, "namespace": pod["namespace"], "labels": pod["labels"]},
        "spec": {
            "nodeName": node,
            "containers": [container],
            "affinity": affinity,
            "topologySpreadConstraints": rules.get("spread", []),
        },
    }
    state.put_pod(msgspec.convert(body, Pod))
    return state.pods[uid]


def _cluster(nodes: list[dict[str, str]], bound: list[tuple[dict[str, Any], int]]) -> State:
    state = State()
    for name, labels in (("team", {"app": "x"}), ("other", {"tier": "y"})):
        state.put_namespace(msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace))
    for number, labels in enumerate(nodes):
        _put_node(state, number, labels)
    for number, (pod, where) in enumerate(bound):
        # Some are on nodes that are not known.
        _put_pod(state, f"bound-{number}", pod, f"n{where}")
    return state


def _everywhere(state: State) -> Mask:
    mask = np.zeros(state.nodes.room.size, dtype=bool)
    mask[list(state.nodes.columns.values())] = True
    return mask


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    _node_labels,
    _bound,
    st.lists(st.tuples(_pods, st.integers(0, 4), st.integers(0, 2)), max_size=5),
    st.lists(_pods, min_size=1, max_size=2),
    st.sets(st.integers(0, 5)),
    st.integers(0, 31),
)
def test_indexed_rules_leave_the_nodes_that_plain_rules_leave(
    nodes: list[dict[str, str]],
    bound: list[tuple[dict[str, Any], int]],
    added: list[tuple[dict[str, Any], int, int]],
    asking: list[dict[str, Any]],
    gone: set[int],
    eligible_bits: int,
) -> None:
    state = _cluster(nodes, bound)
    root = state.ground().neighbours
    copied = root.without(frozenset(f"bound-{number}" for number in gone))
    deepest = copied.copy()
    layers: list[Neighbours] = [root, copied, deepest]
    plain = [each for each in residents_of(state) if int(each.uid.split("-")[1]) not in gone]
    plainly = PlainNeighbours(state.nodes, plain, state.namespaces)
    eligible = _everywhere(state) & np.array(
        [bool(eligible_bits >> column & 1) for column in range(state.nodes.room.size)]
    )
    asked = [_put_pod(state, f"asking-{number}", pod) for number, pod in enumerate(asking)]
    for number, (pod, where, layer) in enumerate(each for each in added if each[2] != 2):
        member = _put_pod(state, f"outer-{number}", pod).member
        layers[layer].add([member], {member.uid: where % len(nodes)})
        plainly.add(member, where % len(nodes))
    constraints = [deepest.constraints(each.shape.relations, eligible) for each in asked]
    _compare(asked, constraints, plainly, eligible)
    for number, (pod, where, _) in enumerate(each for each in added if each[2] == 2):
        member = _put_pod(state, f"inner-{number}", pod).member
        deepest.add([member], {member.uid: where % len(nodes)})
        plainly.add(member, where % len(nodes))
        _compare(asked, constraints, plainly, eligible)


def _compare(
    asked: list[Tracked], constraints: list[Constraints], plainly: PlainNeighbours, eligible: Mask
) -> None:
    for each, indexed in zip(asked, constraints, strict=True):
        member = each.member
        allowed = indexed.allowed(member.namespace, member.labels)
        wanted = plainly.allowing(member.namespace, member.labels, member.shape.relations, eligible)
        assert allowed.tolist() == wanted.tolist()


@settings(max_examples=EXAMPLES, deadline=None)
@given(_node_labels, _bound, _pods, st.integers(1, 6))
def test_a_gang_goes_where_plain_rules_send_it(
    nodes: list[dict[str, str]], bound: list[tuple[dict[str, Any], int]], pod: dict[str, Any], count: int
) -> None:
    state = _cluster(nodes, bound)
    members = [_put_pod(state, f"new-{number}", pod).member for number in range(count)]
    eligible = _everywhere(state)
    repels = any(each.relations and each.relations.anti_affinity for each in residents_of(state))
    if members[0].shape.relations is None and not repels:
        return
    found = place(state.ground(), members, Eligible("all", lambda _: eligible))
    # Affinity prefers one domain that holds all: the plain version knows no such preference.
    if members[0].shape.relations is None or not members[0].shape.relations.affinity:
        plainly = PlainNeighbours(state.nodes, residents_of(state), state.namespaces)
        wanted = place_plainly(state, state.nodes.room.copy(), plainly, members, eligible)
        assert (found.columns if found is not None else None) == wanted


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    _bound, st.lists(st.tuples(st.integers(0, 5), _pods, st.integers(0, 5), st.booleans()), max_size=6), _pods
)
def test_an_index_that_followed_changes_equals_a_new_one(
    bound: list[tuple[dict[str, Any], int]],
    changes: list[tuple[int, dict[str, Any], int, bool]],
    pod: dict[str, Any],
) -> None:
    nodes = [{"zone": "x", "host": "a"}, {"zone": "x", "host": "b"}, {"zone": "y"}]
    state = _cluster(nodes, bound)
    asking = _put_pod(state, "asking", pod)
    for uid, changed, where, stays in changes:
        state.ground().neighbours.constraints(asking.shape.relations, _everywhere(state))
        if stays:
            _put_pod(state, f"bound-{uid}", changed, f"n{where}")
        else:
            state.remove_pod(f"bound-{uid}")
    plainly = PlainNeighbours(state.nodes, residents_of(state), state.namespaces)
    constraints = state.ground().neighbours.constraints(asking.shape.relations, _everywhere(state))
    _compare([asking], [constraints], plainly, _everywhere(state))


# Nodes.

_requirements = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values},
    st.sampled_from(["zone", "host", "size", "nowhere"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]),
    st.lists(st.sampled_from(["x", "y", "a", "3", "5"]), max_size=2),
)
_fields = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values},
    st.sampled_from(["metadata.name", "metadata.uid"]),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(["n0", "n1", "n9"]), min_size=1, max_size=1),
)
_node_terms = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.lists(_requirements, max_size=2),
            "matchFields": st.lists(_fields, max_size=1),
        },
    ),
    max_size=3,
)
_effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
_taints = st.fixed_dictionaries({"key": _keys, "effect": _effects}, optional={"value": _values})
_tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": _keys,
        "operator": st.sampled_from(["Exists", "Equal"]),
        "value": _values,
        "effect": _effects,
    },
)
_any_node = st.tuples(
    st.dictionaries(st.sampled_from(["zone", "host", "size"]), st.sampled_from(["x", "y", "a", "4"])),
    st.fixed_dictionaries(
        {}, optional={"taints": st.lists(_taints, max_size=2), "unschedulable": st.booleans()}
    ),
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(_any_node, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.none() | _any_node), max_size=3),
    _node_terms,
    st.dictionaries(st.sampled_from(["zone", "size"]), st.sampled_from(["x", "4"]), max_size=1),
    st.lists(_tolerations, max_size=2),
)
def test_a_shape_may_use_the_nodes_that_plain_rules_allow(
    nodes: list[tuple[dict[str, str], dict[str, Any]]],
    changes: list[tuple[int, tuple[dict[str, str], dict[str, Any]] | None]],
    terms: list[dict[str, Any]],
    selector: dict[str, str],
    tolerations: list[dict[str, Any]],
) -> None:
    state = State()
    for number, (labels, spec) in enumerate(nodes):
        _put_node(state, number, labels, spec)
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    body = {
        "metadata": {**_NEW, "name": "p", "uid": "p", "namespace": "team"},
        "spec": {
            "containers": [{"name": "main"}],
            "nodeSelector": selector,
            "affinity": {"nodeAffinity": required},
            "tolerations": tolerations,
        },
    }
    state.put_pod(msgspec.convert(body, Pod))
    shape = state.pods["p"].shape
    for number, change in [(0, nodes[0]), *changes]:
        if change is None:
            state.remove_node(f"n{number}")
        else:
            _put_node(state, number, *change)
        wanted = [each is not None and allows(shape, each) for each in state.nodes.by_column]
        assert state.nodes.allowing(shape).tolist()[: len(wanted)] == wanted
        assert not state.nodes.allowing(shape)[len(wanted) :].any()
