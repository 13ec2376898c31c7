"""Containers and manifests that try to get out of podman, as root and as an ordinary user.

The victim is a file that only the daemon's user can read, beside pods of other jobs. After every attack: the
file was not read, nothing beside it was written, no other pod ran a command, and the daemon goes on.
"""

import json
import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from support import images
from support.commands import Bireme
from support.ordinary_user import OrdinaryUser
from support.podman_jobs import (
    Manifest,
    container,
    job,
    launcher_job,
    play,
    podman_daemon,
    podman_user,
    replica,
)

# ruff: noqa: E501 - a script is read best on one line
pytestmark = pytest.mark.xdist_group("podman")

SECRET: Final = "the-secret-of-the-host"
ENTERED: Final = "entered-another-pod"
WAIT_SECONDS: Final = 60.0
# Words that a script prints only if another pod runs it: the script itself does not contain them.
ENTER: Final = "echo entered-another''-pod; hostname"


class Scene:
    """A daemon, what it guards, and pods of other jobs."""

    def __init__(self, bireme: Bireme, user: OrdinaryUser | None) -> None:
        self.bireme, self.user = bireme, user
        self.vault = bireme.work / "vault"
        self.secret, self.written = self.vault / "secret", self.vault / "written"
        self.vault.mkdir(mode=0o700)
        self.secret.write_text(SECRET)
        self.written.write_text("as it was")
        for path in (self.vault, self.secret, self.written):
            if user is not None:
                os.chown(path, user.uid, user.uid)
            path.chmod(0o700 if path is self.vault else 0o600)
        self.before = self.look()
        self.daemon = self.read_daemon()
        self.uids: dict[str, str] = {}

    def look(self) -> list[tuple[str, int, int, int, bytes]]:
        """All that there is in the vault."""
        paths = [self.vault, *sorted(self.vault.rglob("*"))]
        facts = [(path, path.lstat()) for path in paths]
        return [
            (str(path), info.st_mode, info.st_uid, info.st_gid, path.read_bytes() if path.is_file() else b"")
            for path, info in facts
        ]

    def read_daemon(self) -> int:
        pid: int = json.loads((self.bireme.data / "daemon.json").read_bytes())["pid"]
        return pid

    def start_others(self) -> None:
        """A job with a launcher, a GenericJob, and one of the other driver; each runs."""
        process = job("ours", replica(container("sleep 1000")))
        process["metadata"]["annotations"] = {"bireme.dev/driver": "process"}
        generic = job("other", replica(container("sleep 1000")))
        for manifest in (launcher_job("mpi", "sleep 1000"), generic, process):
            self.bireme("run", "-d", "-f", "-", input=json.dumps(manifest))
        names = ("mpi-launcher", "mpi-worker-0", "other-worker-0", "ours-worker-0")
        deadline = time.monotonic() + WAIT_SECONDS
        while not all(self.phase(name) == "Running" for name in names):
            assert time.monotonic() < deadline, [self.phase(name) for name in names]
            time.sleep(0.2)
        self.uids = {name: self.pod(name)["metadata"]["uid"] for name in names}

    def pod(self, name: str) -> dict[str, Any]:
        found = self.bireme("get", "pods", name, "-o", "json", code=None)
        pod: dict[str, Any] = json.loads(found.stdout) if found.returncode == 0 else {}
        return pod

    def phase(self, name: str) -> str:
        phase: str = (self.pod(name).get("status") or {}).get("phase", "")
        return phase

    def play(self, *manifests: Manifest) -> str:
        """Run jobs to their ends, one after the other; return all that can be learnt of them."""
        said = ""
        for manifest in manifests:
            done = self.bireme("run", "-f", "-", input=json.dumps(manifest), code=None)
            said += done.stdout + done.stderr
            # A daemon that is gone would be started again, and is another process.
            said += self.bireme("get", "pods", "-o", "json").stdout
        return said

    def assert_unharmed(self, said: str) -> None:
        assert SECRET not in said
        assert ENTERED not in said
        assert self.look() == self.before
        assert self.read_daemon() == self.daemon
        assert Path(f"/proc/{self.daemon}").exists()


