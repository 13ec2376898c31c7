"""The daemon is killed while jobs run: no pod runs twice, every job ends, and no output is lost."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bireme.api.kinds import GENERIC_JOB
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import KubeError
from bireme.kube.resources import PODS, resource_of
from bireme.kube.transport import HttpTransport

LONG = os.environ.get("BIREME_LONG") == "1"
KILLS = 200 if LONG else 6
JOBS = 20 if LONG else 6
LINES = 40
JOB = resource_of(GENERIC_JOB)
DAEMON = """
import asyncio, sys
from pathlib import Path
from bireme.run.apiserver import Options
from bireme.run.embedded import embedded

async def main():
    async with embedded(Options(Path(sys.argv[1]))):
        await asyncio.Event().wait()

asyncio.run(main())
"""
PROGRAM = """
import os, sys, time
with open(sys.argv[1], "a") as file:
    file.write("started\\n")
for number in range(int(sys.argv[2])):
    print("line", number, flush=True)
    time.sleep(float(sys.argv[3]))
"""


class Daemon:
    """The embedded mode in a process of its own, in a folder that outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        (self.folder / "data/kubeconfig").unlink(missing_ok=True)
        with (self.folder / "daemon.log").open("ab") as log:
            command = [sys.executable, "-c", DAEMON, str(self.folder / "data")]
            self.process = subprocess.Popen(command, stderr=log, cwd=self.folder)
        async with asyncio.timeout(60):
            while not (self.folder / "data/kubeconfig").exists():
                assert self.process.poll() is None, (self.folder / "daemon.log").read_text()[-2000:]
                await asyncio.sleep(0.02)

    async def kill(self, signum: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(signum)
        await asyncio.to_thread(self.process.wait)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        config = load_config(kubeconfig=str(self.folder / "data/kubeconfig"), environ={})
        client = Client(HttpTransport(config))
        try:
            yield client
        finally:
            await client.close()


def job(folder: Path, index: int, seconds: float) -> dict[str, Any]:
    mark = str(folder / f"{index}-$(rank)")
    command = [sys.executable, "-c", PROGRAM, mark, str(LINES), str(seconds / LINES)]
    template = {"spec": {"containers": [{"name": "main", "image": "none", "command": command}]}}
    return {
        "apiVersion": GENERIC_JOB.api_version,
        "kind": "GenericJob",
        "metadata": {"name": f"job-{index}"},
        "spec": {"replicaSpecs": [{"type": "worker", "replicas": 2, "template": template}]},
    }


async def phases(daemon: Daemon) -> list[str]:
    async with daemon.client() as client:
        listed = await client.list(JOB, "default", type=dict)
        return [(each.get("status") or {}).get("phase", "") for each in listed.items]


async def play(folder: Path, seed: int) -> None:
    dice = random.Random(seed)
    marks = folder / "marks"
    marks.mkdir()
    daemon = Daemon(folder)
    await daemon.start()
    longest = 0.5 * KILLS + 2
    async with daemon.client() as client:
        for index in range(JOBS):
            await client.create(JOB, "default", job(marks, index, dice.uniform(1, longest)))
    for _ in range(KILLS):
        await asyncio.sleep(dice.uniform(0, 0.8))
        await daemon.kill()
        await daemon.start()
    async with asyncio.timeout(longest + 60):
        while set(await phases(daemon)) != {"Succeeded"}:
            await asyncio.sleep(0.2)
    for index in range(JOBS):
        for rank in range(2):
            assert (marks / f"{index}-{rank}").read_text() == "started\n", f"replica {rank} of job {index}"
            await check_output(daemon, f"job-{index}-worker-{rank}")
    async with daemon.client() as client:
        for index in range(JOBS):
            await client.delete(JOB, "default", f"job-{index}", propagation="Background")
        async with asyncio.timeout(60):
            while (await client.list(PODS, "default", type=dict)).items or left_behind(folder):
                await asyncio.sleep(0.1)
    await daemon.kill(signal.SIGTERM)


def left_behind(folder: Path) -> list[str]:
    """What is left of pods on the disk."""
    return [path.name for path in (folder / "data/node/pods").iterdir()]


async def check_output(daemon: Daemon, pod: str) -> None:
    expected = "".join(f"line {number}\n" for number in range(LINES))
    async with daemon.client() as client:
        said = b"".join([chunk async for chunk in client.log("default", pod)])
    assert said.decode() == expected, pod


def test_the_daemon_may_die_at_any_moment(tmp_path: Path) -> None:
    seed = int(os.environ.get("BIREME_SEED", "1"))
    try:
        asyncio.run(play(tmp_path, seed))
    except (AssertionError, TimeoutError, KubeError):
        print(f"seed {seed}", (tmp_path / "daemon.log").read_text()[-3000:])
        raise
    finally:
        subprocess.run(["pkill", "-KILL", "-f", str(tmp_path)], check=False)
