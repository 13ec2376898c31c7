"""Steps by the dice: what may be written into objects of several kinds."""

import random
from typing import Any

from bireme.apiserver.kinds import CONFIG_MAP, POD, SERVICE
from contract.managed_play import APPLY, MERGE, STRATEGIC, Object, Step
from contract.managed_steps import POD_BODY, READY, REASONED, SERVICE_BODY, data
from contract.managed_widget import WIDGET


class Dice:
    """Makes steps, always the same ones for a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def some(self, choices: dict[str, list[Any]], most: int = 4) -> Object:
        """Some of the fields, each with one of its values."""
        names = self._random.sample(sorted(choices), self._random.randint(0, min(most, len(choices))))
        return {name: self._random.choice(choices[name]) for name in names}

    def step(self, content: dict[str, list[Any]], status: dict[str, list[Any]], how: tuple[str, ...]) -> Step:
        chosen, manager = self._random.choice(how), self._random.choice(MANAGERS)
        force, of_status = self._random.random() < 0.4, status and self._random.random() < 0.25
        body: Object = {"status": self.some(status)} if of_status else dict(self.some(TOP))
        if not of_status:
            if content is DATA:
                body["data"] = self.some(content)
            else:
                body["spec"] = self.some(content)
        return Step(chosen, body, manager, force, "status" if of_status else "")


MANAGERS = ("one", "two", "three", "four")
LABELS = [{"a": "1"}, {"a": "2"}, {"a": "1", "b": "2"}, {}]
TOP: dict[str, list[Any]] = {
    "metadata": [
        *({"labels": each} for each in LABELS),
        {"annotations": {"n": "1"}, "labels": {"c": "1"}},
        {"finalizers": ["e.com/b", "e.com/a"]},
        {"finalizers": ["e.com/c"]},
    ]
}
DATA: dict[str, list[Any]] = {name: ["1", "2"] for name in "abcd"}
WIDGET_SPEC: dict[str, list[Any]] = {
    "size": [1, 2],
    "share": [1, 1.5],
    "on": [True, False],
    "hint": ["x", None],
    "limit": [1, "1%"],
    "names": [{"a": "1"}, {"b": "1"}, {"a": "2", "b": "1"}, {}],
    "color": [{"r": "1"}, {"r": "1", "g": "2"}, {}],
    "tags": [["a"], ["b", "a"], ["c", "d", "a"], ["d"], []],
    "steps": [["x"], ["x", "y"], []],
    "ports": [
        [{"port": 80}],
        [{"port": 443, "note": "x"}, {"port": 80, "protocol": "UDP"}],
        [{"port": 80, "tags": ["a", "b"]}, {"port": 9, "note": "y"}],
        [{"port": 9, "tags": ["b"]}, {"port": 443}],
        [],
    ],
    "inner": [{"x": "1"}, {"y": {"z": "1"}}, {"y": {}}, {}],
    "free": [{"a": 1}, {"a": {"b": 1}}, {"a": {"b": [1, 2], "c": "x"}, "d": True}, {"d": 1}, {}],
}
WIDGET_STATUS: dict[str, list[Any]] = {
    "phase": ["a", "b"],
    "conditions": [READY, [{"type": "Ready", "status": "False"}, {"type": "Up"}], [{"type": "Up"}], []],
}
SERVICE_SPEC: dict[str, list[Any]] = {
    "ports": [
        [{"name": "a", "port": 80}],
        [{"name": "a", "port": 80}, {"name": "b", "port": 443}],
        [{"name": "b", "port": 443, "targetPort": 8443}, {"name": "c", "port": 80, "protocol": "UDP"}],
    ],
    "selector": [{"a": "1"}, {"a": "1", "b": "2"}],
    "externalIPs": [["10.1.1.1"], ["10.1.1.2", "10.1.1.1"]],
    "sessionAffinity": ["None", "ClientIP"],
    "publishNotReadyAddresses": [True, False],
}
SERVICE_STATUS: dict[str, list[Any]] = {
    "loadBalancer": [{}],
    "conditions": [REASONED, [REASONED[0] | {"type": "Up"}, REASONED[0] | {"message": "x"}], []],
}
POD_SPEC: dict[str, list[Any]] = {
    "activeDeadlineSeconds": [100, 90],
    "containers": [
        [{"name": "c", "image": "i"}],
        [{"name": "c", "image": "j"}],
        [{"name": "c", "image": "i", "imagePullPolicy": "Always"}],
    ],
    "terminationGracePeriodSeconds": [30],
}
POD_STATUS: dict[str, list[Any]] = {
    "phase": ["Running", "Failed"],
    "conditions": [READY, [{"type": "Ready", "status": "False"}, {"type": "Up", "status": "True"}], []],
    "podIPs": [[{"ip": "10.1.1.1"}], []],
    "message": ["x", ""],
}
PATCHES = (MERGE, MERGE, APPLY, APPLY, APPLY)
BUILT_IN = (*PATCHES, STRATEGIC)
GENERATED = {
    "ConfigMap": (CONFIG_MAP, data(a="1"), DATA, {}, BUILT_IN),
    "Widget": (WIDGET, {"spec": {"size": 1}}, WIDGET_SPEC, WIDGET_STATUS, PATCHES),
    "Service": (SERVICE, SERVICE_BODY, SERVICE_SPEC, SERVICE_STATUS, BUILT_IN),
    "Pod": (POD, POD_BODY, POD_SPEC, POD_STATUS, BUILT_IN),
}
