"""Bugs in the client: caches that miss what has happened."""

from simulation.bugs.planting import Bug

CACHE = "kube.cache"

BUGS = (
    Bug("deletions not applied", CACHE, "Cache._apply", "changes = self._store.remove(obj)", "changes = []"),
    Bug(
        "deletions missed by a list",
        "kube.store",
        "Store.replace",
        "vanished = [key for key in self._objects if key not in listed]",
        "vanished = []",
    ),
    Bug(
        "first page taken for the whole list",
        "kube.client",
        "Client._pages",
        "if not page.metadata.continue_:",
        "if page.metadata:",
    ),
    Bug(
        "last page taken for the whole list",
        "kube.client",
        "Client._pages",
        "listing.items.extend(with_type(resource, item) for item in items)",
        "listing.items[:] = [with_type(resource, item) for item in items]",
    ),
    Bug(
        "expired watch not listed again",
        CACHE,
        "_calls_for_a_list",
        "return too_large or isinstance(error, Gone | DecodeError)",
        "return too_large",
    ),
    Bug(
        "silent watch not noticed",
        CACHE,
        "Cache._wait_for_silence",
        "self._heard_at + self._silence_seconds",
        "self._heard_at + 1e6 * self._silence_seconds",
    ),
    Bug(
        "watch goes on from now",
        CACHE,
        "Cache._read",
        "resource_version=self._version",
        'resource_version=""',
    ),
    Bug(
        "error in a watch taken for an object",
        "kube.watch",
        "EventDecoder.decode",
        'if event.type == "ERROR":',
        "if False:",
    ),
    Bug(
        "cache says it has come further than it has",
        CACHE,
        "Cache._apply",
        "self._version = obj.metadata.resource_version",
        "self._version = str(10**9)",
    ),
    Bug(
        "object left in the index of its owner",
        "kube.store",
        "Store._drop",
        "self._disown(key, obj)",
        "pass",
    ),
)
