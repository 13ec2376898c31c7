"""What a step asks for. Orders are values; the node agent carries them out, in their order.

Each stays due until what is seen of the pod shows that it was carried out, so none can be lost. What was
carried out, or begun, is noted in the container's Dealings (`dealings.note`).
"""

from typing import Any, Literal

import msgspec

HookName = Literal["postStart", "preStop"]
ProbeName = Literal["startupProbe", "readinessProbe", "livenessProbe"]


class StartContainer(msgspec.Struct, frozen=True, tag_field="order", tag=True):
    """Start a container; the pod's shim first, if there is none."""

    container: str
    attempt: int
    in_a_row: int = 0
    """How many restarts led here without a long run in between."""


class SignalContainer(msgspec.Struct, frozen=True, tag_field="order", tag=True):
    """Ask a container to end."""

    container: str
    signum: int
    attempt: int


class KillContainer(msgspec.Struct, frozen=True, tag_field="order", tag=True):
    """Kill a container and all that came from it."""

    container: str
    attempt: int


class RunHook(msgspec.Struct, frozen=True, tag_field="order", tag=True):
    """Begin a lifecycle hook; its end is noted by `dealings.finish_hook`."""

    container: str
    attempt: int
    hook: HookName
    handler: dict[str, Any]


class RunProbe(msgspec.Struct, frozen=True, tag_field="order", tag=True):
    """Begin a probe; its result is noted by `probes.finish`."""

    container: str
    attempt: int
    probe: ProbeName


class CheckShim(msgspec.Struct, frozen=True, tag_field="order", tag=True):
    """Kill the pod's shim unless it answers: a container that was killed is still there."""


class EndPod(msgspec.Struct, frozen=True, tag_field="order", tag=True):
    """End the pod's shim: nothing of the pod runs any more, and nothing will."""


Order = StartContainer | SignalContainer | KillContainer | RunHook | RunProbe | CheckShim | EndPod
