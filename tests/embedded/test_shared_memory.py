"""Memory that the containers of a pod share, and nobody else: files of /dev/shm, and System V's segments."""

import os
from pathlib import Path

import pytest

from bireme.node.machine import isolation
from support.fixtures import unavailable
from support.here import Here, Object, generic, replica, shell

pytestmark = pytest.mark.xdist_group("here")

MARK = "bireme-shared-memory-test"
FILE = f"/dev/shm/{MARK}"
# A probe is a command beside a container, as `kubectl exec` is.
SEEN = {"exec": {"command": ["test", "-e", FILE]}, "periodSeconds": 1, "failureThreshold": 100}
SEGMENT = "import ctypes; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0)"


@pytest.fixture(autouse=True)
def _needs_namespaces() -> None:
    if isolation() == "none":
        raise unavailable("this machine lets nobody make mounts: allow user namespaces")


def test_all_containers_of_a_pod_and_commands_beside_them_share_it(here: Here) -> None:
    wait = f"until test -e {here.work}/shared; do sleep 0.1; done"
    containers = [
        shell("main", f"{wait}; cat {FILE}", startupProbe=SEEN),
        shell("other", f"echo hello >{FILE}; exec sleep inf"),
    ]
    job = generic(
        "shm", replica("a", "", containers=containers), replica("b", f"{wait}; ls /dev/shm | wc -l")
    )
    here.create(job)
    here.until_pod("shm-a-0", is_started)
    assert not Path(FILE).exists()
    (here.work / "shared").touch()
    assert here.end_of(job)["phase"] == "Succeeded"
    assert here.output("shm-a-0") == "hello\n"
    assert here.output("shm-b-0") == "0\n"
    here.delete(job)


def is_started(pod: Object) -> bool:
    """Whether the probe of the container `main` has succeeded."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(each["name"] == "main" and each["started"] for each in statuses)


def test_segments_are_shared_as_well_and_go_with_the_pod(here: Here) -> None:
    before = Path("/proc/sysvipc/shm").read_text()
    make = shell("make", "")
    make["command"] = ["python3", "-c", SEGMENT]
    job = generic("segments", replica("a", "tail -n +2 /proc/sysvipc/shm | wc -l", initContainers=[make]))
    assert here.play(job)["phase"] == "Succeeded"
    assert here.output("segments-a-0", "make") == "True\n"
    assert here.output("segments-a-0") == "1\n"
    assert Path("/proc/sysvipc/shm").read_text().count("\n") == before.count("\n")
    here.delete(job)


def test_a_pod_that_asks_for_the_machines_memory_gets_it(here: Here) -> None:
    file = Path(f"{FILE}-{os.getpid()}")
    file.touch()
    try:
        job = generic("host", replica("a", f"test -e {file}", hostIPC=True))
        assert here.play(job)["phase"] == "Succeeded"
        here.delete(job)
    finally:
        file.unlink()


def memory_job(name: str, script: str, size: str) -> Object:
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}]
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    return generic(
        name,
        replica("a", "", containers=[shell("main", script, volumeMounts=mounts)], volumes=volumes),
    )


def test_an_empty_dir_in_memory_is_a_tmpfs_of_its_size_at_dev_shm(here: Here) -> None:
    script = "stat -f -c '%T %S %b' /dev/shm; head -c 70M /dev/zero >/dev/shm/big 2>/dev/null || echo full"
    job = memory_job("sized", script, "64Mi")
    assert here.play(job)["phase"] == "Succeeded"
    assert here.output("sized-a-0") == f"tmpfs 4096 {(64 << 20) // 4096}\nfull\n"
    here.delete(job)


def test_containers_of_a_pod_share_an_empty_dir_in_memory_and_its_sub_paths(here: Here) -> None:
    volumes = [{"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    whole = [{"name": "fast", "mountPath": "/bireme-test/fast"}]
    part = [{"name": "fast", "mountPath": "/bireme-test/part", "subPath": "deep/part"}]
    first = shell("first", "echo hello >/bireme-test/part/file", volumeMounts=part)
    main = shell("main", "cat /bireme-test/fast/deep/part/file", volumeMounts=whole)
    job = generic(
        "fast", replica("a", "", containers=[main], initContainers=[first], volumes=volumes, hostIPC=True)
    )
    assert here.play(job)["phase"] == "Succeeded"
    assert here.output("fast-a-0") == "hello\n"
    uid = here.pod("fast-a-0")["metadata"]["uid"]
    assert not any((here.folder / f"node/pods/{uid}/volumes/fast").glob("deep/part/*")), "it was on the disk"
    here.delete(job)


def test_a_limit_of_memory_bounds_an_empty_dir_in_memory(here: Here) -> None:
    job = memory_job("bounded", "stat -f -c '%S %b' /dev/shm", "1Gi")
    container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "32Mi"}}
    assert here.play(job)["phase"] == "Succeeded"
    assert here.output("bounded-a-0") == f"4096 {(32 << 20) // 4096}\n"
    here.delete(job)
