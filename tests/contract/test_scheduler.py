"""The scheduler of queues on a real API server, beside the real kube-scheduler."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bireme.api.kinds import QUEUE
from bireme.kube.errors import Conflict
from bireme.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, resource_of
from support.control_plane import ControlPlane
from support.jobs import colossalai, mpi
from support.kubelets import NODE_LABEL
from support.queued_world import MortalTransport, QueuedWorld, conditions, queued, queued_world, scheduling

pytestmark = pytest.mark.xdist_group("control_plane")

Scene = Callable[[QueuedWorld], Awaitable[None]]


def play(plane: ControlPlane, name: str, scene: Scene, *cpus: str) -> None:
    async def main() -> None:
        async with queued_world(plane, name, *cpus) as world:
            await scene(world)
            assert world.kubelets.overfull == []

    asyncio.run(main())


def plain_pod(world: QueuedWorld, name: str, cpu: str) -> dict[str, Any]:
    """A pod that is none of our scheduler's business."""
    main = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeSelector": {NODE_LABEL: world.namespace}, "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_two_gangs_that_each_need_more_than_half_run_one_after_the_other(
    scheduled_plane: ControlPlane,
) -> None:
    async def scene(world: QueuedWorld) -> None:
        queue = await world.add_queue("main")
        jobs = {name: queued(name, queue, 3) for name in ("one", "two")}
        async with scheduling(scheduled_plane):
            await asyncio.gather(*(world.create(job) for job in jobs.values()))

            async def one_runs() -> bool:
                return sorted([len(await world.bound(name)) for name in jobs]) == [0, 3]

            await world.wait(one_runs, "one of them is bound, whole")
            first = "one" if await world.bound("one") else "two"
            second = "two" if first == "one" else "one"
            await world.wait_phase(jobs[first], "Running")
            told = await world.wait_reason(second, "WaitingForResources")
            assert told["position"] == 1
            assert await world.bound(second) == []

            await check_first(world, first, queue)
            await check_second(world, second)

            await world.finish_all(first)
            await world.wait_phase(jobs[first], "Succeeded")
            await world.wait_bound(second, 3)
            await world.wait_phase(jobs[second], "Running")
            await world.finish_all(second)
            await world.wait_phase(jobs[second], "Succeeded")

    async def check_first(world: QueuedWorld, first: str, queue: str) -> None:
        async def told() -> bool:
            status = (await world.group(first)).get("status") or {}
            return status.get("running") == 3 and "binding" not in status and "waiting" not in status

        await world.wait(told, "the group's status tells of three pods that run, and of no plan")
        group = await world.group(first)
        assert group["status"]["allocated"] == {"cpu": "3"}
        found = conditions(group)
        assert (found["GroupScheduled"]["status"], found["SufficientGroupMember"]["status"]) == (
            "True",
            "True",
        )

        async def counted() -> bool:
            status = (await world.queue(queue)).get("status") or {}
            return status.get("allocated") == {"cpu": "3"} and status["podGroups"]["total"] == 2

        await world.wait(counted, "the queue's status tells what its pods hold")
        assert (await world.wait_event("Scheduled"))["involvedObject"]["name"] == first

    async def check_second(world: QueuedWorld, second: str) -> None:
        async def told() -> bool:
            pods = [pod for name, pod in (await world.pods()).items() if name.startswith(second)]
            found = [conditions(pod).get("PodScheduled", {}) for pod in pods]
            return len(found) == 3 and all(each.get("reason") == "Unschedulable" for each in found)

        await world.wait(told, "its pods say that nodes are missing")
        found = conditions(await world.group(second))
        assert found["GroupScheduled"]["status"] == "False"
        assert found["SufficientGroupMember"]["status"] == "True"

    play(scheduled_plane, "two-gangs", scene, "1", "1", "1", "1")


def test_what_kube_scheduler_placed_counts(scheduled_plane: ControlPlane) -> None:
    async def scene(world: QueuedWorld) -> None:
        queue = await world.add_queue("main")
        await world.client.create(PODS, world.namespace, plain_pod(world, "plain", "500m"))

        async def placed() -> bool:
            return bool((await world.pods())["plain"]["spec"].get("nodeName"))

        await world.wait(placed, "kube-scheduler places its pod")
        async with scheduling(scheduled_plane):
            job = queued("gang", queue, 2)
            await world.create(job)
            await world.wait_reason("gang", "WaitingForResources")
            assert await world.bound("gang") == []
            await world.client.delete(PODS, world.namespace, "plain", grace_seconds=0)
            await world.wait_bound("gang", 2)

    play(scheduled_plane, "beside", scene, "1", "1")


