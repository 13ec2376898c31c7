"""Names and places inside pods that are ours."""

from collections.abc import Mapping, Sequence
from typing import Any

from bireme.admission.pods import containers_of
from bireme.admission.problems import Findings
from bireme.admission.words import describe
from bireme.api.names import MOST_DNS_SEARCHES, RESERVED_PREFIX, SSH_JOB_PATHS
from bireme.api.paths import Path


def check_reserved(
    template: Mapping[str, Any], path: Path, out: Findings, *, paths: Sequence[str], names: Sequence[str] = ()
) -> None:
    """Refuse what would collide with the volumes, mounts and containers that we add."""
    spec = template.get("spec") or {}
    where = (*path, "spec")
    for index, volume in enumerate(spec.get("volumes") or ()):
        _check_name(volume.get("name"), (*where, "volumes", index, "name"), out)
    for container, at in containers_of(spec, where):
        name = container.get("name")
        _check_name(name, (*at, "name"), out)
        if name in names:
            out.error((*at, "name"), "reserved", f"{describe(name)} is a container that we add", value=name)
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            place = str(mount.get("mountPath", "")).rstrip("/")
            if place in paths:
                message = f"{describe(place)} is where the files of the job itself are mounted"
                out.error((*at, "volumeMounts", index, "mountPath"), "reserved", message, value=place)


def _check_name(name: Any, path: Path, out: Findings) -> None:
    if isinstance(name, str) and name.startswith(RESERVED_PREFIX):
        message = f"{describe(name)} begins with {RESERVED_PREFIX}, as the names that we add do"
        out.error(path, "reserved", message, value=name, hint="choose another name")


def check_dns_searches(template: Mapping[str, Any], path: Path, out: Findings) -> None:
    """One search entry is ours, so that the bare names of workers resolve."""
    config = (template.get("spec") or {}).get("dnsConfig") or {}
    count = len(config.get("searches") or ())
    if count >= MOST_DNS_SEARCHES:
        where = (*path, "spec", "dnsConfig", "searches")
        message = f"{count} entries leave no room for the job's own: at most {MOST_DNS_SEARCHES - 1}"
        out.error(where, "too-many", message)


def check_ssh_folder(folder: str, path: Path, out: Findings) -> None:
    """The folder for ssh files must not hide what pods need."""
    if folder.rstrip("/") in ("", *SSH_JOB_PATHS):
        message = f"{describe(folder)} can't be used: it holds other files that pods need"
        out.error(path, "reserved", message, value=folder, hint="use a folder of its own, such as /root/.ssh")
