"""The environment of a container, and what its command says about it: `$(NAME)`."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from bireme.node.downward import NotOfferedError
from bireme.node.downward import field_value as field_value
from bireme.node.downward import resource_value as resource_value
from bireme.node.references import References as References
from bireme.node.references import needs as needs
from bireme.node.seen import Object

# `$$` first, so that `$$(NAME)` is never taken for a reference.
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")


class Sources(msgspec.Struct, frozen=True):
    """What a pod's references lead to: the ConfigMaps and Secrets of its namespace, None for a missing one.

    `allocatable` is what the node has to give.
    """

    config_maps: Mapping[str, Object | None] = {}
    secrets: Mapping[str, Object | None] = {}
    allocatable: Mapping[str, str] = {}

    def config_map(self, name: str) -> dict[str, bytes] | None:
        """The content of a ConfigMap, texts and other data."""
        found = self.config_maps.get(name)
        if found is None:
            return None
        texts = {key: text.encode() for key, text in (found.get("data") or {}).items()}
        return texts | _decoded(found.get("binaryData"))

    def secret(self, name: str) -> dict[str, bytes] | None:
        """The content of a Secret."""
        found = self.secrets.get(name)
        return None if found is None else _decoded(found.get("data"))


def _decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in (data or {}).items()}


class Environment(msgspec.Struct, frozen=True):
    """A container's environment.

    `own` are the variables that the container declares, and that its command can refer to; `values` are all,
    those of the caller included. With `problems` the container can't start. `skipped` are names that no
    process can be given.
    """

    values: dict[str, str]
    own: dict[str, str]
    problems: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def expand(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Put in the values of variables; of a container's command: its `own`. Unknown ones stay as they are."""
    return [_expand(word, values) for word in words]


def _expand(text: str, values: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        return "$" if match[1] is None else values.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def build_environment(
    pod: Object, container: Object, sources: Sources, base: Mapping[str, str]
) -> Environment:
    """The environment of a container, as a kubelet makes it, over what every process here is given."""
    builder = _Builder(pod, container, sources)
    for source in container.get("envFrom") or ():
        builder.take_all(source)
    for variable in container.get("env") or ():
        builder.take(variable)
    return Environment({**base, **builder.own}, builder.own, tuple(builder.problems), tuple(builder.skipped))


class _MissingError(Exception):
    """Something that is referred to is not there."""


class _Builder:
    """Collects variables in their order: each may refer to those before it, and replaces one of its name."""

    def __init__(self, pod: Object, container: Object, sources: Sources) -> None:
        self._pod, self._container, self._sources = pod, container, sources
        self.own: dict[str, str] = {}
        self.problems: list[str] = []
        self.skipped: list[str] = []

    def take_all(self, source: Object) -> None:
        prefix = source.get("prefix") or ""
        try:
            for key, value in self._texts(source, "configMapRef", "secretRef"):
                self._put(prefix + key, value)
        except _MissingError as missing:
            self._complain(missing, source.get("configMapRef") or source.get("secretRef") or {})

    def take(self, variable: Object) -> None:
        name, source = variable["name"], variable.get("valueFrom")
        if variable.get("value") or not source:
            self._put(name, _expand(variable.get("value") or "", self.own))
            return
        try:
            self._put(name, self._value(source))
        except _MissingError as missing:
            self._complain(missing, source.get("configMapKeyRef") or source.get("secretKeyRef") or {})
        except NotOfferedError as error:
            self.problems.append(str(error))

    def _complain(self, missing: _MissingError, reference: Object) -> None:
        if not reference.get("optional"):
            self.problems.append(str(missing))

    def _put(self, name: str, value: str) -> None:
        if not name or "=" in name or "\0" in name:
            self.skipped.append(name)
        elif "\0" in value:
            self.problems.append(f"the value of {name} holds a NUL byte")
        else:
            self.own[name] = value

    def _value(self, source: Object) -> str:
        if ref := source.get("fieldRef"):
            return field_value(self._pod, ref["fieldPath"])
        if ref := source.get("resourceFieldRef"):
            return resource_value(self._pod, ref, self._container, self._sources.allocatable)
        if (ref := source.get("configMapKeyRef") or source.get("secretKeyRef")) is None:
            raise NotOfferedError(f"{next(iter(source), 'valueFrom')} is not offered here")
        texts = dict(self._texts(source, "configMapKeyRef", "secretKeyRef"))
        if ref["key"] not in texts:
            kind = "ConfigMap" if "configMapKeyRef" in source else "Secret"
            where = f"{self._pod['metadata']['namespace']}/{ref.get('name', '')}"
            raise _MissingError(f"couldn't find key {ref['key']} in {kind} {where}")
        return texts[ref["key"]]

    def _texts(self, source: Object, config_map: str, secret: str) -> Iterator[tuple[str, str]]:
        """The texts of what a source names. Other bytes survive: the system's encoding gives them back."""
        if ref := source.get(config_map):
            found = self._sources.config_maps.get(ref.get("name", ""))
            yield from (_there("configmap", ref, found).get("data") or {}).items()
        elif ref := source.get(secret):
            found = self._sources.secrets.get(ref.get("name", ""))
            for key, value in _decoded(_there("secret", ref, found).get("data")).items():
                yield key, value.decode(errors="surrogateescape")


def _there(kind: str, ref: Object, found: Object | None) -> Object:
    if found is None:
        raise _MissingError(f'{kind} "{ref.get("name", "")}" not found')
    return found
