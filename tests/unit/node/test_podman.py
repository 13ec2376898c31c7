"""What podman is told, how images are had, and which driver a pod gets."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bireme.node.driver import UnstartableError
from bireme.node.podman.arguments import Host, Image, Mount, Wanted, build_run, runs_as_root
from bireme.node.podman.attendant import is_unheard
from bireme.node.podman.driver import own_limits
from bireme.node.podman.images import Images, complaint, describe_invalid, read_image
from bireme.node.podman.variables import describe_refused, hand_over

HOST = Host(frozenset({"memory", "cpu"}), ("nofile=1:2",), 1 << 20)


def wanted(pod: dict[str, Any] | None = None, **container: Any) -> Wanted:
    spec = {"metadata": {"uid": "u"}, "spec": pod or {}}
    return Wanted("n", spec, {"name": "main", "image": "i:1", **container}, (), (), {}, (), "/pid")


@pytest.mark.parametrize(
    ("made", "present"),
    [
        (
            wanted(resources={"limits": {"memory": "1Gi", "cpu": "1500m"}}),
            ["--memory=1073741824", "--cpus=1.500"],
        ),
        (wanted(resources={"limits": {"memory": "1"}}), ["--memory=8388608"]),
        (wanted(securityContext={"runAsUser": 7}), ["--user=7:0"]),
        (wanted({"securityContext": {"runAsGroup": 8}}), ["--user=bob:8"]),
        (
            wanted({"securityContext": {"fsGroup": 9, "supplementalGroups": [3]}}),
            ["--group-add=3", "--group-add=9"],
        ),
        (
            wanted(securityContext={"capabilities": {"add": ["A"], "drop": ["ALL"]}}),
            ["--cap-drop=ALL", "--cap-add=A"],
        ),
        (wanted(securityContext={"allowPrivilegeEscalation": False}), ["--security-opt=no-new-privileges"]),
        (wanted(securityContext={"privileged": True}), ["--privileged"]),
        (wanted({"hostIPC": True, "hostPID": True}), ["--ipc=host", "--pid=host"]),
        (wanted(workingDir="/w"), ["--workdir=/w"]),
        (
            wanted()._replace(command=["a b", "c"], args=["d"]),
            ['--entrypoint=["a b", "c"]', "--", "i:1", "d"],
        ),
        (wanted()._replace(gpus=["G1"]), ["--device=nvidia.com/gpu=G1"]),
        (
            wanted()._replace(mounts=[Mount('/a,b"', "/c", read_only=True)]),
            ['--mount=type=bind,"source=/a,b""",destination=/c,ro=true'],
        ),
        (
            wanted()._replace(mounts=[Mount("", "/dev/shm", tmpfs_bytes=4096)]),
            ["--mount=type=tmpfs,destination=/dev/shm,tmpfs-size=4096,tmpfs-mode=1777,notmpcopyup"],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_podman_is_told(made: Wanted, present: list[str]) -> None:
    words = build_run(made, Image(user="bob:staff"), HOST)
    assert [word for word in words if word in present] == present


def test_limits_are_left_out_where_podman_can_not_set_them() -> None:
    words = build_run(wanted(resources={"limits": {"memory": "1Gi"}}), Image(), Host())
    assert not any(word.startswith("--memory") for word in words)


def test_no_value_is_in_the_command_line() -> None:
    env = {
        "TOKEN": "two\nlines",
        "PATH": "/p",
        "LD_PRELOAD": "/x",
        "HOME": "/h",
        "GOOGLE_KEY": "1",
        "GODEBUG": "x=1",
    }
    words = build_run(wanted()._replace(env=env, env_file="/file"), Image(), HOST)
    given = [word for word in words if word.startswith("--env")]
    assert given == ["--env=TOKEN", "--env=GOOGLE_KEY", "--env-file=/file"]
    handed = hand_over(env)
    assert handed.environment == {"TOKEN": "two\nlines", "GOOGLE_KEY": "1"}
    assert handed.render() == "PATH=/p\nLD_PRELOAD=/x\nHOME=/h\nGODEBUG=x=1\n"
    assert describe_refused(env) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "a\nb"),
        ("PATH", "a\rb"),
        ("XDG_DATA", "x" * 70_000),
        ("#", "comment"),
        (" A", "white space"),
        ("GODEBUG", '"quoted"'),
    ],
)
def test_a_variable_that_podman_would_change_is_refused(name: str, value: str) -> None:
    assert [text for text in describe_refused({name: value}) if name.strip() in text]


def test_a_name_that_stands_for_others_is_not_taken_from_the_environment() -> None:
    assert hand_over({"A*": "1"}).environment == {}


@pytest.mark.parametrize(
    "name",
    ["-v", "--help", "", "a b", "dir:/etc", "oci:x", "docker://a/b", "docker-archive:/x.tar", "a\nb", "$x"],
)
def test_a_name_that_is_no_image_is_refused(name: str) -> None:
    assert describe_invalid(name)


