"""What every kind of job may ask of a node: variables, volumes, and things that only a cluster has."""

import base64
from pathlib import Path
from typing import Any

import pytest

from bireme.kube.resources import CONFIG_MAPS, SECRETS
from bireme.node.machine import isolation, look
from support.fixtures import unavailable
from support.here import PATH, Here, Object, generic, replica, shell

pytestmark = pytest.mark.xdist_group("here")


def need_mounts() -> None:
    if isolation() == "none":
        raise unavailable("this machine lets nobody make mounts: allow user namespaces")


def plain(kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


@pytest.fixture(scope="module")
def settings(here: Here) -> None:
    """A ConfigMap and a Secret that jobs refer to."""
    data = {"word": "hello", "other": "world"}
    here.do(here.client.create(CONFIG_MAPS, "default", plain("ConfigMap", "settings", data=data)))
    secret = plain("Secret", "keys", data={"key": base64.b64encode(b"s3cret").decode()})
    here.do(here.client.create(SECRETS, "default", secret))


ENV: list[Object] = [
    {"name": "PLAIN", "value": "plain"},
    {"name": "MADE", "value": "$(PLAIN)-$(type)-$(rank)-$$(PLAIN)"},
    {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "word"}}},
    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}},
    {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "no", "optional": True}}},
    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['genericjob']"}}},
    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
]


def test_variables_of_every_sort(here: Here, settings: None) -> None:
    script = 'echo "$PLAIN,$MADE,$MAP,$KEY,${NONE-unset},$POD,$LABEL,$CPU,$ALL_other,$HOSTNAME"'
    main = shell(
        "main",
        script,
        env=ENV,
        envFrom=[{"prefix": "ALL_", "configMapRef": {"name": "settings"}}],
        resources={"limits": {"cpu": "250m"}},
    )
    job = generic("vars", replica("a", "", containers=[main]))
    assert here.play(job)["phase"] == "Succeeded"
    expected = "plain,plain-a-0-$(PLAIN),hello,s3cret,unset,vars-a-0,vars,250,world,vars-a-0\n"
    assert here.output("vars-a-0") == expected
    here.delete(job)


def test_volumes_of_every_sort(here: Here, settings: None) -> None:
    need_mounts()
    (here.work / "host").mkdir()
    (here.work / "host/file").write_text("of the host")
    sources: dict[str, Object] = {
        "empty": {"emptyDir": {}},
        "map": {
            "configMap": {"name": "settings", "items": [{"key": "word", "path": "deep/w", "mode": 0o400}]}
        },
        "secret": {"secret": {"secretName": "keys"}},
        "pod": {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        "all": {
            "projected": {
                "sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "keys"}}],
            }
        },
        "host": {"hostPath": {"path": str(here.work / "host"), "type": "Directory"}},
        "claim": {"persistentVolumeClaim": {"claimName": "kept"}},
        "memory": {"emptyDir": {"medium": "Memory"}},
    }
    places = {name: f"/bireme-test/{name}" for name in sources} | {"memory": "/dev/shm"}
    mounts: list[Object] = [{"name": name, "mountPath": place} for name, place in places.items()]
    mounts += [
        {"name": "empty", "mountPath": "/bireme-test/part", "subPathExpr": "$(POD)"},
        {"name": "host", "mountPath": "/bireme-test/read", "readOnly": True},
    ]
    script = """
        cd /bireme-test && cat map/deep/w secret/key pod/n all/other host/file claim/file 2>/dev/null; echo
        stat -L -c %a map/deep/w; cat empty/first part/own; touch /dev/shm/bireme-test && echo shm
        touch read/no 2>/dev/null || echo read-only; echo kept >claim/file; pwd"""
    first = shell("first", "echo first >/bireme-test/empty/first; echo own >/bireme-test/empty/$POD/own")
    env = [ENV[5]]
    init = first | {"volumeMounts": mounts, "env": env}
    main = shell("main", script, volumeMounts=mounts, env=env, workingDir="/bireme-test/empty/new/folder")
    volumes = [{"name": name, **source} for name, source in sources.items()]
    for attempt, found in ((0, ""), (1, "kept\n")):
        worker = replica("a", "", containers=[main], initContainers=[init], volumes=volumes)
        job = generic(f"vols-{attempt}", worker)
        status = here.play(job)
        assert status["phase"] == "Succeeded", status
        pod = f"vols-{attempt}-a-0"
        expected = f"hellos3cret{pod}worldof the host{found}\n400\nfirst\nown\nshm\nread-only\n/bireme-test\n"
        assert here.output(pod) == expected
        here.delete(job)
    assert not Path("/bireme-test").exists()
    assert not Path("/dev/shm/bireme-test").exists()


def test_a_reference_to_what_is_missing_is_told_and_heals(here: Here) -> None:
    env = [{"name": "LATE", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "word"}}}]
    job = generic("late", replica("a", "", containers=[shell("main", 'echo "$LATE"', env=env)]))
    created = here.create(job)

    def waits(pod: Object) -> bool:
        states = [each["state"] for each in (pod.get("status") or {}).get("containerStatuses") or ()]
        return any(
            (state.get("waiting") or {}).get("reason") == "CreateContainerConfigError" for state in states
        )

    waiting = here.until_pod("late-a-0", waits)
    message = waiting["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert message == 'configmap "later" not found'
    here.do(here.client.create(CONFIG_MAPS, "default", plain("ConfigMap", "later", data={"word": "came"})))
    assert here.end_of(created)["phase"] == "Succeeded"
    assert here.output("late-a-0") == "came\n"
    here.delete(job)


# ---- what only a cluster has


def crew(kind: str, name: str, worker: Object, container: str, **spec: Any) -> Object:
    main = {"name": container, "image": "registry.example/x:1", "workingDir": "/workspace/no-such-place"}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            **spec,
            "worker": {"template": {"spec": {"containers": [main]}}, **worker},
            "runPolicy": {"cleanUpWorkers": "all"},
        },
    }


