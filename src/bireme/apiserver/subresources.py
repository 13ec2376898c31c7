"""What is written beside the object itself: bindings and evictions of pods, the end of namespaces."""

from collections.abc import Iterator
from datetime import datetime

from bireme.apiserver import errors
from bireme.apiserver.deletion import Decision, check_preconditions, read_options
from bireme.apiserver.kinds import NAMESPACE, POD
from bireme.apiserver.namespaces import finalized
from bireme.apiserver.objects import MalformedError, copied
from bireme.apiserver.pods import bound, disrupted, unbindable
from bireme.apiserver.rules import Object
from bireme.apiserver.store import Store


def bind(store: Store, name: str, binding: object, now: datetime, *, namespace: str) -> Object:
    """Bind a pod to the node that a Binding names; a pod is bound once."""
    body = _read(name, binding, "Binding")
    if why := "; ".join(_target_problems(body.get("target") or {})):
        raise errors.internal(why)
    pod = store.get(POD, name, namespace=namespace)
    metadata, given = pod["metadata"], body["metadata"]
    if given.get("uid", metadata["uid"]) != metadata["uid"]:
        key = POD.etcd_key(namespace, name)
        raise errors.wrong_uid(POD, key, name, given["uid"], metadata["uid"])
    if given.get("resourceVersion", metadata["resourceVersion"]) != metadata["resourceVersion"]:
        raise errors.stale(POD, name)
    if why := unbindable(pod):
        raise errors.conflict("pods/binding", "", name, why)
    return store.commit(POD, pod, bound(pod, body, now))


def evict(store: Store, name: str, eviction: object, now: datetime, *, namespace: str) -> Decision:
    """Delete a pod, marked as the target of a disruption; nobody's budget is asked."""
    body = _read(name, eviction, "Eviction")
    options = read_options(body.get("deleteOptions") or {})
    pod = store.get(POD, name, namespace=namespace)
    check_preconditions(POD, pod, options.preconditions)
    with store.attempt(dry_run=bool(options.dry_run)):
        store.commit(POD, pod, disrupted(pod, now))
        return store.delete(POD, name, now, options.without_version(), namespace=namespace)


def finalize(store: Store, namespace: str) -> Object:
    """Declare a namespace empty; if it is terminating, and nothing else holds it, it goes."""
    old = store.get(NAMESPACE, namespace)
    return store.commit(NAMESPACE, old, finalized(old))


def refinalize(store: Store, name: str, body: object) -> Object:
    """Take over the finalizers of a namespace's spec: that is how a controller lets it go."""
    given = _read(name, body, "Namespace")
    old = store.get(NAMESPACE, name)
    finalizers = (given.get("spec") or {}).get("finalizers") or []
    return store.commit(NAMESPACE, old, old | {"spec": {"finalizers": finalizers} if finalizers else {}})


def _target_problems(target: Object) -> Iterator[str]:
    if target.get("kind", "Node") not in ("", "Node"):
        problem = errors.not_supported("target.kind", target["kind"], ("Node", "<empty>"))
        yield f"{problem.field}: {problem.body}"
    if not target.get("name"):
        yield "target.name: Required value"


def _read(name: str, body: object, what: str) -> Object:
    try:
        copy = copied(body)
    except MalformedError as error:
        raise errors.bad_request(str(error)) from error
    if isinstance(copy, dict) and copy.get("kind") not in (None, "", what):
        said, version = copy["kind"], copy.get("apiVersion")
        why = f'no kind "{said}" is registered for version "{version}"'
        raise errors.bad_request(f"{said} in version {version} cannot be handled as a {what}: {why}")
    if not isinstance(copy, dict) or (copy.get("metadata") or {}).get("name") != name:
        raise errors.bad_request(f"name in URL does not match name in {what} object")
    return copy
