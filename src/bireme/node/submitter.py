"""What a job on this machine takes from the user who submits it, as a program takes it from a shell.

Annotations of the job say where it comes from: the directory, and the PATH on which programs are found. The
environment, the umask and the resource limits are in a file below the data folder, which the job names by its
hash: environments hold tokens and passwords, and objects are printed and pasted into bug reports. The command
line writes the file (`save`), the node reads it (`load`), and the daemon removes files that no job names any
more (`sweep`).

Jobs that come another way, say by kubectl, name no file: they get the node's environment, umask and limits.
"""

import contextlib
import hashlib
import json
import os
import re
import resource
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

DIRECTORY: Final = "bireme.dev/directory"
PATH: Final = "bireme.dev/path"
DRIVER: Final = "bireme.dev/driver"
SUBMITTER: Final = "bireme.dev/submitter"
"""The annotation that names the file, by its hash."""
FOLDER: Final = "submitters"
Selection = Literal["usual", "all", "none"]

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_LARGEST_FILE: Final = 4 << 20
_UNUSED_SECONDS: Final = 3600
_NAMES: Final = frozenset((
    "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "LIBRARY_PATH", "VIRTUAL_ENV", "MODULEPATH", "LOADEDMODULES",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NO_COLOR", "FORCE_COLOR",
    "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY",
))  # fmt: skip
_PREFIXES: Final = (
    "LC_", "CONDA_", "PYTHON",
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "VECLIB_", "NUMBA_",
    "OMPI_", "PMIX_", "PRTE_", "OPAL_", "MPI4PY_", "HWLOC_", "FI_", "PSM2_", "PSM3_", "UCX_", "UCC_",
    "HCOLL_", "NCCL_", "RCCL_", "GLOO_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "NVSHMEM_", "ROCM_",
    "ROCR_", "HIP_", "HSA_", "TORCH_", "PYTORCH_", "TF_", "XLA_", "JAX_", "TRITON_", "HF_", "HUGGINGFACE_",
    "TRANSFORMERS_", "TOKENIZERS_", "ACCELERATE_", "DEEPSPEED_", "COLOSSALAI_", "WANDB_", "MLFLOW_", "DASK_",
)  # fmt: skip
_SHELLS_OWN: Final = frozenset({"_", "PWD", "OLDPWD", "SHLVL", "HOSTNAME", "TMPDIR"})
"""What a shell sets for itself, or a pod has of its own."""
_RANK_PREFIXES: Final = ("OMPI_", "PMIX_", "PRTE_", "ORTE_")
_MCA: Final = re.compile(r"(OMPI|PMIX|PRTE)_MCA_(?!ess_|orte_|pmix_|prte_|opal_|initial_|mpi_oversubscribe)")
_LIMITS: Final = {
    name.removeprefix("RLIMIT_"): number
    for name, number in vars(resource).items()
    if name.startswith("RLIMIT_") and name not in ("RLIMIT_OFILE", "RLIMIT_FSIZE")
}
"""All but the size of files: the output of a container is a file of ours, and would be cut."""


class Submitter(msgspec.Struct, frozen=True):
    """What a job takes from its submitter. `limits` are (soft, hard) by name, as `NOFILE`; -1 is no limit."""

    variables: dict[str, str] = {}
    umask: int = 0o022
    limits: dict[str, tuple[int, int]] = {}
    selection: Selection = "usual"


def is_usual(name: str) -> bool:
    """Whether a variable is one of those by which HPC and ML programs are set up."""
    return name in _NAMES or name.startswith(_PREFIXES)


def select_variables(
    environ: Mapping[str, str], selection: Selection, names: Collection[str] = ()
) -> dict[str, str]:
    """Return the variables that a job gets; those in `names` always.

    If `bireme` itself runs as an MPI rank, the variables that identify this rank are left out.
    """
    is_rank = "PMIX_RANK" in environ or "OMPI_COMM_WORLD_RANK" in environ
    return {
        name: value
        for name, value in environ.items()
        if name in names
        or (selection == "all" and name not in _SHELLS_OWN and not name.startswith("BIREME_"))
        or (selection == "usual" and is_usual(name))
        if name in names or not (is_rank and name.startswith(_RANK_PREFIXES) and not _MCA.match(name))
    }


def merge_variables(node: Mapping[str, str], submitter: Submitter) -> dict[str, str]:
    """Return the environment of a job's containers before what their manifests say: the submitter's wins.

    A variable that the submitter has not set is not the node's either, if it is a usual one.
    """
    kept = {name: value for name, value in node.items() if not is_usual(name)}
    return kept | submitter.variables


def read_limits() -> dict[str, tuple[int, int]]:
    """Return the resource limits of this process."""
    return {name: resource.getrlimit(number) for name, number in _LIMITS.items()}


def read_umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def lowered_limits(submitter: Submitter) -> list[str]:
    """Return the names of the limits that this process may not set as high as the submitter had them."""
    if os.geteuid() == 0:
        return []
    own = read_limits()
    return [
        name for name, (soft, _) in submitter.limits.items() if name in own and _exceeds(soft, own[name][1])
    ]


def _exceeds(soft: int, hard: int) -> bool:
    return hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard)


def save(folder: Path, submitter: Submitter) -> str:
    """Write a submitter below a data folder; return the hash by which jobs name it.

    Raises ValueError if it is too large.
    """
    # The standard library's encoder keeps what is not UTF-8 in a value, as surrogates.
    data = json.dumps(msgspec.to_builtins(submitter), sort_keys=True).encode()
    if len(data) > _LARGEST_FILE:
        raise ValueError(f"the environment has {len(data)} bytes, and can have {_LARGEST_FILE}")
    digest = hashlib.sha256(data).hexdigest()
    place = folder / FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    # The modes are ours, whatever umask the submitter has.
    place.chmod(0o700)
    path = place / digest
    try:
        os.utime(path)
    except FileNotFoundError:
        new = place / f".{digest}.{os.getpid()}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)
                file.write(data)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    return digest


def load(folder: Path, digest: str) -> Submitter | None:
    """Read a submitter. Return None if the hash is malformed or the file does not exist."""
    if not _HASH.fullmatch(digest):
        return None
    try:
        descriptor = os.open(folder / FOLDER / digest, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return msgspec.convert(json.loads(file.read(_LARGEST_FILE)), Submitter)
    except (OSError, ValueError, msgspec.ValidationError):
        return None


def sweep(folder: Path, named: Iterable[str]) -> None:
    """Remove files that no job names and that are older than an hour."""
    kept = set(named)
    with contextlib.suppress(OSError):
        for path in (folder / FOLDER).iterdir():
            if path.name not in kept and path.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                path.unlink()
