"""The words that users have for kinds, and the collections that they mean."""

import contextlib
from typing import Any

import msgspec

from bireme.api.kinds import JOB_KINDS, KINDS, find_kind, kinds_named
from bireme.cli.failures import Failure
from bireme.cli.targets import Connection
from bireme.kube.errors import Forbidden, KubeError, NotFound, error_from
from bireme.kube.resources import RESOURCES_BY_KIND, Resource, resource_for, resource_of, version_path
from bireme.kube.retry import CALLS, MOST_TRIES, asked_patience, is_transient
from bireme.terminal_text import one_line

JOBS = tuple(resource_of(kind) for kind in JOB_KINDS)
_SHORT = {
    "po": "pods", "svc": "services", "cm": "configmaps", "sa": "serviceaccounts", "ev": "events",
    "pvc": "persistentvolumeclaims", "no": "nodes", "ns": "namespaces", "deploy": "deployments",
    "crd": "customresourcedefinitions", "pc": "priorityclasses",
}  # fmt: skip
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def qualified(resource: Resource) -> str:
    """The word that means this collection alone: `mpijob.kubeflow.org`, `pod`."""
    return f"{resource.kind.lower()}.{resource.group}" if resource.group else resource.kind.lower()


def named(word: str) -> list[Resource]:
    """The collections that we know which a word may mean; `jobs` and `all` mean those of all job kinds."""
    if word.lower() in ("job", "jobs", "all", "bireme"):
        return list(JOBS)
    ours = [resource_of(kind) for kind in kinds_named(word)]
    name, _, group = word.lower().partition(".")
    plural = _SHORT.get(name, name)
    theirs = [
        resource
        for resource in RESOURCES_BY_KIND.values()
        if plural in (resource.plural, resource.kind.lower()) and resource.group.startswith(group)
    ]
    return ours or theirs


async def resources_for(connection: Connection, word: str) -> list[Resource]:
    """The collections that a word means on this server; both MPIJobs where it does not tell which."""
    found = named(word) or [
        each["resource"] for each in await _discover(connection) if _answers_to(each, word)
    ]
    if found:
        return found
    known = ", ".join(sorted({kind.singular for kind in KINDS}))
    hint = f"kinds of Bireme: {known}; of Kubernetes: pod, service, …; one object is KIND/NAME"
    raise Failure(f"no kind is named {word}", hint)


class NoSuchKind(Failure):
    """The server does not have a kind."""


async def find_resource(connection: Connection, api_version: str, kind: str) -> Resource:
    """The collection of a manifest's kind. Raises NoSuchKind if the server does not have it."""
    ours = find_kind(api_version, kind)
    if ours is not None and connection.target.daemon is not None:
        return resource_of(ours)
    group, _, version = api_version.rpartition("/")
    try:
        listed = await ask(connection, version_path(group, version))
    except NotFound:
        listed = {}
    except Forbidden:
        # Whoever may not ask may still send.
        with contextlib.suppress(LookupError):
            return resource_for(kind, api_version)
        raise
    for each in listed.get("resources") or ():
        if each["kind"] == kind and "/" not in each["name"]:
            return Resource(group, version, each["name"], kind, each["namespaced"])
    raise no_such_kind(connection, Resource(group, version, "", kind))


def no_such_kind(connection: Connection, resource: Resource) -> NoSuchKind:
    """That a server does not have a kind, and what can be done about it there."""
    kind, api_version = resource.kind, resource.api_version
    if connection.target.daemon is not None:
        hint = (
            "this machine's daemon runs jobs and pods, with the services, configmaps, secrets and volumes"
            " that they use; a cluster (--context, `bireme use`) may have more kinds"
        )
    elif find_kind(api_version, kind) is not None:
        hint = "it is a kind of Bireme, which is not installed there: `bireme manifests | kubectl apply -f -`"
    else:
        hint = "`kubectl api-resources` lists the kinds of that cluster"
    return NoSuchKind(f"there is no kind {one_line(kind)} in {one_line(api_version)} on this server", hint)


async def ask(connection: Connection, path: str, accept: str = "", **params: str) -> dict[str, Any]:
    """What the server answers to a GET of this path; passing failures are tried again."""
    clock, failures = connection.client.clock, 0
    while True:
        try:
            return await _ask_once(connection, path, accept, params)
        except KubeError as error:
            failures += 1
            if failures == MOST_TRIES or not is_transient(error):
                raise
            delay = CALLS.delay(failures, connection.client.random(), asked_patience(error))
        await clock.sleep(delay)


async def _ask_once(connection: Connection, path: str, accept: str, params: dict[str, str]) -> dict[str, Any]:
    response = await connection.transport.request("GET", path, params=params, accept=accept)
    if response.status != 200:
        raise error_from(response.status, response.headers, response.body)
    answer: dict[str, Any] = msgspec.json.decode(response.body)
    return answer


async def _discover(connection: Connection) -> list[dict[str, Any]]:
    found = []
    for root in ("/api", "/apis"):
        groups = await ask(connection, root, _DISCOVERY)
        for group in groups.get("items") or ():
            name = (group.get("metadata") or {}).get("name", "")
            for version in group.get("versions") or ():
                found += [
                    _described(name, version["version"], each) for each in version.get("resources") or ()
                ]
    return found


def _described(group: str, version: str, told: dict[str, Any]) -> dict[str, Any]:
    kind = (told.get("responseKind") or {}).get("kind", "")
    resource = Resource(group, version, told["resource"], kind, told.get("scope") == "Namespaced")
    words = {resource.plural, told.get("singularResource", ""), kind.lower(), *(told.get("shortNames") or ())}
    return {"resource": resource, "words": words}


def _answers_to(each: dict[str, Any], word: str) -> bool:
    name, _, group = word.lower().partition(".")
    return name in each["words"] and each["resource"].group.startswith(group)
