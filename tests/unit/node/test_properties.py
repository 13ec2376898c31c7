"""What must hold for every pod, whatever happens to it and whenever the agent looks."""

import itertools
import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.node.life import step
from bireme.node.phase import FINISHED
from bireme.node.seen import Problem
from unit.node.model import ModelNode, build_pod, container, sidecar

Object = dict[str, Any]
EXAMPLES = 20_000 if os.environ.get("BIREME_LONG") else 300
HOOK = {"exec": {"command": ["true"]}}
PROBE = {"periodSeconds": 5, "failureThreshold": 2, "successThreshold": 1, "initialDelaySeconds": 1}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
LONG = 10_000


@st.composite
def fields(draw: st.DrawFn) -> Object:
    made: Object = {name: PROBE for name in PROBES if draw(st.integers(0, 3)) == 0}
    hooks = {name: HOOK for name in ("postStart", "preStop") if draw(st.integers(0, 3)) == 0}
    return made | ({"lifecycle": hooks} if hooks else {})


@st.composite
def pods(draw: st.DrawFn) -> Object:
    mains = [container(name, **draw(fields())) for name in ("a", "b")[: draw(st.integers(1, 2))]]
    first = []
    for name in ("i", "s", "t"):
        match draw(st.sampled_from(["init", "sidecar", "none"])):
            case "init":
                first.append(container(name))
            case "sidecar":
                first.append(sidecar(name, **draw(fields())))
    spec: Object = {"restartPolicy": draw(st.sampled_from(["Always", "OnFailure", "Never"]))}
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = draw(st.integers(1, 100))
    return build_pod(*mains, init=tuple(first), **spec)


NAMES = st.sampled_from(["i", "s", "t", "a", "b"])
EVENTS = st.one_of(
    st.tuples(st.just("finish"), NAMES, st.sampled_from([0, 0, 1, 137])),
    st.tuples(st.just("hook"), NAMES, st.sampled_from(["", "exit code 1"])),
    st.tuples(st.just("probe"), NAMES, st.booleans()),
    st.tuples(st.just("time"), st.sampled_from([1, 9, 40, 700])),
    st.tuples(st.sampled_from(["step", "ask", "settle", "crash", "lose", "delete", "problem", "fatal"])),
)


class World:
    """A node, and what happens to it."""

    def __init__(self, pod: Object) -> None:
        obeys = dict.fromkeys(("a", "s"), False)
        self.node = ModelNode(pod, **obeys)

    def happen(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("finish", name, code):
                if name in self.node.alive:
                    self.node.end(name, code)
            case ("hook", name, error):
                if name in self.node.dealings:
                    self.node.end_hook(name, error)
            case ("probe", name, succeeded):
                self._end_probes(name, succeeded=succeeded)
            case ("time", seconds):
                self.node.pass_time(seconds)
            case (other,):
                self._do(other)

    def _end_probes(self, name: str, *, succeeded: bool) -> None:
        for probe in PROBES:
            if name in self.node.dealings and self.node.probe_runs(name, probe):
                self.node.end_probe(name, probe, succeeded=succeeded)

    def _do(self, event: str) -> None:
        node = self.node
        match event:
            case "step":
                node.step()
            case "ask":
                node.ask()
            case "settle":
                node.settle()
            case "crash":
                node.crash()
            case "lose" if node.shim == "alive":
                node.shim = "lost"
            case "delete":
                node.mark_deleted(5)
            case "problem":
                node.problems = () if node.problems else (Problem("CreateContainerConfigError", "no", "a"),)
            case "fatal" if not node.starts:
                node.problems = (Problem("Impossible", "no", fatal=True),)


def _check_statuses(statuses: list[Object]) -> None:
    """What each status owes to the one before."""
    for old, new in itertools.pairwise(statuses):
        if old["phase"] in FINISHED:
            assert (old["phase"], old.get("reason")) == (new["phase"], new.get("reason"))
        counts = _counts(new)
        assert all(counts.get(name, 0) >= count for name, count in _counts(old).items()), "counts only grow"
        _check_conditions(old, new)


def _entries(status: Object) -> list[Object]:
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def _counts(status: Object) -> dict[str, int]:
    return {each["name"]: each["restartCount"] for each in _entries(status)}


def _check_conditions(old: Object, new: Object) -> None:
    before = {each["type"]: each for each in old.get("conditions", ())}
    for each in new.get("conditions", ()):
        known = before.get(each["type"])
        if known is not None and known["status"] == each["status"]:
            assert known["lastTransitionTime"] == each["lastTransitionTime"]


@settings(max_examples=EXAMPLES, deadline=None)
@given(pods(), st.lists(EVENTS, max_size=25))
def test_a_pod_s_life_is_sound_whatever_happens(pod: Object, events: list[tuple[Any, ...]]) -> None:
    world = World(pod)
    for event in events:
        world.happen(event)
    _check_end(world.node)
    _check_starts(world.node)
    _check_statuses(world.node.written)


def _check_starts(node: ModelNode) -> None:
    """Attempts only grow, and where nothing restarts each container had one at most."""
    never = node.pod["spec"]["restartPolicy"] == "Never"
    sidecars = {each["name"] for each in node.specs if each.get("restartPolicy") == "Always"}
    for name in {name for name, _ in node.starts}:
        attempts = [attempt for each, attempt in node.starts if each == name]
        assert attempts == sorted(set(attempts))
        assert not never or name in sidecars or attempts == [0]


def _check_end(node: ModelNode) -> None:
    """A deleted pod always comes to its end, whatever hangs; and then nothing changes any more."""
    node.mark_deleted(5)
    made = node.pass_time(LONG)
    assert (made.done, made.wake_at, node.alive, node.shim == "alive") == (True, None, [], False)
    assert node.phase in FINISHED
    assert step(node.pod, node.seen(), node.now).status == node.pod["status"]
