"""A worker's sshd, and what a login to it finds."""

import signal
from typing import Final

import pytest

from scripts.jobs import Job, MakeJob
from scripts.pods import PATH, SHELLS, UNKNOWN_UID, Container

ENV: Final = {
    "QUOTES": "it's \"quoted\" '' $(no) `no` \\",
    "LINES": "\n first\nexport FAKE='1'\nexport QUOTES='x'\n\tlast\n\n",
    "UNICODE": "naïve — 北京",
    "EMPTY": "",
    "UID": "77",
    "PPID": "1",
    "SHELLOPTS": "",
    "b_command": "ours",
    "name": "lower case",
    "LOGNAME": "somebody",
    "TERM": "dumb",
    "IFS": "x",
    "ENV": "/nowhere",
    "SSH_CONNECTION": "stale",
}
# Variables that a login makes, and those that a shell makes anew from whatever it is given.
FROM_LOGIN: Final = {"SSH_CLIENT", "SSH_CONNECTION", "PWD", "OLDPWD", "SHLVL", "_"}
NOT_RESTORED: Final = {"SHELLOPTS", "PPID", "IFS", "b_command"}


def ssh(job: Job, *command: str, env: dict[str, str] | None = None) -> Container:
    return job.launch("ssh", "-F", "/mnt/ssh/config", *command, env=env)


@pytest.mark.parametrize(("shell", "uid"), [("dash", 0), ("ash", UNKNOWN_UID), ("bash", 0)])
def test_a_login_has_the_containers_environment(make_job: MakeJob, shell: str, uid: int) -> None:
    job = make_job(shell, uid, workers=1)
    job.start_workers(ENV)
    output = ssh(job, "job-worker-0", "cat /proc/self/environ").ok()
    found = dict(word.split("=", 1) for word in output.split("\0")[:-1])
    expected = ENV | {
        "PATH": PATH,
        "HOME": "/mnt/work",
        "BIREME_DIR": "/mnt/bireme",
        "BIREME_KEYS": "/mnt/keys",
        "BIREME_SSH_DIR": "/mnt/ssh",
        "BIREME_TERMINATION_LOG": "/mnt/work/termination-log",
    }
    ignored = FROM_LOGIN | NOT_RESTORED
    assert {name: found[name] for name in found.keys() - ignored} == {
        name: expected[name] for name in expected.keys() - ignored
    }
    assert found["SSH_CONNECTION"] != "stale"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_is_read_by_a_shell_in_the_containers_directory(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell, workers=1)
    (job.workers[0].volume("work") / "-it's\nhere").mkdir()
    job.start_worker(job.workers[0], directory="/mnt/work/-it's\nhere")
    login = ssh(job, "job-worker-0", "X='a  b'; echo \"$X\"; pwd -P; exit 7")
    assert (login.wait(), login.stdout) == (7, "a  b\n/mnt/work/-it's\nhere\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_login_without_a_command_is_an_interactive_shell(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell, workers=1)
    job.start_workers({"PLAIN": "value", "TERM": "dumb", "PATH": "/mnt/work:/usr/bin:/bin"})
    typed = 'case $- in *i*) echo "is $PLAIN $TERM $PATH" ;; esac; exit'
    line = f"printf '%s\\n' '{typed}' | ssh -F /mnt/ssh/config -tt job-worker-0"
    output = job.launch("/bin/sh", "-c", line, env={"TERM": "xterm"}).ok()
    assert "is value xterm /mnt/work:/usr/bin:/bin" in output


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (("-W", "127.0.0.1:2222", "job-worker-0"), "forwarding failed"),
        (("-l", "root", "job-worker-0", "true"), "Permission denied (publickey)"),
        (("-o", "PubkeyAuthentication=no", "job-worker-0", "true"), "Permission denied (publickey)"),
    ],
    ids=["forwarding", "another-user", "no-key"],
)
def test_a_worker_refuses(make_job: MakeJob, command: tuple[str, ...], answer: str) -> None:
    job = make_job(workers=1)
    job.start_workers()
    login = ssh(job, *command)
    assert login.wait() == 255
    assert answer in login.stderr


def test_root_with_a_locked_password_can_log_in(make_job: MakeJob) -> None:
    job = make_job(workers=1)
    shadow = job.workers[0].folder / "etc/shadow"
    shadow.write_text("root:!:19000:0:99999:7:::\n")
    job.start_workers()
    assert ssh(job, "job-worker-0", "id -u").ok() == "0\n"


def test_libraries_that_the_image_brings_do_not_break_sshd(make_job: MakeJob) -> None:
    job = make_job(workers=1)
    (job.workers[0].volume("work") / "libcrypto.so.3").write_text("not a library")
    job.start_workers({"LD_LIBRARY_PATH": "/mnt/work"})
    assert ssh(job, "job-worker-0", "echo $LD_LIBRARY_PATH").ok() == "/mnt/work\n"


@pytest.mark.parametrize("uid", [0, UNKNOWN_UID], ids=["root", "unknown-uid"])
def test_keys_are_private(make_job: MakeJob, uid: int) -> None:
    job = make_job(uid=uid, workers=1)
    job.start_workers()
    job.launch("true").ok()
    for pod in job.pods:
        files = [path for path in pod.volume("ssh").iterdir() if path.is_file()]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        assert pod.volume("ssh").stat().st_mode & 0o777 == (0o777 if uid else 0o700)


@pytest.mark.parametrize("shell", ["dash", "ash"])
def test_a_worker_ends_on_term(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell, workers=1)
    (worker,) = job.start_workers()
    job.launch("true").ok()
    worker.signal(signal.SIGTERM)
    worker.wait()


@pytest.mark.parametrize("shell", ["dash", "ash"])
def test_an_image_without_sshd_is_told(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell, workers=1)
    (worker,) = job.start_workers({"BIREME_SSHD": "/opt/sshd"})
    assert worker.wait() == 127
    assert "spec.ssh.sshdPath" in worker.stderr
    assert worker.stderr == f"bireme: {job.workers[0].termination_log}"


def test_a_folder_that_the_user_cannot_enter_is_told(make_job: MakeJob) -> None:
    job = make_job(uid=UNKNOWN_UID, workers=1)
    job.workers[0].volume("ssh").chmod(0o700)
    (worker,) = job.start_workers()
    assert worker.wait() == 121
    assert "files can't be written to /mnt/ssh as uid 54321" in worker.stderr
    job.launcher.volume("ssh").chmod(0o700)
    launcher = job.launch("true")
    assert launcher.wait() == 121
    assert "files can't be written to /mnt/ssh as uid 54321" in launcher.stderr
