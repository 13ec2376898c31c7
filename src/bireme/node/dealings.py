"""How the agent keeps its dealings with a container: what it began, when, and how that went."""

from datetime import datetime
from typing import Final

import msgspec

from bireme.node import probes
from bireme.node.orders import HookName, KillContainer, RunHook, RunProbe, SignalContainer, StartContainer
from bireme.node.seen import Dealings, Hook

ContainerOrder = StartContainer | SignalContainer | KillContainer | RunHook | RunProbe
_HOOKS: Final[dict[HookName, str]] = {"postStart": "post_start", "preStop": "pre_stop"}


def note(known: Dealings | None, order: ContainerOrder, now: datetime) -> Dealings:
    """The dealings with a container once an order was carried out, or begun."""
    made = known if known is not None and known.attempt == order.attempt else Dealings(order.attempt)
    match order:
        case StartContainer():
            return Dealings(order.attempt, order.in_a_row)
        case SignalContainer():
            return msgspec.structs.replace(made, signalled=now)
        case KillContainer():
            return msgspec.structs.replace(made, killed=now)
        case RunHook():
            return msgspec.structs.replace(made, **{_HOOKS[order.hook]: Hook(now)})
        case RunProbe():
            return probes.begin(made, order.probe, now)


def finish_hook(known: Dealings, name: HookName, now: datetime, error: str = "") -> Dealings:
    """The dealings with a hook's end; one that was not begun is left alone."""
    hook: Hook | None = getattr(known, _HOOKS[name])
    if hook is None:
        return known
    ended = msgspec.structs.replace(hook, finished=now, error=error)
    return msgspec.structs.replace(known, **{_HOOKS[name]: ended})
