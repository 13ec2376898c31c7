"""What a job on this machine takes from whoever sent it: written on the job, read by its pods."""

import contextlib
import json
from collections.abc import Mapping
from typing import Final

DIRECTORY: Final = "bireme.dev/directory"
PATH: Final = "bireme.dev/path"
DRIVER: Final = "bireme.dev/driver"
ENVIRONMENT: Final = "bireme.dev/environment"
VARIABLES: Final = (
    "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "PYTHONPATH", "CUDA_HOME", "MODULEPATH", "LOADEDMODULES", "OPAL_PREFIX", "SSL_CERT_FILE",
)  # fmt: skip
"""Those by which a shell is set up for some work; others may be anything, secrets too."""


def write_variables(environ: Mapping[str, str]) -> str:
    return json.dumps({name: environ[name] for name in VARIABLES if name in environ})


def with_callers(environ: Mapping[str, str], told: str) -> dict[str, str]:
    """The node's own variables, with those of the caller in place of its like, where the caller told any."""
    given: object = None
    with contextlib.suppress(ValueError):
        given = json.loads(told) if told else None
    if not isinstance(given, dict):
        return dict(environ)
    kept = {name: value for name, value in environ.items() if name not in VARIABLES}
    return kept | {name: given[name] for name in VARIABLES if isinstance(given.get(name), str)}
