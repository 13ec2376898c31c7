"""What a job on this machine takes from the user who submits it."""

import os
from pathlib import Path

import pytest

from bireme.node import submitter
from bireme.node.submitter import Selection, Submitter, merge_variables, select_variables

SHELL = {
    "HOME": "/home/me",
    "PWD": "/work",
    "SHLVL": "2",
    "OMP_NUM_THREADS": "4",
    "HF_TOKEN": "secret",
    "https_proxy": "http://proxy",
    "DATA_DIR": "/data",
    "BIREME_AGENT": "internal",
}


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ("usual", {"OMP_NUM_THREADS", "HF_TOKEN", "https_proxy"}),
        ("all", {"HOME", "OMP_NUM_THREADS", "HF_TOKEN", "https_proxy", "DATA_DIR"}),
        ("none", set[str]()),
    ],
)
def test_variables_are_selected(selection: Selection, names: set[str]) -> None:
    assert select_variables(SHELL, selection).keys() == names


def test_named_variables_are_always_selected() -> None:
    assert select_variables(SHELL, "none", ["DATA_DIR"]) == {"DATA_DIR": "/data"}


def test_a_rank_passes_on_settings_of_mpi_but_not_who_it_is() -> None:
    rank = {
        "OMPI_COMM_WORLD_RANK": "1",
        "PMIX_RANK": "1",
        "PMIX_NAMESPACE": "job@1",
        "OMPI_MCA_btl": "self,tcp",
        "OMPI_MCA_orte_ess_num_procs": "2",
    }
    assert select_variables(rank, "usual") == {"OMPI_MCA_btl": "self,tcp"}
    assert select_variables(rank, "all") == {"OMPI_MCA_btl": "self,tcp"}


def test_the_submitter_replaces_the_nodes_settings_for_programs() -> None:
    node = {"HOME": "/root", "OMP_NUM_THREADS": "1", "LANG": "C"}
    merged = merge_variables(node, Submitter({"LANG": "de_DE.UTF-8"}))
    assert merged == {"HOME": "/root", "LANG": "de_DE.UTF-8"}


def test_a_saved_submitter_is_private_and_read_back(tmp_path: Path) -> None:
    saved = Submitter(
        {"HF_TOKEN": "secret", "PYTHONODD": os.fsdecode(b"\xff")},
        0o077,
        {"NOFILE": (64, 128), "STACK": (-1, -1)},
    )
    digest = submitter.save(tmp_path, saved)
    assert submitter.save(tmp_path, saved) == digest
    assert submitter.load(tmp_path, digest) == saved
    folder = tmp_path / submitter.FOLDER
    assert [path.name for path in folder.iterdir()] == [digest]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / digest).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["", "../daemon.json", "0" * 64, "A" * 64, "x"])
def test_a_name_that_nobody_saved_is_no_submitter(tmp_path: Path, name: str) -> None:
    assert submitter.load(tmp_path, name) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    digest = submitter.save(tmp_path, Submitter())
    file = tmp_path / submitter.FOLDER / digest
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert submitter.load(tmp_path, digest) is None


def test_only_old_files_that_no_job_names_are_removed(tmp_path: Path) -> None:
    digests = [submitter.save(tmp_path, Submitter({"N": str(number)})) for number in range(3)]
    for digest in digests[:2]:
        os.utime(tmp_path / submitter.FOLDER / digest, (0, 0))
    submitter.sweep(tmp_path, [digests[0]])
    left = {path.name for path in (tmp_path / submitter.FOLDER).iterdir()}
    assert left == {digests[0], digests[2]}


def test_nothing_is_swept_where_nothing_was_saved(tmp_path: Path) -> None:
    submitter.sweep(tmp_path, [])
    assert list(tmp_path.iterdir()) == []
