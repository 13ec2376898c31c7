"""The image, as far as it can be judged without building it."""

import re
from pathlib import Path

from bireme.installation.workload import NOBODY
from bireme.planning import kubeflow_pods

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()


def test_it_runs_as_the_user_that_manifests_name() -> None:
    last = TEXT.rpartition("\nFROM ")[2]
    assert f"\nUSER {NOBODY}:{NOBODY}\n" in last
    assert kubeflow_pods.NOBODY == NOBODY


def test_kubectl_is_of_the_version_that_tests_run_with() -> None:
    version = re.search(r"kubectl:(v[\d.]+)", TEXT)
    module = re.search(r"k8s.io/kubernetes (v[\d.]+)", (ROOT / "hack/control-plane/go.mod").read_text())
    assert version is not None
    assert module is not None
    assert version[1] == module[1]


def test_all_that_it_copies_is_let_through() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE)
    for name in " ".join(copied).split():
        assert f"!{name}" in ignored
        assert (ROOT / name).exists()
