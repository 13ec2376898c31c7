"""Credentials are renewed before they expire, and when somebody has replaced them."""

import asyncio
import base64
import contextlib
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bireme.kube.config import load_config
from bireme.kube.credentials import Credentials, FileCredentials, IdTokenCredentials, WatchedFile
from bireme.kube.errors import CredentialError
from bireme.kube.exec_plugin import ExecCredentials, ExecPlugin

V1 = "client.authentication.k8s.io/v1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

PLUGIN = """#!/bin/sh
# Counts its calls, and answers with what is in the file `answer`.
cd "$(dirname "$0")"
echo "$KUBERNETES_EXEC_INFO" >> calls
echo "$GREETING $*" >> words
[ -e complaint ] && { cat complaint >&2; exit 3; }
sed "s/COUNT/$(wc -l < calls | tr -d ' ')/" answer
"""


class Plugin:
    """A small script, its answers, and its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "plugin"
        self.path.write_text(PLUGIN)
        self.path.chmod(0o755)
        self.now = NOON
        self.answer(token="token-COUNT")

    def answer(self, *, api_version: str = V1, **status: Any) -> None:
        self.write({"apiVersion": api_version, "kind": "ExecCredential", "status": status})

    def write(self, answer: object) -> None:
        (self.folder / "answer").write_text(json.dumps(answer))

    @property
    def calls(self) -> list[dict[str, Any]]:
        calls = self.folder / "calls"
        return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []

    def credentials(self, **fields: Any) -> ExecCredentials:
        environ = {"PATH": os.environ["PATH"]}
        plugin = ExecPlugin(**{"command": str(self.path), "environ": environ, **fields})
        return ExecCredentials(plugin, lambda: self.now)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def token(credentials: Credentials) -> str:
    return (await credentials.current()).authorization.removeprefix("Bearer ")


def test_a_plugin_is_called_once_while_its_credential_lasts(plugin: Plugin) -> None:
    async def main() -> None:
        credentials = plugin.credentials()
        tokens = await asyncio.gather(*(token(credentials) for _ in range(5)))
        assert tokens == ["token-1"] * 5

    asyncio.run(main())
    assert plugin.calls == [{"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}]


def test_it_is_called_again_shortly_before_its_credential_expires(plugin: Plugin) -> None:
    async def main() -> None:
        expiry = NOON + timedelta(hours=1)
        plugin.answer(token="token-COUNT", expirationTimestamp=expiry.isoformat())
        credentials = plugin.credentials()
        assert await token(credentials) == "token-1"
        plugin.now = expiry - timedelta(seconds=30)
        assert await token(credentials) == "token-1"
        plugin.now = expiry - timedelta(seconds=5)
        plugin.answer(token="token-COUNT", expirationTimestamp=(expiry + timedelta(hours=1)).isoformat())
        assert await token(credentials) == "token-2"

    asyncio.run(main())


def test_of_many_who_are_refused_one_calls_it_again(plugin: Plugin) -> None:
    async def main() -> None:
        credentials = plugin.credentials()
        refused = await credentials.current()
        renewed = await asyncio.gather(*(credentials.renew(refused) for _ in range(5)))
        assert {each.authorization for each in renewed} == {"Bearer token-2"}

    asyncio.run(main())
    assert len(plugin.calls) == 2


def test_a_plugin_may_give_a_certificate(plugin: Plugin) -> None:
    async def main() -> None:
        plugin.answer(clientCertificateData="certificate", clientKeyData="key")
        credential = await plugin.credentials().current()
        assert credential == ("", b"certificate", b"key")

    asyncio.run(main())


ANSWERS: dict[str, tuple[object, str]] = {
    "no object": ("hello", "its answer is no ExecCredential"),
    "another version": (
        {"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": {}},
        "v1 ExecCredential, it answered client.authentication.k8s.io/v1beta1",
    ),
    "no status": ({"apiVersion": V1, "kind": "ExecCredential"}, "neither a token nor a certificate"),
    "half a pair": (
        {"apiVersion": V1, "kind": "ExecCredential", "status": {"clientKeyData": "k"}},
        "certificate and key come together",
    ),
}


@pytest.mark.parametrize(("answer", "message"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_is_no_credential_is_named(plugin: Plugin, answer: object, message: str) -> None:
    plugin.write(answer)
    with pytest.raises(CredentialError, match=message):
        asyncio.run(token(plugin.credentials()))


def test_a_plugin_that_fails_is_quoted(plugin: Plugin) -> None:
    (plugin.folder / "complaint").write_text("please log in\n")
    with pytest.raises(CredentialError, match="plugin failed: please log in"):
        asyncio.run(token(plugin.credentials()))


def test_a_plugin_that_takes_too_long_is_not_waited_for(plugin: Plugin) -> None:
    """Its child lives on and keeps the pipes open: to read them to their end would mean to wait for it."""
    plugin.path.write_text('#!/bin/sh\nsh -c "echo \\$\\$ > child; exec sleep 1000"\n')
    credentials = plugin.credentials(timeout_seconds=1.0)

    async def main() -> None:
        async with asyncio.timeout(60):
            with pytest.raises(CredentialError, match="no answer in 1 s"):
                await credentials.current()

    with contextlib.chdir(plugin.folder):
        asyncio.run(main())
    os.kill(int((plugin.folder / "child").read_text()), signal.SIGKILL)


def test_a_plugin_that_is_not_installed_comes_with_its_own_hint(plugin: Plugin) -> None:
    credentials = plugin.credentials(command="no-such-plugin", install_hint="apt install it")
    with pytest.raises(CredentialError, match="no-such-plugin: not found") as caught:
        asyncio.run(token(credentials))
    assert caught.value.hint == "apt install it"


def test_a_kubeconfig_s_plugin_gets_its_arguments_environment_and_cluster(plugin: Plugin) -> None:
    v1beta1 = "client.authentication.k8s.io/v1beta1"
    plugin.answer(api_version=v1beta1, token="t")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {"server": "https://c.example", "extensions": [extension]}
    call = {
        "command": "./plugin",
        "args": ["get", "token"],
        "env": [{"name": "GREETING", "value": "hello"}],
        "apiVersion": v1beta1,
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    config = {
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": {"exec": call}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    (plugin.folder / "config").write_text(yaml.safe_dump(config))
    loaded = load_config(
        kubeconfig=str(plugin.folder / "config"), environ={"PATH": os.environ["PATH"], "GREETING": "bye"}
    )
    assert asyncio.run(token(loaded.credentials)) == "t"
    assert (plugin.folder / "words").read_text() == "hello get token\n"
    assert plugin.calls[0]["spec"] == {
        "interactive": False,
        "cluster": {"server": "https://c.example", "config": {"audience": "x"}},
    }


def test_a_token_that_is_replaced_in_its_file_is_read_again(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "token"
        path.write_text("first\n")
        credentials = FileCredentials(token=WatchedFile(path))
        assert await token(credentials) == "first"
        # As the kubelet does it: another file takes the place of the old one at once.
        (tmp_path / "new").write_text("other\n")
        (tmp_path / "new").rename(path)
        assert await token(credentials) == "other"
        path.unlink()
        assert await token(credentials) == "other"

    asyncio.run(main())


def test_a_token_file_that_never_was_there_is_named(tmp_path: Path) -> None:
    credentials = FileCredentials(token=WatchedFile(tmp_path / "token"))
    with pytest.raises(CredentialError, match="/token: No such file or directory"):
        asyncio.run(token(credentials))


def id_token(**claims: object) -> str:
    parts = ({"alg": "none"}, claims)
    words = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join((*words, "signature"))


def test_an_id_token_is_used_until_it_expires() -> None:
    text = id_token(exp=NOON.timestamp())
    assert asyncio.run(token(IdTokenCredentials(text, lambda: NOON - timedelta(seconds=1)))) == text
    with pytest.raises(CredentialError, match="expired at 2026-01-01T12:00:00") as caught:
        asyncio.run(token(IdTokenCredentials(text, lambda: NOON)))
    assert "kubectl" in caught.value.hint


@pytest.mark.parametrize("text", ["opaque", "a.b.c", id_token()])
def test_a_token_that_tells_no_end_is_used_as_it_is(text: str) -> None:
    assert asyncio.run(token(IdTokenCredentials(text, lambda: NOON))) == text
