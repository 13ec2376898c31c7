"""The rules, held against every call and every write of a run."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from bireme.apiserver.kinds import EVENT, LEASE, NAMESPACE, OURS, POD, Kind
from bireme.apiserver.routes import Target, find_target
from bireme.apiserver.rules import Object
from bireme.planning.identity import JOB_UID_LABEL, MODE_ANNOTATION, REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from bireme.run.cluster import LEASE_NAME
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS, NAMESPACE_OF_LEASES, Cluster, Write
from bireme.testing.simulation.network import Call
from bireme.testing.simulation.nodes import FINISHED, Nodes
from bireme.testing.simulation.scenarios import NAME, Scenario
from bireme.testing.simulation.statuses import (
    condition_problems,
    disruptions_of,
    is_final,
    is_known_paused,
    is_paused,
    limit_problems,
    records,
    restarts_of,
    verdict,
)

_NOT_CHILDREN: Final = {kind.resource for kind in OURS if kind.kind != "PodGroup"} | {
    LEASE.resource, EVENT.resource, NAMESPACE.resource,
}  # fmt: skip

_PATIENCE_SECONDS: Final = 10.0
_MOST_REFUSALS: Final = 25
"""In that time; changes of pods may well be reason enough for a few."""


class Violation(NamedTuple):
    """A rule that did not hold."""

    oracle: str
    message: str


class Born(NamedTuple):
    """What was true of a job when one of its pods was created."""

    uid: str
    disruptions: int
    generation: int
    restarts: int
    mode: str
    told: int
    """How many losses of pods the job's status tells of."""