@pytest.mark.parametrize("name", ["a", "a:1", "r.io:5000/a/b:1", "localhost/x@sha256:0f", "a/b_c.d-e"])
def test_a_name_of_an_image_is_taken(name: str) -> None:
    assert not describe_invalid(name)


@pytest.mark.parametrize(
    ("own", "of_pod", "user", "root"),
    [
        ({}, {}, "", True),
        ({}, {}, "5", False),
        ({"runAsUser": 0}, {}, "5", True),
        ({}, {"runAsUser": 4}, "", False),
    ],
)
def test_who_would_be_root(own: dict[str, Any], of_pod: dict[str, Any], user: str, root: bool) -> None:
    assert runs_as_root(own, of_pod, Image(user=user)) is root


def test_own_limits_can_always_be_set() -> None:
    assert [each.partition("=")[0] for each in own_limits()] == ["nofile", "nproc"]
    assert all(int(number) > 0 for each in own_limits() for number in each.partition("=")[2].split(":"))


def test_a_complaint_is_the_last_error() -> None:
    assert complaint("Trying\nError: one\nError: two\n") == "two"
    assert complaint("") == "podman did not say why"


def test_an_image_brings_its_path_and_signal() -> None:
    config = {"Env": ["A=1", "PATH=/x"], "Cmd": ["sh"], "StopSignal": "SIGINT", "User": "u"}
    assert read_image({"Id": "7", "Config": config}) == Image("7", "u", "/x", True, "SIGINT")


# ---- images, with a program that stands in for podman


class Store:
    """A podman that knows the images that are files of a folder, and fetches those of another."""

    def __init__(self, folder: Path) -> None:
        self.here, self.there = folder / "here", folder / "there"
        for each in (self.here, self.there):
            each.mkdir()
        program = folder / "podman"
        program.write_text(
            f"#!/bin/sh\nhere={self.here} there={self.there} verb=$1\n"
            "for name; do :; done\n"
            "name=$(echo $name | tr / _)\n"
            "if [ $verb = pull ] && [ -e $there/$name ]; then cp $there/$name $here/$name\n"
            "elif [ $verb = pull ] || ! [ -e $here/$name ]; then echo 'Error: no route' >&2; exit 125\n"
            'else echo "[{\\"Id\\": \\"$name\\", \\"Config\\": {\\"Cmd\\": [\\"sh\\"]}}]"; fi\n'
        )
        program.chmod(0o755)
        self.clock = 0.0
        self.images = Images(str(program), dict(os.environ), lambda: self.clock)

    def find(self, name: str, policy: str = "IfNotPresent", attempt: int = 0) -> str:
        """The image's id, or the reason why there is none."""

        async def main() -> str:
            container = {"name": "main", "image": name, "imagePullPolicy": policy}
            while True:
                try:
                    return (await self.images.find(container, "u", attempt)).id
                except UnstartableError as error:
                    if error.problem.reason != "ContainerCreating":
                        return error.problem.reason

        return asyncio.run(main())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_an_image_that_is_here_is_not_fetched(store: Store) -> None:
    (store.here / "a:1").touch()
    assert store.find("a:1") == "a:1"
    assert store.find("a:1", "Never") == "a:1"


def test_an_image_that_is_not_here_is_fetched_unless_never(store: Store) -> None:
    (store.there / "a:1").touch()
    assert store.find("a:1", "Never") == "ErrImageNeverPull"
    assert store.find("a:1") == "a:1"


def test_always_asks_again_but_not_for_what_was_built_here(store: Store) -> None:
    for name in ("a:1", "localhost_b:1"):
        (store.here / name).touch()
    assert store.find("a:1", "Always") == "ErrImagePull"
    assert store.find("localhost/b:1", "Always") == "localhost_b:1"


def test_a_failed_fetch_is_tried_ever_later(store: Store) -> None:
    assert store.find("a:1") == "ErrImagePull"
    store.clock = 6.0
    assert store.find("a:1") == "ImagePullBackOff"
    store.clock = 11.0
    assert store.find("a:1") == "ErrImagePull"
    (store.there / "a:1").touch()
    store.clock = 22.0
    assert store.find("a:1") == "ImagePullBackOff"
    store.clock = 32.0
    assert store.find("a:1") == "a:1"


@pytest.mark.parametrize(
    ("setting", "unheard"), [("SIG_DFL", True), ("SIG_IGN", False)], ids=["default", "ignored"]
)
def test_a_signal_that_nobody_listens_to_is_known(setting: str, unheard: bool) -> None:
    code = (
        f"import signal; signal.signal(signal.SIGTERM, signal.{setting}); print('set', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "set\n"
        assert is_unheard(child.pid, signal.SIGTERM) is unheard
        child.communicate("\n")


def test_no_process_is_no_listener() -> None:
    assert not is_unheard(2**22 + 1, signal.SIGTERM)