def test_a_queue_that_is_closed_does_not_call_for_nodes(scheduled_plane: ControlPlane) -> None:
    async def scene(world: QueuedWorld) -> None:
        queue = await world.add_queue("shut", closed=True)
        async with scheduling(scheduled_plane):
            await world.create(queued("gang", queue, 2))
            await world.wait_reason("gang", "QueueClosed")

            async def told() -> bool:
                found = [conditions(pod).get("PodScheduled", {}) for pod in (await world.pods()).values()]
                return len(found) == 2 and all(each.get("reason") == "QueueClosed" for each in found)

            await world.wait(told, "its pods tell the reason, and not that they are unschedulable")

    play(scheduled_plane, "closed", scene, "1")


def test_pods_tell_anew_when_nodes_that_were_missing_are_there(scheduled_plane: ControlPlane) -> None:
    """The word for an autoscaler is the same, and what it means is not."""

    async def scene(world: QueuedWorld) -> None:
        nowhere = {"matchLabels": {"nobody": "has-this"}}
        near, far = await world.add_queue("near"), await world.add_queue("far", nodeSelector=nowhere)
        await world.create(queued("first", near, 1))
        async with scheduling(scheduled_plane):
            await world.wait_bound("first", 1)
            await world.create(queued("second", far, 1))
            await world.wait_told("second-worker-0", "leave")
            labels = (await world.queue(near))["spec"]["nodeSelector"]["matchLabels"]
            change = {"spec": {"nodeSelector": {"matchLabels": {"nobody": None, **labels}}}}
            await world.client.patch(resource_of(QUEUE), None, far, change)
            await world.wait_told("second-worker-0", "asks for 1 of cpu (0 free)")

    play(scheduled_plane, "anew", scene, "1")


def test_killed_after_any_write_the_next_scheduler_completes_the_gang(scheduled_plane: ControlPlane) -> None:
    """Each life ends with the answer to its n-th write: after the plan, each bind, each status."""

    async def scene(world: QueuedWorld) -> None:
        queue = await world.add_queue("main")
        plans, sent = 0, list[str]()
        for writes in range(1, 9):
            job = queued(f"gang-{writes}", queue, 3)
            await world.create(job)
            await world.wait_pods(*(f"gang-{writes}-worker-{index}" for index in range(3)))
            async with scheduling(scheduled_plane, writes) as (_, transport):

                async def over(name: str = f"gang-{writes}", life: MortalTransport = transport) -> bool:
                    status = (await world.group(name)).get("status") or {}
                    told_all = status.get("running") == 3 and "binding" not in status
                    return life.died.is_set() or told_all

                await world.wait(over, "its last write, or all there is to write")
                sent = transport.sent
            bound = len(await world.bound(f"gang-{writes}"))
            if 0 < bound < 3:
                plans += 1
                assert "binding" in (await world.group(f"gang-{writes}"))["status"]
            async with scheduling(scheduled_plane):
                await world.wait_bound(f"gang-{writes}", 3)
                await world.wait_phase(job, "Running")
                await world.finish_all(f"gang-{writes}")
                done = await world.wait_phase(job, "Succeeded")
                records = done["status"]["tasks"][0]["replicas"]
                assert not any(each.get("restarts") or each.get("disruptions") for each in records)
                await world.delete_job(job)
                await world.wait_pods()
        assert plans, sent

    play(scheduled_plane, "killed-gang", scene, "1", "1", "1")


def test_a_gang_of_which_a_part_lost_its_place_is_made_anew(scheduled_plane: ControlPlane) -> None:
    async def scene(world: QueuedWorld) -> None:
        from bireme.scheduling import Policy

        queue = await world.add_queue("main")
        job = queued("gang", queue, 3)
        await world.create(job)
        await world.wait_pods(*(f"gang-worker-{index}" for index in range(3)))
        bound = 0
        writes = 1
        while not 0 < bound < 3:
            async with scheduling(scheduled_plane, writes) as (_, transport):
                async with asyncio.timeout(120):
                    await transport.died.wait()
            bound, writes = len(await world.bound("gang")), 1
        for index in range(3 - bound):
            await world.client.create(PODS, world.namespace, plain_pod(world, f"intruder-{index}", "1"))

        async def intruded() -> bool:
            found = [pod for name, pod in (await world.pods()).items() if name.startswith("intruder")]
            return all(pod["spec"].get("nodeName") for pod in found)

        await world.wait(intruded, "others have taken the rest")
        async with scheduling(scheduled_plane, policy=Policy(binding_seconds=3)):
            await world.wait_event("GangNotWhole")

            async def none() -> bool:
                return await world.bound("gang") == []

            await world.wait(none, "it holds nothing any more")
            await world.wait_reason("gang", "WaitingForResources")
            for index in range(3 - bound):
                await world.client.delete(PODS, world.namespace, f"intruder-{index}", grace_seconds=0)
            await world.wait_bound("gang", 3)
            await world.wait_phase(job, "Running")

    play(scheduled_plane, "anew", scene, "1", "1", "1")