@pytest.fixture(scope="module", params=["rootless", "root"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with podman_user(request.param) as user, podman_daemon(user) as bireme:
        made = Scene(bireme, user)
        made.start_others()
        yield made


# ---- what a manifest asks for


EMPTY: Final = [{"name": "v", "emptyDir": {}}]


def linked(
    link: str, mount: dict[str, str], *, read: str = "/m", **volumes: Any
) -> Callable[[Scene], Manifest]:
    """A container prepares an emptyDir, and the next one mounts a part of it, reads there, and writes."""

    def build(scene: Scene) -> Manifest:
        script = link.replace("VAULT", str(scene.vault))
        whole = [{"name": "v", "mountPath": "/v"}]
        first = container(f"cd /v; {script}", volumeMounts=whole) | {"name": "first"}
        use = f"cat {read} {read}/secret; echo x > {read}/new; echo x > {read}/written; ls -la {read}; true"
        main = container(use, volumeMounts=[{"name": "v", "mountPath": "/m", **mount}])
        return job("sub", replica(main, initContainers=[first], volumes=volumes.get("volumes", EMPTY)))

    return build


def expression(value: str) -> Callable[[Scene], Manifest]:
    def build(scene: Scene) -> Manifest:
        env = [{"name": "X", "value": value.replace("VAULT", str(scene.vault))}]
        mounts = [{"name": "v", "mountPath": "/m", "subPathExpr": "$(X)"}]
        main = container("cat /m/secret; ls -la /m; echo x > /m/new", env=env, volumeMounts=mounts)
        return job("sub", replica(main, volumes=EMPTY))

    return build


SUB_PATHS: Final[dict[str, Callable[[Scene], Manifest]]] = {
    "link to a folder": linked("ln -s VAULT data", {"subPath": "data"}),
    "link to a file": linked("ln -s VAULT/secret data", {"subPath": "data"}),
    "link in the middle": linked("ln -s VAULT/.. data", {"subPath": "data/vault"}),
    "relative link": linked(f"ln -s {'../' * 12}VAULT data", {"subPath": "data"}),
    "link to a link": linked("ln -s VAULT a; ln -s a data", {"subPath": "data"}),
    "link to be made": linked("ln -s VAULT/new data", {"subPath": "data/deep"}),
    "link to the root of a process": linked("ln -s /proc/1/root/VAULT data", {"subPath": "data"}),
    "link to a descriptor": linked("ln -s /proc/self/cwd data", {"subPath": "data"}),
    "link as the content of a ConfigMap": linked("ln -s VAULT ..data", {"subPath": "secret"}),
    "named pipe": linked("mkfifo data", {"subPath": "data/x"}),
    "file in the middle": linked("echo > data", {"subPath": "data/secret"}),
    "dots": linked("true", {"subPath": "../../../../vault"}),
    "expression with dots": expression("../../../../../../../../VAULT"),
    "expression with an absolute path": expression("VAULT"),
    "expression with hidden dots": expression("a/./../../../../VAULT"),
}


@pytest.mark.parametrize("attack", SUB_PATHS.values(), ids=SUB_PATHS.keys())
def test_a_sub_path_does_not_leave_its_volume(scene: Scene, attack: Callable[[Scene], Manifest]) -> None:
    scene.assert_unharmed(scene.play(attack(scene)))


def test_a_refused_sub_path_is_explained(scene: Scene) -> None:
    said = scene.play(SUB_PATHS["link to a folder"](scene))
    assert "subPath: 'data': 'data' is a symbolic link, which a subPath must not follow" in said


def test_a_link_that_an_earlier_job_left_in_a_claim_is_not_followed(scene: Scene) -> None:
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "kept"}}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    before = job(
        "before", replica(container(f"ln -s {scene.vault} /v/data", volumeMounts=mounts), volumes=claim)
    )
    part = [{"name": "v", "mountPath": "/m", "subPath": "data"}]
    after = job("after", replica(container("cat /m/secret", volumeMounts=part), volumes=claim))
    scene.assert_unharmed(scene.play(before, after))


