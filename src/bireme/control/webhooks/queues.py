"""Who may use a queue: namespaces that it selects, and users with the verb `use` on it."""

from typing import Final

from bireme.api.kinds import JOB_KINDS, KUBEFLOW_MPI_JOB, POD_GROUP, QUEUE, find_kind
from bireme.api.scheduler import DEFAULT_QUEUE, GROUP_LABEL, QUEUE_LABEL, queue_named_by
from bireme.api.term_limits import refuse_excess
from bireme.control.quotas import quota_warning
from bireme.control.webhooks.reviews import Object, Request, allow, deny
from bireme.kube.client import Client
from bireme.kube.errors import NotFound
from bireme.kube.resources import NAMESPACES, Resource, resource_of
from bireme.scheduling.labels import selects

REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
_QUEUES: Final = resource_of(QUEUE)
_POD_GROUPS: Final = resource_of(POD_GROUP)
_JOBS: Final = {(kind.api_version, kind.kind) for kind in JOB_KINDS}


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
        if excess := refuse_excess(request.object):
            return deny(request, 422, "Invalid", excess)
        name, queue = _named(request.object)
        if name:
            try:
                group = await self._client.get(_POD_GROUPS, request.namespace, name)
            except NotFound:
                # Whoever makes that group later chooses its queue, and would let this pod in.
                message = f"there is no PodGroup {name} yet: create it before its pods"
                return deny(request, 403, "Forbidden", message)
            if self._is_in_its_jobs_group(request, group):
                return allow(request)
            queue = _queue_of_group(group)
        if queue is None:
            return allow(request)
        found = await self._find(queue)
        if await self._may_use(request, queue, found):
            warning = quota_warning(request.object, found) if found is not None else None
            return allow(request, warnings=[warning] if warning else [])
        if found is None:
            message = f"there is no queue {queue}: `kubectl get queues` lists them"
            return deny(request, 403, "Forbidden", message)
        user = request.user_info.username
        message = (
            f"{user} may not use the queue {queue}: its namespaceSelector does not select the namespace"
            f" {request.namespace}, and no role gives {user} the verb `use` on the Queue {queue}"
        )
        return deny(request, 403, "Forbidden", message)

    def _is_our_child(self, request: Request) -> bool:
        """What the controller makes for a job, whose own queue was asked about.

        The template of an MPIJob of Kubeflow may name a queue in labels, where nobody was asked: of its pods,
        only those in the PodGroup of the same job count.
        """
        if request.user_info.username != self._controller_user:
            return False
        owner = _controller_of(request.object)
        kind = find_kind(_text(request.object, "apiVersion"), _text(request.object, "kind"))
        is_kubeflow = owner.get("apiVersion") == KUBEFLOW_MPI_JOB.api_version
        return (owner.get("apiVersion"), owner.get("kind")) in _JOBS and (
            not is_kubeflow or kind is POD_GROUP
        )

    def _is_in_its_jobs_group(self, request: Request, group: Object) -> bool:
        """Whether the controller makes a pod for the job that it made the PodGroup for."""
        owner = _controller_of(group).get("uid")
        is_same = bool(owner) and owner == _controller_of(request.object).get("uid")
        return is_same and request.user_info.username == self._controller_user

    def _names_a_queue_anew(self, request: Request) -> bool:
        """A change that leaves the queue as it is needs no permission: not even a finalizer could go."""
        if request.object is None:
            return False
        return request.old_object is None or _named(request.object) != _named(request.old_object)

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
        return "", queue_named_by(obj)
    labels = _metadata(obj).get("labels") or {}
    return str(labels.get(GROUP_LABEL) or ""), str(labels.get(QUEUE_LABEL) or DEFAULT_QUEUE)


def _queue_of_group(obj: Object) -> str:
    return str((obj.get("spec") or {}).get("queue") or DEFAULT_QUEUE)


def _controller_of(obj: Object | None) -> Object:
    """Return the controller reference of an object; empty if it has none."""
    owners: list[Object] = _metadata(obj).get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), {})


def _text(obj: Object | None, field: str) -> str:
    return str((obj or {}).get(field) or "")


def _metadata(obj: Object | None) -> Object:
    return (obj or {}).get("metadata") or {}
