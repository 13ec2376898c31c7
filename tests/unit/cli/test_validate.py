"""`bireme validate` as a user calls it."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from bireme.cli.main import cli

JOB = """\
# A job that needs repair.
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob   # the kind
metadata: {name: fixable}
spec:
  replicaSpecs:
    - type: worker
      replicas: "2"          # quoted by mistake
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: main
              image: registry.example/a:1
              comand: ["a"]  # misspelt
              env:
                - name: PORT
                  value: 8080
"""
FIXED = """\
# A job that needs repair.
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob   # the kind
metadata: {name: fixable}
spec:
  replicaSpecs:
    - type: worker
      replicas: 2          # quoted by mistake
      restartPolicy: {policy: OnFailure}
      template:
        spec:
          containers:
            - name: main
              image: registry.example/a:1
              command: ["a"]  # misspelt
              env:
                - name: PORT
                  value: "8080"
"""
MPI = """\
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {name: mpi}
spec:
  runPolicy: {cleanUpWorkers: "true"}
  worker:
    extraMPIArgs:
      # how many
      - -np 4
      - --bind-to none   # nowhere
    cmd: [a]
    template:
      spec:
        containers:
          - {name: mpi-worker, image: registry.example/a:1}
"""
QUEUE = "apiVersion: scheduler.tensorstack.dev/v1beta1\nkind: Queue\nmetadata: {name: q}\nspec: {}\n"


def validate(*arguments: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["validate", *arguments], input=text, catch_exceptions=False)


def test_fix_repairs_the_file_and_keeps_comments(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    result = validate("--fix", "-f", str(file))
    assert file.read_text() == FIXED
    assert "fixed 4 problems" in result.stderr
    assert result.exit_code == 0


def test_fix_splits_joined_arguments_and_keeps_their_comments() -> None:
    result = validate("--fix", "-f", "-", text=MPI)
    assert result.exit_code == 0
    value = yaml.safe_load(result.stdout)
    assert value["spec"]["worker"]["extraMPIArgs"] == ["-np", "4", "--bind-to", "none"]
    assert value["spec"]["runPolicy"]["cleanUpWorkers"] is True
    assert "# how many" in result.stdout
    assert "# nowhere" in result.stdout


def test_fix_leaves_a_valid_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text(QUEUE)
    before = file.stat().st_mtime_ns
    assert validate("--fix", "-f", str(file)).exit_code == 0
    assert file.stat().st_mtime_ns == before


def test_json_tells_programs_everything() -> None:
    result = validate("-o", "json", "-f", "-", text=JOB)
    report = json.loads(result.stdout)
    assert (report["valid"], report["errors"], result.exit_code) == (False, 4, 1)
    first = report["problems"][0]
    assert (first["file"], first["line"], first["column"]) == ("<stdin>", 8, 17)
    assert (first["path"], first["rule"], first["value"]) == ("spec.replicaSpecs[0].replicas", "type", "2")
    assert first["fixable"]


def test_yaml_has_defaults_and_reads_back() -> None:
    result = validate(
        "-o",
        "yaml",
        "-f",
        "-",
        text=FIXED + "---\napiVersion: v1\nkind: ConfigMap\ndata: {a: 'on', b: 1e3x}\n",
    )
    assert result.exit_code == 0
    job, other = yaml.safe_load_all(result.stdout)
    assert job["spec"]["replicaSpecs"][0]["restartPolicy"] == {"policy": "OnFailure", "limit": 0}
    assert other == {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "on", "b": "1e3x"}}


def test_yaml_prints_nothing_of_an_invalid_file() -> None:
    assert validate("-o", "yaml", "-f", "-", text=JOB).stdout == ""


def test_a_folder_is_read_by_name_and_its_folders_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("b.yaml", "a.yml", "inner/c.json", "notes.txt"):
        (tmp_path / name).write_text(
            QUEUE if not name.endswith("json") else '{"apiVersion": "v1", "kind": "Pod"}'
        )
    names = [Path(line.split(": ")[0]).name for line in validate("-f", str(tmp_path)).stdout.splitlines()]
    assert names == ["a.yml", "b.yaml"]
    names = [Path(line.split(": ")[0]).name for line in validate("-R", str(tmp_path)).stdout.splitlines()]
    assert names == ["a.yml", "b.yaml", "c.json"]


@pytest.mark.parametrize("arguments", [[], ["-f", "no-such-file.yaml"], ["-o", "xml", "-f", "-"], ["--nope"]])
def test_a_wrong_command_line_exits_with_2(arguments: list[str]) -> None:
    result = validate(*arguments, text="")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_an_empty_folder_is_a_usage_error(tmp_path: Path) -> None:
    result = validate("-f", str(tmp_path))
    assert result.exit_code == 2
    assert "--recursive" in result.stderr


def test_nothing_in_a_manifest_can_steer_the_terminal() -> None:
    text = QUEUE.replace("{name: q}", '{name: "\\e[31mred\\a"}')
    assert "\x1b[31m" not in validate("-f", "-", text=text).output


def test_carets_stand_under_wide_characters_and_in_long_lines() -> None:
    wide = QUEUE.replace("{name: q}", "{name: q, labels: {日本語: 値, x: '値 値'}}")
    line, caret = validate("-f", "-", text=wide).stderr.splitlines()[1:3]
    assert line[7:].startswith("metadata")
    assert caret.strip(" |") == "^^^^^^"
    long = json.dumps(
        {
            "apiVersion": "scheduler.tensorstack.dev/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "q", "annotations": {"a": "x" * 5000}},
            "spec": {"priority": 200},
        }
    )
    shown = validate("-f", "-", text=long).stderr.splitlines()
    assert all(len(row) < 200 for row in shown)
    assert "200" in shown[1]


def test_the_kind_list_is_opened_and_a_list_without_items_is_an_object() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(QUEUE), 7, {"kind": "x"}]}
    result = validate("-o", "json", "-f", "-", text=json.dumps(listed))
    assert [problem["path"] for problem in json.loads(result.stdout)["problems"]] == [
        "items[1]",
        "items[2].apiVersion",
    ]