def test_a_folder_that_becomes_a_link_while_it_is_mounted_is_not_followed(scene: Scene) -> None:
    """One container swaps a folder and a link all the time; others mount it."""
    swap = (
        f"cd /v; mkdir -p good; ln -s {scene.vault} bad; ln -s good data; mkdir real; while :; do"
        " mv -T real data 2>/dev/null; mv -T data real 2>/dev/null; mv -T bad data 2>/dev/null;"
        " mv -T data bad 2>/dev/null; test -e /v/done && exit; done"
    )
    first = container(swap, volumeMounts=[{"name": "v", "mountPath": "/v"}]) | {"name": "a-first"}
    part = [{"name": "v", "mountPath": "/m", "subPath": "data"}, {"name": "v", "mountPath": "/v"}]
    others = [
        container("cat /m/secret; echo x > /m/new; touch /v/done; true", volumeMounts=part)
        | {"name": f"b{n}"}
        for n in range(4)
    ]
    manifest = job("race", replica(first, *others, volumes=EMPTY, activeDeadlineSeconds=20))
    scene.assert_unharmed(scene.play(manifest))


def test_fs_group_does_not_change_what_links_lead_to(scene: Scene) -> None:
    swap = f"cd /v; ln -s {scene.secret} a; ln -s {scene.vault} b; touch f; ln f g; mkfifo p; mkdir d; true"
    first = container(swap, volumeMounts=[{"name": "v", "mountPath": "/v"}]) | {"name": "first"}
    main = container("ls -lan /v; cat /v/a", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    pod = replica(main, initContainers=[first], volumes=EMPTY, securityContext={"fsGroup": 4321})
    said = scene.play(job("group", pod))
    scene.assert_unharmed(said)
    assert "4321" in said


def test_what_the_node_agent_writes_can_not_be_written_by_containers(scene: Scene) -> None:
    """A link there would lead the node agent, or the next subPath, somewhere else."""
    items = [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]
    volumes = [{"name": "v", "downwardAPI": {"items": items}}]
    attack = (
        f"cd /v; rm -f ..data name; ln -s {scene.vault} ..data; mkdir x; touch y; ls -la; cat secret; true"
    )
    first = container(attack, volumeMounts=[{"name": "v", "mountPath": "/v"}]) | {"name": "first"}
    main = container(
        "echo; echo name: $(cat /m)", volumeMounts=[{"name": "v", "mountPath": "/m", "subPath": "name"}]
    )
    said = scene.play(job("written", replica(main, initContainers=[first], volumes=volumes)))
    scene.assert_unharmed(said)
    assert "name: written-worker-0" in said


MOUNT_PATHS: Final = [
    "/a:/b",
    "/a,readonly=false",
    '/a"b',
    "/a,type=bind,source=VAULT",
    "/a\nb",
    "relative",
    "/a=b",
]


@pytest.mark.parametrize("path", MOUNT_PATHS)
def test_a_mount_path_adds_no_option(scene: Scene, path: str) -> None:
    where = path.replace("VAULT", str(scene.vault))
    main = container("find / -name secret -exec cat {} +", volumeMounts=[{"name": "v", "mountPath": where}])
    scene.assert_unharmed(scene.play(job("mount", replica(main, volumes=EMPTY))))


IMAGES: Final = [
    "--help",
    "-v",
    "--privileged",
    "dir:VAULT",
    "oci:VAULT",
    "docker-archive:VAULT/secret",
    "a b",
    "$(id)",
]


@pytest.mark.parametrize("image", IMAGES)
def test_the_name_of_an_image_is_nothing_else(scene: Scene, image: str) -> None:
    main = container("true") | {"image": image.replace("VAULT", str(scene.vault))}
    said = scene.play(job("image", replica(main)))
    scene.assert_unharmed(said)
    assert "InvalidImageName" in said


FIELDS: Final[dict[str, dict[str, Any]]] = {
    "workingDir": {"workingDir": "--privileged"},
    "args": {"args": ["--privileged", "-v", "/:/host"]},
    "command": {"command": ["--privileged", "sh"]},
    "capability": {"securityContext": {"capabilities": {"add": ["X --privileged"]}}},
    "name of a variable": {"env": [{"name": "A*", "value": "1"}, {"name": "-v", "value": "/:/host"}]},
    "host path by a variable": {"env": [{"name": "CONTAINERS_CONF", "value": "/nowhere"}]},
    "library": {"env": [{"name": "LD_PRELOAD", "value": "/nowhere.so"}]},
    "root of podman": {"env": [{"name": "XDG_DATA_HOME", "value": "/nowhere"}]},
}


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS.keys())
def test_a_field_adds_no_option_and_changes_nothing_of_podmans(scene: Scene, fields: dict[str, Any]) -> None:
    main = container("ls /host; cat /host/*; echo ended", **fields)
    scene.assert_unharmed(scene.play(job("field", replica(main))))


