"""What the server asks of whoever runs the pods: their output, and a way into them."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Final, Protocol

import msgspec

from bireme.apiserver import errors
from bireme.apiserver.errors import invalid_value
from bireme.apiserver.rules import Object

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_INTEGER: Final = re.compile("[-+]?[0-9]+")
_MOST: Final = 2**63 - 1
_LONGEST_INTEGER: Final = 1000
_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})"
)
_LONGEST_SHOWN: Final = 100


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: str = ""
    tail_lines: int | None = None
    limit_bytes: int | None = None


class ExecOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run, or none to attach to what runs."""

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    fail_on_loss: bool = False
    """Of attach: fail the container if the client is gone before it has sent all of standard input."""


class TerminalSize(msgspec.Struct, frozen=True, rename="pascal"):
    width: int = 0
    height: int = 0


class Session(Protocol):
    """The client's end of an exec or attach."""

    input_closed: bool
    """Whether the client has said that standard input ends; not if it is just gone."""

    async def read(self) -> bytes:
        """The next bytes for stdin; empty at its end."""

    async def write(self, stream: int, data: bytes) -> None:
        """Send output: stream 1 is stdout, 2 is stderr."""

    async def resized(self) -> TerminalSize:
        """Wait for the next size of the client's terminal."""


class Gateway(Protocol):
    """The node's end; a refusal is a StatusError."""

    def logs(self, pod: Object, options: LogOptions) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """What a container wrote, in chunks; followed until it ends where that is asked for."""

    async def run(self, pod: Object, options: ExecOptions, session: Session) -> int:
        """Run a command in a container, or attach to it; return the exit code."""

    def departed(self, namespace: str, name: str) -> Object | None:
        """A pod that is gone, while what it wrote is still there."""


class NoGateway:
    """No node agent is connected."""

    def logs(self, pod: Object, options: LogOptions) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:  # noqa: ARG002
        raise _unconnected(pod)

    async def run(self, pod: Object, options: ExecOptions, session: Session) -> int:  # noqa: ARG002
        raise _unconnected(pod)

    def departed(self, namespace: str, name: str) -> Object | None:  # noqa: ARG002
        return None


def _unconnected(pod: Object) -> errors.StatusError:
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    return errors.bad_request(f"pod {name} is on node {node}, whose agent is not connected to this server")


def read_log_options(pod: Object, params: Mapping[str, str]) -> LogOptions:
    """Raises StatusError for what can't be meant."""
    options = LogOptions(
        container=choose_container(pod, params.get("container", "")),
        follow=params.get("follow") in _TRUE,
        previous=params.get("previous") in _TRUE,
        timestamps=params.get("timestamps") in _TRUE,
        since_seconds=_number(params, "sinceSeconds", least=1),
        since_time=_time(params, "sinceTime"),
        tail_lines=_number(params, "tailLines", least=0),
        limit_bytes=_number(params, "limitBytes", least=1),
    )
    if options.since_seconds is not None and options.since_time:
        sentence = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        raise errors.invalid("PodLogOptions", "", "", [errors.forbidden_value("", sentence)])
    return options


def read_exec_options(pod: Object, params: Mapping[str, str], command: tuple[str, ...]) -> ExecOptions:
    options = ExecOptions(
        container=choose_container(pod, params.get("container", "")),
        command=command,
        stdin=params.get("stdin") in _TRUE,
        stdout=params.get("stdout") in _TRUE,
        stderr=params.get("stderr") in _TRUE,
        tty=params.get("tty") in _TRUE,
        fail_on_loss=params.get("failOnLoss") in _TRUE,
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise errors.bad_request("you must specify at least one of stdin, stdout, stderr")
    return options


def choose_container(pod: Object, asked: str) -> str:
    """The container that is meant; where there is a choice it must be named."""
    spec = pod["spec"]
    names: list[str] = [each["name"] for each in spec.get("containers") or ()]
    initial: list[str] = [each["name"] for each in spec.get("initContainers") or ()]
    name = pod["metadata"]["name"]
    if asked:
        if asked not in (*names, *initial):
            raise errors.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(names) == 1:
        return names[0]
    choice = f"choose one of: [{' '.join(names)}]"
    if initial:
        choice += f" or one of the init containers: [{' '.join(initial)}]"
    raise errors.bad_request(f"a container name must be specified for pod {name}, {choice}")


def _number(params: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = params.get(name, "")
    if not text:
        return None
    if _INTEGER.fullmatch(text) is None:
        raise errors.bad_request(f"strconv.ParseInt: parsing {_quoted(text)}: invalid syntax")
    # Python refuses to read numbers of thousands of digits.
    number = int(text) if len(text) < _LONGEST_INTEGER else _MOST + 1
    if not -_MOST - 1 <= number <= _MOST:
        raise errors.bad_request(f"strconv.ParseInt: parsing {_quoted(text)}: value out of range")
    if number < least:
        sentence = f"must be greater than {'or equal to ' if least == 0 else ''}0"
        raise errors.invalid("PodLogOptions", "", "", [invalid_value(name, number, sentence)])
    return number


def _time(params: Mapping[str, str], name: str) -> str:
    """A moment as RFC 3339 writes it; empty if there is none."""
    text = params.get(name, "")
    try:
        if text and _RFC3339.fullmatch(text) is None:
            raise ValueError
        if text:
            datetime.fromisoformat(text)
    except ValueError as error:
        layout = "2006-01-02T15:04:05Z07:00"
        raise errors.bad_request(f'parsing time {_quoted(text)} as "{layout}": cannot parse') from error
    return text


def _quoted(text: str) -> str:
    return msgspec.json.encode(text[:_LONGEST_SHOWN]).decode()
