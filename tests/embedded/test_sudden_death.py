"""The daemon is killed while jobs run: no pod runs twice, every job ends, and no output is lost."""

import asyncio
import json
import os
import random
import select
import signal
import subprocess
from pathlib import Path

from bireme.kube.errors import KubeError
from bireme.run.jobs import is_finished
from bireme.testing.leftovers import kill_with, processes_with
from support.commands import BIREME
from support.daemon_client import JOB, NAMESPACE, Jobs, Object, generic_job, jobs_of, python, wait_until
from support.reaper import watch_over

LONG = os.environ.get("BIREME_LONG") == "1"
KILLS = 200 if LONG else 4
JOBS = 20 if LONG else 4
LONGEST_SECONDS = 60.0 if LONG else 5.0
START_SECONDS = 600
"""For a machine that has much else to do."""
REPLICAS = 2
LINES = 40
PROGRAM = """
import sys, time
with open(sys.argv[1], "a") as file:
    file.write("started\\n")
for number in range(int(sys.argv[2])):
    print("line", number, flush=True)
    time.sleep(float(sys.argv[3]))
"""


class Daemon:
    """The embedded mode in a process of its own, in a folder that outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        watch_over(folder)

    def start(self) -> None:
        command = [str(BIREME), "daemon", "--data-dir", str(self.data)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=self.folder)
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], START_SECONDS)[0], self.log()
        line = self.process.stdout.readline()
        assert line, self.log()
        assert json.loads(line)["pid"] == self.process.pid

    def end(self, signum: int = signal.SIGKILL) -> None:
        """Twice is once."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(signum)
        self.process.wait()
        self.process.stdout.close()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]


class Play:
    """Keeps a number of jobs running, and holds each of them to its account once it has ended."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._dice = random.Random(seed)
        self._marks = folder / "marks"
        self._marks.mkdir()
        self._open: set[str] = set()
        self._begun = 0
        self.daemon = Daemon(folder)

    async def run(self) -> None:
        self.daemon.start()
        for _ in range(KILLS):
            async with jobs_of(self.daemon.data) as jobs:
                await self._look(jobs)
                while len(self._open) < JOBS:
                    await self._begin(jobs)
            await asyncio.sleep(self._dice.uniform(0, 0.8))
            self.daemon.end()
            self.daemon.start()
        async with jobs_of(self.daemon.data) as jobs:
            await wait_until(lambda: self._is_over(jobs), LONGEST_SECONDS + 120)
            await wait_until(self._left_nothing)
        self.daemon.end(signal.SIGTERM)
        assert self._begun >= JOBS

    async def _begin(self, jobs: Jobs) -> None:
        name = f"job-{self._begun}"
        self._begun += 1
        self._open.add(name)
        pause = self._dice.uniform(1, LONGEST_SECONDS) / LINES
        command = python(PROGRAM, str(self._marks / f"{name}-$(rank)"), str(LINES), str(pause))
        await jobs.create(generic_job(name, command, REPLICAS))

    async def _look(self, jobs: Jobs) -> None:
        """Take leave of the jobs that have ended."""
        listed = await jobs.client.list(JOB, NAMESPACE, type=dict)
        assert self._open <= {job["metadata"]["name"] for job in listed.items}, "a job is lost"
        for job in listed.items:
            name = job["metadata"]["name"]
            if is_finished(job) and name in self._open:
                await self._check(jobs, job)
                self._open.discard(name)
                await jobs.delete(name)

    async def _check(self, jobs: Jobs, job: Object) -> None:
        name = job["metadata"]["name"]
        assert job["status"]["phase"] == "Succeeded", job["status"]
        assert job["status"]["tasks"][0]["restartCount"] == 0
        expected = "".join(f"line {number}\n" for number in range(LINES))
        for rank in range(REPLICAS):
            assert (self._marks / f"{name}-{rank}").read_text() == "started\n", f"{name}, replica {rank}"
            assert (await jobs.output(f"{name}-worker-{rank}")).decode() == expected

    async def _is_over(self, jobs: Jobs) -> bool:
        await self._look(jobs)
        return not self._open and not await jobs.pods()

    def _left_nothing(self) -> bool:
        pods = list((self.daemon.data / "node/pods").iterdir())
        return not pods and not processes_with(str(self._marks))


def test_the_daemon_may_die_at_any_moment(tmp_path: Path) -> None:
    seed = int(os.environ.get("BIREME_SEED", "1"))
    play = Play(tmp_path, seed)
    try:
        asyncio.run(play.run())
    except (AssertionError, TimeoutError, KubeError):
        print(f"seed {seed}", play.daemon.log())
        raise
    finally:
        play.daemon.end()
        kill_with(f"{tmp_path}/")
    assert "Traceback" not in play.daemon.log()