def test_victims_make_way_and_their_job_starts_again_uncharged(scheduled_plane: ControlPlane) -> None:
    async def scene(world: QueuedWorld) -> None:
        low, high = await world.add_queue("low"), await world.add_queue("high", priority=10)
        world.kubelets.slow = True
        async with scheduling(scheduled_plane):
            victim, winner = queued("victim", low, 2), queued("winner", high, 2)
            await world.create(victim)
            await world.wait_phase(victim, "Running")
            await world.create(winner)
            await world.wait_reason("winner", "WaitingForVictims")
            leaving = [pod for name, pod in (await world.pods()).items() if name.startswith("victim")]
            marks = [conditions(pod)["DisruptionTarget"] for pod in leaving]
            assert {(each["status"], each["reason"]) for each in marks} == {("True", "PreemptionByScheduler")}
            assert await world.bound("winner") == []
            world.kubelets.slow = False
            world.kubelets.go.set()
            await world.wait_bound("winner", 2)
            await world.wait_phase(winner, "Running")
            await world.wait_job(victim, waits_again, "replicas that wait again")
            await world.wait_event("Preempting")
            await world.finish_all("winner")
            await world.wait_bound("victim", 2)
            job = await world.wait_phase(victim, "Running")
            records = job["status"]["tasks"][0]["replicas"]
            assert not any(each.get("restarts") for each in records)

    def waits_again(job: dict[str, Any]) -> bool:
        records = job["status"]["tasks"][0]["replicas"]
        return all(each["phase"] == "Creating" and each.get("disruptions") == 1 for each in records)

    play(scheduled_plane, "preempted", scene, "1", "1")


def test_a_member_that_has_finished_and_is_gone_is_not_waited_for(scheduled_plane: ControlPlane) -> None:
    async def scene(world: QueuedWorld) -> None:
        queue = await world.add_queue("main")
        job = queued("gang", queue, 3)
        async with scheduling(scheduled_plane):
            await world.create(job)
            await world.wait_phase(job, "Running")
            await world.finish("gang-worker-0")
            await world.wait_job(job, one_has_succeeded, "a replica that has succeeded")
            await world.client.delete(PODS, world.namespace, "gang-worker-0", grace_seconds=0)
            lost = (await world.pods())["gang-worker-1"]["metadata"]["uid"]
            await world.client.delete(PODS, world.namespace, "gang-worker-1")

            async def is_back() -> bool:
                pod = (await world.pods()).get("gang-worker-1")
                return pod is not None and pod["metadata"]["uid"] != lost and "nodeName" in pod["spec"]

            await world.wait(is_back, "another pod in the place of the lost one")
            assert (await world.group("gang"))["spec"]["minMember"] == 2
            await world.finish_all("gang")
            await world.wait_phase(job, "Succeeded")

    def one_has_succeeded(job: dict[str, Any]) -> bool:
        return any(each["phase"] == "Succeeded" for each in job["status"]["tasks"][0]["replicas"])

    play(scheduled_plane, "finished-member", scene, "1", "1", "1")


def restarted(name: str, queue: str) -> dict[str, Any]:
    job = queued(name, queue, 2)
    job["spec"]["replicaSpecs"][0]["restartPolicy"] = {"policy": "OnFailure", "limit": 5}
    return job


QUEUED_JOBS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "generic": restarted,
    "mpi": lambda name, queue: mpi(name, scheduler={"t9kScheduler": {"queue": queue}}),
    "colossalai": lambda name, queue: colossalai(name, scheduler={"t9kScheduler": {"queue": queue}}),
}


@pytest.mark.parametrize("kind", QUEUED_JOBS)
def test_a_pod_older_than_its_queue_allows_has_failed_for_good(
    scheduled_plane: ControlPlane, kind: str
) -> None:
    async def scene(world: QueuedWorld) -> None:
        queue = await world.add_queue("short", maxDuration="5s")
        async with scheduling(scheduled_plane):
            job = QUEUED_JOBS[kind]("old", queue)
            await world.create(job)
            done = await world.wait_phase(job, "Failed")
            assert "MaxDurationExceeded" in json.dumps(done["status"])
            event = await world.wait_event("MaxDurationExceeded")
            assert event["involvedObject"]["kind"] in ("Pod", job["kind"])
            replicas = [each for task in done["status"]["tasks"] for each in task["replicas"]]
            assert not any(each.get("restarts") for each in replicas)

    play(scheduled_plane, f"expired-{kind}", scene, "1", "1")


