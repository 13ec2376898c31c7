"""Which cluster, and as whom, is read as kubectl reads it; what is wrong is named by file and field."""

import asyncio
import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bireme.kube.config import ClusterConfig, load_config, read_kubeconfig
from bireme.kube.credentials import Credential
from bireme.kube.errors import ConfigError

CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "https://cluster.example:6443/"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
}


def write(path: Path, config: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return path


def with_cluster(**fields: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    config["clusters"][0]["cluster"].update(fields)
    return config


def with_user(**fields: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    config["users"][0]["user"] = fields
    return config


def load(path: Path, **options: Any) -> ClusterConfig:
    return load_config(kubeconfig=str(path), **{"environ": {}, **options})


def credential(config: ClusterConfig) -> Credential:
    return asyncio.run(current(config))


async def current(config: ClusterConfig) -> Credential:
    return await config.credentials.current()


# ---- where it is looked for


def test_a_file_that_is_given_comes_first(tmp_path: Path) -> None:
    given = write(tmp_path / "given", CONFIG)
    other = write(tmp_path / "other", with_cluster(server="https://other.example"))
    config = load(given, environ={"KUBECONFIG": str(other)})
    assert config.server == "https://cluster.example:6443"
    assert config.namespace == "team"
    assert config.source == f"{given}, context here"


def test_then_the_environment_then_the_home_folder(tmp_path: Path) -> None:
    write(tmp_path / ".kube/config", with_cluster(server="https://home.example"))
    named = write(tmp_path / "named", with_cluster(server="https://named.example"))
    environ = {"HOME": str(tmp_path)}
    assert load_config(environ=environ).server == "https://home.example"
    assert load_config(environ={**environ, "KUBECONFIG": str(named)}).server == "https://named.example"


def test_all_files_that_are_given_must_exist(tmp_path: Path) -> None:
    first = write(tmp_path / "first", CONFIG)
    other = write(tmp_path / "other", with_cluster(server="https://other.example"))
    files = (str(first), str(other))
    assert load_config(kubeconfig=files, environ={}).server == "https://cluster.example:6443"
    assert read_kubeconfig(files, {}).context_names == ["here"]
    first.unlink()
    with pytest.raises(ConfigError, match="first: there is no such file"):
        load_config(kubeconfig=files, environ={})


def in_cluster(root: Path) -> Path:
    write(root / "token", "from the pod\n")
    write(root / "ca.crt", "authority")
    write(root / "namespace", "pods\n")
    return root


def test_then_the_pod_that_we_are_in(tmp_path: Path) -> None:
    environ = {
        "HOME": "/nowhere",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }
    config = load_config(environ=environ, in_cluster_root=in_cluster(tmp_path))
    assert config.server == "https://10.0.0.1:443"
    assert config.ca_data == b"authority"
    assert config.namespace == "pods"
    assert credential(config).authorization == "Bearer from the pod"
    assert not config.compression


def test_an_address_of_version_6_is_put_in_brackets(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert (
        load_config(environ=environ, in_cluster_root=in_cluster(tmp_path)).server == "https://[fd00::1]:443"
    )


def test_nothing_anywhere_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing in /nowhere/\.kube/config") as caught:
        load_config(environ={"HOME": "/nowhere"}, in_cluster_root=tmp_path)
    assert "--kubeconfig" in caught.value.hint


def test_a_file_that_is_given_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing: there is no such file"):
        load(tmp_path / "missing")


# ---- several files


def test_of_several_files_the_first_to_say_something_counts(tmp_path: Path) -> None:
    first = {
        "clusters": None,
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "first"}}],
    }
    paths = [
        tmp_path / "not there",
        write(tmp_path / "1", first),
        write(tmp_path / "empty", ""),
        write(tmp_path / "2", CONFIG),
        write(tmp_path / "3", with_cluster(server="https://third.example") | {"current-context": "other"}),
    ]
    config = load_config(environ={"KUBECONFIG": ":".join(map(str, [*paths, ""]))})
    assert config.server == "https://cluster.example:6443"
    assert config.namespace == "default"
    assert credential(config).authorization == "Bearer first"


def test_paths_in_a_file_start_where_the_file_is(tmp_path: Path) -> None:
    authority = write(tmp_path / "one/pki/ca.crt", "authority")
    write(tmp_path / "two/token", "secret")
    cluster = with_cluster(**{"certificate-authority": "pki/ca.crt"})
    first = write(tmp_path / "one/config", {**cluster, "users": []})
    second = write(tmp_path / "two/config", with_user(tokenFile="token"))
    config = load_config(environ={"KUBECONFIG": f"{first}:{second}"})
    assert config.ca_data == authority.read_bytes()
    assert credential(config).authorization == "Bearer secret"


# ---- contexts


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    config = copy.deepcopy(CONFIG)
    config["clusters"].append({"name": "d", "cluster": {"server": "https://d.example"}})
    config["contexts"].append({"name": "there", "context": {"cluster": "d", "user": "u"}})
    assert load(write(tmp_path / "config", config), context="there").server == "https://d.example"


def test_a_context_may_have_no_user(tmp_path: Path) -> None:
    config = CONFIG | {"contexts": [{"name": "here", "context": {"cluster": "c"}}]}
    assert credential(load(write(tmp_path / "config", config))) == Credential()


# ---- what the cluster says


def test_what_the_cluster_says_is_taken_over(tmp_path: Path) -> None:
    config = load(
        write(
            tmp_path / "config",
            with_cluster(
                **{
                    "certificate-authority-data": base64.b64encode(b"authority").decode(),
                    "tls-server-name": "kubernetes",
                    "proxy-url": "http://proxy.example:3128",
                }
            ),
        )
    )
    assert config.ca_data == b"authority"
    assert config.tls_server_name == "kubernetes"
    assert config.proxy_url == "http://proxy.example:3128"
    assert not config.insecure


def test_tls_is_verified_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    assert load(write(tmp_path / "config", with_cluster(**{"insecure-skip-tls-verify": True}))).insecure


def test_a_prefix_of_the_server_stays(tmp_path: Path) -> None:
    server = "https://rancher.example/k8s/clusters/c-1"
    assert load(write(tmp_path / "config", with_cluster(server=server))).server == server


def test_a_server_without_a_scheme_is_one_with_tls(tmp_path: Path) -> None:
    assert (
        load(write(tmp_path / "config", with_cluster(server="a.example:1"))).server == "https://a.example:1"
    )


def test_answers_are_compressed_over_long_ways_only(tmp_path: Path) -> None:
    assert load(write(tmp_path / "a", CONFIG)).compression
    assert not load(write(tmp_path / "b", with_cluster(server="https://127.0.0.1:6443"))).compression
    assert not load(write(tmp_path / "c", with_cluster(**{"disable-compression": True}))).compression


# ---- what the user says


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
        ({}, ""),
    ],
    ids=["token", "password", "nothing"],
)
def test_who_we_are(tmp_path: Path, user: dict[str, Any], authorization: str) -> None:
    config = load(write(tmp_path / "config", with_user(**user)))
    assert credential(config).authorization == authorization


