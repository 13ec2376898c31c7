"""`bireme render`: what a job is made of."""

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from bireme.cli.main import cli
from support.commands import EXAMPLES, PAUSED


def render(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["render", *arguments], catch_exceptions=False)


def objects(*arguments: str) -> list[dict[str, Any]]:
    result = render(*arguments)
    assert result.exit_code == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


def test_children_come_in_the_order_of_their_creation() -> None:
    names = [
        (obj["kind"], obj["metadata"]["name"]) for obj in objects("-f", str(EXAMPLES / "mpijob-tuned.yaml"))
    ]
    assert names == [
        ("PodGroup", "tuned"),
        ("Service", "tuned-workers"),
        ("ConfigMap", "tuned-config"),
        ("Secret", "tuned-ssh"),
        ("Pod", "tuned-launcher"),
        *(("Pod", f"tuned-worker-{index}") for index in range(2)),
    ]


def test_the_launcher_carries_mpiruns_list_literally() -> None:
    job = yaml.safe_load((EXAMPLES / "mpijob-tuned.yaml").read_text())
    (launcher,) = [
        obj
        for obj in objects("-f", str(EXAMPLES / "mpijob-tuned.yaml"))
        if obj["metadata"]["name"] == "tuned-launcher"
    ]
    container = launcher["spec"]["containers"][0]
    assert [*container["command"], *container["args"]] == [
        "/bin/sh", "/etc/bireme/launch", "/usr/local/bin/mpirun", "--hostfile", "/etc/bireme/hostfile",
        "--stdin", "none",
        "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_exclude", "127.0.0.1/8,docker0",
        "--map-by", "ppr:2:node", "-x", "OMP_NUM_THREADS=4", "--bind-to", "none",
        *job["spec"]["worker"]["cmd"],
    ]  # fmt: skip


def secret(*arguments: str) -> dict[str, str]:
    (found,) = [
        obj
        for obj in objects("-f", str(EXAMPLES / "mpijob-hello.yaml"), *arguments)
        if obj["kind"] == "Secret"
    ]
    data: dict[str, str] = found["data"]
    return data


def test_keys_are_hidden() -> None:
    assert set(secret().values()) == {"<redacted>"}


def test_keys_are_real_when_asked_for(tmp_path: Path) -> None:
    data = {name: base64.b64decode(text) for name, text in secret("--show-secrets").items()}
    for name, public in (("id_ed25519", "authorized_keys"), ("host_key", "known_hosts")):
        file = tmp_path / name
        file.write_bytes(data[name])
        file.chmod(0o600)
        derived = subprocess.run(["ssh-keygen", "-y", "-f", file], capture_output=True, text=True, check=True)
        assert derived.stdout.split()[1] in data[public].decode()


def test_the_embedded_profile_needs_no_ssh() -> None:
    kinds = [
        obj["kind"] for obj in objects("-f", str(EXAMPLES / "mpijob-hello.yaml"), "--profile", "embedded")
    ]
    assert "Secret" not in kinds


def test_the_namespace_is_the_jobs_or_the_one_that_is_given() -> None:
    made = objects("-f", str(EXAMPLES / "genericjob-rules.yaml"), "-n", "research")
    assert {obj["metadata"]["namespace"] for obj in made} == {"research"}


def test_a_paused_job_is_made_of_nothing(tmp_path: Path) -> None:
    manifest = tmp_path / "paused.yaml"
    manifest.write_text(PAUSED)
    result = render("-f", str(manifest))
    assert (result.stdout, result.exit_code) == ("", 0)
    assert "paused" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("apiVersion: v1\nkind: ConfigMap\n", "no job"),
        ("a: [", "can't be read"),
        (
            "apiVersion: batch.tensorstack.dev/v1beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: {}\n",
            "spec.worker",
        ),
    ],
)
def test_what_is_no_valid_job_is_refused_with_a_reason(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    result = render("-f", str(file))
    assert result.exit_code == 1
    assert said in result.stderr
