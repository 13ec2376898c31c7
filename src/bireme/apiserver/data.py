"""ConfigMaps and Secrets: data that can be sealed."""

import base64
from typing import Final

from bireme.apiserver.errors import FieldError, forbidden_value
from bireme.apiserver.rules import Object, Rules

_SEALED: Final = ("data", "binaryData")


class DataRules(Rules):
    """The rules of ConfigMaps: `immutable`, once set, holds."""

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        if old is None or not old.get("immutable"):
            return []
        sentence = "field is immutable when `immutable` is set"
        changed = [field for field in _SEALED if new.get(field) != old.get(field)]
        if not new.get("immutable"):
            changed.insert(0, "immutable")
        return [forbidden_value(field, sentence) for field in changed]


class SecretRules(DataRules):
    """The rules of Secrets: `stringData` is written, never read."""

    def default(self, new: Object) -> None:
        new.setdefault("type", "Opaque")
        plain: dict[str, str] = new.pop("stringData", None) or {}
        if plain:
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
            new["data"] = (new.get("data") or {}) | encoded

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        if old is not None and new["type"] != old["type"]:
            sentence = f'Invalid value: "{new["type"]}": field is immutable'
            return [FieldError("FieldValueInvalid", "type", sentence), *super().problems(new, old)]
        return super().problems(new, old)
