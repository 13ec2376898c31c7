"""What is wrong with the sources of a pod's volumes, as far as it is checked.

The rules, their messages and the fields they name are those of kube-apiserver, which leaves an index out
here and there (`downwardAPI.path`, `volumeMounts.subPath`). Sources that need a storage system are taken as
they are, and so are names of claims, ConfigMaps and Secrets: they need only be there.
"""

from collections.abc import Callable, Iterator
from typing import Final

from bireme.api import volume_paths
from bireme.apiserver import checks
from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value, required
from bireme.apiserver.rules import Object

_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_LEAST_TOKEN_SECONDS: Final = 600
_MOST_TOKEN_SECONDS: Final = 2**32


def source_problems(field: str, volume: Object) -> Iterator[FieldError]:
    """Problems of the source of one volume."""
    first, *more = [key for key in volume if key != "name"] or [""]
    for other in more:
        yield forbidden_value(f"{field}.{other}", "may not specify more than 1 volume type")
    if check := _CHECKS.get(first):
        yield from check(f"{field}.{first}", volume[first] or {})


def path_problems(field: str, path: str, rule: Callable[[str], list[str]]) -> Iterator[FieldError]:
    """Problems of a path by one of the rules of `volume_paths`."""
    for problem in rule(path):
        yield invalid_value(field, path, problem)


def _mode(field: str, source: Object, name: str = "mode") -> Iterator[FieldError]:
    mode = source.get(name)
    if mode is not None and not volume_paths.is_file_mode(mode):
        yield invalid_value(f"{field}.{name}", mode, volume_paths.MODE_RULE)


def _file_path(field: str, path: str) -> Iterator[FieldError]:
    if not path:
        yield required(field)
    yield from path_problems(field, path, volume_paths.unreserved)


def _items(field: str, source: Object) -> Iterator[FieldError]:
    """The files of a ConfigMap or a Secret."""
    for index, item in enumerate(source.get("items") or ()):
        place = f"{field}.items[{index}]"
        if not item.get("key"):
            yield required(f"{place}.key")
        yield from _file_path(f"{place}.path", item.get("path") or "")
        yield from _mode(place, item)


def _named(name: str) -> Callable[[str, Object], Iterator[FieldError]]:
    """The check of a ConfigMap or a Secret, whose name is in this field."""

    def check(field: str, source: Object) -> Iterator[FieldError]:
        if not source.get(name):
            yield required(f"{field}.{name}")
        yield from _mode(field, source, "defaultMode")
        yield from _items(field, source)

    return check


def _claim(field: str, source: Object) -> Iterator[FieldError]:
    if not source.get("claimName"):
        yield required(f"{field}.claimName")


def _host_path(field: str, source: Object) -> Iterator[FieldError]:
    if not source.get("path"):
        yield required(f"{field}.path")
        return
    yield from path_problems(f"{field}.path", source["path"], volume_paths.no_backsteps)
    if source.get("type") is not None:
        yield from checks.one_of(f"{field}.type", source["type"], _HOST_PATH_TYPES)


def _downward(field: str, source: Object) -> Iterator[FieldError]:
    yield from _mode(field, source, "defaultMode")
    yield from _downward_files(field, source)


def _downward_files(field: str, source: Object) -> Iterator[FieldError]:
    for item in source.get("items") or ():
        yield from _file_path(f"{field}.path", item.get("path") or "")
        yield from _mode(field, item)


def _projected(field: str, source: Object) -> Iterator[FieldError]:
    yield from _mode(field, source, "defaultMode")
    paths: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        place = f"{field}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if (inner := part.get(kind)) is not None:
                if not inner.get("name"):
                    yield required(f"{place}.{kind}.name")
                yield from _items(f"{place}.{kind}", inner)
                yield from _conflicts(field, inner, paths, inner.get("name") or "")
        if (inner := part.get("downwardAPI")) is not None:
            yield from _downward_files(f"{place}.downwardAPI", inner)
            yield from _conflicts(field, inner, paths)
        if (inner := part.get("serviceAccountToken")) is not None:
            yield from _token(field, f"{place}.serviceAccountToken", inner)
        if len(part) > 1:
            yield forbidden_value(place, "may not specify more than 1 volume type per source")


def _conflicts(field: str, source: Object, paths: set[str], name: str | None = None) -> Iterator[FieldError]:
    """Files that another source of the same volume writes; `name` is reported instead of the path."""
    for item in source.get("items") or ():
        path = item.get("path") or ""
        if path and path in paths:
            yield invalid_value(field, path if name is None else name, "conflicting duplicate paths")
        paths.add(path)


def _token(volume: str, field: str, source: Object) -> Iterator[FieldError]:
    seconds, path = source.get("expirationSeconds"), source.get("path") or ""
    if seconds is not None and seconds < _LEAST_TOKEN_SECONDS:
        sentence = "may not specify a duration less than 10 minutes"
        yield invalid_value(f"{field}.expirationSeconds", seconds, sentence)
    if seconds is not None and seconds > _MOST_TOKEN_SECONDS:
        sentence = "may not specify a duration larger than 2^32 seconds"
        yield invalid_value(f"{field}.expirationSeconds", seconds, sentence)
    # kube-apiserver names the path as one of the volume.
    if not path:
        yield required(f"{volume}.path")
    else:
        yield from path_problems(f"{volume}.path", path, volume_paths.unreserved)


_CHECKS: Final[dict[str, Callable[[str, Object], Iterator[FieldError]]]] = {
    "secret": _named("secretName"),
    "configMap": _named("name"),
    "persistentVolumeClaim": _claim,
    "hostPath": _host_path,
    "downwardAPI": _downward,
    "projected": _projected,
}
