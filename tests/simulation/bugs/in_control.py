"""Bugs in the controller: the gate, the order of things, the queue, the lease."""

from simulation.bugs.planting import Bug

CONTROLLER = "control.controller"
EXECUTOR = "control.executor"
EXPECTATIONS = "control.expectations"
QUEUE = "control.queue"
LEASE = "kube.lease"

BUGS = (
    Bug(
        "own-write gate skipped",
        CONTROLLER,
        "Controller._decide",
        "if not self._expectations.are_met(uid, self._followed.look):",
        "if False:",
    ),
    Bug("deletions not waited for", EXECUTOR, "Executor._delete", "if there:", "if False:"),
    Bug(
        "any version of an object taken for the written one",
        EXPECTATIONS,
        "Written.is_seen",
        "return version_number(shown.resource_version) >= self.version",
        "return True",
    ),
    Bug(
        "own status not waited for",
        CONTROLLER,
        "Controller._write_status",
        "self._expectations.add(job.metadata.uid, written)",
        "pass",
    ),
    Bug(
        "own creations not waited for",
        EXECUTOR,
        "Executor._create",
        "self._expect(job, kind, reply.metadata)",
        "pass",
    ),
    Bug(
        "adopted by label",
        "control.followed",
        "Followed.pods_of",
        "self.pods.by_owner(uid)",
        '[p for p in self.pods.all() if p.metadata.labels.get("bireme.dev/job-uid") == uid]',
    ),
    Bug(
        "another's pod taken for our own",
        EXECUTOR,
        "Executor._existing",
        "if not is_owned_by(reply.metadata, job.metadata.uid):",
        "if False:",
    ),
    Bug(
        "own pods taken for another's after a crash",
        EXECUTOR,
        "Executor._existing",
        "is_owned_by(reply.metadata, job.metadata.uid)",
        'is_owned_by(reply.metadata, "")',
    ),
    Bug(
        "deleted by name, not by UID",
        EXECUTOR,
        "Executor._delete",
        "name, uid=uid)",
        "name)",
    ),
    Bug(
        "deleted without grace",
        EXECUTOR,
        "Executor._delete",
        "name, uid=uid)",
        "name, uid=uid, grace_seconds=0)",
    ),
    Bug(
        "end recorded after the clean-up",
        CONTROLLER,
        "Controller._make_so",
        "self._taken.pop(uid, None)",
        "made = msgspec.structs.replace(made, record_first=False)",
    ),
    Bug(
        "job deleted and its children left",
        EXECUTOR,
        "Executor._delete_job",
        'propagation="Background"',
        'propagation="Orphan"',
    ),
    Bug(
        "caches not waited for",
        CONTROLLER,
        "Controller.run",
        "await asyncio.gather(*(cache.wait_synced() for cache in caches))",
        "await asyncio.sleep(0.005)",
    ),
    Bug(
        "back-off never ends", CONTROLLER, "Controller._make_so", "self.queue.add_after(key, seconds)", "pass"
    ),
    Bug("trouble not tried again", CONTROLLER, "Controller._make_so", "self.queue.retry(key)", "pass"),
    Bug(
        "failed pass not tried again",
        CONTROLLER,
        "Controller._pass",
        "seconds = self.queue.retry(key)\n            log.warning",
        "seconds = 0.0\n            log.warning",
    ),
    Bug(
        "conflict not tried again",
        CONTROLLER,
        "Controller._pass",
        'result = "requeue"\n            self.queue.retry(key)',
        'result = "requeue"',
    ),
    Bug("change during a pass lost", QUEUE, "WorkQueue.done", "if key in self._again:", "if False:"),
    Bug("two passes over one job at once", QUEUE, "WorkQueue.add", "if key in self._active:", "if False:"),
    Bug(
        "child's change wakes nobody",
        CONTROLLER,
        "Controller._child_changed",
        "if owner.controller:",
        'if owner.controller and child.kind != "Pod":',
    ),
    Bug(
        "leader by what it last heard",
        LEASE,
        "LeaderElection.is_leader",
        "return self._clock.now() < self._leads_until",
        "return self._clock.now() < self._leads_until or self._leading.is_set()",
    ),
    Bug(
        "leader for longer than the lease",
        LEASE,
        "LeaderElection._hold",
        "self._leads_until = asked_at + self._renew_deadline",
        "self._leads_until = asked_at + 4 * self._lease_seconds",
    ),
    Bug(
        "lease taken while it is held",
        LEASE,
        "LeaderElection._claim_as_it_is",
        "if self._is_taken() and self._clock.now() < self._runs_out_at():",
        "if False:",
    ),
    Bug(
        "renewals of another not seen",
        LEASE,
        "LeaderElection._observe",
        "if _version(lease) != _version(self._seen):",
        "if not self._seen:",
    ),
    Bug("Retry-After ignored", "kube.calls", "Caller.call", "asked_patience(error))", "None)"),
    Bug(
        "same status written again",
        "control.controller",
        "Controller._write_status",
        "if made.status == job.status:",
        "if False:",
    ),
    Bug(
        "pod stopped by name, not by UID",
        "control.executor",
        "Executor._do",
        '{"metadata": {"uid": uid}, "spec": {"activeDeadlineSeconds": 1}}',
        '{"spec": {"activeDeadlineSeconds": 1}}',
    ),
    Bug(
        "what was expected of a job that is gone kept",
        "control.controller",
        "Controller._forget",
        "self._expectations.forget(uid)",
        "pass",
    ),
)
