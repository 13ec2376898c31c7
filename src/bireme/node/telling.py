"""What the API server is told of a pod."""

import contextlib
import logging
from typing import Literal

from bireme.kube.client import Client
from bireme.kube.errors import ApiError, Conflict, KubeError, NotFound, ServerError
from bireme.kube.resources import PODS
from bireme.node.seen import Object

log = logging.getLogger("bireme.node")

Told = Literal["told", "gone", "later"]
"""`gone`: there is no such pod any more. `later`: the server could not do it now, as with a full disk."""


class Teller:
    """Writes the status of one pod, if it differs from what is written, and takes the pod away."""

    def __init__(self, client: Client, pod: Object) -> None:
        self._client, metadata = client, pod["metadata"]
        self._uid, self._namespace, self._name = metadata["uid"], metadata["namespace"], metadata["name"]
        self._written: Object | None = pod.get("status")

    async def tell(self, status: Object) -> Told:
        """Write the status; one that is refused is not written again."""
        if status == self._written:
            return "told"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": self._uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        try:
            await self._client.patch(
                PODS, self._namespace, self._name, patch, kind="json", subresource="status"
            )
        except NotFound:
            return "gone"
        except KubeError as error:
            if isinstance(error, ServerError) or not isinstance(error, ApiError):
                return self._put_off("a status is not written yet", error)
            log.warning("a status is refused", extra={"pod": self._name, "why": error.message})
        self._written = status
        return "told"

    async def remove(self, status: Object) -> Told:
        """Take a pod away that was asked to go, once its last status is written."""
        if self._written != status:
            return "told"
        try:
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(PODS, self._namespace, self._name, uid=self._uid, grace_seconds=0)
        except KubeError as error:
            return self._put_off("a pod is not taken away yet", error)
        return "gone"

    def _put_off(self, what: str, error: KubeError) -> Told:
        log.warning(what, extra={"pod": self._name, "why": str(error)})
        return "later"
