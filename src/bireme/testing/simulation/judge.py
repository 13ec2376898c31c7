"""The rules, held against every call and every write of a run."""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from bireme.apiserver.kinds import EVENT, LEASE, NAMESPACE, OURS, POD, ROLE, Kind
from bireme.apiserver.routes import Target, find_target
from bireme.apiserver.rules import Object
from bireme.planning.identity import MODE_ANNOTATION
from bireme.run.cluster import LEASE_NAME
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS, NAMESPACE_OF_LEASES, Cluster, Write
from bireme.testing.simulation.network import LATE, Call
from bireme.testing.simulation.nodes import FINISHED, Nodes
from bireme.testing.simulation.patience import Patience
from bireme.testing.simulation.reading import has_exited, is_debugged, owner, owners, replica, uid_in
from bireme.testing.simulation.scenarios import Scenario
from bireme.testing.simulation.statuses import (
    condition_problems,
    disruptions_of,
    expires_at,
    is_final,
    is_known_paused,
    is_paused,
    limit_problems,
    ready_at,
    records,
    restarts_of,
    verdict,
)

_NOT_CHILDREN: Final = {kind.resource for kind in OURS if kind.kind != "PodGroup"} | {
    LEASE.resource, EVENT.resource, NAMESPACE.resource,
}  # fmt: skip


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
    late: int
    """How many pods had come by calls that nobody waited for any more."""
    losses: int
    """How many pods were lost that the job's status knew."""


