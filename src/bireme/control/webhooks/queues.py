"""Who may use a queue: namespaces that it selects, and users with the verb `use` on it.

A review has three steps, as the object may be large and the API server must be asked. `question` reads
the object, in the executor, and returns either an answer or what must be asked. `ask` asks, on the event
loop, and holds nothing of the object. `answer` judges; only where the queue has a quota, the object is
read again, in the executor, by `warn`.

Who is asked about:
- who creates a job, a PodGroup or a pod in a queue, or moves one there;
- who changes what a job, a PodGroup or a pod in a queue runs, or how much of it: otherwise anybody who
  may edit it could put their own program into a job that somebody else was allowed to queue. A job may be
  paused by anybody who may edit it, and its clean-up policy changed; to resume it, one must be allowed to
  use its queue.
- who lets a running pod grow (`pods/resize`): the scheduler looks at quota and shape profile only before
  a pod starts.

The controller's account is exempt for the children of jobs: whoever wrote the job was asked.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from bireme.api.kinds import JOB_KINDS, KUBEFLOW_MPI_JOB, POD_GROUP, QUEUE, find_kind
from bireme.api.quantity import QuantityError
from bireme.api.scheduler import DEFAULT_QUEUE, GROUP_LABEL, QUEUE_LABEL, queue_named_by
from bireme.api.term_limits import refuse_excess
from bireme.control.quotas import growth, growth_refusal, has_quota, quota_warning
from bireme.control.scheduler.mirror import SHAPES, read_profiles
from bireme.control.webhooks.reviews import Object, Request, User, allow, deny, is_leaving
from bireme.kube.client import Client
from bireme.kube.errors import NotFound
from bireme.kube.resources import CONFIG_MAPS, NAMESPACES, Resource, resource_of
from bireme.scheduling.labels import selects
from bireme.scheduling.requests import pod_requests

REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
_QUEUES: Final = resource_of(QUEUE)
_POD_GROUPS: Final = resource_of(POD_GROUP)
_JOBS: Final = {(kind.api_version, kind.kind) for kind in JOB_KINDS}
_AFTER_THE_END: Final = ("cleanUpPolicy", "cleanPodPolicy", "cleanUpWorkers", "ttlSecondsAfterFinished")
"""Fields of a job, or of its runPolicy, that say what stays of it: they start nothing."""
_SHORTENS: Final = ("activeDeadlineSeconds", "terminationGracePeriodSeconds")
"""Fields of a pod that can only end it sooner: the scheduler sets the first where maxDuration ends a pod."""


class Question(NamedTuple):
    """What the API server must be asked, and what of the object an answer needs."""

    uid: str
    user: User
    namespace: str
    queue: str | None
    group: str = ""
    """The PodGroup that names the queue of a pod."""
    owner: str = ""
    """UID of the job that the controller makes this pod for; empty for anybody else's objects."""
    grown: Mapping[str, int] = MappingProxyType({})
    """By how much a pod that runs grows."""
    requests: Mapping[str, int] = MappingProxyType({})


class Reply(NamedTuple):
    """What the API server said."""

    is_allowed: bool
    name: str = ""
    """Of the queue."""
    queue: Object | None = None
    """None where there is none of that name, or it does not matter."""
    missing_group: str = ""
    shapes: dict[str, str] | None = None
    """The shape profiles; None where they were not needed."""


