"""Schemas of all sorts, as CRDs have them."""

import json
from typing import Any

Object = dict[str, Any]

STRING = {"type": "string"}
INTEGER = {"type": "integer"}

# Texts that have a pattern or a format, and texts that have not.
TEXTS: dict[str, tuple[list[str], list[str]]] = {
    "^[a-z]+$": (["abc", "z"], ["ABC", "abc\n", ""]),
    r"^(?i)ab|[[:digit:]]{2}\z": (["xx12", "ABx", "ab"], ["12x", "a"]),
    r"^\Qa.b\E{1,2}\s?x*$": (["a.b", "a.bb xx"], ["axb", "a.b\vx", "a.b\n"]),
    r"^\p{Lu}[^\s[:punct:]]+$": (["Äb", "A1"], ["äb", "A!", "A "]),
    r"a{,2}b$": (["a{,2}b"], ["aab"]),
    "date-time": (["2024-02-29T10:00:00Z", "2024-01-01t00:00:00.5+01:00"], ["2023-02-29T10:00:00Z", "now"]),
    "date": (["2024-02-29"], ["2023-02-29", "2024-2-1", "0000-13-01"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567", "123e4567-e89b-12d3-a456-42661417400g"]),
    "uuid4": (["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
    "ipv4": (["10.0.0.1", "010.0.0.1"], ["10.0.0", "::1", "256.1.1.1"]),
    "ipv6": (["::1", "fe80::1", "::ffff:10.0.0.1"], ["10.0.0.1", "fe80::1%eth0", "g::"]),
    "cidr": (["10.0.0.0/8", "fe80::/10"], ["10.0.0.0", "10.0.0.0/33"]),
    "mac": (
        ["01:23:45:67:89:ab", "0123.4567.89ab", "01-23-45-67-89-ab-cd-ef"],
        ["01:23", "01:23:45-67:89:ab"],
    ),
    "email": (["a@example.com", "Jo <jo@example.com>"], ["a", "a@", "@b", "a b@c"]),
    "uri": (
        ["https://example.com/a?b", "/path", "mailto:a@b"],
        ["example.com", "", "http://a b", "https://a:x"],
    ),
    "hostname": (["example.com", "a-b"], ["-a", "a_b", "a" * 64]),
    "byte": (["YWJj", "YQ=="], ["YQ", "*", ""]),
    "duration": (["1h30m", "22 ns", "3 days", "-1.5s", "0"], ["1", "abc", "5 lightyears"]),
    "password": (["anything"], []),
    "hexcolor": (["#fff", "a1b2c3"], ["#ffff", "red"]),
    "rgbcolor": (["rgb(1, 2,255)"], ["rgb(1,2)", "rgb(1,2,256)"]),
    "creditcard": (["4111 1111 1111 1111"], ["4111111111111112"]),
    "isbn": (["0321751043", "978-0321751041"], ["0321751044"]),
    "isbn10": (["0321751043"], ["978-0321751041"]),
    "isbn13": (["978-0321751041"], ["0321751043"]),
    "ssn": (["111-22-3333"], ["111223333", "111-22-333"]),
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["507f"]),
    "k8s-short-name": (["abc-1"], ["Abc", "a" * 64]),
    "k8s-long-name": (["abc.de"], ["a..b"]),
    "no-such-format": (["anything"], []),
}


def root(**spec: Any) -> Object:
    """A schema whose `spec` has the given properties."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}


def _listed(items: Object, kind: str = "", keys: tuple[str, ...] = (), **more: Any) -> Object:
    made: Object = {"type": "array", "items": items, **more}
    if kind:
        made["x-kubernetes-list-type"] = kind
    return made | ({"x-kubernetes-list-map-keys": list(keys)} if keys else {})


SCHEMAS: dict[str, Object] = {
    "scalars": root(
        text=STRING,
        count=INTEGER,
        small={"type": "integer", "format": "int32"},
        ratio={"type": "number"},
        flag={"type": "boolean"},
        single={"type": "number", "format": "float"},
        either={"x-kubernetes-int-or-string": True},
        long={"type": "integer", "format": "int64"},
    ),
    "limits": root(
        count={"type": "integer", "minimum": 1, "maximum": 10},
        strict={
            "type": "integer",
            "minimum": 0,
            "maximum": 5,
            "exclusiveMinimum": True,
            "exclusiveMaximum": True,
        },
        even={"type": "integer", "multipleOf": 2},
        ratio={"type": "number", "minimum": 0.5, "maximum": 1e7},
        tenth={"type": "number", "multipleOf": 0.1},
        text={"type": "string", "minLength": 2, "maxLength": 4},
        short={"type": "string", "maxLength": 1},
        single=_listed(STRING, maxItems=1),
        list=_listed(INTEGER, minItems=1, maxItems=3),
        map={"type": "object", "additionalProperties": INTEGER, "minProperties": 1, "maxProperties": 2},
    ),
    "patterns": root(
        **{f"p{index}": {"type": "string", "pattern": key} for index, key in enumerate(TEXTS) if index < 5}
    ),
    "formats": root(
        **{f"f{index}": {"type": "string", "format": key} for index, key in enumerate(TEXTS) if index > 4}
    ),
    "choices": root(
        word={"type": "string", "enum": ["One", "Two", 'Th"ree']},
        number={"type": "integer", "enum": [1, 2]},
        ratio={"type": "number", "enum": [1.5, 2]},
        mixed={"x-kubernetes-int-or-string": True, "enum": [1, "a"]},
        thing={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "enum": [{"a": 1}]},
        maybe={"type": "string", "nullable": True, "enum": ["x"]},
    ),
    "nested": {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["name", "template"],
                "properties": {
                    "name": STRING,
                    "template": {
                        "type": "object",
                        "required": ["image"],
                        "properties": {
                            "image": STRING,
                            "env": _listed(
                                {
                                    "type": "object",
                                    "required": ["name"],
                                    "properties": {"name": STRING, "value": STRING},
                                }
                            ),
                            "metadata": {
                                "type": "object",
                                "properties": {"labels": {"type": "object", "additionalProperties": STRING}},
                            },
                        },
                    },
                    "matrix": _listed(_listed(INTEGER)),
                    "groups": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "required": ["size"],
                            "properties": {"size": INTEGER},
                        },
                    },
                },
            }
        },
    },
    "defaults": root(
        replicas={"type": "integer", "default": 1},
        mode={"type": "string", "default": "Fast", "nullable": True},
        policy={
            "type": "object",
            "default": {"retries": 3},
            "properties": {"retries": INTEGER, "wait": {"type": "string", "default": "1s"}},
        },
        ports=_listed(
            {
                "type": "object",
                "required": ["port"],
                "properties": {"port": INTEGER, "protocol": {"type": "string", "default": "TCP"}},
            },
            "map",
            ("port", "protocol"),
        ),
        byname={
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"weight": {"type": "integer", "default": 5}},
            },
        },
        tags=_listed({"type": "string", "default": "x"}),
    ),
    "lists": root(
        set=_listed(STRING, "set"),
        numbers=_listed({"type": "number"}, "set"),
        map=_listed(
            {"type": "object", "required": ["a"], "properties": {"a": STRING, "n": INTEGER}}, "map", ("a",)
        ),
        pairs=_listed(
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": STRING, "b": INTEGER, "inner": _listed(INTEGER, "set")},
            },
            "map",
            ("a", "b"),
        ),
        atomic=_listed(STRING, "atomic"),
        objects=_listed(
            {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": STRING}}, "set"
        ),
    ),
    "preserved": root(
        free={
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "object", "properties": {"a": STRING}}},
        },
        anything={"x-kubernetes-preserve-unknown-fields": True},
        freelist=_listed(
            {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": STRING}}}}
        )
        | {"x-kubernetes-preserve-unknown-fields": True},
        bare={"type": "object"},
        map={"type": "object", "additionalProperties": True},
    ),
    "nullables": root(
        text={"type": "string", "nullable": True},
        plain=STRING,
        list=_listed({"type": "string", "nullable": True}),
        strictlist=_listed(STRING),
        map={"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
        strictmap={"type": "object", "additionalProperties": STRING},
        object={"type": "object", "nullable": True, "properties": {"a": STRING}},
    ),
    "embedded": root(
        template={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", "properties": {"a": STRING}}},
        },
        free={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        many={
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"a": STRING},
            },
        },
    ),
    "junctors": root(
        any={
            "type": "object",
            "properties": {"a": INTEGER, "b": STRING},
            "anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minLength": 2}}}],
        },
        one={
            "type": "object",
            "properties": {"a": INTEGER, "b": STRING},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        all={"type": "integer", "allOf": [{"minimum": 2}, {"multipleOf": 3}]},
        no={"type": "string", "not": {"pattern": "^x"}},
        either={
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^[0-9]+%$",
        },
        best={"type": "integer", "anyOf": [{"minimum": 10, "multipleOf": 2}, {"maximum": 3}]},
    ),
    "rules": {
        "type": "object",
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 9, "pattern": "^o"}},
            },
            "spec": {
                "type": "object",
                "required": ["a"],
                "properties": {"a": INTEGER, "b": {"type": "string", "enum": ["x"]}},
                "x-kubernetes-validations": [{"rule": "self.a >= 0 || self.a < 0"}],
            },
        },
    },
}

LAX = root(
    count={"type": "integer"},
    text={"type": "string"},
    list={"type": "array", "items": {"type": "string"}},
    map={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object",
            "required": ["k"],
            "properties": {"k": {"type": "string"}, "n": {"type": "integer"}},
        },
    },
    inner={"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
)
STATUS = {
    "type": "object",
    "required": ["phase"],
    "properties": {
        "phase": {"type": "string"},
        "replicas": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    },
}


def tightened() -> Object:
    """The same schema, with limits that the stored object does not keep."""
    schema: Object = json.loads(json.dumps(LAX))
    spec = schema["properties"]["spec"]["properties"]
    spec["count"]["maximum"] = 5
    spec["text"]["pattern"] = "^[a-z]+$"
    spec["list"]["items"]["maxLength"] = 2
    spec["list"]["maxItems"] = 2
    spec["map"]["items"]["properties"]["n"]["maximum"] = 5
    spec["inner"]["required"] = ["c"]
    spec["inner"]["properties"] |= {"c": {"type": "integer"}, "a": {"type": "integer", "maximum": 5}}
    return schema