def test_no_value_of_a_variable_is_in_a_command_line(scene: Scene) -> None:
    names = [
        "GOOGLE_API_KEY",
        "STORAGE_ACCOUNT_KEY",
        "XDG_TOKEN",
        "CONTAINER_KEY",
        "_KEY",
        "GODEBUG",
        "OTHER_KEY",
    ]
    env = [{"name": name, "value": f"value={name}"} for name in names]
    env.append({"name": "TWO_LINES", "value": "value=1\nvalue=2"})
    main = container("env; echo up; until test -e /go; do sleep 0.1; done", env=env)
    scene.bireme("run", "-d", "-f", "-", input=json.dumps(job("env", replica(main))))
    deadline = time.monotonic() + WAIT_SECONDS
    seen: set[str] = set()
    while "up" not in (said := scene.bireme("logs", "env", code=None).stdout):
        assert time.monotonic() < deadline
        listed = subprocess.run(
            ["ps", "-eo", "args", "-ww"], capture_output=True, text=True, check=True
        ).stdout
        seen |= {line for line in listed.splitlines() if "value=" in line}
    scene.bireme("delete", "env")
    assert seen == set()
    assert all(f"{name}=value={name}" in said for name in names)
    assert "TWO_LINES=value=1" in said
    assert "value=2" in said