class QueueAccess:
    """Answers reviews of jobs, PodGroups and pods that name a queue.

    `home` is the namespace of the scheduler's shape profiles.
    """

    def __init__(self, client: Client, controller_user: str, home: str) -> None:
        self._client = client
        self._controller_user = controller_user
        self._home = home

    # ---- before the API server is asked

    def question(self, request: Request) -> Object | Question:
        """Return what must be asked about a request, or the answer where nothing must."""
        obj, old = request.object, request.old_object
        if obj is None or is_leaving(obj) or self._is_our_child(request):
            return allow(request)
        if old is not None and not _needs_permission(old, obj):
            return allow(request)
        if excess := refuse_excess(obj):
            return deny(request, 422, "Invalid", excess)
        group, queue = _named(obj)
        if queue is None:
            return allow(request)
        is_ours = request.user_info.username == self._controller_user
        question = Question(
            request.uid,
            request.user_info,
            request.namespace,
            queue,
            group,
            str(_controller_of(obj).get("uid") or "") if is_ours else "",
        )
        if old is None or not _is_bound_pod(obj):
            return question
        try:
            return question._replace(grown=growth(old, obj), requests=pod_requests(obj["spec"]))
        except QuantityError as error:
            return deny(request, 422, "Invalid", f"spec.containers: {error}")

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

    # ---- asking

    async def ask(self, question: Question) -> Reply:
        """Raises KubeError if the API server does not answer."""
        queue = question.queue or DEFAULT_QUEUE
        if question.group:
            try:
                group = await self._client.get(_POD_GROUPS, question.namespace, question.group)
            except NotFound:
                return Reply(False, missing_group=question.group)
            queue = _queue_of_group(group)
            # The controller makes a pod for the job that it made the PodGroup for.
            if question.owner and question.owner == _controller_of(group).get("uid"):
                return Reply(True)
        found = await self._find(queue)
        if not await self._may_use(question, queue, found):
            return Reply(False, queue, found)
        needs_shapes = bool(question.grown) and bool(_profile(found))
        return Reply(True, queue, found, shapes=await self._shapes() if needs_shapes else None)

    async def _find(self, queue: str) -> Object | None:
        try:
            return await self._client.get(_QUEUES, None, queue)
        except NotFound:
            return None

    async def _shapes(self) -> dict[str, str]:
        try:
            found = await self._client.get(CONFIG_MAPS, self._home, SHAPES)
        except NotFound:
            return {}
        return dict(found.get("data") or {})

    async def _may_use(self, question: Question, queue: str, found: Object | None) -> bool:
        selected = found is not None and await self._is_selected(question.namespace, found)
        return selected or await self._is_granted(question.user, queue)

    async def _is_selected(self, namespace: str, queue: Object) -> bool:
        selector = (queue.get("spec") or {}).get("namespaceSelector")
        if selector is None or selector == {}:
            # `{}` selects all, and nothing selects nothing: no labels are needed.
            return selector is not None
        place = await self._client.get(NAMESPACES, None, namespace)
        return selects(selector, _metadata(place).get("labels") or {})

    async def _is_granted(self, user: User, queue: str) -> bool:
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

    # ---- after that

    def answer(self, question: Question, reply: Reply) -> Object | None:
        """Return the answer; None where the quota must be looked at first, by `warn`."""
        request = Request(question.uid)
        if reply.missing_group:
            # Whoever makes that group later chooses its queue, and would let this pod in.
            message = f"there is no PodGroup {reply.missing_group} yet: create it before its pods"
            return deny(request, 403, "Forbidden", message)
        if not reply.is_allowed:
            return deny(request, 403, "Forbidden", _may_not(question, reply))
        if reply.queue is None:
            return allow(request)
        if question.grown:
            refusal = _growth_refusal(question, reply.queue, reply.shapes)
            return deny(request, 403, "Forbidden", refusal) if refusal else allow(request)
        return None if has_quota(reply.queue) else allow(request)


def warn(queue: Object, request: Request) -> Object:
    """Let the object in, and warn of what no quota could hold."""
    warning = quota_warning(request.object or {}, queue)
    return allow(request, warnings=[warning] if warning else [])


def _may_not(question: Question, reply: Reply) -> str:
    name, user = reply.name, question.user.username
    if reply.queue is None:
        return f"there is no queue {name}: `kubectl get queues` lists them"
    return (
        f"{user} may not use the queue {name}: its namespaceSelector does not select the namespace"
        f" {question.namespace}, and no role gives {user} the verb `use` on the Queue {name}"
    )


def _growth_refusal(question: Question, queue: Object, shapes: dict[str, str] | None) -> str | None:
    profile, shape, name = _profile(queue), None, queue["metadata"]["name"]
    if profile:
        shape = read_profiles(shapes or {}).most.get(profile)
        if shape is None:
            return f"the shape profile {profile} of queue {name} is missing or can't be read"
    try:
        return growth_refusal(question.grown, question.requests, queue, shape)
    except QuantityError as error:
        return f"the quota of queue {name} can't be read: {error}"


def _profile(queue: Object | None) -> str:
    return str(((queue or {}).get("spec") or {}).get("resourceShapeProfile") or "")


# ---- what an object says


def _needs_permission(old: Object, new: Object) -> bool:
    """Whether a change puts something into a queue, or changes what runs there, or how much."""
    if _named(new) != _named(old):
        return True
    kind = find_kind(new.get("apiVersion"), new.get("kind"))
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if kind is None:
        return _without(before, _SHORTENS) != _without(after, _SHORTENS)
    if kind not in JOB_KINDS:
        return bool(before != after)
    is_resumed = _is_paused(before) and not _is_paused(after)
    return is_resumed or _essence(before) != _essence(after)


def _essence(spec: Object) -> Object:
    """A job's spec without what starts nothing: whether it is paused, and what stays after its end."""
    essence = _without(spec, _AFTER_THE_END)
    for name, fields in (("runPolicy", _AFTER_THE_END), ("runMode", ("pause",))):
        if isinstance(spec.get(name), dict):
            essence[name] = _without(spec[name], fields)
    pause = _without(_pause(spec), ("enabled", "enable"))
    return {name: value for name, value in {**essence, "pause": pause}.items() if value}


def _is_paused(spec: Object) -> bool:
    pause = _pause(spec)
    return pause.get("enabled") is True or pause.get("enable") is True


def _pause(spec: Object) -> Object:
    mode = spec.get("runMode")
    pause = mode.get("pause") if isinstance(mode, dict) else None
    return pause if isinstance(pause, dict) else {}


def _without(mapping: Object, fields: tuple[str, ...]) -> Object:
    return {name: value for name, value in mapping.items() if name not in fields}


def _is_bound_pod(obj: Object) -> bool:
    is_pod = find_kind(obj.get("apiVersion"), obj.get("kind")) is None
    return is_pod and bool((obj.get("spec") or {}).get("nodeName"))


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


def _metadata(obj: Object | None) -> Any:
    return (obj or {}).get("metadata") or {}
