"""Another local user can't stop the daemon by connections to its port."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.apiserver.serving.connections import MOST_PENDING, PENDING_SECONDS
from support.commands import Bireme
from support.control_plane import find_kubectl
from support.two_users import FILES, Attacker, Victim, timed

pytestmark = pytest.mark.xdist_group("two_users")

PATIENCE_SECONDS = 10.0
"""For one command of the victim's while the attack goes on; alone it takes about one second."""
ATTACKS = {
    "1,100 idle connections": ("hold_idle", 1100),
    "1,000 beginnings of a handshake": ("hold_half_hello", 1000),
    "1,000 halves of a head": ("hold_half_head", 1000),
    "400 bodies that do not come": ("hold_slow_body", 400),
    "400 heads without end": ("hold_large_head", 400),
}


@pytest.fixture(autouse=True)
def _released(attacker: Attacker) -> Iterator[None]:
    yield
    attacker("release")


def kubectl(victim: Victim, *args: str) -> float:
    """Run kubectl over TCP with the token; return how long it took."""
    begun = time.monotonic()
    command = [str(find_kubectl()), "--kubeconfig", str(victim.data / "kubeconfig"), *args]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    return time.monotonic() - begun


def descriptors(victim: Victim) -> int:
    return len(list(Path(f"/proc/{victim.daemon}/fd").iterdir()))


def memory_kib(victim: Victim) -> int:
    lines = Path(f"/proc/{victim.daemon}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize(("do", "count"), ATTACKS.values(), ids=ATTACKS)
def test_connections_keep_nobody_out(victim: Victim, attacker: Attacker, do: str, count: int) -> None:
    files, memory = descriptors(victim), memory_kib(victim)
    attacker(do, victim.port, count)
    assert descriptors(victim) <= files + MOST_PENDING + 10
    # 256 TLS connections take some 70 MiB.
    assert memory_kib(victim) < memory + 150 * 1024
    timed(victim, "get", "jobs", seconds=PATIENCE_SECONDS)
    kubectl(victim, "get", "secrets")
    timed(victim, "run", "--replicas", "1", "--", "true", seconds=PATIENCE_SECONDS)


def test_pending_connections_are_closed_in_time(victim: Victim, attacker: Attacker) -> None:
    for do in ("hold_idle", "hold_half_hello", "hold_half_head", "hold_slow_body"):
        assert attacker(do, victim.port, 10).value == 10
    end = time.monotonic() + PENDING_SECONDS + 5
    while left := attacker("still_open").value:
        assert time.monotonic() < end, left
        time.sleep(0.2)


@pytest.mark.usefixtures("unharmed")
def test_ever_new_connections_keep_nobody_out(victim: Victim, attacker: Attacker) -> None:
    attacker.start("hold_by_turns", victim.port, PATIENCE_SECONDS)
    try:
        timed(victim, "get", "jobs", seconds=PATIENCE_SECONDS)
        kubectl(victim, "get", "secrets")
        timed(victim, "get", "jobs", seconds=PATIENCE_SECONDS)
    finally:
        assert attacker.finish().value > MOST_PENDING


def test_pods_have_the_limit_of_open_files_of_the_caller(victim: Victim) -> None:
    """The daemon raises its own limit; a job sees that of its submitter, or of the daemon's starter."""
    limits = {who: Path(f"/proc/{pid}/limits").read_text() for who, pid in victim.processes().items()}
    soft = {who: _open_files(text)[0] for who, text in limits.items()}
    hard = {who: _open_files(text)[1] for who, text in limits.items()}
    assert soft["daemon"] == hard["daemon"] != str(FILES)
    assert {soft[who] for who in ("nursery", "shim", "pod")} == {str(FILES)}
    said = victim("run", "--replicas", "1", "--", "sh", "-c", "echo $(ulimit -Sn) $(ulimit -Hn)").stdout
    assert said.split()[-2:] == [str(FILES), hard["daemon"]]


def _open_files(limits: str) -> tuple[str, str]:
    line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    soft, hard = line.split()[3:5]
    return soft, hard


def test_requests_without_the_token_keep_no_daemon_alive(tmp_path: Path, attacker: Attacker) -> None:
    """An idle daemon ends although strangers poke it all the time."""
    bireme = Bireme(tmp_path)
    idle = bireme.start("daemon", "--idle-seconds", "3")
    try:
        assert idle.stdout is not None
        port = int(json.loads(idle.stdout.readline())["url"].rpartition(":")[2])
        begun = time.monotonic()
        while idle.poll() is None:
            assert time.monotonic() < begun + 40, "it does not end"
            for path in ("/readyz", "/healthz", "/api/v1/pods"):
                attacker("ask", port, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")
    finally:
        idle.kill()
        idle.communicate()
