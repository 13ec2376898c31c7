"""Another local user can neither look into the victim's processes nor touch them."""

import signal

import pytest

from support.two_users import Attacker, Victim

pytestmark = pytest.mark.xdist_group("two_users")

DENIED = ("PermissionError", "FileNotFoundError")
PROCESSES = ("daemon", "nursery", "shim", "pod")
SECRETS = ("environ", "mem", "maps", "smaps", "auxv", "stack", "syscall", "personality", "pagemap", "io")
FOLDERS = ("fd", "fdinfo", "map_files", "cwd", "root", "task/{pid}/fd", "task/{pid}/cwd")
LINKS = ("cwd", "root", "exe", "ns/net", "ns/mnt", "ns/user", "fd/0", "fd/1", "fd/2")
WRITABLE = ("mem", "oom_score_adj", "coredump_filter", "clear_refs", "comm", "timerslack_ns", "loginuid")
SIGNALS = ("SIGTERM", "SIGKILL", "SIGSTOP", "SIGUSR1", "SIGHUP", "SIGCONT")
TOUCHES = ("trace", "seize", "limit", "pin", "slow_down")


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("who", PROCESSES)
@pytest.mark.parametrize("name", SECRETS)
def test_what_a_process_has_in_memory_is_secret(
    victim: Victim, attacker: Attacker, who: str, name: str
) -> None:
    outcome = attacker("read", f"/proc/{victim.processes()[who]}/{name}")
    assert outcome.error in DENIED or outcome.value == "", outcome


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("who", PROCESSES)
@pytest.mark.parametrize("name", FOLDERS)
def test_what_a_process_has_open_is_secret(victim: Victim, attacker: Attacker, who: str, name: str) -> None:
    pid = victim.processes()[who]
    assert attacker("listing", f"/proc/{pid}/{name.format(pid=pid)}").error in DENIED


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("who", PROCESSES)
@pytest.mark.parametrize("name", LINKS)
def test_where_a_process_is_is_secret(victim: Victim, attacker: Attacker, who: str, name: str) -> None:
    assert attacker("read_link", f"/proc/{victim.processes()[who]}/{name}").error in DENIED


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("who", PROCESSES)
@pytest.mark.parametrize("name", WRITABLE)
def test_a_process_can_not_be_written_to(victim: Victim, attacker: Attacker, who: str, name: str) -> None:
    assert attacker("write", f"/proc/{victim.processes()[who]}/{name}").error in (*DENIED, "OSError")


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("who", PROCESSES)
@pytest.mark.parametrize("do", ["send_signal", "signal_by_descriptor"])
@pytest.mark.parametrize("name", SIGNALS)
def test_a_process_can_not_be_signalled(
    victim: Victim, attacker: Attacker, who: str, do: str, name: str
) -> None:
    outcome = attacker(do, victim.processes()[who], int(getattr(signal, name)))
    assert outcome.error == "PermissionError", outcome


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("who", PROCESSES)
@pytest.mark.parametrize("do", TOUCHES)
def test_a_process_can_not_be_traced_or_held_back(
    victim: Victim, attacker: Attacker, who: str, do: str
) -> None:
    assert attacker(do, victim.processes()[who]).error == "PermissionError"


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("who", PROCESSES)
@pytest.mark.parametrize("do", ["read_memory", "steal_descriptor"])
def test_memory_and_descriptors_can_not_be_taken(
    victim: Victim, attacker: Attacker, who: str, do: str
) -> None:
    assert attacker(do, victim.processes()[who], 1).error == "PermissionError"


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("who", PROCESSES)
@pytest.mark.parametrize("namespace", ["net", "mnt", "user", "ipc", "uts"])
def test_namespaces_can_not_be_entered(victim: Victim, attacker: Attacker, who: str, namespace: str) -> None:
    outcome = attacker("join_namespace", f"/proc/{victim.processes()[who]}/ns/{namespace}")
    assert outcome.error in DENIED, outcome


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("who", PROCESSES)
@pytest.mark.parametrize("name", ["cmdline", "status", "stat", "comm", "limits"])
def test_what_all_may_read_of_a_process_has_no_secret(
    victim: Victim, attacker: Attacker, who: str, name: str
) -> None:
    outcome = attacker("read", f"/proc/{victim.processes()[who]}/{name}")
    # The pod's own command line is what its manifest says.
    assert victim.token not in str(outcome.value)
