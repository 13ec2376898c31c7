"""How a run ended: the state of the cluster at rest, and what must be true of it."""

from base64 import b64decode
from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from bireme.apiserver.kinds import EVENT, LEASE, NAMESPACE, POD
from bireme.apiserver.rules import Object
from bireme.control.controller import Controller
from bireme.kube.cache import Cache
from bireme.planning.identity import JOB_UID_LABEL, MANAGED_BY
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS, Cluster
from bireme.testing.simulation.nodes import FINISHED
from bireme.testing.simulation.scenarios import NAME, Scenario
from bireme.testing.simulation.statuses import (
    conditions,
    is_final,
    is_up_to_date,
    phase,
    records,
    restarts_of,
)

QUIET_SECONDS: Final = 600.0
STRANGERS: Final = ("decoy",)
"""Pods that look like a job's own, and are nobody's."""
_PODS: Final = ("Pod ", "PodGroup ")

State = dict[str, Any]


def final_state(cluster: Cluster, scenario: Scenario, ended_short: Collection[str]) -> State:
    """Everything that has to be the same after every run in which nothing happened to the job itself.

    `ended_short` are the UIDs of jobs that ended before every replica had a pod.
    """
    job = cluster.store.find(scenario.kind, NAME, namespace=NAMESPACE_OF_JOBS)
    told: State = {"phase": None}
    if job is not None:
        told = {
            "phase": phase(job),
            "conditions": dict(_conditions(job, ended_short)),
            "restarts": restarts_of(job),
            "replicas": {name: record.get("phase") for name, record in records(job).items()},
            "is up to date": is_up_to_date(job),
        }
    children = dict(_children(cluster))
    return told | {
        "objects": {name: str((obj.get("status") or {}).get("phase", "")) for name, obj in children.items()},
        "contents": {
            f"{name}: {key}": text
            for name, obj in children.items()
            if not name.startswith("Pod ")
            for key, text in _content(obj)
        },
    }