def test_what_is_secret_is_in_files_of_the_daemons_user_alone(scene: Scene) -> None:
    secret = [{"name": "GODEBUG", "value": "in=a-file"}, {"name": "TOKEN", "value": "in-an-order"}]
    scene.bireme(
        "run", "-d", "-f", "-", input=json.dumps(job("kept", replica(container("sleep 1000", env=secret))))
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while scene.phase("kept-worker-0") != "Running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    folder = scene.bireme.data / "node/pods" / scene.pod("kept-worker-0")["metadata"]["uid"]
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    holding = [
        path for path in files if b"in=a-file" in path.read_bytes() or b"in-an-order" in path.read_bytes()
    ]
    scene.bireme("delete", "kept")
    assert holding
    assert [path for path in holding if stat.S_IMODE(path.stat().st_mode) != 0o600 and path.exists()] == []


# ---- what a container does to what it shares with us


MESSAGE: Final = "/dev/termination-log"
OWN_FILES: Final = {
    "message becomes a link": f"rm -f {MESSAGE}; ln -sf VAULT/secret {MESSAGE}; exit 1",
    "message is moved": f"ln -s VAULT/secret /l; mv -f /l {MESSAGE}; cp -a /l {MESSAGE}; exit 1",
    "message becomes a pipe": f"mkfifo /p; mv -f /p {MESSAGE}; exit 1",
    "message becomes a folder": f"mkdir /d; mv -fT /d {MESSAGE}; exit 1",
    "message becomes a device": f"mknod /z c 1 5; mv -f /z {MESSAGE}; exit 1",
    "message without end": f"truncate -s 1T {MESSAGE}; exit 1",
    "message of many bytes": f"yes | head -c 30000000 > {MESSAGE}; exit 1",
    "message of any bytes": f"head -c 5000 /dev/urandom > {MESSAGE}; exit 1",
    "message is linked to": f"ln {MESSAGE} /tmp/x; ln {MESSAGE} /v/x; exit 1",
    "message is unmounted": f"umount {MESSAGE}; umount -l {MESSAGE}; ln -sf VAULT/secret {MESSAGE}; exit 1",
    "output without end": "truncate -s 1T /proc/self/fd/1; exit 127",
    "output is read back": "cat /proc/self/fd/1 /proc/1/fd/1; readlink /proc/1/fd/1; exit 1",
    "output is a way up": "ls -la /proc/self/fd/1/.. /proc/1/fd/2/../..; cat /proc/1/fd/1/../../pod.json; exit 1",
    "hosts is written": "echo x >> /etc/hosts && echo wro''te; rm -f /etc/hosts; ln -sf VAULT/secret /etc/hosts; exit 1",
    "hostname is written": "echo x > /etc/hostname && echo wro''te; ln -sf VAULT/secret /etc/hostname; exit 1",
    "agent is replaced": "echo evil > /bireme/bin/bireme-agent && echo wro''te; rm -f /bireme/bin/bireme-agent;"
    " touch /bireme/bin/mpirun && echo wro''te; exit 1",
    "call without a right": f"bireme-agent mpi-worker-0 '{ENTER}'; ls -la /bireme/calls; exit 1",
    "own folder of calls": "mkdir -p /bireme/calls/x; mkfifo /bireme/calls/free; ln -s VAULT/secret /bireme/calls/x/in;"
    f" (echo 0000 > /bireme/calls/free &) ; timeout 2 bireme-agent mpi-worker-0 '{ENTER}'; exit 1",
}


@pytest.mark.parametrize("script", OWN_FILES.values(), ids=OWN_FILES.keys())
def test_a_container_turns_nothing_of_ours_into_something_else(scene: Scene, script: str) -> None:
    attack = script.replace("VAULT", str(scene.vault))
    volumes = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    said = scene.play(job("own", replica(container(attack, **volumes), volumes=EMPTY)))
    scene.assert_unharmed(said)
    assert "wrote" not in said


@pytest.mark.parametrize(
    "path", ["/v/link", "/v/deep/../link", "/proc/self/root/x", "/etc/passwd", "/a:/b", "v"]
)
def test_a_termination_message_path_stays_in_the_container(scene: Scene, path: str) -> None:
    first = container(f"ln -s {scene.written} /v/link", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    main = container(
        f"echo gone > {path}; exit 1",
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
        terminationMessagePath=path,
    )
    manifest = job("path", replica(main, initContainers=[first | {"name": "first"}], volumes=EMPTY))
    scene.assert_unharmed(scene.play(manifest))


# ---- calls: what a launcher's container does with its pipes


CALLS: Final = "cd /bireme/calls; unset BIREME_AGENT_WAITS; "
SLOT: Final = "s=$$(dd if=free bs=4 count=1 2>/dev/null); "
OPEN: Final = SLOT + "exec 4>$s/ask 5<$s/out 6<$s/err 7<$s/end 8>$s/in; "
STILL: Final = "; echo still | bireme-agent call-worker-0 cat"
"""At the end: the launcher's own calls still work."""
STRANGERS: Final = ["mpi-worker-0", "mpi-launcher", "other-worker-0", "ours-worker-0", "call-launcher"]
NAMES: Final = [
    "../default/mpi-worker-0", "../../names/default/mpi-worker-0", "/", ".", "..", "./mpi-worker-0", "mpi-worker-0/",
    "mpi-worker-0 call-worker-0", "*", "-", "--", "",
]  # fmt: skip


def call(script: str, **fields: Any) -> Manifest:
    return launcher_job("call", CALLS + script, **fields)


@pytest.mark.parametrize("pod", STRANGERS)
def test_a_launcher_does_not_call_a_pod_of_another_job(scene: Scene, pod: str) -> None:
    said = scene.play(call(f"bireme-agent {pod} '{ENTER}'; echo code $?{STILL}"))
    scene.assert_unharmed(said)
    assert "code 255" in said
    assert "still" in said


@pytest.mark.parametrize("pod", STRANGERS[:4])
def test_a_launcher_does_not_call_a_pod_by_its_uid(scene: Scene, pod: str) -> None:
    uid = scene.uids[pod]
    attack = f"for p in {uid} ../../pods/{uid} pods/{uid}; do bireme-agent $p '{ENTER}'; echo code $?; done"
    said = scene.play(call(attack))
    scene.assert_unharmed(said)
    assert said.count("code 255") >= 3


@pytest.mark.parametrize("pod", NAMES)
def test_what_is_no_name_calls_no_pod(scene: Scene, pod: str) -> None:
    said = scene.play(call(f"bireme-agent '{pod}' '{ENTER}'; echo code $?{STILL}"))
    scene.assert_unharmed(said)
    assert "code 255" in said
    assert "still" in said


TRICKS: Final = {
    "links in the folder": "ln -s VAULT/secret x; mkdir y; touch z; mkfifo w; ls",
    "link for a pipe": SLOT
    + "rm -f $s/in $s/out; ln -sf VAULT/secret $s/in; ln -sf VAULT/written $s/out; ls $s",
    "slot for a folder": SLOT + "mv $s gone; rmdir $s; ln -s VAULT $s; ls",
    "hard link": SLOT + "ln $s/in $s/x; ln free x; ln /etc/passwd $s/x; ls $s",
    "device": SLOT + "rm $s/end; mknod $s/end c 1 5; ls $s",
    "modes": SLOT + "chmod 0 free $s/ask; chmod 0777 . $s; chown 1 $s; ls -la",
    "mounted over": SLOT + "mount -o remount,rw /bireme/calls; mount -o bind /tmp /bireme/calls; ls",
    "request of many bytes": f"x=$$(yes | tr -d '\\n' | head -c 100000); {OPEN}"
    "printf '\\ncall-worker-0\\n\\n%s\\0' \"$x\" >&4; cat <&6; cat <&7",
    "request without end": OPEN + "(yes >&4) 2>/dev/null; cat <&6; cat <&7",
    "command of too many bytes": "x=$$(yes | tr -d '\\n' | head -c 65537); bireme-agent call-worker-0 \"$x\"; echo $?",
    "name of many bytes": "x=$$(yes | tr -d '\\n' | head -c 60000); bireme-agent \"$x\" true; echo $?",
    "lines too few": OPEN + "printf 'x\\0' >&4; cat <&6; cat <&7",
    "no bytes": OPEN + "printf '\\0\\0\\0' >&4; cat <&6; cat <&7",
    "any bytes": OPEN + "head -c 3000 /dev/urandom >&4; exec 4>&-; cat <&7",
    "container of a path": OPEN + "printf '\\ncall-worker-0\\n../../x\\ntrue\\0' >&4; cat <&6; cat <&7",
    "signals without end": OPEN
    + "printf '\\ncall-worker-0\\n\\nsleep 1\\0' >&4; (yes KILL >&4) 2>/dev/null & (yes USR1"
    " >&4) 2>/dev/null & cat <&7; kill %1 %2",
    "pipe for the wrong way": OPEN
    + "(yes | head -c 1000 >$s/end) & (yes | head -c 1000 >$s/out) & exec 4>&-; sleep 1",
    "one slot for two": SLOT
    + "for n in 1 2 3; do (exec 4>$s/ask; printf '\\nmpi-worker-0\\n\\nid\\0' >&4; sleep 1) & done;"
    " wait",
    "names that are made up": "(while :; do echo 9999; done | head -c 60000 >free) & sleep 1; kill %1; sleep 11",
    "names that are lost": "n=0; while [ $n -lt 8 ]; do dd if=free bs=4 count=1 2>/dev/null; n=$((n+1)); done; sleep 11",
    "calls that are not made": "n=0; while [ $n -lt 10 ]; do ("
    + OPEN
    + "sleep 14) & n=$((n+1)); done; sleep 13",
    "calls that break off": "n=0; while [ $n -lt 60 ]; do ("
    + OPEN
    + "printf '\\ncall' >&4) & n=$((n+1)); done; wait",
    "calls without end": "n=0; while [ $n -lt 300 ]; do bireme-agent nobody sleep 5 & n=$((n+1)); done; wait",
}


SLOW: Final = {"names that are made up", "names that are lost", "calls that are not made"}
"""They wait until the server gives up."""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=name, marks=pytest.mark.long if name in SLOW else ())
        for name, script in TRICKS.items()
    ],
)
def test_a_call_is_nothing_but_a_call(scene: Scene, script: str) -> None:
    attack = f"({script.replace('VAULT', str(scene.vault))}) 2>&1 | tail -c 2000{STILL}"
    said = scene.play(call(attack))
    scene.assert_unharmed(said)
    assert "still" in said


