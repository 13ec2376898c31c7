"""Jobs in every situation, and what the plan makes of them.

`NAME.input.yaml` holds documents as `kubectl get -o yaml` shows them: the job first, then its pods and
other children. A last document may say what time it is, and what is in the way. `NAME.expected.yaml` holds
what is to be done, what the status becomes (fields that change, and no others), and when to look again. In
`objects/` what is created is shown whole; in the other folders by name. `make golden` writes it.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bireme.admission import default, is_valid, validate
from bireme.api.core import Pod
from bireme.api.kinds import find_kind
from bireme.api.meta import ObjectMeta
from bireme.api.scheduler import Waiting
from bireme.manifest import read
from bireme.manifest.writer import write
from bireme.planning import Observed, Plan, Settings, plan
from bireme.planning.actions import (
    Action,
    AnnotatePod,
    Create,
    CreatePod,
    DeleteJob,
    DeleteObject,
    DeletePod,
    EmitEvent,
    StopPod,
    UpdateConfigMap,
    UpdatePodGroup,
)
from bireme.planning.observed import CLUSTER, EMBEDDED, Child, Keys, NameConflict

FOLDER = Path(__file__).parent / "plan"
CASES = sorted(FOLDER.glob("*/*.input.yaml"))
UPDATE = os.environ.get("BIREME_GOLDEN") == "update"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = Keys("client private key", "ssh-ed25519 CLIENT", "host private key", "ssh-ed25519 HOST")


def case_id(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.input.yaml')}"


def load(path: Path) -> tuple[Observed, datetime]:
    manifest = read(path.read_bytes())
    assert not manifest.problems
    first, *others = [document.value for document in manifest.documents]
    assert isinstance(first, dict)
    manifest_job = default(first)
    kind = find_kind(manifest_job["apiVersion"], manifest_job["kind"])
    assert kind is not None
    job: Any = msgspec.convert(manifest_job, kind.struct)
    situation: dict[str, Any] = {}
    pods, children = [], []
    for other in others:
        assert isinstance(other, dict)
        if "kind" not in other:
            situation = other
        elif other["kind"] == "Pod":
            pods.append(msgspec.convert(other, Pod))
        else:
            metadata = msgspec.convert(other["metadata"], ObjectMeta)
            members = other.get("spec", {}).get("minMember")
            waiting = other.get("status", {}).get("waiting")
            waits = msgspec.convert(waiting, Waiting) if waiting else None
            children.append(Child(other["kind"], metadata, other.get("data"), members, waits))
    profile = EMBEDDED if situation.get("profile") == "embedded" else CLUSTER
    observed = Observed(
        job, tuple(pods), tuple(children), KEYS,
        tuple(situation.get("invalid", ())),
        tuple(_conflict(each) for each in situation.get("taken", ())),
        Settings(
            profile=profile,
            keep_messages=situation.get("keepMessages", True),
            gang_engine=situation.get("engine", "bireme"),
            job_network_policies=situation.get("networkPolicies", False),
        ),
    )  # fmt: skip
    if "invalid" not in situation:
        assert is_valid(validate(manifest_job)), "a case must be a job that admission lets through"
    now = datetime.fromisoformat(situation["now"]) if "now" in situation else NOW
    return observed, now


def _conflict(value: Any) -> NameConflict:
    """`Pod job-worker-0` belongs to no job; an object can name the owner."""
    if not isinstance(value, str):
        return msgspec.convert(value, NameConflict)
    kind, name = value.split(" ")
    return NameConflict(kind, name)


def show(made: Plan, observed: Observed, *, whole: bool) -> str:
    result: dict[str, Any] = {"actions": [show_action(action, whole=whole) for action in made.actions]}
    result["status"] = changes(msgspec.to_builtins(observed.job.status), msgspec.to_builtins(made.status))
    if made.record_first:
        result["recordFirst"] = True
    if made.wake_at is not None:
        result["wakeAt"] = made.wake_at.isoformat()
    return write([result])


def show_action(action: Action, *, whole: bool) -> dict[str, Any]:
    match action:
        case Create() | CreatePod():
            return {"create": without_scripts(action.object) if whole else f"{action.kind} {action.name}"}
        case DeletePod(name, uid, why):
            return {"delete": f"Pod {name}", "uid": uid, "why": why}
        case StopPod(name, uid):
            return {"stop": f"Pod {name}", "uid": uid}
        case AnnotatePod(name, uid, annotations):
            return {"annotate": f"Pod {name}", "uid": uid, "annotations": annotations}
        case UpdateConfigMap(name, data):
            return {"update": f"ConfigMap {name}", "data": without_scripts({"data": data})["data"]}
        case UpdatePodGroup(name, uid, members):
            return {"update": f"PodGroup {name}", "uid": uid, "members": members}
        case DeleteObject(kind, name, uid):
            return {"delete": f"{kind} {name}", "uid": uid}
        case DeleteJob(uid):
            return {"delete": "the job", "uid": uid}
        case EmitEvent(type_, reason, message):
            return {"event": f"{type_} {reason}", "message": message}
        case _:
            raise AssertionError(action)


def without_scripts(obj: dict[str, Any]) -> dict[str, Any]:
    """The object; of a script only the first line, as scripts have tests of their own."""
    data = {
        name: f"{text.splitlines()[0]} …" if text.startswith("#!") else text
        for name, text in obj.get("data", {}).items()
    }
    return {**obj, "data": data} if data else obj


def changes(old: Any, new: dict[str, Any]) -> dict[str, Any] | str:
    """Top-level fields of the status that differ; of the conditions only those that do."""
    old = old or {}
    different = {name: value for name, value in new.items() if old.get(name) != value}
    different |= {name: None for name in old if name not in new}
    if "conditions" in different:
        before = old.get("conditions") or []
        different["conditions"] = [condition for condition in new["conditions"] if condition not in before]
    return different or "unchanged"


@pytest.mark.parametrize("path", CASES, ids=case_id)
def test_plan_is_as_expected(path: Path) -> None:
    observed, now = load(path)
    made = plan(observed, now)
    assert plan(observed, now) == made
    actual = show(made, observed, whole=path.parent.name == "objects")
    expected = path.with_name(path.name.replace(".input.yaml", ".expected.yaml"))
    if UPDATE:
        expected.write_text(actual)
    assert actual == expected.read_text()


def test_there_are_at_least_a_hundred_and_fifty_cases() -> None:
    assert len(CASES) >= 150


def test_every_expectation_has_its_case() -> None:
    expected = {path.name.removesuffix(".expected.yaml") for path in FOLDER.glob("*/*.expected.yaml")}
    assert expected == {path.name.removesuffix(".input.yaml") for path in CASES}
