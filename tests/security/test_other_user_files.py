"""Another local user reaches nothing in the victim's data folder: files, folders, sockets."""

from pathlib import Path

import pytest

from security.conftest import assert_nothing_gained
from support.two_users import Attacker, Victim

pytestmark = pytest.mark.xdist_group("two_users")

DENIED = ("PermissionError", "FileNotFoundError")

FILES = (
    "token", "kubeconfig", "tls.key", "tls.crt", "ca.crt", "daemon.json", "daemon.log", "lock", "starting",
    "api.sock", "bireme.db", "node", "node/pods", "node/names", "node/shims.log", "submitters", ".",
)  # fmt: skip
ON_FILES = ("read", "write", "mode", "own", "remove", "listing", "enter", "read_link")


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("do", ON_FILES)
def test_files_of_the_data_folder_are_closed(victim: Victim, attacker: Attacker, do: str, name: str) -> None:
    outcome = attacker(do, str(victim.data / name))
    # The folder itself is neither a file nor a link: then that is what the kernel says.
    assert outcome.error in (*DENIED, *(("OSError", "IsADirectoryError") if name == "." else ())), outcome


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("name", ["api.sock", "token", "kubeconfig", "daemon.json"])
@pytest.mark.parametrize("do", ["link", "hard_link", "rename"])
def test_files_of_the_data_folder_can_not_be_replaced(
    victim: Victim, attacker: Attacker, do: str, name: str
) -> None:
    own = attacker.home / f"{do}-{name}"
    attacker("create", str(own))
    assert attacker(do, str(own), str(victim.data / name)).error in DENIED
    assert attacker(do, str(victim.data / name), str(own) + ".taken").error in (*DENIED, "")
    if do == "link":
        assert attacker("read", str(own) + ".taken").error in DENIED


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("name", ["api.sock", "shim.sock", "new.sock"])
def test_sockets_can_not_be_connected_to(victim: Victim, attacker: Attacker, name: str) -> None:
    shim = next(Path(victim.data / "node/pods").glob("*/shim.sock"))
    path = {"api.sock": victim.data / "api.sock", "shim.sock": shim}.get(name, victim.data / name)
    outcome = attacker("connect_unix", str(path), "GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert outcome.error in (*DENIED, "OSError"), outcome


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("place", ["", "node", "node/pods", "submitters"])
def test_nothing_can_be_created_in_the_data_folder(victim: Victim, attacker: Attacker, place: str) -> None:
    assert attacker("create", str(victim.data / place / "planted")).error in DENIED
    assert attacker("link", "/etc/passwd", str(victim.data / place / "planted")).error in DENIED


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("path", ["/tmp/*", "/dev/shm/*", "/var/tmp/*"])
def test_no_file_outside_of_the_home_is_open_to_others(victim: Victim, attacker: Attacker, path: str) -> None:
    folder = Path(path).parent
    owned = [each for each in folder.iterdir() if each.lstat().st_uid == victim.home.stat().st_uid]
    for each in owned:
        if each.name.startswith(victim.home.name.rpartition("-")[0]):
            # Homes are 0755; an earlier run that was killed may have left one.
            continue
        for do in ("read", "write", "listing"):
            assert_nothing_gained(outcome := attacker(do, str(each)), victim)
            assert outcome.error, (do, each)
