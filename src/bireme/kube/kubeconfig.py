"""Kubeconfig files: their fields, how several become one, and what a context leads to."""

import base64
import binascii
import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from bireme.kube.errors import ConfigError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Fields(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of a kubeconfig's parts; fields that nobody knows are no error, as for kubectl."""


class Extension(_Fields, frozen=True):
    name: str = ""
    extension: Any = None


class Cluster(_Fields, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] = ()


class ExecVariable(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(_Fields, frozen=True):
    name: str = ""
    config: dict[str, str] = {}


class User(_Fields, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    exec: Exec | None = None
    auth_provider: AuthProvider | None = None


class Context(_Fields, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(_Fields, frozen=True):
    name: str
    cluster: Cluster = Cluster()


class NamedUser(_Fields, frozen=True):
    name: str
    user: User = User()


class NamedContext(_Fields, frozen=True):
    name: str
    context: Context = Context()


class _File(_Fields, frozen=True):
    current_context: str = ""
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()


class Place(NamedTuple):
    """Where in which file something is said; relative paths there start at the file's folder."""

    file: Path
    field: str

    def error(self, field: str, problem: str, hint: str = "") -> ConfigError:
        where = f"{self.field}.{field}" if field else self.field
        return ConfigError(f"{self.file}: {where}: {problem}", hint)

    def resolve(self, path: str) -> Path:
        return self.file.parent.absolute() / path


def decode_base64(text: str, place: Place, field: str) -> bytes:
    """What a field ending in `-data` holds. Raises ConfigError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise place.error(field, f"not base64: {error}") from error


class Chosen(NamedTuple):
    """A context with all that it names, and where each part comes from."""

    name: str
    namespace: str
    cluster: Cluster
    cluster_place: Place
    user: User
    user_place: Place


class Kubeconfig:
    """Several files as one: of what is said twice, the first counts."""

    def __init__(self) -> None:
        self.current_context = ""
        self._contexts: dict[str, tuple[Context, Place]] = {}
        self._clusters: dict[str, tuple[Cluster, Place]] = {}
        self._users: dict[str, tuple[User, Place]] = {}

    @property
    def is_empty(self) -> bool:
        return not (self._contexts or self._clusters or self._users)

    @property
    def context_names(self) -> list[str]:
        return sorted(self._contexts)

    def add(self, path: Path) -> None:
        """Read one more file. Raises ConfigError, naming the field, and OSError."""
        file = _parse(path)
        self.current_context = self.current_context or file.current_context
        for index, context in enumerate(file.contexts):
            place = Place(path, f"contexts[{index}].context")
            self._contexts.setdefault(context.name, (context.context, place))
        for index, cluster in enumerate(file.clusters):
            place = Place(path, f"clusters[{index}].cluster")
            self._clusters.setdefault(cluster.name, (cluster.cluster, place))
        for index, user in enumerate(file.users):
            self._users.setdefault(user.name, (user.user, Place(path, f"users[{index}].user")))

    def choose(self, name: str | None) -> Chosen:
        """The context of this name, or the current one. Raises ConfigError."""
        wanted = name or self.current_context
        if not wanted:
            raise ConfigError("no context is chosen", f"choose one of {_words(self._contexts)}")
        if wanted not in self._contexts:
            raise ConfigError(f"there is no context `{wanted}`", _suggestion(wanted, self._contexts))
        context, place = self._contexts[wanted]
        if context.cluster not in self._clusters:
            problem = f"there is no cluster `{context.cluster}`"
            raise place.error("cluster", problem, _suggestion(context.cluster, self._clusters))
        if context.user and context.user not in self._users:
            problem = f"there is no user `{context.user}`"
            raise place.error("user", problem, _suggestion(context.user, self._users))
        nobody = User(), place
        cluster, user = self._clusters[context.cluster], self._users.get(context.user, nobody)
        return Chosen(wanted, context.namespace, *cluster, *user)


def _parse(path: Path) -> _File:
    try:
        data = yaml.load(path.read_bytes(), _LOADER)  # noqa: S506 - the safe one, in C where there is one
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    try:
        return msgspec.convert(_without_nulls(data or {}), _File)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        field = where.removeprefix(".").removesuffix("`")
        problem = problem[:1].lower() + problem[1:]
        raise ConfigError(f"{path}: {field}: {problem}" if field else f"{path}: {problem}") from error


def _without_nulls(value: Any) -> Any:
    """Go reads null as a field left out, and writes empty lists as null."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def _suggestion(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean `{near[0]}`?" if near else f"there is {_words(known)}"


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"
