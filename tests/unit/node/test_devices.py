"""GPUs have one owner at a time."""

import pytest

from bireme.node.devices import Devices, NoDeviceError


def pod(uid: str) -> dict[str, object]:
    return {"metadata": {"uid": uid}}


def container(count: int, name: str = "main") -> dict[str, object]:
    return {"name": name, "resources": {"limits": {"nvidia.com/gpu": count}}} if count else {"name": name}


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
