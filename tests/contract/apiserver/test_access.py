"""Who gets in: whoever has the token, from this machine, and nobody else; on every path there is."""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest

from bireme.apiserver.kinds import CORE, OURS, Kind
from support.embedded import BIREME
from support.server_process import ServerProcess, run_to_end
from support.wire import Address, Answer, Wire

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
HEALTH = ("/healthz", "/livez", "/readyz")
OTHERS = (
    "/", "/version", "/api", "/apis", "/api/v1", "/openapi/v3", "/openapi/v3/api/v1", "/nothing", "/readyz/",
    "/readyz/ping", "//readyz", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/api/v1/namespaces/default/pods/p/exec", "/api/v1/namespaces/default/pods/p/log",
    "/api/v1/namespaces/default/pods/p/binding", "/api/v1/namespaces/default/pods?watch=true",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("access")
    made = ServerProcess(folder / "data", folder / "log")
    made.start()
    yield made
    made.stop()


def _paths(kind: Kind) -> Iterator[str]:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    collection = f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    yield from (collection, f"{collection}/x")
    yield from (f"{collection}/x/{each}" for each in ("status", *kind.subresources))


PATHS = (*OTHERS, *(path for kind in (*CORE, *OURS) for path in _paths(kind)))

STRANGERS: dict[str, tuple[Mapping[str, str], int]] = {
    "without a token": ({"Authorization": ""}, 401),
    "with a wrong token": ({"Authorization": "Bearer " + "x" * 43}, 401),
    "with a token of another sort": ({"Authorization": "Basic dTpw"}, 401),
    "by another name": ({"Host": "example.com"}, 403),
    "by another port": ({"Host": "127.0.0.1:1"}, 403),
    "from a web page": ({"Origin": "https://example.com"}, 403),
    "from a file": ({"Origin": "null"}, 403),
}


@pytest.mark.parametrize(("said", "code"), STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_is_refused_everywhere(server: ServerProcess, said: Mapping[str, str], code: int) -> None:
    """On a connection of its own each time: the server closes it after such an answer."""

    async def main() -> list[str]:
        at_once = asyncio.Semaphore(8)

        async def ask(method: str, path: str) -> str:
            async with at_once, await Wire.open(server.address) as wire:
                answer = await wire.ask(method, path, b"", said)
                is_refused = answer.code == code and _is_status(method, answer) and await wire.rest() == b""
            return "" if is_refused else f"{method} {path}: {answer.code}"

        answers = await asyncio.gather(*(ask(method, path) for method, path in product(METHODS, PATHS)))
        return [each for each in answers if each]

    assert asyncio.run(main()) == []


def _is_status(method: str, answer: Answer) -> bool:
    return method == "HEAD" or answer.json()["kind"] == "Status"


@pytest.mark.parametrize("path", HEALTH)
def test_health_is_told_to_everybody(server: ServerProcess, path: str) -> None:
    answer = asyncio.run(_ask(server.address, "GET", path, {"Authorization": "", "Host": "anything"}))
    assert (answer.code, answer.body) == (200, b"ok")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_health_can_only_be_read(server: ServerProcess, method: str) -> None:
    assert asyncio.run(_ask(server.address, method, "/readyz", {})).code == 405


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_names_of_this_machine_are_good(server: ServerProcess, name: str) -> None:
    said = {"Host": f"{name}:{server.address.port}", "Origin": f"https://{name}:{server.address.port}"}
    assert asyncio.run(_ask(server.address, "GET", "/api/v1/namespaces", said)).code == 200


async def _ask(address: Address, method: str, path: str, said: Mapping[str, str]) -> Answer:
    async with await Wire.open(address) as wire:
        return await wire.ask(method, path, b"", said)


def test_the_token_is_in_no_log_and_no_argument(server: ServerProcess) -> None:
    asyncio.run(_ask(server.address, "GET", "/api/v1/nothing", {}))
    assert server.address.token not in server.log()
    for name in ("cmdline", "environ"):
        assert server.address.token.encode() not in Path(f"/proc/{server.pid}/{name}").read_bytes()


def test_the_token_is_long(server: ServerProcess) -> None:
    assert len(server.address.token) >= 43


OPEN: dict[str, tuple[str, ...]] = {
    "every address": ("--host", "0.0.0.0"),
    "every address of IPv6": ("--host", "::"),
    "a name": ("--host", "example.com"),
    "with a certificate alone": ("--host", "0.0.0.0", "--tls-cert", "x", "--tls-key", "x"),
    "with a token alone": ("--host", "0.0.0.0", "--token-file", "x"),
}


@pytest.mark.parametrize("options", OPEN.values(), ids=OPEN)
def test_others_are_let_in_only_with_a_certificate_and_a_token(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    refused = run_to_end(tmp_path / "data", *options)
    assert refused.returncode == 1
    assert f"{options[1]} is not on loopback" in refused.stderr
    assert not (tmp_path / "data").exists()


def test_a_server_for_others_takes_any_name_and_no_page(tmp_path: Path, server: ServerProcess) -> None:
    """With a certificate and a token of one's own it listens elsewhere, too."""
    (tmp_path / "token").write_text("t" * 32)
    own = {"--tls-cert": server.data / "tls.crt", "--tls-key": server.data / "tls.key"}
    other = ServerProcess(tmp_path / "data", tmp_path / "log")
    options = [str(each) for pair in own.items() for each in pair]
    other.start("--host", "0.0.0.0", "--token-file", str(tmp_path / "token"), *options)
    try:
        assert other.address.token == "t" * 32
        address = other.address._replace(host="127.0.0.1", authority=server.data / "ca.crt")
        for host in ("0.0.0.0:1", "gpu-box.example:6443"):
            assert asyncio.run(_ask(address, "GET", "/api/v1/namespaces", {"Host": host})).code == 200
        page = {"Origin": f"https://127.0.0.1:{address.port}"}
        assert asyncio.run(_ask(address, "GET", "/api/v1/namespaces", page)).code == 403
    finally:
        other.stop()


@pytest.mark.parametrize("token", ["", "short", "x" * 31, "x" * 40 + " y", "ü" * 40])
def test_a_token_that_is_too_easy_is_refused(tmp_path: Path, token: str) -> None:
    (tmp_path / "token").write_text(token)
    refused = run_to_end(tmp_path / "data", "--token-file", str(tmp_path / "token"))
    assert refused.returncode == 1
    assert "is no use" in refused.stderr


def test_kubeconfig_prints_the_bare_path(server: ServerProcess) -> None:
    printed = _kubeconfig("--data-dir", str(server.data))
    assert (printed.returncode, printed.stdout, printed.stderr) == (0, f"{server.data}/kubeconfig\n", "")


def test_kubeconfig_of_no_server_is_said_in_words(tmp_path: Path) -> None:
    printed = _kubeconfig(environment={"XDG_STATE_HOME": str(tmp_path)})
    assert (printed.returncode, printed.stdout) == (1, "")
    assert f"no API server runs here: there is no {tmp_path}/bireme/kubeconfig" in printed.stderr


def _kubeconfig(
    *options: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIREME), "kubeconfig", *options],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | dict(environment or {}),
    )