def test_a_certificate_may_be_in_the_file_or_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "tls.crt", "beside")
    write(tmp_path / "tls.key", "key")
    inline = {
        "client-certificate-data": base64.b64encode(b"inside").decode(),
        "client-certificate": "tls.crt",
    }
    key = {"client-key": "tls.key"}
    config = load(write(tmp_path / "config", with_user(**inline, **key)))
    assert credential(config) == Credential("", b"inside", b"key")
    beside = with_user(**{"client-certificate": "tls.crt"}, **key)
    assert credential(load(write(tmp_path / "config", beside))) == Credential("", b"beside", b"key")


def test_no_credential_goes_over_a_line_that_anybody_can_read(tmp_path: Path) -> None:
    config = load(write(tmp_path / "config", with_cluster(server="http://cluster.example")))
    assert credential(config) == Credential()


def test_a_user_to_act_as(tmp_path: Path) -> None:
    user = {"as": "alice", "as-groups": ["a", "b"], "as-uid": "1", "as-user-extra": {"scopes": ["x"]}}
    assert load(write(tmp_path / "config", with_user(**user))).headers == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes", "x"),
    )


def test_a_credential_does_not_show_itself() -> None:
    shown = repr(Credential("Bearer secret", b"certificate", b"private"))
    assert "secret" not in shown
    assert "private" not in shown


