"""Which cluster, and as whom: from a kubeconfig, as kubectl finds it, or from inside a pod."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bireme.kube.credentials import Credentials, FileCredentials, StaticCredentials, WatchedFile
from bireme.kube.errors import ConfigError
from bireme.kube.kubeconfig import Chosen, Cluster, Kubeconfig, Place, User, decode_base64
from bireme.kube.login import build_credentials
from bireme.kube.proxy import is_direct, proxy_for

IN_CLUSTER_ROOT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PROXY_SCHEMES: Final = ("http", "https")
_EXTENSION: Final = "client.authentication.k8s.io/exec"


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All that it takes to talk to one API server.

    `ca_data` is PEM, and empty where the system's authorities are to be trusted; `headers` go with every
    request; `source` tells people where all of this comes from.
    """

    server: str
    ca_data: bytes = b""
    insecure: bool = False
    tls_server_name: str = ""
    credentials: Credentials = StaticCredentials()
    headers: tuple[tuple[str, str], ...] = ()
    proxy_url: str = ""
    compression: bool = False
    namespace: str = "default"
    source: str = ""


def load_config(
    *,
    kubeconfig: str | Sequence[str] | None = None,
    context: str | None = None,
    environ: Mapping[str, str],
    in_cluster_root: Path = IN_CLUSTER_ROOT,
) -> ClusterConfig:
    """The files given, else those of $KUBECONFIG, else ~/.kube/config, else the pod we are in.

    Of several files the first to say something counts; files that are not there are passed over, except
    those that were given. Raises ConfigError.
    """
    merged = read_kubeconfig(kubeconfig, environ)
    if merged.is_empty and kubeconfig is None and context is None:
        if "KUBERNETES_SERVICE_HOST" in environ and (in_cluster_root / "token").exists():
            return _in_cluster(environ, in_cluster_root)
        looked = ", ".join(map(str, kubeconfig_paths(environ))) or "$KUBECONFIG"
        raise ConfigError(
            f"no cluster: nothing in {looked}, and this is no pod with a service account",
            "set KUBECONFIG, or name a file with --kubeconfig",
        )
    return _from_kubeconfig(merged.choose(context), environ)


def read_kubeconfig(kubeconfig: str | Sequence[str] | None, environ: Mapping[str, str]) -> Kubeconfig:
    """Read and merge the files that `load_config` would use. Raises ConfigError."""
    given = [kubeconfig] if isinstance(kubeconfig, str) else kubeconfig
    merged = Kubeconfig()
    for path in kubeconfig_paths(environ) if given is None else map(Path, given):
        try:
            merged.add(path)
        except FileNotFoundError as error:
            if given is not None:
                raise ConfigError(f"{path}: there is no such file") from error
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
    return merged


def kubeconfig_paths(environ: Mapping[str, str]) -> list[Path]:
    """Return the files where kubectl looks by default; some may not exist."""
    listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(":") if each]
    home = environ.get("HOME")
    return listed or ([Path(home) / ".kube/config"] if home else [])


def _from_kubeconfig(chosen: Chosen, environ: Mapping[str, str]) -> ClusterConfig:
    cluster, place = chosen.cluster, chosen.cluster_place
    server = _server(cluster, place)
    # kubectl sends no credential where anybody on the way could read it.
    is_tls = server.startswith("https://")
    credentials = build_credentials(chosen, _cluster_info(chosen, server), environ)
    return ClusterConfig(
        server=server,
        ca_data=_authority(cluster, place),
        insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name,
        credentials=credentials if is_tls else StaticCredentials(),
        headers=_impersonation(chosen.user, chosen.user_place),
        proxy_url=_proxy(cluster, place, server, environ),
        compression=not (cluster.disable_compression or _is_near(server)),
        namespace=chosen.namespace or "default",
        source=f"{place.file}, context {chosen.name}",
    )


def _server(cluster: Cluster, place: Place) -> str:
    if not cluster.server:
        raise place.error("server", "missing")
    server = cluster.server if "://" in cluster.server else f"https://{cluster.server}"
    url = urlsplit(server)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise place.error("server", f"`{cluster.server}` is no URL of an API server")
    return server.rstrip("/")


def _is_near(server: str) -> bool:
    return is_direct(urlsplit(server).hostname or "", 0, "")


def _authority(cluster: Cluster, place: Place) -> bytes:
    data = b""
    if cluster.certificate_authority_data:
        data = decode_base64(cluster.certificate_authority_data, place, "certificate-authority-data")
    elif cluster.certificate_authority:
        path = place.resolve(cluster.certificate_authority)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise place.error("certificate-authority", f"{path}: {error.strerror}") from error
    if data and cluster.insecure_skip_tls_verify:
        problem = "a certificate authority is given, so it can't be left unused"
        raise place.error("insecure-skip-tls-verify", problem, "remove one of the two")
    return data


def _proxy(cluster: Cluster, place: Place, server: str, environ: Mapping[str, str]) -> str:
    if not cluster.proxy_url:
        return proxy_for(server, environ)
    if urlsplit(cluster.proxy_url).scheme not in _PROXY_SCHEMES:
        hint = "use an http or https proxy"
        raise place.error("proxy-url", f"`{cluster.proxy_url}` is no proxy that we can use", hint)
    return cluster.proxy_url


def _impersonation(user: User, place: Place) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.as_)] if user.as_ else []
    headers += [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    headers += [("Impersonate-Group", group) for group in user.as_groups]
    headers += [
        (f"Impersonate-Extra-{name}", value)
        for name, values in user.as_user_extra.items()
        for value in values
    ]
    if headers and not user.as_:
        raise place.error("as", "missing, though there is more to say of that user")
    return tuple(headers)


def _cluster_info(chosen: Chosen, server: str) -> dict[str, object]:
    """What an exec plugin is told of the cluster, if it asks."""
    cluster = chosen.cluster
    authority = base64.b64encode(_authority(cluster, chosen.cluster_place)).decode()
    info: dict[str, object] = {
        "server": server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "config": next((each.extension for each in cluster.extensions if each.name == _EXTENSION), None),
    }
    return {name: value for name, value in info.items() if value}


def _in_cluster(environ: Mapping[str, str], root: Path) -> ClusterConfig:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    try:
        ca_data = (root / "ca.crt").read_bytes()
        namespace = (root / "namespace").read_text().strip() if (root / "namespace").exists() else ""
    except OSError as error:
        raise ConfigError(
            f"{root}/ca.crt: {error.strerror}", "the pod's service account is incomplete"
        ) from error
    return ClusterConfig(
        server=f"https://{host}:{port}",
        ca_data=ca_data,
        credentials=FileCredentials(token=WatchedFile(root / "token")),
        namespace=namespace or "default",
        source="the service account of this pod",
    )
