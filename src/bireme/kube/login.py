"""A kubeconfig's user as credentials."""

import os
from collections.abc import Mapping
from typing import Any

from bireme.kube.credentials import (
    Credential,
    Credentials,
    FileCredentials,
    IdTokenCredentials,
    StaticCredentials,
    WatchedFile,
    basic,
    bearer,
)
from bireme.kube.exec_plugin import VERSIONS, ExecCredentials, ExecPlugin
from bireme.kube.kubeconfig import Chosen, Exec, Place, User, decode_base64


def build_credentials(chosen: Chosen, info: dict[str, Any], environ: Mapping[str, str]) -> Credentials:
    """What the user presents; a token, a password or a certificate come before a plugin, as for kubectl.

    `info` is what an exec plugin is told of the cluster, if it asks. Raises ConfigError.
    """
    user, place = chosen.user, chosen.user_place
    _check(user, place)
    fixed = Credential(
        _authorization(user),
        decode_base64(user.client_certificate_data, place, "client-certificate-data"),
        decode_base64(user.client_key_data, place, "client-key-data"),
    )
    files = {
        "token": _watched(user.token_file, place),
        "certificate": None if fixed.certificate else _watched(user.client_certificate, place),
        "key": None if fixed.key else _watched(user.client_key, place),
    }
    if any(files.values()):
        return FileCredentials(**files, fixed=fixed)
    if any(fixed):
        return StaticCredentials(fixed)
    if user.exec is not None:
        return ExecCredentials(_plugin(user.exec, place, info, environ))
    if user.auth_provider is not None:
        return _provider(user, place)
    return StaticCredentials()


def _check(user: User, place: Place) -> None:
    if user.username and (user.token or user.token_file):
        raise place.error("username", "a token is given as well", "remove one of the two")
    if user.exec is not None and user.auth_provider is not None:
        raise place.error("auth-provider", "an exec plugin is given as well", "remove one of the two")
    has_certificate = bool(user.client_certificate or user.client_certificate_data)
    has_key = bool(user.client_key or user.client_key_data)
    if has_certificate and not has_key:
        raise place.error("client-key", "missing, though there is a certificate")
    if has_key and not has_certificate:
        raise place.error("client-certificate", "missing, though there is a key")


def _authorization(user: User) -> str:
    if user.token:
        return bearer(user.token)
    return basic(user.username, user.password) if user.username else ""


def _watched(path: str, place: Place) -> WatchedFile | None:
    return WatchedFile(place.resolve(path)) if path else None


def _plugin(plugin: Exec, place: Place, info: dict[str, Any], environ: Mapping[str, str]) -> ExecPlugin:
    if not plugin.command:
        raise place.error("exec.command", "missing")
    if plugin.api_version not in VERSIONS:
        problem = f"`{plugin.api_version}` is not supported" if plugin.api_version else "missing"
        raise place.error("exec.apiVersion", problem, f"use {' or '.join(VERSIONS)}")
    if plugin.interactive_mode == "Always":
        raise place.error("exec.interactiveMode", "the plugin wants a terminal, and we have none for it")
    # A bare name is looked up in PATH; anything else is a path, and starts at the kubeconfig's folder.
    is_path = os.sep in plugin.command
    return ExecPlugin(
        command=str(place.resolve(plugin.command)) if is_path else plugin.command,
        args=plugin.args,
        environ={**environ, **{each.name: each.value for each in plugin.env}},
        api_version=plugin.api_version,
        install_hint=plugin.install_hint,
        cluster=info if plugin.provide_cluster_info else None,
    )


def _provider(user: User, place: Place) -> Credentials:
    assert user.auth_provider is not None
    if user.auth_provider.name != "oidc":
        problem = f"`{user.auth_provider.name}` is not supported, nor is it by kubectl any more"
        raise place.error("auth-provider.name", problem, "use the provider's exec plugin")
    token = user.auth_provider.config.get("id-token", "")
    if not token:
        raise place.error("auth-provider.config.id-token", "missing", "any kubectl command fetches one")
    return IdTokenCredentials(token)
