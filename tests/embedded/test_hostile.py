"""Pods that do all they can to stay: they go when they are told to, and nothing is left of them."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from bireme.node.shim.tree import all_processes
from bireme.testing.leftovers import cgroups_with, mounts_with, processes_with
from support.commands import Bireme
from support.daemon_client import (
    JOB,
    NAMESPACE,
    Jobs,
    first_failure,
    generic_job,
    jobs_of,
    python,
    wait_until,
)

pytestmark = pytest.mark.xdist_group("commands")

GRACE_SECONDS = 2
CHATTY_LINES = 10_000
NOISE = bytes(range(256)) * 64
MARK = "bireme-hostile-test"

# Each of them is run with a folder, and touches a file there when it is at its worst.
PREAMBLE = """
import os, signal, subprocess, sys, time
def stay_deaf():
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signum, signal.SIG_IGN)
def ready():
    open(f"{sys.argv[1]}/ready", "w").close()
def stray(name):
    # Twice forked, a session of its own, deaf, and without a variable or an argument to know it by.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            stay_deaf()
            os.execve("/bin/sh", ["sh", "-c", f": {name}; trap '' TERM; while :; do sleep 1000; done"], {})
        os._exit(0)
    os.wait()
"""
PROGRAMS = {
    "double-fork": "[stray(sys.argv[2]) for _ in range(3)]; ready(); time.sleep(1000)",
    "setsid": "os.fork() and time.sleep(1000); os.setsid(); stay_deaf(); ready(); time.sleep(1000)",
    "deaf": "stay_deaf(); ready(); [time.sleep(1) for _ in range(1000)]",
    "chatty": "ready()\nwhile True: print('x' * 20 + '\\n' * 1000, flush=True); time.sleep(0.1)",
    "binary": "os.write(1, bytes(range(256)) * 64); ready(); time.sleep(1000)",
    "mute": "[os.close(number) for number in range(3)]; ready(); time.sleep(1000)",
    "many": "[subprocess.Popen(['sleep', '1000']) for _ in range(200)]; ready(); time.sleep(1000)",
    "halted": "ready(); os.kill(os.getpid(), signal.SIGSTOP)",
    "shared-memory": "open(f'/dev/shm/{sys.argv[2]}', 'w').write('x' * 100); ready(); time.sleep(1000)",
}


def hostile_job(folder: Path, name: str, program: str) -> dict[str, Any]:
    folder.mkdir()
    command = python(PREAMBLE + program, str(folder), MARK)
    limits = {"limits": {"memory": "200Mi"}}
    job = generic_job(name, command, terminationGracePeriodSeconds=GRACE_SECONDS)
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["resources"] = limits
    return job


async def start_all(jobs: Jobs, folder: Path, prefix: str) -> set[str]:
    """Start them all; return the UIDs of their pods."""
    for name, program in PROGRAMS.items():
        await jobs.create(hostile_job(folder / name, f"{prefix}-{name}", program))
    await wait_until(lambda: all((folder / name / "ready").exists() for name in PROGRAMS))
    for name in PROGRAMS:
        await jobs.wait_phase(f"{prefix}-{name}", "Running")
    return {pod["metadata"]["uid"] for pod in await jobs.pods(f"{prefix}-")}


def left_of(bireme: Bireme, folder: Path, uids: set[str]) -> list[str]:
    """What is left of pods: processes, mounts, cgroups, shared memory, folders."""
    node = bireme.data / "node"
    return [
        *processes_with(f"{folder}/"),
        *(f"stray {pid}" for pid in strays()),
        *mounts_with(str(node / "pods")),
        *(cgroup for uid in uids for cgroup in cgroups_with(uid)),
        *(str(path) for path in Path("/dev/shm").glob(f"{MARK}*")),
        *(path.name for path in (node / "pods").iterdir() if path.name in uids),
        *(path.name for path in (node / "names/default").iterdir() if path.readlink().name in uids),
    ]


def strays() -> list[int]:
    found = []
    for process in all_processes():
        try:
            said = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if said.startswith(b"sh\0") and MARK.encode() in said:
            found.append(process.pid)
    return found


def test_pods_that_would_not_go_are_gone_after_their_grace_when_deleted(
    bireme: Bireme, tmp_path: Path
) -> None:
    async def play() -> None:
        async with jobs_of(bireme.data) as jobs:
            uids = await start_all(jobs, tmp_path, "deleted")
            assert len(strays()) >= 3
            for name in PROGRAMS:
                await jobs.delete(f"deleted-{name}")
            for name in PROGRAMS:
                await jobs.wait_gone(f"deleted-{name}")
            await wait_until(lambda: not left_of(bireme, tmp_path, uids))

    asyncio.run(play())


def test_pods_that_would_not_go_are_gone_after_their_grace_when_paused(
    bireme: Bireme, tmp_path: Path
) -> None:
    async def play() -> None:
        async with jobs_of(bireme.data) as jobs:
            uids = await start_all(jobs, tmp_path, "paused")
            for name in PROGRAMS:
                await pause(jobs, f"paused-{name}")
            for name in PROGRAMS:
                job = await jobs.wait(f"paused-{name}", is_stopped)
                assert job["status"]["phase"] == "Paused"
            assert await jobs.pods("paused-") == []
            await wait_until(lambda: not left_of(bireme, tmp_path, uids))
            for name in PROGRAMS:
                await jobs.delete(f"paused-{name}")

    asyncio.run(play())


async def pause(jobs: Jobs, name: str) -> None:
    patch = {"spec": {"runMode": {"pause": {"enabled": True}}}}
    await jobs.client.patch(JOB, NAMESPACE, name, patch)


def is_stopped(job: dict[str, Any]) -> bool:
    conditions = job["status"].get("conditions") or ()
    return any(each["type"] == "Paused" and each.get("reason") == "Stopped" for each in conditions)


ENDS = {
    "leaves-strays": ("stray(sys.argv[2]); sys.exit(0)", "Succeeded", None),
    "fails-with-strays": ("stray(sys.argv[2]); sys.exit(3)", "Failed", 3),
    "kills-itself": ("os.kill(os.getpid(), signal.SIGKILL)", "Failed", 137),
    "mute-failure": ("[os.close(number) for number in range(3)]; os._exit(5)", "Failed", 5),
    "kills-its-group": ("signal.signal(15, signal.SIG_IGN); os.killpg(0, 15); sys.exit(6)", "Failed", 6),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_job_ends_as_its_main_process_does(bireme: Bireme, tmp_path: Path, name: str) -> None:
    program, phase, failure = ENDS[name]

    async def play() -> None:
        async with jobs_of(bireme.data) as jobs:
            await jobs.create(hostile_job(tmp_path / name, name, program))
            job = await jobs.wait_phase(name, "Succeeded", "Failed")
            assert job["status"]["phase"] == phase
            assert first_failure(job).get("exitCode") == failure
            uids = {pod["metadata"]["uid"] for pod in await jobs.pods(f"{name}-")}
            await jobs.delete(name)
            await jobs.wait_gone(name)
            await wait_until(lambda: not left_of(bireme, tmp_path, uids))

    asyncio.run(play())


def test_all_that_a_chatty_pod_says_is_kept(bireme: Bireme, tmp_path: Path) -> None:
    program = f"""
import sys
for number in range({CHATTY_LINES}):
    print("line", number)
"""

    async def play() -> bytes:
        async with jobs_of(bireme.data) as jobs:
            await jobs.create(generic_job("says-much", [sys.executable, "-c", program]))
            await jobs.wait_phase("says-much", "Succeeded")
            said = await jobs.output("says-much-worker-0")
            await jobs.delete("says-much")
            return said

    expected = "".join(f"line {number}\n" for number in range(CHATTY_LINES))
    assert asyncio.run(play()).decode() == expected


def test_output_that_is_no_text_is_kept_byte_by_byte(bireme: Bireme, tmp_path: Path) -> None:
    program = "import os; os.write(1, bytes(range(256)) * 64); os._exit(4)"

    async def play() -> bytes:
        async with jobs_of(bireme.data) as jobs:
            await jobs.create(generic_job("binary", [sys.executable, "-c", program]))
            job = await jobs.wait_phase("binary", "Failed")
            assert first_failure(job)["exitCode"] == 4
            said = await jobs.output("binary-worker-0")
            await jobs.delete("binary")
            return said

    assert asyncio.run(play()) == NOISE