def test_a_privileged_container_of_an_ordinary_user_plants_no_link_in_the_folder_of_calls(
    scene: Scene,
) -> None:
    """Root's privileged containers are root, and are not meant to be held by anything."""
    if scene.user is None:
        attack = "true"
    else:
        attack = (
            "mount -o remount,rw,bind /bireme/calls; for s in 0*; do for p in ask in out err end; do"
            f" rm -f $s/$p; ln -s {scene.written} $s/$p; done; done; rm -f free; ln -s {scene.written} free;"
            " n=0; while [ $n -lt 2000 ]; do for s in 0*; do ln -sf VAULT $s/x; done; n=$((n+1)); done; true"
        )
    said = scene.play(call(attack.replace("VAULT", str(scene.vault)), securityContext={"privileged": True}))
    scene.assert_unharmed(said)


def spoofed(kind: str, labels: dict[str, str] | None = None) -> Callable[[Scene], Manifest]:
    def build(scene: Scene) -> Manifest:
        attack = f"ls -la /bireme/calls; bireme-agent mpi-worker-0 '{ENTER}'; echo code $?"
        manifest = job("spoof", replica(container(attack), kind=kind))
        found = json.loads(scene.bireme("get", "mpijobs.kubeflow.org", "mpi", "-o", "json").stdout)
        uid = found["metadata"]["uid"]
        template = manifest["spec"]["replicaSpecs"][0]["template"]
        template["metadata"] = {
            "labels": {key: value.replace("UID", uid) for key, value in (labels or {}).items()}
        }
        return manifest

    return build