# ---- what is wrong

WRONG: dict[str, tuple[object, str]] = {
    "no YAML": ("a: [", "not YAML"),
    "a list": ("- a", "expected `object`, got `array`"),
    "no server": (with_cluster(server=""), r"clusters\[0\].cluster.server: missing"),
    "a server that is none": (with_cluster(server="ftp://x"), r"clusters\[0\].cluster.server: `ftp://x`"),
    "a number for a token": (with_user(token=1), r"users\[0\].user.token: expected `str`, got `int`"),
    "no base64": (
        with_cluster(**{"certificate-authority-data": "%"}),
        r"clusters\[0\].cluster.certificate-authority-data: not base64",
    ),
    "an authority that is not there": (
        with_cluster(**{"certificate-authority": "no.crt"}),
        r"certificate-authority: .*/no.crt: No such file or directory",
    ),
    "trust and no trust": (
        with_cluster(**{"insecure-skip-tls-verify": True, "certificate-authority-data": "YQ=="}),
        r"clusters\[0\].cluster.insecure-skip-tls-verify: a certificate authority is given",
    ),
    "a proxy of another kind": (
        with_cluster(**{"proxy-url": "socks5://p"}),
        r"clusters\[0\].cluster.proxy-url: `socks5://p`",
    ),
    "a certificate without key": (
        with_user(**{"client-certificate-data": "YQ=="}),
        r"users\[0\].user.client-key: missing",
    ),
    "a key without certificate": (
        with_user(**{"client-key-data": "YQ=="}),
        r"users\[0\].user.client-certificate: missing",
    ),
    "token and password": (with_user(token="t", username="u"), r"users\[0\].user.username: a token"),
    "groups without a user": (with_user(**{"as-groups": ["g"]}), r"users\[0\].user.as: missing"),
    "a plugin without command": (with_user(exec={}), r"users\[0\].user.exec.command: missing"),
    "a plugin of old": (
        with_user(exec={"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}),
        r"users\[0\].user.exec.apiVersion: .*v1alpha1` is not supported",
    ),
    "a plugin that asks": (
        with_user(
            exec={
                "command": "x",
                "apiVersion": "client.authentication.k8s.io/v1",
                "interactiveMode": "Always",
            }
        ),
        r"users\[0\].user.exec.interactiveMode: the plugin wants a terminal",
    ),
    "a provider of old": (
        with_user(**{"auth-provider": {"name": "gcp"}}),
        r"users\[0\].user.auth-provider.name: `gcp` is not supported",
    ),
    "no such cluster": (
        CONFIG | {"contexts": [{"name": "here", "context": {"cluster": "cc", "user": "u"}}]},
        r"contexts\[0\].context.cluster: there is no cluster `cc`",
    ),
    "no such user": (
        CONFIG | {"contexts": [{"name": "here", "context": {"cluster": "c", "user": "uu"}}]},
        r"contexts\[0\].context.user: there is no user `uu`",
    ),
    "no such context": (CONFIG | {"current-context": "heer"}, "there is no context `heer`"),
    "no context chosen": (CONFIG | {"current-context": ""}, "no context is chosen"),
}


@pytest.mark.parametrize(("config", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, config: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(write(tmp_path / "config", config))


def test_a_name_that_is_nearly_right_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path / "config", CONFIG), context="heer")
    assert caught.value.hint == "did you mean `here`?"


def test_json_is_yaml(tmp_path: Path) -> None:
    assert load(write(tmp_path / "config", json.dumps(CONFIG))).namespace == "team"
