"""The ConfigMaps and Secrets that a pod needs, as they are on the API server."""

from bireme.kube.client import Client
from bireme.kube.errors import KubeError, NotFound
from bireme.kube.resources import CONFIG_MAPS, SECRETS, Resource
from bireme.node.driver import UnstartableError
from bireme.node.environment import Sources, needs
from bireme.node.seen import Object, Problem


async def fetch_sources(client: Client, pod: Object, allocatable: dict[str, str]) -> Sources:
    """All that it names; None for one that is not there. Raises UnstartableError."""
    wanted, namespace = needs(pod), pod["metadata"]["namespace"]

    async def find(resource: Resource, name: str) -> Object | None:
        try:
            found: Object = await client.get(resource, namespace, name)
        except NotFound:
            return None
        except KubeError as error:
            raise UnstartableError(Problem("ContainerCreating", str(error))) from error
        return found

    config_maps = {name: await find(CONFIG_MAPS, name) for name in sorted(wanted.config_maps)}
    secrets = {name: await find(SECRETS, name) for name in sorted(wanted.secrets)}
    return Sources(config_maps, secrets, allocatable)
