"""A node in a few dozen lines: a shim that does as it is told, an agent that forgets when it crashes.

node = ModelNode(build_pod(container("a")))
node.settle()
node.finish("a", code=1)
node.pass_time(60)
"""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from bireme.node import probes
from bireme.node.dealings import finish_hook, note
from bireme.node.life import Step, step
from bireme.node.orders import (
    CheckShim,
    EndPod,
    KillContainer,
    Order,
    SignalContainer,
    StartContainer,
)
from bireme.node.phase import FINISHED
from bireme.node.running import deadline
from bireme.node.seen import ContainerSeen, Dealings, Object, Problem, Seen

START = datetime(2026, 1, 1, tzinfo=UTC)
UID = "u-1"
MOST_PASSES = 60


def container(name: str, **fields: Any) -> Object:
    return {"name": name, "image": "image", "terminationMessagePath": "/dev/termination-log", **fields}


def sidecar(name: str, **fields: Any) -> Object:
    return container(name, restartPolicy="Always", **fields)


def build_pod(*containers: Object, init: tuple[Object, ...] = (), **spec: Any) -> Object:
    """A pod as it comes from the API server, bound to this node."""
    first = {"initContainers": list(init)} if init else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": UID, "generation": 1},
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "nodeName": "here",
            "containers": list(containers or [container("a")]),
            **first,
            **spec,
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


class DidNotSettleError(AssertionError):
    """Step after step asked for something."""


