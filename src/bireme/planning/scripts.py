"""The scripts that run inside pods; they are files beside this module, with their own tests."""

import pkgutil
from functools import cache


@cache
def script(name: str) -> str:
    """The text of a script."""
    data = pkgutil.get_data("bireme.planning", f"scripts/{name}")
    assert data is not None, f"scripts/{name} is part of the package"
    return data.decode()
