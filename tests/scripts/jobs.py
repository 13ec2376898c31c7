"""A job's pods with what the planner would mount into them."""

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Protocol

from scripts.pods import NAMES, SCRIPTS, Container, Network, Pod

_JOB_UID: Final = "5b6c2f9e-8d0b-4a57-9d6c-2f6f3a1c7e10"
_NSSWITCH: Final = "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"


class Job:
    """A launcher and workers, made from the files in src/bireme/planning/scripts."""

    def __init__(self, network: Network, folder: Path, shell: str, uid: int, workers: int) -> None:
        self._network = network
        self._folder = folder
        self._shell = shell
        self._uid = uid
        self._first_started: Pod | None = None
        self.keys = Keys(folder / "keys")
        self.launcher = self._pod("job-launcher")
        self.workers = [self._pod(f"job-worker-{index}") for index in range(workers)]
        self.output = folder / "output"
        self.output.mkdir()
        self.output.chmod(0o777)
        self._give_files()

    @property
    def pods(self) -> list[Pod]:
        return [self.launcher, *self.workers]

    def start_workers(
        self, env: Mapping[str, str] | None = None, directory: str = "/mnt/work"
    ) -> list[Container]:
        return [self.start_worker(worker, env, directory) for worker in self.workers]

    def start_worker(
        self, pod: Pod, env: Mapping[str, str] | None = None, directory: str = "/mnt/work"
    ) -> Container:
        self._make_user(pod)
        return pod.start("/bin/sh", "/mnt/bireme/worker", env=env, directory=directory)

    def start_worker_with(self, pod: Pod, programs: Sequence[str]) -> Container:
        """Start a worker on whose PATH there are these programs and no others."""
        few = pod.volume("work") / "few"
        few.mkdir()
        for program in programs:
            (few / program).symlink_to(f"/usr/bin/{program}")
        self._make_user(pod)
        return pod.start("/bin/sh", "-c", "PATH=/mnt/work/few exec /bin/sh /mnt/bireme/worker")

    def launch(self, *command: str, env: Mapping[str, str] | None = None) -> Container:
        return self.start_launcher("launch", *command, env=env)

    def launch_with_stdin(self, stdin: IO[bytes], *command: str) -> Container:
        """Start a launcher that hands its standard input to rank 0."""
        self._make_user(self.launcher)
        words = "/bin/sh", "/mnt/bireme/launch", *command
        return self.launcher.start(*words, env={"BIREME_STDIN": "1"}, stdin=stdin)

    def start_launcher(self, script: str, *arguments: str, env: Mapping[str, str] | None = None) -> Container:
        self._make_user(self.launcher)
        return self.launcher.start("/bin/sh", f"/mnt/bireme/{script}", *arguments, env=env)

    def set_torchrun(self, *arguments: str, processes: int = 1) -> None:
        """Write what a planner renders for torch-node."""
        text = f"BIREME_NPROC={processes}\nset -- {shlex.join(arguments)}\n"
        for pod in self.workers:
            (pod.volume("bireme") / "torchrun.args").write_text(text)

    def set_names(self, pods: Sequence[Pod]) -> None:
        """Let these names resolve, and no others."""
        lines = [f"{pod.address} {pod.name}\n" for pod in pods]
        for pod in self.pods:
            (pod.folder / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))

    def stop(self) -> None:
        for pod in self.pods:
            pod.stop()

    def _make_user(self, pod: Pod) -> None:
        """One init container is enough for a test: all would write the same."""
        if self._first_started is None:
            pod.make_user()
            self._first_started = pod
        pod.take_user(self._first_started)

    def _pod(self, name: str) -> Pod:
        pod = Pod(name, self._network.next_address(), self._folder / name, self._shell, self._uid)
        self._network.wire(pod)
        return pod

    def _give_files(self) -> None:
        self.set_names(self.pods)
        hostfile = "".join(f"{worker.name} slots=1\n" for worker in self.workers)
        for pod in self.pods:
            config = pod.volume("bireme")
            for name in NAMES:
                shutil.copyfile(SCRIPTS / name, config / name)
            for name in ("ssh_config", "sshd_config"):
                (config / name).write_text(_rendered(name))
            (config / "hostfile").write_text(hostfile)
            (pod.folder / "etc/nsswitch.conf").write_text(_NSSWITCH)
        self.keys.give(self.launcher, "id_ed25519", "known_hosts")
        for worker in self.workers:
            self.keys.give(worker, "host_key", "authorized_keys")


class MakeJob(Protocol):
    """Make a job whose pods have this /bin/sh and run as this user."""

    def __call__(self, shell: str = "dash", uid: int = 0, workers: int = 2) -> Job: ...


class Keys:
    """A client key pair and a host key, as in a job's Secret."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        for name in ("host_key", "id_ed25519"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
            subprocess.run(command, check=True)
        (folder / "authorized_keys").write_text((folder / "id_ed25519.pub").read_text())
        (folder / "known_hosts").write_text(f"{_JOB_UID} {(folder / 'host_key.pub').read_text()}")

    def give(self, pod: Pod, *names: str) -> None:
        """Put files into the pod's Secret volume, readable by everybody as they are there."""
        for name in names:
            shutil.copyfile(self._folder / name, pod.volume("keys") / name)
            (pod.volume("keys") / name).chmod(0o444)


def _rendered(name: str) -> str:
    text = (SCRIPTS / f"{name}.example").read_text()
    return text.replace("/root/.ssh", "/mnt/ssh").replace("/etc/bireme", "/mnt/bireme")
