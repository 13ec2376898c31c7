"""Plain data to YAML that kubectl reads back as the same data."""

from collections.abc import Iterable
from typing import Any

import yaml

from bireme.manifest.scalars import ScalarError, resolve
from bireme.terminal_text import neutralise

_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BaseDumper):  # type: ignore[misc]
    """No anchors, long lines kept, and every string quoted that kubectl would not read as one."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _represent_text(dumper: Any, text: str) -> yaml.Node:
    style = None
    if "\n" in text.rstrip("\n") and "\t" not in text and " \n" not in text:
        style = "|"
    elif _reads_as_other(text):
        style = '"'
    node: yaml.Node = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


def _reads_as_other(text: str) -> bool:
    try:
        return not isinstance(resolve(text), str)
    except ScalarError:
        return True


_Dumper.add_representer(str, _represent_text)


def write(objects: Iterable[Any]) -> str:
    """The objects as a stream of documents, keys in their own order, `---` between them."""
    return "---\n".join(_dump(item) for item in objects)


def _dump(item: Any) -> str:
    """One document. If a terminal would obey a character of it, all beyond ASCII are written as escapes."""
    text = yaml.dump(item, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 16)
    if neutralise(text) != text:
        text = yaml.dump(item, Dumper=_Dumper, sort_keys=False, allow_unicode=False, width=1 << 16)
    return str(text)