def _conditions(job: Object, ended_short: Collection[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """What the job says of itself, as far as nothing but the job decides it.

    One that was never true may be missing, where a kind does not have all of them at all times. A job that
    failed before its last replica had a pod may say that children are missing, and is not held to it: not
    even if that pod came later, by a creation that was on its way for long.
    """
    whole = job["metadata"]["uid"] not in ended_short
    for name, each in conditions(job).items():
        if name == "Initialized" and not whole:
            yield name, ("True", "ChildrenCreated")
        elif each["status"] == "True" or "phase" in job["status"]:
            yield name, (each["status"], each.get("reason", ""))


def _children(cluster: Cluster) -> Iterator[tuple[str, Object]]:
    for kind in cluster.store.kinds:
        if kind not in (EVENT, LEASE, NAMESPACE):
            for obj in cluster.objects(kind):
                if obj["metadata"].get("ownerReferences"):
                    yield f"{kind.kind} {obj['metadata']['name']}", obj


def _content(obj: Object) -> Iterator[tuple[str, str]]:
    """What an object says, field by field, whoever it belongs to."""
    uid: str = obj["metadata"]["ownerReferences"][0]["uid"]
    told = obj.get("data") or obj.get("spec") or {"rules": obj.get("rules")}
    for key, value in told.items():
        text = b64decode(value).decode() if obj["kind"] == "Secret" else _json(value)
        yield key, text.replace(uid, "UID")


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def difference(wanted: State, found: State, *, pods_were_lost: bool, children_were_lost: bool) -> str:
    """How an end differs from that of the clean run, in words.

    Where pods were lost it is enough that the job ended in the same way, and that nothing is left which the
    clean run does not leave: a pod that was lost after the end is not replaced, and with the last one its
    PodGroup goes. A pod that was lost before the end has ended, so a clean-up of what still runs spares it.
    """
    keys = ["phase"] if pods_were_lost else [key for key in wanted if key not in ("objects", "contents")]
    told = [
        f"{key}: {found.get(key)} instead of {wanted[key]}" for key in keys if wanted[key] != found.get(key)
    ]
    there, meant = found["objects"], wanted["objects"]
    told += [
        f"{name} is left"
        for name in there
        if name not in meant and not (pods_were_lost and name.startswith("Pod ") and there[name] in FINISHED)
    ]
    told += [
        f"{name} is missing"
        for name in meant
        if name not in there and not (pods_were_lost if name.startswith(_PODS) else children_were_lost)
    ]
    told += [
        f"{name} is {there[name]} instead of {meant[name]}"
        for name in meant
        if name in there and there[name] != meant[name] and not pods_were_lost
    ]
    told += [
        f"{place} is {found['contents'].get(place)} instead of {text}"
        for place, text in wanted["contents"].items()
        if place.partition(":")[0] in there and text != found["contents"].get(place)
    ]
    return "; ".join(told)


def leftovers(cluster: Cluster, scenario: Scenario) -> Iterator[str]:
    """Children without a job, and pods of a job that wants none."""
    job = cluster.store.find(scenario.kind, NAME, namespace=NAMESPACE_OF_JOBS)
    uid = job["metadata"]["uid"] if job is not None else None
    for kind in cluster.store.kinds:
        for obj in cluster.objects(kind):
            metadata = obj["metadata"]
            owners = [owner["uid"] for owner in metadata.get("ownerReferences") or ()]
            left_behind = not owners and JOB_UID_LABEL in (metadata.get("labels") or {})
            strange = metadata["name"] in (*STRANGERS, *scenario.taken)
            if (owners or (left_behind and not strange)) and uid not in owners:
                yield f"{kind.kind} {metadata['name']} has no owner any more"
    pods = [pod for pod in cluster.objects(POD) if pod["metadata"].get("ownerReferences")]
    if job is not None and phase(job) == "Paused" and pods:
        yield f"{len(pods)} pods of a paused job"
    if job is not None and is_final(job):
        yield from _after_the_end(job, pods)


def _after_the_end(job: Object, pods: list[Object]) -> Iterator[str]:
    for pod in pods:
        name = pod["metadata"]["name"]
        ended = pod["status"].get("phase") in FINISHED
        if _policy(job) == "all" and not _is_launcher(job, name):
            yield f"{name} is left of a job that cleans up"
        if _policy(job) == "unfinished" and not ended:
            yield f"{name} runs on after the end of its job"
        if name.endswith("-launcher") and not ended:
            yield f"the launcher {name} runs on after the end of its job"


def _is_launcher(job: Object, name: str) -> bool:
    return name == f"{NAME}-launcher" and not job["apiVersion"].startswith("kubeflow.org/")


def _policy(job: Object) -> str:
    spec = job["spec"]
    word = (
        spec.get("cleanUpPolicy")
        or spec.get("cleanPodPolicy")
        or (spec.get("runPolicy") or {}).get("cleanUpWorkers")
    )
    if word is True:
        return "all"
    return {"All": "all", "Unfinished": "unfinished", "Running": "unfinished"}.get(
        str(word), str(word).lower()
    )


def stale_caches(cluster: Cluster, controller: Controller) -> Iterator[str]:
    """What a cache at rest shows otherwise than the server: a change was lost, or its copy was changed."""
    for cache in controller.caches():
        kind = next(each for each in cluster.store.kinds if each.resource == cache.resource.full_name)
        there = {
            (obj["metadata"]["namespace"], obj["metadata"]["name"]): obj
            for obj in cluster.objects(kind)
            if (kind.custom and kind.kind != "PodGroup") or _is_managed(obj)
        }
        shown = {(obj.metadata.namespace, obj.metadata.name): obj for obj in cache.all()}
        if set(there) != set(shown):
            yield f"{kind.plural}: shows {sorted(shown)}, there are {sorted(there)}"
        for key in set(there) & set(shown):
            if _fresh(cache, there[key]) != shown[key]:
                yield f"{kind.plural}: {key[1]} is not as it is on the server"


def _is_managed(obj: Object) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in MANAGED_BY.items())


def _fresh(cache: Cache[Any], obj: Object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(obj), type=cache.type)
