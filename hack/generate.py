"""Write what is made from src/bireme: deploy/, docs/reference, and a part of docs/concepts/security.md.

`--check` compares instead.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bireme.api.crd import build_crd
from bireme.api.kinds import KINDS, Kind
from bireme.api.schema import kind_schema
from bireme.api.variables import VariableGuide
from bireme.cli.explain import type_name
from bireme.installation.chart import chart_files
from bireme.installation.permissions import BEGIN, END, permission_tables
from bireme.manifest.writer import write

ROOT = Path(__file__).parents[1]
CRD_NOTE = "# Made by `make generate` from src/bireme/api; changes here are lost.\n"
PAGE_NOTE = "<!-- Made by `make generate` from src/bireme/api; changes here are lost. -->\n"


def generated() -> Iterator[tuple[Path, str]]:
    """Every generated file with its text."""
    for kind in KINDS:
        name, crd = f"{kind.group}_{kind.plural}.yaml", CRD_NOTE + write([build_crd(kind)])
        yield ROOT / "deploy/crds" / name, crd
        # A copy: helm warns of symbolic links in a chart.
        yield ROOT / "deploy/helm/bireme/files/crds" / name, crd
        yield ROOT / "docs/reference" / f"{_page_name(kind)}.md", PAGE_NOTE + "\n".join(_page(kind)) + "\n"
    for path, text in chart_files():
        yield ROOT / "deploy/helm/bireme" / path, text
    page = ROOT / "docs/concepts/security.md"
    before, _, rest = page.read_text().partition(BEGIN)
    yield page, before + permission_tables() + rest.partition(END)[2]


def _page_name(kind: Kind) -> str:
    return f"kubeflow-{kind.singular}" if kind.group == "kubeflow.org" else kind.singular


def _page(kind: Kind) -> Iterator[str]:
    schema = kind_schema(kind)
    yield f"# {kind.kind} ({kind.api_version})"
    yield ""
    yield str(schema["description"])
    yield ""
    scope = "Namespaced" if kind.namespaced else "Cluster"
    yield f"{scope}; `kubectl get {kind.plural}.{kind.group}`, short {', '.join(kind.short_names)}."
    for part in ("spec", "status"):
        yield ""
        yield f"## {part}"
        yield ""
        yield "| field | type | description |"
        yield "|---|---|---|"
        yield from _rows(schema["properties"][part], part)
    if kind.variables is not None:
        yield from _variables(kind.variables)


def _variables(guide: VariableGuide) -> Iterator[str]:
    yield ""
    yield "## Variables"
    yield ""
    yield "| variable | value |"
    yield "|---|---|"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in guide.variables)
    yield ""
    yield guide.rules


def _rows(schema: dict[str, Any], path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        mark = " **required**" if name in required else ""
        yield f"| `{path}.{name}` | {type_name(child)} | {child['description']}{_limits(child)}{mark} |"
        element, suffix = child, ""
        while "items" in element:
            element, suffix = element["items"], suffix + "[]"
        if "x-kubernetes-preserve-unknown-fields" in element or element.get("type") != "object":
            continue
        entry = element.get("additionalProperties")
        if entry is not None and "properties" in entry:
            element, suffix = entry, suffix + ".*"
        yield from _rows(element, f"{path}.{name}{suffix}")


def _limits(schema: dict[str, Any]) -> str:
    words = []
    if "enum" in schema:
        words.append("one of " + ", ".join(f"`{_word(item)}`" for item in schema["enum"]))
    if "minimum" in schema and "maximum" in schema and schema["maximum"] < 2**31 - 1:
        words.append(f"from {schema['minimum']} to {schema['maximum']}")
    elif "minimum" in schema:
        words.append(f"at least {schema['minimum']}")
    if schema.get("default") not in (None, {}):
        words.append(f"default `{_word(schema['default'])}`")
    return f" ({'; '.join(words)})" if words else ""


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def main(*, check: bool) -> int:
    """Write the files, or name those that differ; return the exit status."""
    stale = [(path, text) for path, text in generated() if not path.exists() or path.read_text() != text]
    for path, text in stale:
        if check:
            print(
                f"{path.relative_to(ROOT)}: not what src/bireme says; run `make generate`",
                file=sys.stderr,
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
