"""GPUs have one owner at a time."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from bireme.node.binder import WaitingPod
from bireme.node.binder import devices as counted
from bireme.node.devices import Devices, NoDeviceError
from bireme.node.machine import gpus_of_driver
from bireme.node.seen import Object


def pod(uid: str, init: Sequence[Object] = ()) -> Object:
    return {"metadata": {"uid": uid}, "spec": {"initContainers": list(init), "containers": []}}


def container(count: int, name: str = "main", **more: str) -> Object:
    return {"name": name, "resources": {"limits": {"nvidia.com/gpu": count} if count else {}}, **more}


def test_each_gets_its_own() -> None:
    devices = Devices(["a", "b", "c"])
    assert devices.environment(pod("1"), container(2)) == {"CUDA_VISIBLE_DEVICES": "a,b"}
    assert devices.environment(pod("2"), container(1)) == {"CUDA_VISIBLE_DEVICES": "c"}
    with pytest.raises(NoDeviceError, match="1 GPUs are asked for, and 0 of 3 are free"):
        devices.environment(pod("3"), container(1))
    devices.release("1")
    assert devices.environment(pod("3"), container(1)) == {"CUDA_VISIBLE_DEVICES": "a"}


def test_who_asks_for_none_sees_none() -> None:
    assert Devices(["a"]).environment(pod("1"), container(0)) == {"CUDA_VISIBLE_DEVICES": ""}
    assert Devices([]).environment(pod("1"), container(0)) == {}


def test_a_restarted_container_keeps_its_own() -> None:
    devices = Devices(["a", "b"])
    first = devices.environment(pod("1"), container(1))
    assert devices.environment(pod("1"), container(1)) == first


def test_what_a_pod_had_is_taken_up_again() -> None:
    before = Devices(["a", "b"])
    before.environment(pod("1"), container(1))
    after = Devices(["a", "b"])
    after.restore("1", before.held("1"))
    assert after.environment(pod("2"), container(1)) == {"CUDA_VISIBLE_DEVICES": "b"}


def test_a_pod_hands_on_what_its_init_containers_had() -> None:
    devices = Devices(["a", "b"])
    first, second = container(1, "first"), container(2, "second")
    own = pod("1", [first, second])
    assert devices.environment(own, first) == {"CUDA_VISIBLE_DEVICES": "a"}
    assert devices.environment(own, second) == {"CUDA_VISIBLE_DEVICES": "a,b"}
    assert devices.environment(own, container(1)) == {"CUDA_VISIBLE_DEVICES": "a"}
    assert devices.environment(own, container(1, "other")) == {"CUDA_VISIBLE_DEVICES": "b"}
    with pytest.raises(NoDeviceError):
        devices.environment(pod("2"), container(1))


def test_a_sidecar_keeps_its_own() -> None:
    devices = Devices(["a", "b"])
    sidecar, init = container(1, "sidecar", restartPolicy="Always"), container(1, "init")
    own = pod("1", [sidecar, init])
    assert devices.environment(own, sidecar) == {"CUDA_VISIBLE_DEVICES": "a"}
    assert devices.environment(own, init) == {"CUDA_VISIBLE_DEVICES": "b"}
    assert devices.environment(own, container(1)) == {"CUDA_VISIBLE_DEVICES": "b"}


def test_another_pod_is_left_its_own_though_it_is_an_init_containers() -> None:
    devices = Devices(["a", "b"])
    init = container(1, "init")
    devices.environment(pod("1", [init]), init)
    assert devices.environment(pod("2", [init]), init) == {"CUDA_VISIBLE_DEVICES": "b"}


@pytest.mark.parametrize(
    ("init", "mains", "expected"),
    [
        ([], [1, 2], {"nvidia.com/gpu": 3}),
        ([container(1)], [1], {"nvidia.com/gpu": 1}),
        ([container(4)], [1, 2], {"nvidia.com/gpu": 4}),
        ([container(1, restartPolicy="Always"), container(2)], [1], {"nvidia.com/gpu": 3}),
        ([], [0], {}),
    ],
    ids=["together", "init as large", "init larger", "sidecar", "none"],
)
def test_a_pod_counts_as_on_a_cluster(init: list[Object], mains: list[int], expected: dict[str, int]) -> None:
    spec = {"initContainers": init, "containers": [container(count) for count in mains]}
    assert counted(msgspec.convert({"spec": spec}, WaitingPod)) == expected


INFORMATION = "Model: \t\t NVIDIA A100\nIRQ:   \t\t 41\nGPU UUID: \t {}\nBus Location: \t 0000:07:00.0\n"


@pytest.mark.parametrize(
    ("uuids", "expected"),
    [
        (["GPU-b", "GPU-a"], ("GPU-b", "GPU-a")),
        (["GPU-b", "GPU-????????-????"], ("0", "1")),
        ([], ()),
    ],
    ids=["known", "not known yet", "none"],
)
def test_a_driver_without_its_program_tells_names_that_cuda_knows(
    tmp_path: Path, uuids: list[str], expected: tuple[str, ...]
) -> None:
    for number, uuid in enumerate(uuids):
        card = tmp_path / f"0000:0{number}:00.0"
        card.mkdir()
        (card / "information").write_text(INFORMATION.format(uuid))
    assert gpus_of_driver(tmp_path) == expected
