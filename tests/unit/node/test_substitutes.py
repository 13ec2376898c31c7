"""What stands in for what this machine lacks, and what is said about it."""

from datetime import UTC, datetime
from pathlib import Path

from bireme.node.conditions import AS_WRITTEN, build_conditions
from bireme.node.substitutes import NOTHING, Needs, Substitutes, needs_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}


def test_a_folder_that_is_there_or_mounted_is_used(tmp_path: Path) -> None:
    found = Substitutes(["/data"])
    assert found.directory(str(tmp_path), "/else") == str(tmp_path)
    assert found.directory("/data/deep", "/else") == "/data/deep"
    assert found.directory("", "/else") == "/else"
    assert found.notices == []


def test_a_folder_that_is_not_there_is_told() -> None:
    found = Substitutes(["/data"])
    assert found.directory("/database", "/else") == "/else"
    assert found.notices == ["workingDir /database is not on this machine: /else is used"]


def test_mpirun_of_the_path_stands_in_for_one_that_is_not_there(tmp_path: Path) -> None:
    found = Substitutes([])
    home = str(tmp_path)
    assert found.words([f"{home}/bin/mpirun", "x"], Needs(home)) == ["mpirun", "x"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mpirun").touch(0o755)
    assert found.words([f"{home}/bin/mpirun"], Needs(home)) == [f"{home}/bin/mpirun"]
    assert len(found.notices) == 1


def test_the_usual_sshd_is_not_worth_a_word() -> None:
    assert needs_of({"spec": {"ssh": {"sshdPath": "/usr/sbin/sshd"}}}) == NOTHING
    assert needs_of({"spec": {"mpiHome": "/opt/mpi/", "ssh": {"sshdPath": "/no/sshd"}}}) == Needs(
        "/opt/mpi", "/no/sshd"
    )
    assert needs_of({"spec": {"service": {"ports": [{"name": "a", "port": 1}]}}}) == Needs(services=True)
    assert needs_of(None) == NOTHING


def test_limits_that_nothing_holds_a_container_to_are_told_but_for_our_own() -> None:
    found = Substitutes([])
    found.limits({"name": "main"}, ())
    found.limits({"name": "bireme-passwd"}, ("cpu",))
    assert found.notices == []
    found.limits({"name": "main"}, ("memory", "cpu"))
    assert found.notices == ["limits of memory and cpu are advice on this machine: it has no cgroup for us"]


def test_services_without_a_network_are_told() -> None:
    found = Substitutes([])
    found.services(Needs(services=True), can_mount=True)
    found.services(NOTHING, can_mount=False)
    assert found.notices == []
    found.services(Needs(services=True), can_mount=False)
    assert "names of services do not resolve" in found.notices[0]


def test_a_launchers_word_on_where_to_start_is_dropped_if_there_is_no_such_place() -> None:
    found = Substitutes([])
    assert found.variables({"BIREME_WORKDIR": "/no/such", "A": "b"}, "/else") == {"A": "b"}
    assert found.variables({"BIREME_WORKDIR": "/", "A": "b"}, "/else") == {"BIREME_WORKDIR": "/", "A": "b"}
    assert found.notices == ["workingDir /no/such is not on this machine: /else is used"]


def test_what_was_told_once_stays_on_the_pod() -> None:
    made = build_conditions(POD, {}, "Pending", ready_to_start=False, now=NOW, notices=("a", "b"))
    told = {each["type"]: each for each in made}[AS_WRITTEN]
    assert (told["status"], told["reason"], told["message"]) == ("False", "Substituted", "a\nb")
    later = build_conditions(
        POD | {"status": {"conditions": made}}, {}, "Pending", ready_to_start=False, now=NOW
    )
    assert told in later