def test_a_manifest_of_a_cluster_runs_and_says_what_stands_in_for_what(here: Here) -> None:
    job = crew(
        "MPIJob",
        "unchanged",
        # Open MPI 5.0 at times hangs after programs that end before all nodes have started theirs.
        {"replicas": 2, "cmd": ["sh", "-c", 'echo "$HOSTNAME in $PWD"; sleep 1']},
        "mpi-worker",
        mpiHome="/opt/no-such-openmpi/",
        ssh={"sshdPath": "/opt/no-such/sshd", "sshAuthMountPath": "/no-such-home/.ssh"},
    )
    status = here.play(job)
    assert status["phase"] == "Succeeded", status
    lines = [
        line
        for line in here.output("unchanged-launcher", "mpi-launcher").splitlines()
        if line.startswith("unchanged-worker-")
    ]
    assert sorted(lines) == [f"unchanged-worker-{index} in {here.work}" for index in (0, 1)]
    workdir = f"workingDir /workspace/no-such-place is not on this machine: {here.work} is used"
    home = "mpiHome /opt/no-such-openmpi has no Open MPI on this machine: that of PATH is used"
    sshd = "sshdPath /opt/no-such/sshd is not on this machine: workers are reached without ssh"
    pods = [f"Pod/unchanged-{each}" for each in ("launcher", "worker-0", "worker-1")]
    told = {(who, text) for who in (*pods, "MPIJob/unchanged") for text in (workdir, sshd)}
    told |= {("Pod/unchanged-launcher", home), ("MPIJob/unchanged", home)}
    assert {each for each in here.events("Substituted") if "unchanged" in each[0]} == told
    conditions = {each["type"]: each for each in here.pod("unchanged-launcher")["status"]["conditions"]}
    assert set(conditions["bireme.dev/RunsAsWritten"]["message"].splitlines()) == {workdir, home, sshd}
    here.delete(job)


def stand_in(here: Here, script: str) -> str:
    """A PATH on which torchrun is a script."""
    programs = here.work / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "torchrun").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "torchrun").chmod(0o755)
    return f"{programs}:{PATH}"


def colossalai(name: str, path: str, **launcher: Any) -> Object:
    worker = {
        "replicas": 2,
        "procPerWorker": 2,
        "command": ["train.py", "it's"],
        "torchArgs": ["--log", "a b"],
    }
    job = crew("ColossalAIJob", name, worker, "worker", launcher={"image": "x", **launcher})
    job["metadata"]["annotations"] = {"bireme.dev/path": path}
    return job


def test_torchrun_starts_on_every_worker_with_a_port_of_its_own(here: Here) -> None:
    path = stand_in(here, 'echo "$HOSTNAME $PWD $WORD"; printf "%s\\n" "$@"; sleep 1')
    options: Object = {"workingDir": "/no-such-place", "env": [{"name": "WORD", "value": "given"}]}
    jobs = [here.create(colossalai(f"torch-{number}", path, **options)) for number in (0, 1)]
    ports = set()
    for job in jobs:
        name = job["metadata"]["name"]
        assert here.end_of(job)["phase"] == "Succeeded"
        lines = here.output(f"{name}-launcher", "launcher").splitlines()
        for rank in (0, 1):
            assert f"{name}-worker-{rank} {here.work} given" in lines
            assert f"--node_rank={rank}" in lines
        for word in ("--nnodes=2", "--nproc_per_node=2", "--log", "a b", "train.py", "it's"):
            assert lines.count(word) == 2
        ports |= {line for line in lines if line.startswith("--master_port=")}
        text = f"workingDir /no-such-place is not on this machine: {here.work} is used"
        assert (f"ColossalAIJob/{name}", text) in here.events("Substituted")
        here.delete(job)
    assert len(ports) == 2


def test_a_torchrun_that_fails_stops_the_others_and_its_worker_is_named(here: Here) -> None:
    path = stand_in(here, 'case "$*" in *node_rank=1*) echo out of luck; exit 5 ;; esac; exec sleep 100')
    job = colossalai("torn", path)
    status = here.play(job)
    first = status["firstFailure"]
    assert (status["phase"], first["replica"], first["exitCode"]) == ("Failed", "torn-worker-1", 5)
    here.delete(job)


def test_gpus_are_handed_out_and_waited_for(here: Here) -> None:
    main = shell("main", "true", resources={"limits": {"nvidia.com/gpu": 1 + len(look().gpus)}})
    job = generic("wants", replica("a", "", containers=[main]))
    here.create(job)

    def waits(pod: Object) -> bool:
        conditions = (pod.get("status") or {}).get("conditions") or ()
        told = [each.get("message", "") for each in conditions]
        return any("Insufficient nvidia.com/gpu. This machine has" in each for each in told)

    here.until_pod("wants-a-0", waits)
    here.delete(job)