SPOOFS: Final = {
    "type launcher": spoofed("launcher"),
    "labels of a launcher": spoofed(
        "main", {"bireme.dev/replica-type": "launcher", "bireme.dev/job-uid": "UID"}
    ),
    "label of another job": spoofed("launcher", {"bireme.dev/job-uid": "UID"}),
}


@pytest.mark.parametrize("attack", SPOOFS.values(), ids=SPOOFS.keys())
def test_only_the_launcher_of_a_kind_that_has_one_calls(
    scene: Scene, attack: Callable[[Scene], Manifest]
) -> None:
    said = scene.play(attack(scene))
    scene.assert_unharmed(said)
    assert "code 255" in said


def test_a_worker_calls_no_pod(scene: Scene) -> None:
    worker = f"sleep 1; bireme-agent call-launcher '{ENTER}'; bireme-agent mpi-worker-0 '{ENTER}'; sleep 1000"
    said = scene.play(launcher_job("call", "sleep 4", worker=worker))
    scene.assert_unharmed(said)


def test_others_still_run(scene: Scene) -> None:
    """The last: none of the attacks has ended a pod of another job."""
    assert {name: scene.pod(name)["metadata"]["uid"] for name in scene.uids} == scene.uids
    assert {scene.phase(name) for name in scene.uids} == {"Running"}
    assert "fine" in play(scene.bireme, job("fine", replica(container("echo fine"))))
    assert images.BUSYBOX
