"""ConfigMaps and Secrets: data that can be sealed."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bireme.apiserver import checks
from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value, required, too_long
from bireme.apiserver.rules import Object, Rules

_SEALED: Final = ("data", "binaryData")
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_TYPES: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""What the data of Secrets of some types must have."""


class DataRules(Rules):
    """The rules of ConfigMaps: `immutable`, once set, holds."""

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        return _unsealed(new, old)

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:  # noqa: ARG002
        return list(self._content(new))

    def _content(self, new: Object) -> Iterator[FieldError]:
        data, binary = new.get("data") or {}, new.get("binaryData") or {}
        yield from checks.config_keys("data", data)
        for key in data.keys() & binary.keys():
            yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
        yield from checks.config_keys("binaryData", binary)
        size = sum(len(text.encode()) for text in data.values()) + _bytes(binary)
        if size > checks.MOST_DATA_BYTES:
            # The whole object is meant; a path without a name is printed so.
            yield too_long("[]", checks.MOST_DATA_BYTES)


class SecretRules(DataRules):
    """The rules of Secrets: `stringData` is written, never read."""

    def default(self, new: Object) -> None:
        new["type"] = new.get("type") or "Opaque"
        plain: dict[str, str] = new.pop("stringData", None) or {}
        if plain:
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
            new["data"] = (new.get("data") or {}) | encoded

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        changed = [] if old is None else checks.immutable("type", new["type"], old["type"])
        return [*changed, *super().problems(new, old)]

    def _content(self, new: Object) -> Iterator[FieldError]:
        data = new.get("data") or {}
        yield from checks.config_keys("data", data)
        if _bytes(data) > checks.MOST_DATA_BYTES:
            yield too_long("data", checks.MOST_DATA_BYTES)
        yield from _type_problems(new, data)


def _unsealed(new: Object, old: Object | None) -> list[FieldError]:
    if old is None or not old.get("immutable"):
        return []
    sentence = "field is immutable when `immutable` is set"
    changed = [field for field in _SEALED if (new.get(field) or {}) != (old.get(field) or {})]
    if not new.get("immutable"):
        changed.insert(0, "immutable")
    return [forbidden_value(field, sentence) for field in changed]


def _bytes(data: Mapping[str, Any]) -> int:
    """How many bytes base64 stands for."""
    return sum(len(text) // 4 * 3 - text.count("=") for text in data.values() if text)


def _type_problems(new: Object, data: Mapping[str, str]) -> Iterator[FieldError]:
    """What is missing in a Secret of one of Kubernetes' types."""
    match new["type"]:
        case "kubernetes.io/service-account-token":
            if not (new["metadata"].get("annotations") or {}).get(_ACCOUNT):
                yield required(f"metadata.annotations[{_ACCOUNT}]")
        case "kubernetes.io/basic-auth":
            if data.keys().isdisjoint(("username", "password")):
                yield required("data[username]")
                yield required("data[password]")
        case given:
            for key in _TYPES.get(given, ()):
                if key not in data or (key == "ssh-privatekey" and not data[key]):
                    yield required(f"data[{key}]")
                elif key.startswith(".docker"):
                    yield from _docker_problems(key, data[key])


def _docker_problems(key: str, encoded: str) -> Iterator[FieldError]:
    try:
        content = json.loads(base64.b64decode(encoded))
    except ValueError as error:
        yield invalid_value(f"data[{key}]", "<secret contents redacted>", str(error))
        return
    if not isinstance(content, dict):
        sentence = "json: cannot unmarshal into Go value of type map[string]interface {}"
        yield invalid_value(f"data[{key}]", "<secret contents redacted>", sentence)
