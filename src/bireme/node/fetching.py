"""What a pod needs of the API server before its containers start."""

from pathlib import Path
from typing import Final

from bireme.kube.client import Client
from bireme.kube.errors import KubeError, NotFound
from bireme.kube.resources import (
    CONFIG_MAPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from bireme.node.driver import UnstartableError
from bireme.node.environment import Sources, needs
from bireme.node.ignored_fields import Missing
from bireme.node.seen import Object, Problem

_DEFAULT_ACCOUNT: Final = "default"


async def fetch_sources(client: Client, pod: Object, allocatable: dict[str, str]) -> Sources:
    """All that it names; None for one that is not there. Raises UnstartableError."""
    wanted, namespace = needs(pod), pod["metadata"]["namespace"]
    config_maps = {
        name: await _find(client, CONFIG_MAPS, namespace, name) for name in sorted(wanted.config_maps)
    }
    secrets = {name: await _find(client, SECRETS, namespace, name) for name in sorted(wanted.secrets)}
    return Sources(config_maps, secrets, allocatable)


async def find_missing(client: Client, pod: Object, claims: Path) -> Missing:
    """Find which claims, PriorityClass and ServiceAccount of a pod are not there. Raises UnstartableError."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    folders = {
        name: claims / namespace / name
        for name in sorted(needs(pod).claims)
        if await _find(client, PERSISTENT_VOLUME_CLAIMS, namespace, name) is None
    }
    account = spec.get("serviceAccountName") or _DEFAULT_ACCOUNT
    if account == _DEFAULT_ACCOUNT or await _find(client, SERVICE_ACCOUNTS, namespace, account) is not None:
        account = ""
    priority_class = spec.get("priorityClassName") or ""
    if priority_class and await _find(client, PRIORITY_CLASSES, None, priority_class) is not None:
        priority_class = ""
    return Missing(folders, priority_class, account)


async def fetch_node_labels(client: Client, pod: Object) -> dict[str, str]:
    """The labels of a pod's Node; none if the pod selects no node by labels. Raises UnstartableError."""
    if not pod["spec"].get("nodeSelector"):
        return {}
    node = await _find(client, NODES, None, pod["spec"]["nodeName"]) or {}
    labels: dict[str, str] = (node.get("metadata") or {}).get("labels") or {}
    return labels


async def _find(client: Client, resource: Resource, namespace: str | None, name: str) -> Object | None:
    try:
        found: Object = await client.get(resource, namespace, name)
    except NotFound:
        return None
    except KubeError as error:
        raise UnstartableError(Problem("ContainerCreating", str(error))) from error
    return found