class Judge:
    """Judges calls when they are sent and answered, and writes when they are committed."""

    def __init__(self, cluster: Cluster, nodes: Nodes, scenario: Scenario) -> None:
        self._cluster, self._store, self._nodes = cluster, cluster.store, nodes
        self._scenario = scenario
        self.violations: list[Violation] = []
        self.on_violation: Callable[[], None] = lambda: None
        self._identities: set[str] = set()
        self._targets: dict[str, Target] = {}
        self._jobs: dict[str, str] = {}
        """The name of every job that ever was, by UID."""
        self._created: dict[tuple[str, str, str, str], str] = {}
        """The UID of what a life of a process knows it has created, by kind, name and owner."""
        self._deleted: set[tuple[str, str]] = set()
        self._versions: dict[tuple[str, str], int] = {}
        self._born: dict[tuple[str, str], Born] = {}
        self._disruptions: Counter[str] = Counter()
        self._disturbed: set[str] = set()
        self._refused: dict[tuple[str, str, str], list[float]] = {}
        """When a life of a process was refused a call, by method and path."""
        self.ended_short: set[str] = set()
        """The UIDs of jobs that ended before every replica had a pod."""
        self._exited: set[str] = set()
        self._exits: Counter[str] = Counter()
        cluster.listeners.append(self._hear)
        nodes.on_start.append(self._starts)

    def accuse(self, oracle: str, message: str) -> None:
        self.violations.append(Violation(oracle, message))
        self._cluster.trace.add("judge", f"** {oracle}: {message}")
        self.on_violation()

    # ---- calls

    def _target(self, call: Call) -> Target:
        path = call.request.path
        if path not in self._targets:
            self._targets[path] = find_target(self._store, path)
        return self._targets[path]

    def sent(self, call: Call) -> None:
        self._identities.add(call.identity)
        if not call.writes:
            return
        target = self._target(call)
        if target.kind is LEASE:
            return
        self._check_lease(call)
        if target.kind is POD and call.request.method == "POST":
            self._check_wanted(call)

    def _check_lease(self, call: Call) -> None:
        lease = self._store.find(LEASE, LEASE_NAME, namespace=NAMESPACE_OF_LEASES)
        holder = lease["spec"].get("holderIdentity") if lease is not None else None
        if holder != call.identity:
            self.accuse("writes without the lease", f"{call.identity} sends {call}; {holder} leads")

    def _check_wanted(self, call: Call) -> None:
        body = msgspec.json.decode(call.request.body)
        owner = body["metadata"]["ownerReferences"][0]
        job = self._store.find(self._scenario.kind, owner["name"], namespace=NAMESPACE_OF_JOBS)
        if job is None or job["metadata"]["uid"] != owner["uid"]:
            return
        if is_final(job):
            self.accuse("finished is final", f"{call} for a job that is {verdict(job)}")
        if is_known_paused(job):
            self.accuse("paused stays paused", f"{call} for a job that is on record as paused")

    def answered(self, call: Call, code: int, body: Object) -> None:
        if not call.writes:
            return
        target = self._target(call)
        if code >= 400:
            self._check_patience(call, code)
        match call.request.method:
            case "POST" if not target.name:
                self._check_creation(call, target.kind, code, body)
            case "DELETE" if code < 300:
                self._check_deletion(call)
            case "PUT" if target.subresource == "status":
                self._check_status_call(call, target.name, code, body)

    def _check_patience(self, call: Call, code: int) -> None:
        """Whoever is refused waits longer each time, however little else there is to do."""
        key, now = (call.identity, call.request.method, call.request.path), self._cluster.loop.time()
        recent = [time for time in self._refused.get(key, ()) if time > now - _PATIENCE_SECONDS]
        self._refused[key] = [*recent, now]
        if len(recent) == _MOST_REFUSALS:
            self.accuse(
                "backs off", f"{call} was answered with {code} {len(recent)} times in {_PATIENCE_SECONDS:g} s"
            )

    def _check_creation(self, call: Call, kind: Kind, code: int, body: Object) -> None:
        wanted = msgspec.json.decode(call.request.body)
        name = wanted["metadata"]["name"]
        key = call.identity, kind.resource, name, _owner(wanted)
        if code < 300:
            self._created[key] = body["metadata"]["uid"]
        elif code == 409 and kind is not EVENT:
            there = self._store.find(kind, name, namespace=NAMESPACE_OF_JOBS)
            if there is not None and there["metadata"]["uid"] == self._created.get(key):
                self.accuse("nothing twice", f"{call}: created {name}, though it was told that it had")

    def _check_deletion(self, call: Call) -> None:
        uid = (msgspec.json.decode(call.request.body).get("preconditions") or {}).get("uid")
        if uid is None:
            self.accuse("by UID only", f"{call} would also delete another object of that name")
        elif (call.identity, uid) in self._deleted:
            self.accuse("nothing twice", f"{call}: deleted {uid}, though it was told that it had")
        else:
            self._deleted.add((call.identity, uid))

    def _check_status_call(self, call: Call, name: str, code: int, body: Object) -> None:
        key = call.identity, name
        if code < 300:
            self._versions[key] = int(body["metadata"]["resourceVersion"])
        elif code == 409 and call.fault is None:
            given = int(msgspec.json.decode(call.request.body)["metadata"]["resourceVersion"])
            if given < self._versions.get(key, 0):
                self.accuse(
                    "own writes are seen", f"{call}: from v{given}, and had written v{self._versions[key]}"
                )

    # ---- writes

    def _hear(self, write: Write) -> None:
        ours = write.actor in self._identities
        if write.kind is self._scenario.kind:
            self._hear_job(write)
        elif ours and write.kind.resource not in _NOT_CHILDREN:
            self._check_ownership(write)
        if write.kind is POD:
            self._hear_pod(write, ours=ours)

    def _check_ownership(self, write: Write) -> None:
        what = f"{write.actor} wrote {write.kind.kind} {write.object['metadata']['name']}"
        before, after = write.before, write.after
        if before is not None and _owner(before) not in self._jobs:
            self.accuse("ours by UID", f"{what}, which belongs to somebody else")
        if after is not None and _owner(after) not in self._jobs:
            self.accuse("ours by UID", f"{what} without a job as its owner")
        if before is not None and after is not None and _owners(before) != _owners(after):
            self.accuse("ours by UID", f"{what}: adopted it")

    def _hear_job(self, write: Write) -> None:
        before, after = write.before, write.after
        if after is None:
            return
        self._jobs[after["metadata"]["uid"]] = after["metadata"]["name"]
        if before is None or not after.get("status") or before.get("status") == after.get("status"):
            return
        if is_final(before) and verdict(before) != verdict(after):
            self.accuse("finished is final", f"{verdict(before)} became {verdict(after)}")
        missing = [name for name, record in records(after).items() if not record.get("uid")]
        if missing and is_final(after) and not is_final(before):
            self.ended_short.add(after["metadata"]["uid"])
        self._check_restarts(before, after)
        for problem in condition_problems(before, after):
            self.accuse("status tells the truth", problem)

    def _check_restarts(self, before: Object, after: Object) -> None:
        old, new = restarts_of(before), restarts_of(after)
        for name, count in new.items():
            if count < old.get(name, 0):
                self.accuse("restarts only grow", f"{name} had {old[name]} restarts, now {count}")
            if count > self._exits[name]:
                self.accuse(
                    "charged once", f"{name} is charged {count} restarts, and ended {self._exits[name]} times"
                )
        for problem in limit_problems(after):
            self.accuse("restarts have a limit", problem)

    # ---- pods

    def _hear_pod(self, write: Write, *, ours: bool) -> None:
        pod, uid = write.object, write.object["metadata"]["uid"]
        if write.before is None:
            if ours:
                self._check_explained(pod)
            self._check_single(pod)
            return
        asked = write.after is None or "deletionTimestamp" in write.after["metadata"]
        news = asked and "deletionTimestamp" not in write.before["metadata"]
        if ours and news:
            self._check_recorded(write.before)
            self._check_order(write.before)
        elif not ours and write.actor not in ("kubelet", "scheduler") and uid not in self._disturbed:
            self._disturbed.add(uid)
            self._disruptions[_owner(pod)] += 1
        if write.after is not None and not asked and _has_exited(write.after) and uid not in self._exited:
            self._exited.add(uid)
            self._exits[pod["metadata"]["name"]] += 1

    def _check_single(self, pod: Object) -> None:
        alive = [
            each["metadata"]["name"]
            for each in self._cluster.objects(POD)
            if _replica(each) == _replica(pod)
            and each["status"].get("phase") not in FINISHED
            and _owner(each)
        ]
        if len(alive) > 1:
            self.accuse("one pod per replica", f"{alive} are all alive")

    def _starts(self, pod: Object) -> None:
        """A kubelet is about to start the containers of a pod."""
        others = [uid for uid, each in self._nodes.running.items() if each.replica == _replica(pod)]
        if others:
            self.accuse("one pod per replica", f"{pod['metadata']['name']} starts while {others} still runs")

    def _job(self, pod: Object) -> Object | None:
        uid = _owner(pod)
        job = self._store.find(self._scenario.kind, self._jobs.get(uid, ""), namespace=NAMESPACE_OF_JOBS)
        return job if job is not None and job["metadata"]["uid"] == uid else None

    def _check_explained(self, pod: Object) -> None:
        """A replica gets another pod only if something became of the one before."""
        job = self._job(pod)
        name, key = pod["metadata"]["name"], (_owner(pod), pod["metadata"]["name"])
        if job is None:
            return
        now = Born(
            pod["metadata"]["uid"], self._disruptions[_owner(pod)], job["metadata"]["generation"],
            restarts_of(job).get(name, 0), pod["metadata"]["annotations"][MODE_ANNOTATION],
            disruptions_of(job),
        )  # fmt: skip
        before, self._born[key] = self._born.get(key), now
        # One that came and went unseen, while a watch was late, is not known to have been lost.
        lost = before is not None and records(job).get(name, {}).get("uid") == before.uid
        if before is not None and lost and before.uid in self._disturbed and self._scenario.gang:
            self._check_whole(pod, now)
        if before is None or before[2:5] != now[2:5] or before.uid in self._disturbed:
            return
        if before.mode == "debug" and before.uid in self._exited:
            return
        if not (self._scenario.gang and _crew_lost_one(before, now)):
            self.accuse("every pod is explained", f"{name} was replaced, and nothing had become of it")

    def _check_whole(self, pod: Object, now: Born) -> None:
        """A crew that has lost a pod begins anew as a whole: nobody is left who knew the lost one."""
        old = [
            each["metadata"]["name"]
            for each in self._cluster.objects(POD)
            if (born := self._born.get((_owner(pod), each["metadata"]["name"]))) is not None
            and born.uid == each["metadata"]["uid"] and born.disruptions < now.disruptions
        ]  # fmt: skip
        if old and not _is_debugged(pod):
            self.accuse("the whole crew or none", f"{pod['metadata']['name']} is replaced, {old} go on")

    def _check_order(self, pod: Object) -> None:
        """A launcher that outlives its workers would report their loss as a failure.

        A crew that has lost a pod goes all at once, while its controller has not heard of the pause.
        """
        job = self._job(pod)
        if job is None or not self._scenario.gang or not is_paused(job):
            return
        if self._has_lost_one(pod) and not is_known_paused(job):
            return
        launcher = self._store.find(POD, f"{NAME}-launcher", namespace=NAMESPACE_OF_JOBS)
        if launcher is not None and pod["metadata"]["name"] != launcher["metadata"]["name"]:
            self.accuse(
                "the launcher first", f"{pod['metadata']['name']} is deleted before the launcher is gone"
            )

    def _has_lost_one(self, pod: Object) -> bool:
        """Whether something has become of a pod of the job since this one was created."""
        born = self._born.get((_owner(pod), pod["metadata"]["name"]))
        return born is not None and born.disruptions != self._disruptions[_owner(pod)]

    def _check_recorded(self, pod: Object) -> None:
        """A pod that has ended is deleted only after its end is on record; in debug mode no end counts."""
        job, metadata = self._job(pod), pod["metadata"]
        if job is None or metadata["uid"] not in self._exited or is_final(job) or _is_debugged(pod):
            return
        born = self._born.get((_owner(pod), metadata["name"]))
        if born is None or born.uid != metadata["uid"] or born.generation != job["metadata"]["generation"]:
            return
        if self._scenario.gang and self._has_lost_one(pod):
            return
        record = records(job).get(metadata["name"], {})
        if record.get("uid") != metadata["uid"] or not record.get("replacing"):
            self.accuse(
                "recorded first", f"{metadata['name']} ended, and was deleted before that was on record"
            )


def _crew_lost_one(before: Born, now: Born) -> bool:
    """Whether a pod of the crew was lost since; or before, and the controller heard of it only then."""
    return before.disruptions != now.disruptions or before.told < now.told <= now.disruptions


def _owners(obj: Object) -> list[Object]:
    owners: list[Object] = obj["metadata"].get("ownerReferences") or []
    return owners


def _owner(obj: Object) -> str:
    """The UID of the controller of an object."""
    return next((owner["uid"] for owner in _owners(obj) if owner.get("controller")), "")


def _replica(pod: Object) -> tuple[Any, ...]:
    labels = pod["metadata"].get("labels") or {}
    return tuple(labels.get(label) for label in (JOB_UID_LABEL, REPLICA_TYPE_LABEL, REPLICA_INDEX_LABEL))


def _is_debugged(pod: Object) -> bool:
    return bool(pod["metadata"]["annotations"].get(MODE_ANNOTATION) == "debug")


def _has_exited(pod: Object) -> bool:
    statuses = pod["status"].get("containerStatuses") or ()
    return any("terminated" in (each.get("state") or {}) for each in statuses[:1])