def shapes(**profiles: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "resource-shapes"},
        "data": profiles,
    }


def test_shape_profiles_are_those_of_the_schedulers_namespace_and_followed(
    scheduled_plane: ControlPlane,
) -> None:
    async def scene(world: QueuedWorld) -> None:
        client, home = world.client, world.namespace
        queue = await world.add_queue("shaped", resourceShapeProfile="small")
        broken = await world.add_queue("broken", resourceShapeProfile="broken")
        await client.create(CONFIG_MAPS, home, shapes(small="cpu: 1", broken="cpu: [1"))
        async with scheduling(scheduled_plane, home=home):
            await world.create(queued("large", queue, 1, "2"))
            told = await world.wait_reason("large", "Misconfigured")
            assert "at most 1" in told["message"]
            await world.create(queued("fitting", queue, 1, "1"))
            await world.wait_bound("fitting", 1)
            await world.create(queued("lost", broken, 1, "1"))
            told = await world.wait_reason("lost", "Misconfigured")
            assert "the key broken of the ConfigMap resource-shapes" in told["message"]
            assert "can't be read" in told["message"]
            await client.patch(CONFIG_MAPS, home, "resource-shapes", {"data": {"small": "cpu: 2"}})
            await world.wait_bound("large", 1)
            await client.delete(CONFIG_MAPS, home, "resource-shapes")
            await world.create(queued("late", queue, 1, "1"))
            await world.wait_reason("late", "Misconfigured")
        async with scheduling(scheduled_plane, home="default"):
            await client.create(CONFIG_MAPS, home, shapes(small="cpu: 2"))
            await world.create(queued("elsewhere", queue, 1, "1"))
            await world.wait_reason("elsewhere", "Misconfigured")

    play(scheduled_plane, "shapes", scene, "4")


def test_a_pod_that_the_kubelet_refuses_is_placed_again_and_its_job_not_charged(
    scheduled_plane: ControlPlane,
) -> None:
    async def scene(world: QueuedWorld) -> None:
        queue = await world.add_queue("main")
        world.kubelets.refuse.add("job-worker-1")
        async with scheduling(scheduled_plane):
            job = queued("job", queue, 2)
            await world.create(job)
            done = await world.wait_phase(job, "Running")
            await world.wait_bound("job", 2)
            assert world.kubelets.refuse == set()
            assert not any(each.get("restarts") for each in done["status"]["tasks"][0]["replicas"])

    play(scheduled_plane, "refused", scene, "1", "1")


def test_a_pod_is_not_bound_in_the_place_of_another_of_its_name(scheduled_plane: ControlPlane) -> None:
    async def scene(world: QueuedWorld) -> None:
        pod = plain_pod(world, "pod", "1") | {}
        pod["spec"]["schedulerName"] = "nobody"
        first = await world.client.create(PODS, world.namespace, pod)
        await world.client.delete(PODS, world.namespace, "pod", grace_seconds=0)
        await world.client.create(PODS, world.namespace, pod)
        with pytest.raises(Conflict):
            await world.client.bind(
                world.namespace, "pod", f"{world.namespace}-0", uid=first["metadata"]["uid"]
            )
        assert not (await world.pods())["pod"]["spec"].get("nodeName")

    play(scheduled_plane, "another", scene, "1")


def test_at_rest_it_looks_and_writes_nothing(scheduled_plane: ControlPlane) -> None:
    async def scene(world: QueuedWorld) -> None:
        queue = await world.add_queue("main")
        async with scheduling(scheduled_plane) as (scheduler, transport):
            runs, waits = queued("runs", queue, 2), queued("waits", queue, 2)
            await world.create(runs)
            await world.wait_phase(runs, "Running")
            await world.create(waits)
            await world.wait_reason("waits", "WaitingForResources")

            async def quiet() -> bool:
                before = len(transport.sent)
                await asyncio.sleep(3)
                return len(transport.sent) == before

            await world.wait(quiet, "everything is told")
            sent = len(transport.sent)
            for number in range(5):
                rounds = scheduler.rounds
                body = {"metadata": {"annotations": {"touched": str(number)}}}
                await world.client.patch(NAMESPACES, None, world.namespace, body)

                async def looked(rounds: int = rounds) -> bool:
                    return scheduler.rounds > rounds

                await world.wait(looked, "it looked again")
            assert transport.sent[sent:] == []

    play(scheduled_plane, "idle", scene, "1", "1")
