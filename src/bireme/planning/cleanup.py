"""Which pods go when a job has ended."""

from collections.abc import Sequence
from typing import Final, Literal

from bireme.api.core import Pod
from bireme.api.generic import GenericJob
from bireme.planning.actions import Action, DeletePod
from bireme.planning.observed import BatchJob
from bireme.planning.replicas import FINISHED, Replica, is_final

Policy = Literal["none", "unfinished", "all"]
_OF_GENERIC: Final[dict[str, Policy]] = {"None": "none", "Unfinished": "unfinished", "All": "all"}


def policy_of(job: BatchJob) -> Policy:
    """The job's own word, whichever of its spellings was used."""
    if isinstance(job, GenericJob):
        return _OF_GENERIC[job.spec.clean_up_policy or "None"]
    return job.spec.run_policy.clean_up


def clean_up(
    policy: Policy, pods: Sequence[Pod], replicas: Sequence[Replica], *, keep: Sequence[str] = ()
) -> list[Action]:
    """Delete what the policy says, but no replica of a type to `keep`.

    A pod whose replica has ended counts as finished, whatever still runs in it.
    """
    ended = {replica.name for replica in replicas if is_final(replica.record)}
    kept = {replica.name for replica in replicas if replica.type in keep}
    return [
        DeletePod(pod.metadata.name, pod.metadata.uid, f"clean-up policy {policy}")
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and pod.metadata.name not in kept
        and _goes(policy, pod, ended)
    ]


def _goes(policy: Policy, pod: Pod, ended: set[str]) -> bool:
    if policy == "unfinished":
        return pod.metadata.name not in ended and pod.status.phase not in FINISHED
    return policy == "all"
