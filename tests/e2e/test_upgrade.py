"""From an older version to this one by helm, CRDs included, while jobs run: they go on to their end."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from support.cluster import Cluster, why_not
from support.cluster import cluster as start_cluster
from support.fixtures import unavailable
from support.installed import EVERYTHING, Installation
from support.manifests import SUM, colossalai_job, generic_job, kubeflow_job, mpi_job
from support.node import recipes
from support.stage import Object, Stage
from support.stage import stage as new_stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

ROOT: Final = Path(__file__).parents[2]
PREVIOUS: Final = "78e92b199b0ed8e2ea5d1ab60c3159a54cadc7f7"
"""The first commit that had a chart. There is no release yet to come from."""
IMAGE: Final = "bireme.test/controller:previous"
UNTIL_TOLD: Final = "os.mkfifo('/tmp/go')\nopen('/tmp/go').read()\n" + SUM
SCRIPT: Final = "busybox mkfifo /tmp/go && read told </tmp/go && echo went on"


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code and the chart of the older version."""
    folder = tmp_path_factory.mktemp("previous")
    paths = ("src/bireme", "deploy/crds", "deploy/helm/bireme", "pyproject.toml")
    done = subprocess.run(["git", "-C", ROOT, "archive", PREVIOUS, *paths], capture_output=True, check=False)
    if done.returncode:
        raise unavailable(f"the clone has no commit {PREVIOUS[:7]}: run `git fetch --unshallow`")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Where nothing was installed before."""
    reason = why_not()
    if reason:
        raise unavailable(reason)
    with start_cluster(tmp_path_factory.mktemp("upgrade")) as running:
        if running.node is None:
            raise unavailable("the older image can be given to a node of our own alone")
        yield running


def install(cluster: Cluster, previous: Path, work: Path) -> None:
    """Install the older chart, with the image of its own code."""
    assert cluster.node is not None
    cluster.image("mpi4")
    cluster.node.import_image(recipes.make_controller(work, previous, IMAGE))
    Installation(cluster, IMAGE).install(chart=previous / "deploy/helm/bireme")


def jobs_of_every_kind(stage: Stage) -> list[Object]:
    image = stage.image("mpi4")
    stand_in = {"PATH": "/tools:/usr/bin:/bin"}
    train = colossalai_job("train", image, ["train.py"])
    tools = {"torchrun": f"#!/usr/bin/python3\nimport os\n{UNTIL_TOLD.removesuffix(SUM)}"}
    stage.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tools"}, "data": tools})
    pod = train["spec"]["worker"]["template"]["spec"]
    pod["volumes"] = [{"name": "tools", "configMap": {"name": "tools", "defaultMode": 0o555}}]
    pod["containers"][0] |= {
        "volumeMounts": [{"name": "tools", "mountPath": "/tools"}],
        "env": [{"name": name, "value": value} for name, value in stand_in.items()],
    }
    train["spec"]["worker"]["replicas"] = 1
    return [
        generic_job("plain", stage.image("busybox"), {"worker": SCRIPT}),
        mpi_job("ranks", image, UNTIL_TOLD, workers=1),
        train,
        kubeflow_job("flow", image, "if world.rank == 0:\n " + UNTIL_TOLD.replace("\n", "\n ", 1), workers=1),
    ]


def pods(stage: Stage) -> dict[str, tuple[str, str]]:
    """Each with its UID and when it began."""
    return {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["status"]["startTime"])
        for each in stage.items("pods")
    }


def end(stage: Stage) -> None:
    for name in ("plain-worker-0", "ranks-worker-0", "train-worker-0", "flow-worker-0"):
        stage.try_kubectl("exec", name, "--", "sh", "-c", "echo go >/tmp/go")


def schemas(cluster: Cluster) -> dict[str, Object]:
    found = cluster.kubectl.run(["get", "crds", "-o", "yaml"])
    assert found.code == 0, found.stderr
    return {
        each["metadata"]["name"]: each["spec"]["versions"][0]["schema"]
        for each in yaml.safe_load(found.stdout)["items"]
    }


def expected_schemas() -> dict[str, Object]:
    crds = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "deploy/crds").glob("*.yaml"))]
    return {each["metadata"]["name"]: each["spec"]["versions"][0]["schema"] for each in crds}


def test_jobs_of_every_kind_outlive_an_upgrade(own_cluster: Cluster, previous: Path, tmp_path: Path) -> None:
    install(own_cluster, previous, tmp_path)
    with new_stage(own_cluster, "upgrade") as stage:
        jobs = jobs_of_every_kind(stage)
        for job in jobs:
            stage.create(job)
        for job in jobs:
            stage.wait_phase(job, "Running")
        before = pods(stage)
        image = own_cluster.image("controller")
        assert image is not None
        installation = Installation(own_cluster, image)
        installation.upgrade(*EVERYTHING)
        told = installation.kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}")
        assert set(told.split()) == {image}
        assert schemas(own_cluster) == expected_schemas()
        stage.until(lambda: bool(installation.leader()), "a leader of the new version")
        for job in jobs:
            stage.wait_phase(job, "Running")
        assert pods(stage) == before
        end(stage)
        statuses = [stage.wait_phase(job, "Succeeded") for job in jobs]
        assert stage.logs("plain-worker-0") == "went on\n"
        assert [each for each in statuses if each.get("disruptions")] == []
        assert pods(stage).items() <= before.items()
        later = mpi_job("later", stage.image("mpi4"))
        stage.create(later)
        stage.wait_phase(later, "Succeeded")
