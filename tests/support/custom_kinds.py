"""CRDs, and objects of them: valid ones, and such as are wrong somewhere."""

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any

from support.custom_schemas import TEXTS

Schema = Mapping[str, Any]
Object = dict[str, Any]
GROUP = "structural.example.com"


def build_crd(name: str, schema: Object, **version: Any) -> Object:
    """A CRD; `name` is its plural."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": name, "kind": name.capitalize()},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                | version
            ],
        },
    }


class Generator:
    """Values of a schema. The more `wrong`, the more of them the schema refuses; `density` is how likely a
    field is set that need not be."""

    def __init__(self, seed: int, density: float = 0.6) -> None:
        self._random = random.Random(seed)
        self._density = density
        self.wrong = 0.0

    def obj(self, api_version: str, kind: str, schema: Schema, *, wrong: float) -> Object:
        """An object of a schema of a whole object, without a status."""
        self.wrong = wrong
        properties = {key: value for key, value in schema["properties"].items() if key == "spec"}
        content = self._object({**schema, "properties": properties})
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, **content}

    def value(self, schema: Schema) -> Any:
        if self._random.random() < self.wrong:
            return self._random.choice(
                [None, "text", "", 7, -1, 2.5, 3.0, True, [], {}, ["a", "a"], {"odd": {"x": 1}}, 2**31, 1e300]
            )
        if "enum" in schema:
            return copy.deepcopy(self._random.choice(schema["enum"]))
        kind = schema.get("type") or self._random.choice(["integer", "string"])
        make = {
            "string": self._text, "integer": self._integer, "number": self._number, "boolean": self._flag,
            "array": self._list, "object": self._object,
        }[kind]  # fmt: skip
        return make(schema)

    def _text(self, schema: Schema) -> str:
        good, bad = TEXTS.get(
            schema.get("pattern") or schema.get("format") or "", (["abc", "a"], ["abcdefgh"])
        )
        return self._random.choice(bad if bad and self._random.random() < self.wrong * 3 else good)

    def _integer(self, schema: Schema) -> int:
        least = int(schema.get("minimum", 0))
        return self._random.randint(least - 2 if self._random.random() < self.wrong else least, least + 12)

    def _number(self, schema: Schema) -> float:
        return self._random.choice([0.5, 0.3, 1.5, 2, 3.0, 1e6, 12345678.5, self._integer(schema)])

    def _flag(self, schema: Schema) -> bool:
        return self._random.random() < 0.5 or not schema

    def _list(self, schema: Schema) -> list[Any]:
        least = 0 if self.wrong else schema.get("minItems", 0)
        size = self._random.randint(least, max(least, min(schema.get("maxItems", 3), 3)) + 1)
        return [self.value(schema["items"]) for _ in range(size)]

    def _object(self, schema: Schema) -> Object:
        made = dict(self._fields(schema))
        if isinstance(extra := schema.get("additionalProperties"), Mapping):
            made |= {key: self.value(extra) for key in ("k1", "k2.x", "k3")[: self._random.randint(0, 3)]}
        if schema.get("x-kubernetes-embedded-resource") and self._random.random() > self.wrong:
            made |= {"apiVersion": "v1", "kind": "Thing", "metadata": self._metadata()}
        while self._random.random() < self.wrong / 2:
            made[self._random.choice(["odd", "Odd", "a.b"])] = self._random.choice(
                [1, {"deep": {}}, [{"q": 1}]]
            )
        return made

    def _metadata(self) -> Object | None:
        given: list[Object | None] = [{"labels": {"a": "b", "c": None}, "odd": 1}, None, {}]
        given.append({"name": "", "finalizers": [], "creationTimestamp": None, "generation": 0})
        return self._random.choice(given)

    def _fields(self, schema: Schema) -> Iterator[tuple[str, Any]]:
        for key, each in (schema.get("properties") or {}).items():
            needed = key in schema.get("required", ())
            if self._random.random() < (1 - self.wrong if needed else self._density):
                yield key, self.value(each)
