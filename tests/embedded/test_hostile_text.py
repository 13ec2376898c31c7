"""Objects, files and servers that say what terminals obey, and manifests that would write requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from bireme.terminal_text import neutralise
from support.commands import Bireme

pytestmark = pytest.mark.xdist_group("commands")

Object = dict[str, Any]
HOSTILE = "\x1b]0;title\x07\x9b2J\x7f\u202e\x1b[31m"
SMUGGLED = "x/v1 HTTP/1.1\r\nHost: x\r\n\r\nDELETE /api/v1/namespaces/default/secrets/precious"


def job(name: str, script: str, **container: Any) -> Object:
    main = {"name": "main", "image": f"image{HOSTILE}", "command": ["sh", "-c", script], **container}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [{"type": "worker", "template": {"spec": {"containers": [main]}}}]},
    }


def write(bireme: Bireme, name: str, *objects: Object) -> str:
    """A file of manifests; its name is relative to where commands are called."""
    (bireme.work / name).write_text("\n---\n".join(json.dumps(each) for each in objects))
    return name


def assert_harmless(*texts: str) -> None:
    for text in texts:
        assert neutralise(text) == text, ascii(text)


def call(bireme: Bireme, *args: str, code: int | None = 0, text: str = "") -> str:
    """Run a command that must print nothing a terminal obeys; return all that it printed."""
    result = bireme(*args, code=code, input=text)
    assert_harmless(result.stdout, result.stderr)
    return result.stdout + result.stderr


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "v1", "kind": f"Foo{HOSTILE}", "metadata": {"name": "a"}},
        {"apiVersion": f"x{HOSTILE}/v1", "kind": "Foo", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"a{HOSTILE}"}},
        {"apiVersion": "v1", "kind": "Pod\nerror: forged", "metadata": {"name": "a\nb"}},
        job(f"a{HOSTILE}", "true"),
        job("a", "true", **{f"field{HOSTILE}": 1}),
        job("a", "true", workingDir=f"/no{HOSTILE}", imagePullPolicy=f"x{HOSTILE}"),
    ],
    ids=["kind", "apiVersion", "name", "lines", "job name", "field", "values"],
)
def test_a_manifest_is_shown_harmlessly(bireme: Bireme, obj: Object) -> None:
    file = write(bireme, "hostile.yaml", obj)
    for command in ("validate", "apply", "run", "delete", "render"):
        told = call(bireme, command, "-f", file, code=None)
        assert "\nerror: forged" not in told
    call(bireme, "validate", "-f", file, "-o", "json", code=None)


def test_names_of_files_and_folders_are_shown_harmlessly(bireme: Bireme, tmp_path: Path) -> None:
    file = write(bireme, f"job{HOSTILE}.yaml", job("a", "true", image=""))
    assert "job" in call(bireme, "validate", "-f", file, code=1)
    call(bireme, "validate", "-f", f"missing{HOSTILE}.yaml", code=None)
    call(bireme, "get", f"kind{HOSTILE}", code=1)
    call(bireme, "get", "pods", f"pod{HOSTILE}", code=1)
    call(bireme, "logs", f"job{HOSTILE}", code=1)
    call(bireme, f"command{HOSTILE}", code=2)
    call(bireme, "get", f"--option{HOSTILE}", code=2)
    call(bireme, "status", "--data-dir", str(tmp_path / HOSTILE), code=1)


def test_a_jobs_own_words_are_shown_harmlessly_and_its_output_as_it_is(bireme: Bireme) -> None:
    script = f"printf '%s\\n' '{HOSTILE}'; printf '%s\\n' 'last {HOSTILE}' >&2; exit 3"
    file = write(bireme, "failing.yaml", job("failing", script, workingDir=f"/no{HOSTILE}"))
    result = bireme("run", "-f", file, code=None)
    assert HOSTILE in result.stdout, "what a program writes is its own"
    assert_harmless(result.stderr)
    assert "workingDir /no" in result.stderr
    assert HOSTILE in bireme("logs", "failing").stdout
    for command in (
        ["get", "jobs"],
        ["get", "genericjob/failing", "-o", "wide"],
        ["get", "genericjob/failing", "-o", "name"],
        ["get", "pods", "-o", "wide"],
        ["get", "events"],
        ["wait", "failing", "--timeout", "1m"],
        ["status"],
        ["queue"],
        ["why", "failing"],
        ["delete", "failing"],
    ):
        call(bireme, *command, code=None)


def test_json_says_the_same_with_escapes(bireme: Bireme) -> None:
    file = write(bireme, "long.yaml", job("long", "sleep 1000"))
    call(bireme, "apply", "-f", file)
    told = call(bireme, "get", "genericjob/long", "-o", "json")
    image = json.loads(told.partition("{")[1] + told.partition("{")[2].rpartition("}")[0] + "}")
    assert image["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["image"] == f"image{HOSTILE}"
    for command in (["pause", "long"], ["resume", "long"], ["delete", "long", "--now"]):
        call(bireme, *command)


# ---- requests


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": SMUGGLED, "kind": "Foo", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": SMUGGLED, "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SMUGGLED}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": SMUGGLED}},
        {"apiVersion": "v1 HTTP/1.1\r\n\r\n", "kind": "ConfigMap", "metadata": {"name": "a"}},
        {"apiVersion": "../../v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ".."}},
    ],
    ids=["apiVersion", "kind", "name", "namespace", "version", "dots in version", "dots in name"],
)
def test_a_manifest_writes_no_request_of_its_own(bireme: Bireme, obj: Object) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "precious"}}
    bireme("apply", "-f", write(bireme, "secret.yaml", secret))
    file = write(bireme, "hostile.yaml", obj)
    for command in ("apply", "run", "delete"):
        call(bireme, command, "-f", file, code=None)
    assert "precious" in bireme("get", "secrets").stdout
    bireme("delete", "secret/precious")