class Judge:
    """Judges calls when they are sent and answered, and writes when they are committed."""

    def __init__(self, cluster: Cluster, nodes: Nodes, scenario: Scenario) -> None:
        self._cluster, self._store, self._nodes = cluster, cluster.store, nodes
        self._scenario = scenario
        self.violations: list[Violation] = []
        self.on_violation: Callable[[], None] = lambda: None
        self.clocks_are_right: Callable[[], bool] = lambda: True
        self.is_undisturbed: Callable[[], bool] = lambda: False
        """Whether nothing has gone wrong yet."""
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
        self._late: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self._patience = Patience(cluster.loop.time)
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

    def _blame(self, oracle: str, problem: str) -> None:
        """Accuse, if there is a problem."""
        if problem:
            self.accuse(oracle, problem)

    # ---- calls

    def _target(self, call: Call) -> Target:
        path = call.request.path
        if path not in self._targets:
            self._targets[path] = find_target(self._store, path)
        return self._targets[path]

    def sent(self, call: Call) -> None:
        self._identities.add(call.identity)
        self._blame("backs off", self._patience.sent(call))
        if not call.writes:
            return
        target = self._target(call)
        if target.kind is LEASE:
            return
        self._check_lease(call)
        if target.kind is POD and call.request.method == "POST":
            self._check_wanted(call)
        if target.kind is ROLE and call.request.method == "POST":
            self._check_strangers(call)

    def _check_lease(self, call: Call) -> None:
        lease = self._store.find(LEASE, LEASE_NAME, namespace=NAMESPACE_OF_LEASES)
        holder = lease["spec"].get("holderIdentity") if lease is not None else None
        if holder != call.identity:
            self.accuse("writes without the lease", f"{call.identity} sends {call}; {holder} leads")

    def _check_strangers(self, call: Call) -> None:
        """A launcher may run commands in pods by their names: none of those may be somebody else's."""
        body = msgspec.json.decode(call.request.body)
        for name in sorted({name for rule in body["rules"] for name in rule.get("resourceNames") or ()}):
            pod = self._store.find(POD, name, namespace=NAMESPACE_OF_JOBS)
            if pod is not None and owner(pod) != owner(body):
                self.accuse("ours by UID", f"{call} gives rights on {name}, which belongs to somebody else")

    def _check_wanted(self, call: Call) -> None:
        body = msgspec.json.decode(call.request.body)
        reference = body["metadata"]["ownerReferences"][0]
        job = self._store.find(self._scenario.kind, reference["name"], namespace=NAMESPACE_OF_JOBS)
        if job is None or job["metadata"]["uid"] != reference["uid"]:
            return
        if is_final(job):
            self.accuse("finished is final", f"{call} for a job that is {verdict(job)}")
        if is_known_paused(job):
            self.accuse("paused stays paused", f"{call} for a job that is on record as paused")

    def served(self, call: Call, *, changed: bool) -> None:
        """After a fault, somebody may not know what has been written already."""
        if call.request.method in ("PUT", "PATCH") and not changed and self.is_undisturbed():
            self.accuse("nothing needless", f"{call} changed nothing")

    def answered(self, call: Call, code: int, body: Object) -> None:
        self._patience.told(call, code)
        if not call.writes:
            return
        target = self._target(call)
        if code >= 400:
            self._blame("backs off", self._patience.refused(call, code))
        match call.request.method:
            case "POST" if not target.name:
                self._check_creation(call, target.kind, code, body)
            case "DELETE" if code < 300:
                self._check_deletion(call)
            case "PATCH" if target.kind.kind in ("Pod", "PodGroup") and uid_in(call.request.body) is None:
                self.accuse("by UID only", f"{call} would also change another object of that name")
            case "PUT" if target.subresource == "status":
                self._check_status_call(call, target.name, code, body)

    def _check_creation(self, call: Call, kind: Kind, code: int, body: Object) -> None:
        wanted = msgspec.json.decode(call.request.body)
        name = wanted["metadata"]["name"]
        key = call.identity, kind.resource, name, owner(wanted)
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
        if before is not None and owner(before) not in self._jobs:
            self.accuse("ours by UID", f"{what}, which belongs to somebody else")
        if after is not None and owner(after) not in self._jobs:
            self.accuse("ours by UID", f"{what} without a job as its owner")
        if before is not None and after is not None and owners(before) != owners(after):
            self.accuse("ours by UID", f"{what}: adopted it")

    def _hear_job(self, write: Write) -> None:
        before, after = write.before, write.after
        if after is None:
            if before is not None and write.actor in self._identities:
                self._check_expired(before)
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

    def _check_expired(self, job: Object) -> None:
        """A controller deletes a job only when it has ended, and its time is up."""
        ends = expires_at(job)
        if self.clocks_are_right() and (ends is None or self._cluster.now() < ends):
            self.accuse("kept as long as asked", f"deleted at {self._cluster.now()}, and not before {ends}")

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
            elif write.actor == LATE:
                self._late[owner(pod)] += 1
            self._check_single(pod)
            return
        asked = write.after is None or "deletionTimestamp" in write.after["metadata"]
        news = asked and "deletionTimestamp" not in write.before["metadata"]
        if ours and news:
            self._check_recorded(write.before)
            self._check_waited(write.before)
        elif not ours and write.actor not in ("kubelet", "scheduler") and uid not in self._disturbed:
            self._disturbed.add(uid)
            self._disruptions[owner(pod)] += 1
            self._losses[owner(pod)] += self._is_known(pod)
        if write.after is not None and not asked and has_exited(write.after) and uid not in self._exited:
            self._exited.add(uid)
            self._exits[pod["metadata"]["name"]] += 1

    def _check_single(self, pod: Object) -> None:
        alive = [
            each["metadata"]["name"]
            for each in self._cluster.objects(POD)
            if replica(each) == replica(pod) and each["status"].get("phase") not in FINISHED and owner(each)
        ]
        if len(alive) > 1:
            self.accuse("one pod per replica", f"{alive} are all alive")

    def _starts(self, pod: Object) -> None:
        """A kubelet is about to start the containers of a pod."""
        others = [uid for uid, each in self._nodes.running.items() if each.replica == replica(pod)]
        if others:
            self.accuse("one pod per replica", f"{pod['metadata']['name']} starts while {others} still runs")

    def _job(self, pod: Object) -> Object | None:
        uid = owner(pod)
        job = self._store.find(self._scenario.kind, self._jobs.get(uid, ""), namespace=NAMESPACE_OF_JOBS)
        return job if job is not None and job["metadata"]["uid"] == uid else None

    def _is_known(self, pod: Object) -> bool:
        """Whether its job's status tells of a pod; one that came and went before that is nobody's loss."""
        job, metadata = self._job(pod), pod["metadata"]
        return job is not None and records(job).get(metadata["name"], {}).get("uid") == metadata["uid"]

    def _check_explained(self, pod: Object) -> None:
        """A replica gets another pod only if something became of the one before."""
        job = self._job(pod)
        name, key = pod["metadata"]["name"], (owner(pod), pod["metadata"]["name"])
        if job is None:
            return
        now = Born(
            pod["metadata"]["uid"], self._disruptions[owner(pod)], job["metadata"]["generation"],
            restarts_of(job).get(name, 0), pod["metadata"]["annotations"][MODE_ANNOTATION],
            disruptions_of(job), self._late[owner(pod)], self._losses[owner(pod)],
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
            if (born := self._born.get((owner(pod), each["metadata"]["name"]))) is not None
            and born.uid == each["metadata"]["uid"] and born.losses < now.losses
        ]  # fmt: skip
        if old and not is_debugged(pod):
            self.accuse("the whole crew or none", f"{pod['metadata']['name']} is replaced, {old} go on")

    def _has_lost_one(self, pod: Object) -> bool:
        """Whether something has become of a pod of the job since this one was created."""
        born = self._born.get((owner(pod), pod["metadata"]["name"]))
        return born is not None and born.disruptions != self._disruptions[owner(pod)]

    def _check_recorded(self, pod: Object) -> None:
        """A pod that has ended is deleted only after its end is on record; in debug mode no end counts."""
        job, metadata = self._job(pod), pod["metadata"]
        if job is None or metadata["uid"] not in self._exited or is_final(job) or is_debugged(pod):
            return
        # A pause takes all, also a pod whose creation was on its way when it came. What was lost when it had
        # just ended, and nobody knew, counts as lost.
        if is_paused(job) or metadata["uid"] in self._disturbed:
            return
        born = self._born.get((owner(pod), metadata["name"]))
        if born is None or born.uid != metadata["uid"] or born.generation != job["metadata"]["generation"]:
            return
        if self._scenario.gang and self._has_lost_one(pod):
            return
        record = records(job).get(metadata["name"], {})
        if record.get("uid") != metadata["uid"] or not record.get("replacing"):
            self.accuse(
                "recorded first", f"{metadata['name']} ended, and was deleted before that was on record"
            )

    def _check_waited(self, pod: Object) -> None:
        """A pod that failed is replaced only after a while, twice as long each time."""
        job, metadata = self._job(pod), pod["metadata"]
        if job is None or is_final(job) or is_paused(job) or not self.clocks_are_right():
            return
        if metadata["uid"] in self._disturbed or (self._scenario.gang and self._has_lost_one(pod)):
            return
        ready = ready_at(job, metadata["name"], metadata["uid"])
        if ready is not None and self._cluster.now() < ready:
            self.accuse("backs off", f"{metadata['name']} is replaced before {ready}")


def _crew_lost_one(before: Born, now: Born) -> bool:
    """Whether a pod of the crew was lost since; or before, and the controller heard of it only then.

    One that came by a late call may be of another mode than the rest, and then all of them go.
    """
    lost = before.disruptions != now.disruptions or before.told < now.told <= now.disruptions
    return lost or before.late != now.late
