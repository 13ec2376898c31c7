"""The pieces that an installation is put together from."""

from typing import Any, NamedTuple

from bireme.installation.expressions import Namespace
from bireme.installation.names import labels

Tree = dict[str, Any]


class Part(NamedTuple):
    """An object that is there if all its conditions hold."""

    object: Tree
    when: tuple[Any, ...] = ()


def metadata(name: Any, component: str, namespace: Any = None, **more: Any) -> Tree:
    """The metadata of an object; without a namespace it belongs to the cluster."""
    place = {} if namespace is None else {"namespace": namespace}
    return {"name": name, **place, "labels": labels(component), **more}


def here(name: Any, component: str, **more: Any) -> Tree:
    """The metadata of an object in the namespace of the installation."""
    return metadata(name, component, Namespace(), **more)
