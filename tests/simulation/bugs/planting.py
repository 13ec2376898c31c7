"""Bugs on purpose: one function of ours is compiled anew from its source with one place changed."""

import contextlib
import importlib
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple


class Bug(NamedTuple):
    """`function` is the qualified name in the module whose text `old` becomes `new`."""

    name: str
    module: str
    function: str
    old: str
    new: str


class RottenBugError(AssertionError):
    """The source is no longer what the bug was made for."""


@contextlib.contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Have the bug inside of the block, in this process."""
    module = importlib.import_module(f"bireme.{bug.module}")
    function = _function(module, bug.function)
    sound, function.__code__ = function.__code__, _changed_code(module, function, bug)
    try:
        yield
    finally:
        function.__code__ = sound


def _function(module: ModuleType, qualified: str) -> FunctionType:
    found: Any = module
    for part in qualified.split("."):
        found = inspect.getattr_static(found, part)
    function = found.fget if isinstance(found, property) else found
    assert isinstance(function, FunctionType), qualified
    return function


def _changed_code(module: ModuleType, function: FunctionType, bug: Bug) -> CodeType:
    source, own = inspect.getsource(module), inspect.getsource(function)
    if own.count(bug.old) != 1:
        raise RottenBugError(f"{bug.name}: {bug.function} has the text {own.count(bug.old)} times, not once")
    changed = source.replace(own, own.replace(bug.old, bug.new))
    assert module.__file__ is not None
    return _find(compile(changed, module.__file__, "exec"), bug.function)


def _find(code: CodeType, qualified: str) -> CodeType:
    """The last of that name: those before it are its overloads."""
    for constant in reversed(code.co_consts):
        if isinstance(constant, CodeType):
            if constant.co_qualname == qualified:
                return constant
            if qualified.startswith(f"{constant.co_qualname}."):
                return _find(constant, qualified)
    raise LookupError(qualified)
