"""Pods of replicas, built from templates.

Everything that the pods of one type have in common is built once and shared between them: a plan of a
thousand pods is a thousand small objects, not a thousand deep copies. Nobody may change a manifest.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bireme.api.job import PodTemplate
from bireme.api.scheduler import SCHEDULER_NAME
from bireme.planning.actions import CreatePod, Manifest
from bireme.planning.identity import (
    MODE_ANNOTATION,
    job_labels,
    owner_reference,
    queue_labels,
    replica_labels,
    replica_name,
)
from bireme.planning.observed import Job
from bireme.planning.replicas import Mode

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
DEBUG_COMMAND: Final = ("/bin/sh", "-c", "trap 'exit 0' TERM; sleep inf & wait $!")
"""`sleep inf` that ends on SIGTERM: the kernel drops signals that PID 1 of a container does not handle."""


class PodBuilder:
    """Builds the pods of one replica type in one mode, from a spec that is complete."""

    def __init__(
        self, job: Job, replica_type: str, template: PodTemplate, mode: Mode, spec: Manifest
    ) -> None:
        self._job = job
        self._type = replica_type
        self._spec = spec
        own = template.get("metadata") or {}
        labels = own.get("labels") or {}
        self._labels = {**labels, **job_labels(job), **queue_labels(job, replica_type)}
        self._annotations = {**(own.get("annotations") or {}), MODE_ANNOTATION: mode}
        self._owners = [owner_reference(job)]
        self._size = sum(len(msgspec.json.encode(part)) for part in (spec, self._labels, self._annotations))

    def create(self, index: int, change: Callable[[Manifest], Manifest] | None = None) -> CreatePod:
        """Return the creation of one replica's pod. `change` makes its spec from the common one."""
        job, name = self._job, replica_name(self._job, self._type, index)

        def build() -> Manifest:
            return {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": job.metadata.namespace,
                    "labels": {**self._labels, **replica_labels(job, self._type, index)},
                    "annotations": self._annotations,
                    "ownerReferences": self._owners,
                },
                "spec": self._spec if change is None else change(self._spec),
            }

        return CreatePod(name, build, self._size)


def complete_spec(job: Job, spec: Manifest) -> Manifest:
    """The spec with what every replica has: no restarts in place, messages kept, its queue's scheduler."""
    result = {**spec, "restartPolicy": "Never"}
    if queue_labels(job, ""):
        result["schedulerName"] = SCHEDULER_NAME
    for field in ("initContainers", "containers"):
        if spec.get(field):
            result[field] = [_with_message_policy(container) for container in spec[field]]
        else:
            result.pop(field, None)
    return result


def _with_message_policy(container: Mapping[str, Any]) -> Manifest:
    """Let the end of a container's log tell of a failure, unless its author has chosen a policy.

    Who may read pods can read the message, but need not be allowed to read logs.
    """
    policy = container.get("terminationMessagePolicy") or "FallbackToLogsOnError"
    return {**container, "terminationMessagePolicy": policy}


def in_debug(spec: Manifest, command: Sequence[str], *, skip_init: bool) -> Manifest:
    """The spec with every container idling instead of doing its work, and nobody to probe it."""
    idle = list(command or DEBUG_COMMAND)
    containers = [_idle(container, idle) for container in spec.get("containers") or ()]
    result = {**spec, "containers": containers}
    if skip_init:
        result.pop("initContainers", None)
    return result


def idle_others(spec: Manifest, main: str) -> Manifest:
    """The spec with every container but the main one idling: workers in debug mode still take logins."""
    containers = [
        container if container.get("name") == main else _idle(container, list(DEBUG_COMMAND))
        for container in spec.get("containers") or ()
    ]
    return {**spec, "containers": containers}


def _idle(container: Mapping[str, Any], command: list[str]) -> Manifest:
    kept = {key: value for key, value in container.items() if key not in ("args", *_PROBES)}
    return {**kept, "command": command}


def resumed(
    spec: Manifest, command: Sequence[str], args: Sequence[str], main: str, *, skip_init: bool
) -> Manifest:
    """The spec with the main container's command and arguments replaced, where new ones are given."""
    changes: Manifest = {}
    if command:
        changes["command"] = list(command)
    if args:
        changes["args"] = list(args)
    containers = [
        {**container, **changes} if container.get("name") == main else container
        for container in spec.get("containers") or ()
    ]
    result = {**spec, "containers": containers}
    if skip_init:
        result.pop("initContainers", None)
    return result


def main_container_name(template: PodTemplate, preferred: str = "") -> str:
    """The container whose exit is the replica's: the preferred one if it is there, else the first."""
    names = [container.get("name", "") for container in (template.get("spec") or {}).get("containers") or ()]
    return preferred if preferred in names else names[0] if names else ""


def map_texts(spec: Manifest, change: Callable[[str], str]) -> Manifest:
    """The spec with commands, arguments and environment values changed; parts that stay are shared."""
    result = spec
    for field in ("initContainers", "containers"):
        old = spec.get(field)
        if not old:
            continue
        new = [_map_container(container, change) for container in old]
        if any(before is not after for before, after in zip(old, new, strict=True)):
            result = {**result, field: new}
    return result


def _map_container(container: Manifest, change: Callable[[str], str]) -> Manifest:
    changes: Manifest = {}
    for field in ("command", "args"):
        texts = container.get(field)
        if texts and any("$(" in text for text in texts):
            changes[field] = [change(text) for text in texts]
    env = container.get("env")
    if env and any("$(" in (variable.get("value") or "") for variable in env):
        changes["env"] = [
            {**variable, "value": change(variable["value"])} if variable.get("value") else variable
            for variable in env
        ]
    return {**container, **changes} if changes else container
