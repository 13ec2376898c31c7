"""Bugs in the scheduler of gangs: the plan, what is under way, the lease."""

from simulation.bugs.planting import Bug

CARRIER = "control.scheduler.carrier"
MIRROR = "control.scheduler.mirror"

BUGS = (
    Bug(
        "bound before the plan is written down",
        CARRIER,
        "Carrier._start",
        "if start.plan is not None and not await self._write_plan(start.unit, start.plan):",
        "if False:",
    ),
    Bug(
        "bound though the plan could not be written",
        CARRIER,
        "Carrier._write_plan",
        "                return False\n",
        "                return True\n",
    ),
    Bug(
        "plan dropped after the first bind",
        "control.scheduler.reporter",
        "Reporter._report_group",
        "begun = self._mirror.is_being_bound(unit) or lacking(unit, unit.settled())[0]",
        "begun = False",
    ),
    Bug(
        "last pod of a gang left out",
        CARRIER,
        "Carrier._start",
        "for tracked, node in pods)",
        "for tracked, node in pods[1:])",
    ),
    Bug(
        "pods beyond the minimum bound beside the gang",
        CARRIER,
        "Carrier._start_unit",
        "if await self._start(start, pods, now):",
        "if await asyncio.gather(*(self._start(start, pods, now) for start, pods in starts)) and False:",
    ),
    Bug(
        "failed bind counts for ever",
        CARRIER,
        "Carrier._bind",
        "await self._look_again(metadata, now)",
        "pass",
    ),
    Bug(
        "failed eviction counts for ever",
        CARRIER,
        "Carrier._end",
        "self._mirror.forget_leaving(metadata.uid)",
        "pass",
    ),
    Bug(
        "scheduler writes after its lease",
        "control.scheduler.loop",
        "Scheduler.__init__",
        "client = client.guarded(may_write)",
        "pass",
    ),
    Bug("changes wake nobody", MIRROR, "Mirror._later", "self._on_change()", "pass"),
    Bug(
        "a pod that is gone keeps its room",
        MIRROR,
        "Mirror._put_pod",
        "self.state.remove_pod(old.metadata.uid)",
        "pass",
    ),
    Bug(
        "a gang starts with what is there",
        "scheduling.units",
        "_first_set",
        "if missing > len(rest):",
        "if False:",
    ),
)
