"""Bugs in the plan: restarts, disruptions, pauses, ends."""

from simulation.bugs.planting import Bug

REPLICAS = "planning.replicas"
LIFE = "planning.life"
LAUNCH = "planning.launch"
KUBEFLOW = "planning.kubeflow"

BUGS = (
    Bug(
        "restart charged twice",
        REPLICAS,
        "_ended",
        "restarts=record.restarts + 1",
        "restarts=record.restarts + 2",
    ),
    Bug(
        "charged again by each pass",
        REPLICAS,
        "step",
        "if record.replacing:",
        "if record.replacing and replica.pod.metadata.deletion_timestamp is not None:",
    ),
    Bug(
        "deleted before its end is on record",
        REPLICAS,
        "_ended",
        "return Step(charged, stop_the_rest(replica), ready_at(charged), event)",
        'return Step(charged, (DeletePod(replica.name, record.uid, ""),), ready_at(charged), event)',
    ),
    Bug(
        "recreated while terminating",
        REPLICAS,
        "step",
        "if replica.pod is None:",
        "if replica.pod is None or replica.pod.metadata.deletion_timestamp is not None:",
    ),
    Bug(
        "lost pod not replaced",
        REPLICAS,
        "_vanished",
        "return Step(lost, wake_at=ready_at(lost), ",
        "return Step(record, ",
    ),
    Bug("mode of a pod not looked at", REPLICAS, "step", "if pod_mode(replica.pod) != mode:", "if False:"),
    Bug(
        "record of a pod that is gone forgets it",
        REPLICAS,
        "gone",
        "replacing=bool(record.uid)",
        "replacing=False",
    ),
    Bug(
        "restart limit passed",
        "planning.generic",
        "_restarts",
        "if record.restarts >= policy.limit:",
        "if record.restarts > policy.limit:",
    ),
    Bug(
        "backoffLimit passed",
        KUBEFLOW,
        "_Pass._failed",
        "if self._retries(records) + 1 > self.backoff_limit:",
        "if self._retries(records) > self.backoff_limit:",
    ),
    Bug(
        "lost pod charged as a failure",
        "planning.outcome",
        "outcome",
        'return Outcome("disrupted", reason="Deleted", message="the pod was deleted")',
        'return Outcome("failed", reason="Deleted", message="the pod was deleted")',
    ),
    Bug(
        "crew replaced in part",
        LAUNCH,
        "LaunchCrew.advance",
        "if lost:\n            return _start_again",
        "if False:\n            return _start_again",
    ),
    Bug(
        "deleted while being deleted",
        LAUNCH,
        "_deletes",
        "if replica.pod is not None and replica.pod.metadata.deletion_timestamp is None",
        "if replica.pod is not None",
    ),
    Bug(
        "workers suspended with their launcher",
        "planning.pause",
        "pods_to_suspend",
        "if not isinstance(view.job, GenericJob):",
        "if False:",
    ),
    Bug(
        "paused job starts again",
        LIFE,
        "plan_batch",
        "if is_paused(view):",
        "if is_paused(view) and view.observed.pods:",
    ),
    Bug(
        "failed job goes on",
        LIFE,
        "plan_batch",
        'if view.status.phase in ("Succeeded", "Failed"):',
        'if view.status.phase == "Succeeded":',
    ),
    Bug(
        "children said to be missing after the end",
        "planning.ending",
        "end",
        "if all(replica.pod is not None or has_run(replica.record) for replica in replicas):",
        "if False:",
    ),
    Bug("clean-up takes all", "planning.cleanup", "_goes", 'return policy == "all"', "return True"),
    Bug(
        "PodGroup left after the end",
        "planning.ending",
        "after_the_end",
        "actions += delete_pod_group(view.observed.children)",
        "pass",
    ),
    Bug(
        "times move without a change",
        "planning.conditions",
        "_one",
        "if old is None or old.status != status:",
        "if old is None or old != say:",
    ),
    Bug(
        "generation not told",
        "planning.view",
        "View.next_status",
        "observed_generation=self.job.metadata.generation",
        "observed_generation=old.observed_generation",
    ),
    Bug(
        "finalizer that nobody removes",
        "planning.identity",
        "child_metadata",
        '"labels": job_labels(job),',
        '"labels": job_labels(job), "finalizers": ["bireme.dev/held"],',
    ),
    Bug(
        "pods named at random",
        "planning.identity",
        "replica_name",
        "return pod_name(job.metadata.name, replica_type, index)",
        'return pod_name(job.metadata.name, replica_type, index) + f"-{len(str(job.status))}"',
    ),
)
