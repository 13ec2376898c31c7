"""Names and labels: the rules, and the names that derive from a job."""

import re
from typing import Final

MAX_LABEL: Final = 63
"""The longest DNS label; pods double as host names, so it binds every derived name."""
GENERATED_SUFFIX: Final = 5
"""How many characters an API server appends to a generateName."""

RESERVED_PREFIX: Final = "bireme-"
"""Volumes and containers that we add to a job's pods begin with it."""
SSH_JOB_PATHS: Final = (
    "/etc/bireme",
    "/etc/bireme-keys",
    "/bireme-ssh",
    "/etc/passwd",
    "/etc/group",
    "/run/sshd",
)
"""Where our own mounts are in the pods of jobs that log in to their workers."""
KUBEFLOW_PATHS: Final = ("/etc/mpi", "/opt/bireme")
MOST_DNS_SEARCHES: Final = 32

LAUNCHER_TYPE: Final = "launcher"
WORKER_TYPE: Final = "worker"

NODE_NAME_ANNOTATION: Final = "bireme.dev/node-name"
"""Keeps the nodeName of a pod of the embedded mode that names a node which is not there."""

_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1123: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def is_dns_1035(name: str) -> bool:
    """Lower-case letters, digits and `-`; begins with a letter."""
    return len(name) <= MAX_LABEL and _DNS_1035.fullmatch(name) is not None


def is_dns_1123(name: str) -> bool:
    """Lower-case letters, digits and `-`; may begin with a digit."""
    return len(name) <= MAX_LABEL and _DNS_1123.fullmatch(name) is not None


def is_dns_subdomain(name: str) -> bool:
    return len(name) <= 253 and _DNS_SUBDOMAIN.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    return value == "" or (len(value) <= MAX_LABEL and _LABEL_PART.fullmatch(value) is not None)


def is_qualified_name(key: str) -> bool:
    """A label or annotation key: a name, or a DNS prefix, a slash and a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= MAX_LABEL and _LABEL_PART.fullmatch(name) is not None


def pod_name(job: str, replica_type: str, index: int) -> str:
    """The pod of a replica; also its host name and, for a GenericJob, its Service."""
    return f"{job}-{replica_type}-{index}"


def launcher_name(job: str) -> str:
    """The launcher of an MPI or ColossalAI job; there is only one, so it has no index."""
    return f"{job}-launcher"


def workers_service_name(job: str) -> str:
    """The headless Service of an MPI or ColossalAI job's workers."""
    return f"{job}-workers"
