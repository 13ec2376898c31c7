"""What a value says: the paths that come, or go, with it.

Maps with the same keys say the same but for what lies below these. So what a struct's keys say is kept as a
template, which most maps of a pod are done with.
"""

from typing import Any, Final

from bireme.apiserver.managed.elements import by_key
from bireme.apiserver.managed.paths import SELF, Fields, in_order
from bireme.apiserver.managed.shapes import Shape, Template
from bireme.apiserver.rules import Object

_MOST_TEMPLATES: Final = 64


def mentioned(shape: Shape, value: object) -> Fields:
    """What is below a path that comes, or goes, with this value; the path itself with it.

    Raises UnkeyedError.
    """
    if type(value) is dict:
        return mentioned_fields(shape, value) if value and shape.opens_maps else {}
    if type(value) is list and value and shape.opens_lists:
        return {SELF: {}, **mentioned_items(shape, value)}
    return {}


def mentioned_fields(shape: Shape, value: Object) -> Fields:
    """What a map says that is owned by its fields; a "." for itself is among it."""
    keys = tuple(value)
    fields, below = shape.templates.get(keys) or _template(shape, keys)
    if not below:
        return fields
    made = fields.copy()
    for key, element, child in below:
        made[element] = mentioned(child, value[key])
    return made


def _template(shape: Shape, keys: tuple[str, ...]) -> Template:
    children = [(key, f"f:{key}", shape.field(key)) for key in sorted(keys)]
    fields: Fields = {SELF: {}}
    fields.update((element, {}) for _, element, _ in children)
    made = Template(fields, tuple(each for each in children if each[2].opens_maps or each[2].opens_lists))
    # Of the keys of other maps, such as labels, there is no end.
    if len(shape.templates) < _MOST_TEMPLATES and shape.fields.keys() >= set(keys):
        shape.templates[keys] = made
    return made


def mentioned_items(shape: Shape, items: list[Any]) -> Fields:
    """What a list says that is owned by its items, sorted; duplicates are one value, owned as a whole."""
    named: Fields = {}
    key = shape.keys[0] if len(shape.keys) == 1 else ""
    for item in items:
        text = item.get(key) if key and type(item) is dict else None
        name = by_key(key, text) if type(text) is str else shape.name_item(item)
        named[name] = {} if name in named else mentioned(shape.item, item)
    return in_order(named)
