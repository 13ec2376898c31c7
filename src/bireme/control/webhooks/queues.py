"""Who may use a queue: namespaces that it selects, and users with the verb `use` on it."""

from typing import Any, Final

from bireme.api.kinds import JOB_KINDS, KUBEFLOW_MPI_JOB, POD_GROUP, QUEUE, find_kind
from bireme.api.scheduler import DEFAULT_QUEUE
from bireme.control.quotas import quota_warning
from bireme.control.webhooks.reviews import Object, Request, allow, deny
from bireme.kube.client import Client
from bireme.kube.errors import NotFound
from bireme.kube.resources import NAMESPACES, Resource, resource_of
from bireme.planning.identity import QUEUE_LABELS
from bireme.scheduling.labels import selects

REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
GROUP_LABEL: Final = f"{QUEUE_LABELS}/group-name"
QUEUE_LABEL: Final = f"{QUEUE_LABELS}/queue"
_QUEUES: Final = resource_of(QUEUE)
_POD_GROUPS: Final = resource_of(POD_GROUP)
# Kubeflow's jobs can't name a queue: where their pods do, nobody was asked.
_JOBS_WITH_QUEUES: Final = {
    (kind.api_version, kind.kind) for kind in JOB_KINDS if kind is not KUBEFLOW_MPI_JOB
}


class QueueAccess:
    """Answers reviews of jobs, PodGroups and pods that name a queue."""

    def __init__(self, client: Client, controller_user: str) -> None:
        self._client = client
        self._controller_user = controller_user

    async def answer(self, request: Request) -> Object:
        """Allow the object if whoever asks may use its queue. Raises KubeError where nobody can tell."""
        if self._is_our_child(request) or not self._names_a_queue_anew(request):
            return allow(request)
        assert request.object is not None
        try:
            queue = await self._queue_of(request.object, request.namespace)
        except NotFound:
            # Whoever makes that group later chooses its queue, and would let this pod in.
            group, _ = _named(request.object)
            message = f"there is no PodGroup {group} yet: create it before its pods"
            return deny(request, 403, "Forbidden", message)
        if queue is None:
            return allow(request)
        found = await self._find(queue)
        if await self._may_use(request, queue, found):
            warning = quota_warning(request.object, found) if found is not None else None
            return allow(request, warnings=[warning] if warning else [])
        user = request.user_info.username
        message = (
            f"{user} may not use the queue {queue}: its namespaceSelector does not select the namespace"
            f" {request.namespace}, and no role gives {user} the verb `use` on the Queue {queue}"
        )
        return deny(request, 403, "Forbidden", message)

    def _is_our_child(self, request: Request) -> bool:
        """What the controller makes for a job, whose own queue was asked about."""
        if request.user_info.username != self._controller_user:
            return False
        owners = _metadata(request.object).get("ownerReferences") or ()
        return any(
            owner.get("controller") and (owner.get("apiVersion"), owner.get("kind")) in _JOBS_WITH_QUEUES
            for owner in owners
        )

    def _names_a_queue_anew(self, request: Request) -> bool:
        """A change that leaves the queue as it is needs no permission: not even a finalizer could go."""
        if request.object is None:
            return False
        return request.old_object is None or _named(request.object) != _named(request.old_object)

    async def _queue_of(self, obj: Object, namespace: str) -> str | None:
        """Raises NotFound for a pod whose group is not there."""
        group, queue = _named(obj)
        return _queue_of_group(await self._client.get(_POD_GROUPS, namespace, group)) if group else queue

    async def _find(self, queue: str) -> Object | None:
        try:
            return await self._client.get(_QUEUES, None, queue)
        except NotFound:
            return None

    async def _may_use(self, request: Request, queue: str, found: Object | None) -> bool:
        selected = found is not None and await self._is_selected(request.namespace, found)
        return selected or await self._is_granted(request, queue)

    async def _is_selected(self, namespace: str, queue: Object) -> bool:
        selector = (queue.get("spec") or {}).get("namespaceSelector")
        if selector is None or selector == {}:
            # `{}` selects all, and nothing selects nothing: no labels are needed.
            return selector is not None
        place = await self._client.get(NAMESPACES, None, namespace)
        return selects(selector, _metadata(place).get("labels") or {})

    async def _is_granted(self, request: Request, queue: str) -> bool:
        user = request.user_info
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": user.extra,
            "resourceAttributes": {
                "group": QUEUE.group,
                "version": QUEUE.version,
                "resource": QUEUE.plural,
                "name": queue,
                "verb": "use",
            },
        }
        body = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind, "spec": spec}
        review = await self._client.create(REVIEWS, None, body)
        return bool((review.get("status") or {}).get("allowed"))


def _named(obj: Object) -> tuple[str, str | None]:
    """The PodGroup that a pod belongs to, if it names one, and the queue that an object names otherwise."""
    kind = find_kind(obj.get("apiVersion"), obj.get("kind"))
    if kind is POD_GROUP:
        return "", _queue_of_group(obj)
    if kind is not None:
        return "", _queue_of_job(obj)
    labels = _metadata(obj).get("labels") or {}
    return str(labels.get(GROUP_LABEL) or ""), str(labels.get(QUEUE_LABEL) or DEFAULT_QUEUE)


def _queue_of_group(obj: Object) -> str:
    return str((obj.get("spec") or {}).get("queue") or DEFAULT_QUEUE)


def _queue_of_job(obj: Object) -> str | None:
    scheduler: Any = (obj.get("spec") or {}).get("scheduler") or {}
    gang = scheduler.get("t9kScheduler") or {}
    queue = gang.get("queue")
    return str(queue) if queue else None


def _metadata(obj: Object | None) -> Object:
    return (obj or {}).get("metadata") or {}
