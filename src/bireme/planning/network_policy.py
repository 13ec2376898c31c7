"""A NetworkPolicy per job: only the job's own pods reach them.

The ports of MPI, torchrun and a job's own services have no login. Without a policy every pod of a cluster
reaches them. A cluster whose network plugin ignores NetworkPolicies is not protected by this.
"""

from bireme.planning.actions import Manifest
from bireme.planning.identity import JOB_UID_LABEL, child_metadata
from bireme.planning.observed import Job, Settings


def build_network_policies(job: Job, settings: Settings) -> list[Manifest]:
    """Return the job's policy; none unless the installation asks for them."""
    if not settings.job_network_policies:
        return []
    own_pods = {"matchLabels": {JOB_UID_LABEL: job.metadata.uid}}
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": child_metadata(job, job.metadata.name),
            "spec": {
                "podSelector": own_pods,
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": own_pods}]}],
            },
        }
    ]
