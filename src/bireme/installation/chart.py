"""The Helm chart, written from the same parts as the manifests."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec

from bireme import __version__
from bireme.installation.expressions import Expression, as_helm
from bireme.installation.objects import build_parts
from bireme.installation.parts import Part
from bireme.installation.values import Group, Values, values_schema
from bireme.installation.webhooks import AUTHORITY_HELM
from bireme.manifest.writer import write

NOTE: Final = "Made by `make generate` from src/bireme/installation; changes here are lost."
KUBERNETES: Final = ">=1.30.0-0"
"""Since then webhooks have match conditions."""
_TOKEN: Final = re.compile(r"EXPRESSION_(\d+)_")


def chart_files() -> Iterator[tuple[str, str]]:
    """Every generated file of the chart, by its path."""
    yield "Chart.yaml", f"# {NOTE}\n" + write([_chart()])
    yield "values.yaml", f"# {NOTE}\n" + "".join(_values_lines(Values, msgspec.to_builtins(Values()), 0))
    yield "values.schema.json", _json(values_schema())
    for topic, parts in build_parts().items():
        head = f"{{{{- /* {NOTE} */}}}}\n" + (AUTHORITY_HELM if topic == "webhooks" else "")
        yield f"templates/{topic}.yaml", head + "".join(map(write_part, parts))


def _chart() -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": "bireme",
        "description": "Distributed batch jobs: MPI, ColossalAI, any set of parallel replicas.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": KUBERNETES,
    }


def write_part(part: Part) -> str:
    """The part as a piece of a template."""
    body = "---\n" + write_template(part.object)
    if not part.when:
        return body
    conditions = " ".join(as_helm(condition) for condition in part.when)
    test = f"and {conditions}" if len(part.when) > 1 else conditions
    return f"{{{{- if {test} }}}}\n{body}{{{{- end }}}}\n"


def write_template(tree: Any) -> str:
    """YAML with Helm's expressions in it; text that only looks like one comes out as it is."""
    found: list[Expression] = []

    def mark(node: Any) -> Any:
        match node:
            case Expression():
                found.append(node)
                return f"EXPRESSION_{len(found) - 1}_"
            case dict():
                return {key: mark(child) for key, child in node.items()}
            case list() | tuple():
                return [mark(child) for child in node]
            case _:
                return node

    # JSON is YAML: whatever a value is, a text with colons or a map, it stays that.
    text = write([mark(tree)]).replace("{{", '{{ "{{" }}')
    return _TOKEN.sub(lambda match: f"{{{{ toJson {as_helm(found[int(match[1])])} }}}}", text)


def _values_lines(group: type[Group], values: dict[str, Any], depth: int) -> Iterator[str]:
    """A group's values, each below its description."""
    indent = "  " * depth
    for info in msgspec.structs.fields(group):
        if info.encode_name == "global":
            continue
        hint, meta = get_args(info.type)[:2] if get_origin(info.type) is Annotated else (info.type, None)
        yield f"{indent}# {meta.description}\n"
        value = values[info.encode_name]
        if isinstance(hint, type) and issubclass(hint, Group):
            yield f"{indent}{info.encode_name}:\n"
            yield from _values_lines(hint, value, depth + 1)
        else:
            yield "".join(f"{indent}{line}\n" for line in write([{info.encode_name: value}]).splitlines())


def _json(data: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"
