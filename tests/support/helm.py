"""Helm, where it is built."""

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.fixtures import unavailable

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/bireme"
KUBERNETES = "1.36.0"
"""What `helm template` is told, as it asks no cluster."""


@functools.cache
def find_helm() -> Path:
    """Of `hack/node/build helm`, else of the PATH; without one the test is skipped."""
    folder = subprocess.run(
        [ROOT / "hack/node/build", "path"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    found = shutil.which("helm", path=os.pathsep.join((folder, os.environ["PATH"])))
    if found is None:
        raise unavailable("no helm: run `hack/node/build helm`")
    return Path(found)


def helm(
    *arguments: str | Path, kubeconfig: Path | None = None, folder: Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run Helm; it keeps what it must in `folder`, and reads no settings of the caller's."""
    places = {name: str(folder / name.lower()) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME")}
    config = {"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}
    result = subprocess.run(
        [find_helm(), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **places, **config},
    )
    if check and result.returncode:
        raise AssertionError(result.stderr)
    return result


def render(folder: Path, *options: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    arguments: Sequence[str | Path] = ("template", "bireme", CHART, "-n", "try", "--kube-version", KUBERNETES)
    return helm(*arguments, *options, folder=folder, check=check)
