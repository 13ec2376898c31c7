"""What a plan is made from, and what it is."""

from datetime import datetime
from typing import Literal

import msgspec

from bireme.api.colossalai import ColossalAIJob
from bireme.api.core import Pod
from bireme.api.generic import GenericJob
from bireme.api.job import JobStatus
from bireme.api.kubeflow import MPIJob as KubeflowMPIJob
from bireme.api.kubeflow import MPIJobStatus
from bireme.api.meta import ObjectMeta, OwnerReference
from bireme.api.mpi import MPIJob
from bireme.api.scheduler import Waiting
from bireme.planning.actions import Action

Job = GenericJob | MPIJob | ColossalAIJob | KubeflowMPIJob
BatchJob = GenericJob | MPIJob | ColossalAIJob
"""The tensorstack kinds, which share run modes and status."""
Status = JobStatus | MPIJobStatus


class Profile(msgspec.Struct, frozen=True):
    """How a launcher reaches its workers, and where files are; the only difference between modes.

    `agent` is the command that runs something inside a worker, called as `AGENT POD COMMAND…`. None
    means ssh for the tensorstack kinds, and kubectl exec for Kubeflow's.
    """

    name: Literal["cluster", "embedded"]
    agent: str | None = None
    files: str = "/etc/bireme"
    keys: str = "/etc/bireme-keys"
    ssh: str = "/bireme-ssh"
    """Where the ssh files are: a folder of our own, as a user other than root can't enter /root."""
    shared_cpus: int | None = None
    """How many CPUs the workers of all jobs share, if they are known to run on one machine."""


CLUSTER = Profile("cluster")
EMBEDDED = Profile("embedded", agent="bireme-agent")


class Settings(msgspec.Struct, frozen=True):
    """What the operator sets for all jobs."""

    profile: Profile = CLUSTER
    ssh_port: int = 2222
    torch_port: int = 29500
    cluster_domain: str = "cluster.local"
    controller_image: str = "bireme.invalid/controller"
    """Set by every installation; the name of the default can't be resolved, and so by nobody taken."""
    gang_engine: str = "bireme"
    """Who places the pods of queued jobs; one of `engines.NAMES`."""
    job_network_policies: bool = False
    """Whether each job gets a NetworkPolicy that lets only its own pods in."""
    keep_messages: bool = True
    """Whether the end of a failed replica's output is kept in the job's status."""


class Keys(msgspec.Struct, frozen=True):
    """A job's ssh keys, made outside: OpenSSH private keys and public key lines."""

    client_private: str = ""
    client_public: str = ""
    host_private: str = ""
    host_public: str = ""


class Child(msgspec.Struct, frozen=True):
    """A child other than a pod: what the plan must know of it. What is not given is not compared.

    `members` is how many pods a PodGroup needs to start, `waiting` why the queue does not start them.
    """

    kind: str
    metadata: ObjectMeta
    data: dict[str, str] | None = None
    members: int | None = None
    waiting: Waiting | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.metadata.name


class NameConflict(msgspec.Struct, frozen=True):
    """An object that has the name of a child that the job needs, and the object's owner, if any."""

    kind: str
    name: str
    owner: OwnerReference | None = None


class Observed(msgspec.Struct, frozen=True):
    """A job and its children, by owner UID; nothing of anybody else's but names in the way.

    `invalid` are the errors that admission finds in the job. `taken` are the names of children that
    other objects have. `troubles` are (reason, message) of actions that could not be done just now.
    """

    job: Job
    pods: tuple[Pod, ...] = ()
    children: tuple[Child, ...] = ()
    keys: Keys = Keys()
    invalid: tuple[str, ...] = ()
    taken: tuple[NameConflict, ...] = ()
    settings: Settings = Settings()
    troubles: tuple[tuple[str, str], ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """What to do now, what to say, and when to look again though nothing has changed.

    With `record_first` the status must be written before anything is done: were the pods of a finished
    job cleaned up and its end not on record, the job would start again.
    """

    actions: tuple[Action, ...]
    status: Status
    wake_at: datetime | None = None
    record_first: bool = False