class ModelNode:
    """One pod on a node.

    `obeys` tells what a container does at TERM: end with 143, or nothing. Hooks and probes that are begun end
    when told to (`finish_hook`, `finish_probe`). A shim that `is_deaf` does nothing any more.
    """

    def __init__(self, pod: Object, **obeys: bool) -> None:
        self.pod = copy.deepcopy(pod)
        self.now = START
        self.shim: Literal["absent", "alive", "lost"] = "absent"
        self.records: dict[str, ContainerSeen] = {}
        self.dealings: dict[str, Dealings] = {}
        self.problems: tuple[Problem, ...] = ()
        self.stopping: datetime | None = None
        self.rebooted = False
        self.is_deaf = False
        self.obeys = obeys
        self.starts: list[tuple[str, int]] = []
        self.orders: list[Order] = []
        self.written: list[Object] = []

    # ---- the agent

    def seen(self) -> Seen:
        return Seen(
            self.records,
            self.dealings,
            self.shim,
            self.problems,
            self.stopping,
            ("10.0.0.1",),
            ("10.0.0.2",),
            self.rebooted,
        )

    def ask(self) -> Step:
        """Ask once, and write the status, but do nothing yet."""
        made = step(self.pod, self.seen(), self.now)
        assert made == step(self.pod, self.seen(), self.now), "the same input gives the same step"
        ends = made.status["phase"] in FINISHED and self.phase not in FINISHED
        assert not ends or not self.alive, "a pod is finished once nothing of it runs"
        if made.status != self.pod["status"]:
            self.written.append(made.status)
        self.pod = self.pod | {"status": made.status}
        self.stopping = made.stopping
        return made

    def step(self) -> Step:
        """Ask once, and make it so."""
        made = self.ask()
        for order in made.orders:
            self._do(order)
        self.orders += made.orders
        return made

    def settle(self) -> Step:
        """Step until there is nothing left to do at this moment."""
        for _ in range(MOST_PASSES):
            before = self.pod["status"]
            made = self.step()
            if not made.orders and made.status == before:
                return made
        raise DidNotSettleError(self.orders[-5:])

    def pass_time(self, seconds: float) -> Step:
        """Let time pass, and wake up whenever the steps ask for it."""
        until = self.now + timedelta(seconds=seconds)
        made = self.settle()
        while made.wake_at is not None and made.wake_at <= until:
            assert made.wake_at > self.now, "a step that wants to be woken at once would spin"
            self.now = made.wake_at
            made = self.settle()
        self.now = until
        return self.settle()

    def crash(self) -> None:
        """The agent forgets what it did; hooks and probes that ran end with it."""
        self.dealings, self.stopping = {}, None

    # ---- what happens to the pod

    def finish(self, name: str, code: int = 0, **fields: Any) -> Step:
        self.end(name, code, **fields)
        return self.settle()

    def end(self, name: str, code: int, **fields: Any) -> None:
        record = self.records[name]
        assert record.finished is None, f"{name} has ended before"
        self.records[name] = msgspec.structs.replace(record, finished=self.now, code=code, **fields)

    def lose_shim(self, *, rebooted: bool = False) -> Step:
        self.shim, self.rebooted = "lost", rebooted
        return self.settle()

    def delete(self, grace: int = 30) -> Step:
        self.mark_deleted(grace)
        return self.settle()

    def mark_deleted(self, grace: int) -> None:
        moment = (self.now + timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
        marks = {"deletionTimestamp": moment, "deletionGracePeriodSeconds": grace}
        self.pod = self.pod | {"metadata": self.pod["metadata"] | marks}

    def finish_hook(self, name: str, error: str = "") -> Step:
        self.end_hook(name, error)
        return self.settle()

    def end_hook(self, name: str, error: str = "") -> None:
        known = self.dealings[name]
        for hook in ("postStart", "preStop"):
            begun = known.post_start if hook == "postStart" else known.pre_stop
            if begun is not None and begun.runs:
                self.dealings[name] = finish_hook(self.dealings[name], hook, self.now, error)

    def finish_probe(self, name: str, probe: Any, *, succeeded: bool) -> Step:
        assert self.probe_runs(name, probe), f"{probe} of {name} was not begun"
        self.end_probe(name, probe, succeeded=succeeded)
        return self.settle()

    def probe_runs(self, name: str, probe: Any) -> bool:
        return probes.history(self.dealings[name], probe).runs

    def end_probe(self, name: str, probe: Any, *, succeeded: bool) -> None:
        spec = next(each for each in self.specs if each["name"] == name)
        self.dealings[name] = probes.finish(self.dealings[name], probe, spec[probe], succeeded)

    # ---- looking

    @property
    def alive(self) -> list[str]:
        return [name for name, record in self.records.items() if self._is_alive(record)]

    @property
    def phase(self) -> str:
        phase: str = self.pod["status"]["phase"]
        return phase

    def entry(self, name: str) -> Object:
        status = self.pod["status"]
        every = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
        return next(each for each in every if each["name"] == name)

    def condition(self, kind: str) -> Object:
        found: Object = next(each for each in self.pod["status"]["conditions"] if each["type"] == kind)
        return found

    def given(self, kind: type) -> list[Order]:
        return [order for order in self.orders if isinstance(order, kind)]

    def _is_alive(self, record: ContainerSeen) -> bool:
        return record.finished is None and self.shim == "alive"

    @property
    def specs(self) -> list[Object]:
        return [*self.pod["spec"].get("initContainers", ()), *self.pod["spec"]["containers"]]

    # ---- the shim

    def _do(self, order: Order) -> None:
        if isinstance(order, EndPod):
            assert not self.alive, "nothing may run when a pod ends"
            self.shim = "absent"
            return
        if isinstance(order, CheckShim):
            self.shim = "lost" if self.is_deaf else self.shim
            return
        name = order.container
        self.dealings[name] = note(self.dealings.get(name), order, self.now)
        match order:
            case StartContainer():
                self._start(name, order.attempt)
            case SignalContainer() | KillContainer() if self.is_deaf:
                return
            case SignalContainer() if self.obeys.get(name, True):
                self.end(name, 143)
            case KillContainer():
                self.end(name, 137)

    def _start(self, name: str, attempt: int) -> None:
        assert "deletionTimestamp" not in self.pod["metadata"], f"{name} starts in a deleted pod"
        limit = deadline(self.pod)
        assert limit is None or self.now < limit, f"{name} starts after the deadline"
        assert self.phase not in FINISHED, f"{name} starts in a finished pod"
        if self.shim != "alive":
            self.shim, self.records = "alive", {}
        before = self.records.get(name)
        if before is not None:
            assert before.finished is not None, f"{name} still runs"
            assert before.attempt < attempt, f"{name} was started as attempt {before.attempt} before"
        self.records[name] = ContainerSeen(attempt, self.now)
        self.starts.append((name, attempt))
