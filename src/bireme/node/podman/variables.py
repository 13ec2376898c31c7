"""How the values of a container's variables get to podman without standing in a command line.

A command line is readable by every user of the machine. `--env=NAME` takes the value from podman's own
environment, which is private and carries any text. Variables that podman, its helpers, Go or libc read
themselves would change what podman does; they go into a file for `--env-file`, which podman only copies.
Such a file has a line for each variable: a value with a line break does not fit. Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_READ_BY_PODMAN: Final = re.compile(
    # libc, its resolver, and what every program reads
    r"PATH|HOME|USER|LOGNAME|SHELL|TERM|TMP|TEMP|TMPDIR|TZ|TZDIR|LANG|LANGUAGE|LC_\w+|NLSPATH|LOCPATH|GCONV_PATH"
    r"|GETCONF_DIR|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|RESOLV_\w+|LD_\w+|GLIBC_\w+|MALLOC_\w+"
    # Go and its libraries
    r"|GO(?:DEBUG|GC|MAXPROCS|MEMLIMIT|TRACEBACK|RACE|COVERDIR|ROOT|FIPS)|SSL_CERT_(?:FILE|DIR)"
    r"|(?i:https?_proxy|no_proxy|all_proxy|ftp_proxy)|DOCKER_\w+|REGISTRY_AUTH_FILE|GNUPGHOME"
    # systemd and D-Bus
    r"|DBUS_\w+|SYSTEMD_\w+|NOTIFY_SOCKET|LISTEN_\w+|INVOCATION_ID|XDG_\w+"
    # podman, its storage, networks and devices, conmon, runc and crun
    r"|CONTAINERS?_\w+|PODMAN_\w+|LIBPOD_\w+|BUILDAH_\w+|STORAGE_(?:DRIVER|OPTS|CONF)|NETAVARK_\w+|AARDVARK_\w+"
    r"|CNI_\w+|NETNS|CDI_\w+|FUSE_\w+|OCI_\w+|RUNC_\w+|CRUN_\w+|LIBCRUN_\w+|_.*"
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
# podman trims white space before a name, and takes `#` for a comment.
_FILE_NAME: Final = re.compile(r"[^\s#=\0][^=\0\r\n]*")
_LONGEST_LINE: Final = 60_000
"""podman reads lines of up to 64 KiB."""


class HandedOver(NamedTuple):
    """Variables by the way that they take."""

    environment: dict[str, str]
    file: dict[str, str]

    def options(self, file: str) -> Iterator[str]:
        """The options of `podman run`; `file` is where the text of `render` is."""
        yield from (f"--env={name}" for name in self.environment)
        if self.file:
            yield f"--env-file={file}"

    def render(self) -> str:
        return "".join(f"{name}={value}\n" for name, value in self.file.items())


def hand_over(env: Mapping[str, str]) -> HandedOver:
    """Choose a way for each variable. `refused` names those for which there is none."""
    in_file = {name: value for name, value in env.items() if not _fits_environment(name)}
    return HandedOver({name: value for name, value in env.items() if name not in in_file}, in_file)


def describe_refused(env: Mapping[str, str]) -> list[str]:
    """Say which variables can't be handed over, and why."""
    return [
        f"env {name[:64]}: podman reads variables of this name itself, so that the value must be one line of"
        f" at most {_LONGEST_LINE} bytes: use another name"
        if _FILE_NAME.fullmatch(name)
        else f"env {name[:64]!r}: podman can't set a variable of this name: use letters, digits and '_'"
        for name, value in hand_over(env).file.items()
        if not _FILE_NAME.fullmatch(name) or not _fits_file(value)
    ]


def _fits_environment(name: str) -> bool:
    # A name that ends with `*` would mean all variables that begin so.
    return bool(_PLAIN_NAME.fullmatch(name)) and not _READ_BY_PODMAN.fullmatch(name)


def _fits_file(value: str) -> bool:
    # Some versions of podman read a value that begins with a quote to the next quote.
    fits = len(value.encode(errors="surrogateescape")) <= _LONGEST_LINE and not value.startswith(('"', "'"))
    return fits and "\n" not in value and "\r" not in value
