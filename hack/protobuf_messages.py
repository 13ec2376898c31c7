"""Cut the Protobuf messages of what clients may send out of Kubernetes' own sources.

    python -m hack.protobuf_messages v1.36.3

reads the modules that `make control-plane` has brought, and writes
src/bireme/apiserver/protobuf/messages.json: of each message the number, JSON name, type and shape of each
field. A contract test compares what is read by it with what a server writes.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hack.openapi_definitions import ROOTS

from bireme.apiserver.openapi.definitions import raw_definition

TARGET = Path(__file__).parents[1] / "src/bireme/apiserver/protobuf/messages.json"
PACKAGES = (
    *(
        f"api/{group}/v1"
        for group in (
            "authentication",
            "authorization",
            "coordination",
            "core",
            "policy",
            "rbac",
            "scheduling",
        )
    ),
    "apimachinery/pkg/api/resource",
    "apimachinery/pkg/apis/meta/v1",
    "apimachinery/pkg/runtime",
    "apimachinery/pkg/util/intstr",
    "apiextensions-apiserver/pkg/apis/apiextensions/v1",
)
SENT = tuple(name for name in ROOTS if not name.endswith(("List", ".Patch", ".Status", ".WatchEvent")))
MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^  (?:optional |(repeated )|map<string, )([\w.]+)(>)? (\w+) = (\d+);", re.MULTILINE)
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
TAG = re.compile(r'`json:"([^",]*)[^`]* protobuf:"\w+,(\d+),')


def read(modules: Path, version: str) -> dict[str, Any]:
    """All messages of the packages, under the names of their OpenAPI definitions."""
    found: dict[str, Any] = {}
    for package in PACKAGES:
        module, _, rest = package.partition("/")
        folder = modules / f"k8s.io/{module}@v0.{version.removeprefix('v1.')}" / rest
        names = {
            (struct, int(number)): name
            for path in folder.glob("*.go")
            if not path.name.startswith(("generated", "zz_"))
            for struct, body in STRUCT.findall(path.read_text())
            for name, number in TAG.findall(body)
        }
        prefix = "io.k8s." + package.replace("/", ".")
        for message, body in MESSAGE.findall((folder / "generated.proto").read_text()):
            found[f"{prefix}.{message}"] = dict(_fields(prefix, message, body, names))
    return found


def _fields(
    prefix: str, message: str, body: str, names: dict[tuple[str, int], str]
) -> Iterator[tuple[str, list[str]]]:
    """By number: name, type and shape. A field without a name stands in its message itself."""
    for repeated, kind, mapped, name, number in FIELD.findall(body):
        shape = "map" if mapped else "list" if repeated else ""
        full = kind.lstrip(".").replace("k8s.io.", "io.k8s.", 1).replace("apiextensions_", "apiextensions-")
        if kind[0].isupper():
            full = f"{prefix}.{kind}"
        yield number, [names.get((message, int(number)), name), full, shape]


def cut(messages: dict[str, Any]) -> dict[str, Any]:
    """What is sent, and what that contains."""
    wanted: set[str] = set()
    waiting = list(SENT)
    while waiting:
        name = waiting.pop()
        if name not in wanted and name in messages:
            wanted.add(name)
            waiting += [kind for _, kind, _ in messages[name].values()]
    return {name: messages[name] for name in sorted(wanted)}


def kinds() -> dict[str, str]:
    """The message of each kind, by API version and kind."""
    found = {}
    for name in SENT:
        identity = raw_definition(name)["x-kubernetes-group-version-kind"][0]
        api_version = "/".join(part for part in (identity["group"], identity["version"]) if part)
        found[f"{api_version}/{identity['kind']}"] = name
    return dict(sorted(found.items()))


def render(messages: dict[str, Any], version: str) -> str:
    """The file's text, one line per message so that a diff can be read."""
    lines = [f"    {json.dumps(name)}: {json.dumps(fields)}" for name, fields in cut(messages).items()]
    return (
        f'{{\n  "kubernetes": {json.dumps(version)},\n  "kinds": {json.dumps(kinds())},\n  "messages": {{\n'
        + ",\n".join(lines)
        + "\n  }\n}\n"
    )


if __name__ == "__main__":
    cache = subprocess.run(["go", "env", "GOMODCACHE"], check=True, capture_output=True, text=True)
    TARGET.write_text(render(read(Path(cache.stdout.strip()), sys.argv[1]), sys.argv[1]))
