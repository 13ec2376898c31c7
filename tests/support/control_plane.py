"""A real Kubernetes control plane on loopback, for tests.

    plane = ControlPlane()
    plane.start()
    plane.kubectl("get", "namespaces")
    plane.stop()

The binaries come from `make control-plane` or KUBEBUILDER_ASSETS. With BIREME_TEST_KUBECONFIG set,
the same class talks to that cluster and starts nothing.
"""

import base64
import contextlib
import functools
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.certificates import Authority, Identity
from support.component import Component, ControlPlaneError, reserve_port

BUILD = Path(__file__).parents[2] / "hack/control-plane/build"
START_ORDER = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
POLL_SECONDS = 0.05
SERVICE_RANGE = "10.0.0.0/24"
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "127.0.0.1",
    "10.0.0.1",
)


class BinariesMissingError(Exception):
    """A program is not built; the message is one line and says what to run."""


@functools.cache
def binaries_folder() -> Path:
    """Return where the binaries are or would be, by the build script's own rules."""
    path = subprocess.run([BUILD, "path"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(path.stdout.strip())


def find_binaries(names: Iterable[str]) -> dict[str, Path]:
    folder = binaries_folder()
    found = {name: folder / name for name in names}
    missing = [name for name, path in found.items() if not os.access(path, os.X_OK)]
    if missing:
        unset = "unset KUBEBUILDER_ASSETS and " if "KUBEBUILDER_ASSETS" in os.environ else ""
        raise BinariesMissingError(f"no {', '.join(missing)} in {folder}: {unset}run `make control-plane`")
    return found


def find_kubectl() -> Path:
    found = shutil.which("kubectl", path=os.pathsep.join((str(binaries_folder()), os.environ["PATH"])))
    return Path(found) if found else find_binaries(["kubectl"])["kubectl"]


def _flags(**values: object) -> list[str]:
    """Spell keyword arguments as flags: `leader_elect=False` is `--leader-elect=false`."""
    return [
        f"--{name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in values.items()
    ]


class ControlPlane:
    """A control plane of our own, or an existing cluster; the attributes below are set by `start`.

    `ca_path`, `admin_cert` and `admin_key` name no file where an existing cluster's kubeconfig holds
    no such credential.
    """

    folder: Path
    url: str
    kubeconfig: Path
    ca_path: Path
    admin_cert: Path
    admin_key: Path

    def __init__(self, parent: Path | None = None) -> None:
        """Keep everything in a new folder below `parent`, or below the system's temporary folder."""
        self._parent = parent
        self._existing = os.environ.get("BIREME_TEST_KUBECONFIG")
        self._components: dict[str, Component] = {}
        self._exits = contextlib.ExitStack()

    @property
    def is_existing_cluster(self) -> bool:
        return bool(self._existing)

    @property
    def pids(self) -> dict[str, int]:
        return {name: each.process.pid for name, each in self._components.items() if each.process}

    def start(
        self,
        components: Iterable[str] = START_ORDER[:3],
        *,
        flags: Mapping[str, Sequence[str]] | None = None,
        deadline_seconds: float = 180,
    ) -> None:
        """Start `components` and return when all are ready; on failure leave nothing behind.

        `flags` are added to those of the component that keys them; the last of a kind wins.
        """
        binaries = {} if self._existing else find_binaries([*components, "kubectl"])
        self._kubectl = find_kubectl()
        self._make_folder()
        try:
            if self._existing:
                self._attach(Path(self._existing))
            else:
                self._start_own(binaries, flags or {}, time.monotonic() + deadline_seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop every component, the last started first, and remove the folder; twice is once."""
        self._exits.close()
        self._components.clear()

    def restart(self, name: str, *, signum: int = signal.SIGTERM, deadline_seconds: float = 180) -> None:
        """End one component with `signum` and start it again: same port, same flags."""
        component = self._components[name]
        component.stop(signum)
        component.spawn()
        self._wait_until_healthy(component, time.monotonic() + deadline_seconds)

    def log(self, name: str, lines: int = 30) -> str:
        return self._components[name].tail(lines)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return the kubeconfig of any user: with a certificate, or on an existing cluster, whose
        authority is not ours, by impersonation."""
        if self._existing:
            config = json.loads(self.kubeconfig.read_text())
            config["users"][0]["user"] |= {"as": user, "as-groups": list(groups)}
        else:
            config = self._config_with(self._authority.issue(user, groups))
        with tempfile.NamedTemporaryFile(
            "w", prefix="user-", suffix=".kubeconfig", dir=self.folder, delete=False
        ) as file:
            json.dump(config, file)
        return Path(file.name)

    def kubectl(
        self,
        *args: str,
        input: str | None = None,  # noqa: A002 - as subprocess.run has it
        check: bool = True,
        kubeconfig: Path | None = None,
        timeout_seconds: float = 180,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator, or with `kubeconfig`; the caller's own settings are not read."""
        settings = {"KUBECACHEDIR": str(self.folder / "kubectl-cache"), "KUBERC": "off"}
        result = subprocess.run(
            [self._kubectl, "--kubeconfig", kubeconfig or self.kubeconfig, *args],
            input=input or "",
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            env=os.environ | settings,
        )
        if check and result.returncode:
            error = subprocess.CalledProcessError(
                result.returncode, result.args, result.stdout, result.stderr
            )
            error.add_note(result.stderr)
            raise error
        return result

    def _make_folder(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="control-plane-", dir=self._parent))
        self._exits.callback(shutil.rmtree, self.folder)
        self.kubeconfig = self.folder / "admin.kubeconfig"
        self.ca_path = self.folder / "ca.crt"
        self.admin_cert = self.folder / "admin.crt"
        self.admin_key = self.folder / "admin.key"

    def _attach(self, kubeconfig: Path) -> None:
        view = ("config", "view", "--raw", "--minify", "--flatten", "--output=json")
        text = self.kubectl(*view, kubeconfig=kubeconfig).stdout
        config = json.loads(text)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.url = cluster["server"]
        self.kubeconfig.write_text(text)
        for path, data in (
            (self.ca_path, cluster.get("certificate-authority-data")),
            (self.admin_cert, user.get("client-certificate-data")),
            (self.admin_key, user.get("client-key-data")),
        ):
            if data:
                path.write_bytes(base64.b64decode(data))

    def _start_own(
        self, binaries: Mapping[str, Path], flags: Mapping[str, Sequence[str]], deadline: float
    ) -> None:
        self._issue_certificates()
        own_flags = {
            "etcd": self._etcd_flags,
            "kube-apiserver": self._apiserver_flags,
            "kube-controller-manager": self._controller_manager_flags,
            "kube-scheduler": self._scheduler_flags,
        }
        for name in START_ORDER:
            if name in binaries:
                port = self._reserve_port()
                argv = [str(binaries[name]), *own_flags[name](port), *flags.get(name, ())]
                self._launch(name, argv, port, deadline)

    def _launch(self, name: str, argv: Sequence[str], port: int, deadline: float) -> None:
        health, tls = {
            "etcd": ("/health", self._etcd_tls),
            "kube-apiserver": ("/readyz", self._tls),
        }.get(name, ("/healthz", self._tls))
        component = Component(name, argv, self.folder / f"{name}.log", port, health, tls)
        self._components[name] = component
        component.spawn()
        self._exits.callback(component.stop)
        self._wait_until_healthy(component, deadline)

    def _reserve_port(self) -> int:
        port: int = self._exits.enter_context(reserve_port()).getsockname()[1]
        return port

    def _wait_until_healthy(self, component: Component, deadline: float) -> None:
        while not component.is_healthy():
            for each in self._components.values():
                each.raise_if_dead()
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"{component.name} was not ready in time:\n{component.tail()}")
            time.sleep(POLL_SECONDS)

    def _issue_certificates(self) -> None:
        self._authority = Authority("bireme-test")
        self._authority.identity.write(self.folder, "ca")
        self._authority.issue("kube-apiserver", hosts=SERVER_NAMES).write(self.folder, "server")
        self._authority.issue("admin", ["system:masters"]).write(self.folder, "admin")
        self._authority.issue("service-accounts").write(self.folder, "service-accounts")
        # An authority of its own, or every user's certificate would open etcd.
        etcd = Authority("bireme-test-etcd")
        etcd.identity.write(self.folder, "etcd-ca")
        etcd.issue("etcd", hosts=SERVER_NAMES).write(self.folder, "etcd")
        self._tls = self._client_context("ca", "admin")
        self._etcd_tls = self._client_context("etcd-ca", "etcd")

    def _client_context(self, authority: str, client: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / f"{authority}.crt")
        context.load_cert_chain(self.folder / f"{client}.crt", self.folder / f"{client}.key")
        return context

    def _config_with(self, identity: Identity) -> dict[str, Any]:
        def encode(data: bytes) -> str:
            return base64.b64encode(data).decode()

        cluster = {"server": self.url, "certificate-authority-data": encode(self.ca_path.read_bytes())}
        user = {
            "client-certificate-data": encode(identity.certificate),
            "client-key-data": encode(identity.key),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }

    def _etcd_flags(self, port: int) -> list[str]:
        self._etcd_url = f"https://127.0.0.1:{port}"
        peer_url = f"https://127.0.0.1:{self._reserve_port()}"
        authority, certificate, key = self._files("etcd-ca.crt", "etcd.crt", "etcd.key")
        return _flags(
            data_dir=self.folder / "etcd",
            listen_client_urls=self._etcd_url,
            advertise_client_urls=self._etcd_url,
            listen_peer_urls=peer_url,
            initial_advertise_peer_urls=peer_url,
            initial_cluster=f"default={peer_url}",
            client_cert_auth=True,
            trusted_ca_file=authority,
            cert_file=certificate,
            key_file=key,
            peer_client_cert_auth=True,
            peer_trusted_ca_file=authority,
            peer_cert_file=certificate,
            peer_key_file=key,
            socket_reuse_port=True,
            unsafe_no_fsync=True,
        )

    def _apiserver_flags(self, port: int) -> list[str]:
        self.url = f"https://127.0.0.1:{port}"
        admin = Identity(self.admin_cert.read_bytes(), self.admin_key.read_bytes())
        self.kubeconfig.write_text(json.dumps(self._config_with(admin)))
        etcd_authority, etcd_certificate, etcd_key = self._files("etcd-ca.crt", "etcd.crt", "etcd.key")
        accounts_certificate, accounts_key = self._files("service-accounts.crt", "service-accounts.key")
        return self._serving_flags(port) + _flags(
            etcd_servers=self._etcd_url,
            etcd_cafile=etcd_authority,
            etcd_certfile=etcd_certificate,
            etcd_keyfile=etcd_key,
            advertise_address="127.0.0.1",
            # The Service `kubernetes` may not have an endpoint on loopback.
            endpoint_reconciler_type="none",
            service_cluster_ip_range=SERVICE_RANGE,
            client_ca_file=self.ca_path,
            anonymous_auth=False,
            authorization_mode="Node,RBAC",
            enable_admission_plugins="NodeRestriction",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file=accounts_certificate,
            service_account_signing_key_file=accounts_key,
            allow_privileged=True,
        )

    def _controller_manager_flags(self, port: int) -> list[str]:
        accounts_key, ca_key = self._files("service-accounts.key", "ca.key")
        return self._serving_flags(port) + _flags(
            kubeconfig=self.kubeconfig_for("system:kube-controller-manager"),
            leader_elect=False,
            use_service_account_credentials=True,
            service_account_private_key_file=accounts_key,
            root_ca_file=self.ca_path,
            cluster_signing_cert_file=self.ca_path,
            cluster_signing_key_file=ca_key,
            # With the default of 20 it takes 5 s to start its controllers, with these half a second.
            kube_api_qps=500,
            kube_api_burst=1000,
        )

    def _scheduler_flags(self, port: int) -> list[str]:
        kubeconfig = self.kubeconfig_for("system:kube-scheduler")
        return self._serving_flags(port) + _flags(kubeconfig=kubeconfig, leader_elect=False)

    def _serving_flags(self, port: int) -> list[str]:
        certificate, key = self._files("server.crt", "server.key")
        return _flags(
            bind_address="127.0.0.1",
            secure_port=port,
            permit_port_sharing=True,
            tls_cert_file=certificate,
            tls_private_key_file=key,
        )

    def _files(self, *names: str) -> list[Path]:
        return [self.folder / name for name in names]
