"""The operators that we measure ourselves against, built from their Go modules into the cache."""

import hashlib
import os
import subprocess
from pathlib import Path

HACK = Path(__file__).parents[1] / "hack/peers"
MPI_OPERATOR = "github.com/kubeflow/mpi-operator"


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("BIREME_CACHE") or Path(home) / "bireme") / "peers"


def build(name: str, package: str) -> Path:
    """The program of a peer; built once per lock file."""
    folder = HACK / name
    locked = (folder / "go.mod").read_bytes() + (folder / "go.sum").read_bytes()
    digest = hashlib.sha256(locked).hexdigest()[:12]
    target = _cache() / f"{name}-{digest}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_suffix(".part")
        command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(unfinished), package]
        subprocess.run(command, cwd=folder, check=True, env={**os.environ, "CGO_ENABLED": "0"})
        unfinished.rename(target)
    return target


def module_folder(name: str, module: str) -> Path:
    """Where the sources of a peer are, for its CRDs."""
    # On a new machine they are nowhere yet, and `go list` says so with an empty line.
    subprocess.run(["go", "mod", "download", module], cwd=HACK / name, check=True)
    command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    found = subprocess.run(command, cwd=HACK / name, check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())
