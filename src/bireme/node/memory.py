"""Who ran out of memory: a launcher reports the loss of a rank, and can't know why the rank was lost."""

from collections.abc import Iterable

from bireme.node.cgroups import was_oom_killed
from bireme.node.driver import hostname
from bireme.node.last_words import is_launcher
from bireme.node.networks import Member
from bireme.node.seen import Object
from bireme.node.shims import read_cgroups
from bireme.planning.cause import tell_lacking


def explain_lack(pod: Object, fellows: Iterable[Member]) -> str:
    """Whose processes the kernel killed for want of memory, for a launcher that has failed; else empty."""
    if not is_launcher(pod):
        return ""
    return tell_lacking([hostname(each.pod) for each in fellows if was_oom_killed(read_cgroups(each.folder))])
