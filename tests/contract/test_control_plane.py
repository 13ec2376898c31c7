"""The control plane that other tests stand on is real, guarded, and leaves nothing behind."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from support.component import ControlPlaneError
from support.control_plane import BUILD, ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")


@pytest.fixture
def own_control_plane(control_plane: ControlPlane) -> ControlPlane:
    """The same one, for what an existing cluster cannot promise."""
    if control_plane.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: nothing of it is started here")
    return control_plane


def pinned_version() -> str:
    lines = BUILD.with_name("go.mod").read_text().splitlines()
    return next(words[1] for line in lines if (words := line.split())[:1] == ["k8s.io/kubernetes"])


def wait_for_exit(pid: int, timeout_seconds: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    readable, _, _ = select.select([descriptor], [], [], timeout_seconds)
    os.close(descriptor)
    return bool(readable)


def test_server_and_client_have_the_pinned_version(own_control_plane: ControlPlane) -> None:
    if "KUBEBUILDER_ASSETS" in os.environ:
        pytest.skip("KUBEBUILDER_ASSETS: its version is its owner's choice")
    versions = json.loads(own_control_plane.kubectl("version", "--output=json").stdout)
    assert versions["serverVersion"]["gitVersion"] == pinned_version()
    assert versions["clientVersion"]["gitVersion"] == pinned_version()


def test_the_administrator_may_do_anything(control_plane: ControlPlane) -> None:
    assert control_plane.kubectl("auth", "can-i", "*", "*", "--all-namespaces").stdout.strip() == "yes"


def test_an_unprivileged_user_is_refused(control_plane: ControlPlane) -> None:
    nobody = control_plane.kubeconfig_for("nobody", groups=["strangers"])
    refused = control_plane.kubectl("get", "pods", kubeconfig=nobody, check=False)
    assert refused.returncode == 1
    assert 'User "nobody" cannot list resource "pods"' in refused.stderr


def test_a_user_arrives_with_name_and_groups(control_plane: ControlPlane) -> None:
    reader = control_plane.kubeconfig_for("reader", groups=["readers", "guests"])
    answer = control_plane.kubectl("auth", "whoami", "--output=json", kubeconfig=reader)
    user = json.loads(answer.stdout)["status"]["userInfo"]
    assert user["username"] == "reader"
    assert {"readers", "guests"} <= set(user["groups"])


def test_a_new_namespace_gets_its_default_service_account(control_plane: ControlPlane) -> None:
    name = f"test-{uuid.uuid4().hex[:8]}"
    control_plane.kubectl("create", "namespace", name)
    wait = ("wait", "--for=create", "--timeout=150s", f"--namespace={name}")
    control_plane.kubectl(*wait, "serviceaccount/default")
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


def test_a_killed_component_comes_back_on_its_port(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = ControlPlane(parent=tmp_path)
    plane.start(components=("etcd",))
    try:
        before = plane.pids["etcd"]
        plane.restart("etcd", signum=signal.SIGKILL)
        assert plane.pids["etcd"] != before
    finally:
        plane.stop()


def test_stop_leaves_no_process_and_no_folder(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = ControlPlane(parent=tmp_path)
    plane.start(components=("etcd", "kube-apiserver"))
    pids = plane.pids
    assert set(pids) == {"etcd", "kube-apiserver"}
    plane.stop()
    assert [name for name, pid in pids.items() if not wait_for_exit(pid, 0)] == []
    assert list(tmp_path.iterdir()) == []


def test_a_component_that_dies_is_named_with_its_log(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = ControlPlane(parent=tmp_path)
    with pytest.raises(ControlPlaneError, match=r"etcd ended with \d+:\n(.*\n)*.*no-such-flag"):
        plane.start(components=("etcd",), flags={"etcd": ["--no-such-flag"]})
    assert list(tmp_path.iterdir()) == []


def test_components_die_with_a_killed_parent(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    start_and_wait = (
        "import pathlib, sys; from support.control_plane import ControlPlane; "
        "plane = ControlPlane(pathlib.Path(sys.argv[1])); plane.start(['etcd']); "
        "print(plane.pids['etcd'], flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", start_and_wait, str(tmp_path)]
    tests = {"PYTHONPATH": str(BUILD.parents[2] / "tests")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | tests
    ) as parent:
        assert parent.stdout is not None
        etcd = int(parent.stdout.readline())
        parent.kill()
    assert wait_for_exit(etcd, timeout_seconds=60)
    shutil.rmtree(tmp_path)  # pytest would keep it for three runs, with etcd's 64 MB of empty log
