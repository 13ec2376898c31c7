"""What another user of the machine tries: one process of that user, told what to do by lines of JSON.

    python3 attacker.py      reads {"do": NAME, "with": [...]}, answers {"value": ...} or {"error": NAME}

Standard library alone: it runs with the system's Python. Bytes travel as Latin-1 text. Connections that an
attack holds open stay open until `release`.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PTRACE_ATTACH, _PTRACE_SEIZE = 16, 0x4206
_PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)
_held: list[Any] = []


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# ---- files


def read(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(1 << 16).decode("latin-1")


def write(path: str) -> int:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        return os.write(descriptor, b"attack")
    finally:
        os.close(descriptor)


def create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))


def listing(path: str) -> list[str]:
    return [each.name for each in Path(path).iterdir()]


def read_link(path: str) -> str:
    return str(Path(path).readlink())


def enter(path: str) -> None:
    os.chdir(path)
    os.chdir("/")


def link(target: str, path: str) -> None:
    Path(path).symlink_to(target)


def hard_link(target: str, path: str) -> None:
    Path(path).hardlink_to(target)


def rename(path: str, other: str) -> None:
    Path(path).rename(other)


def remove(path: str) -> None:
    Path(path).unlink()


def mode(path: str) -> None:
    Path(path).chmod(0o777)


def own(path: str) -> None:
    os.chown(path, os.getuid(), -1)


def seek_and_read(path: str, address: int) -> str:
    """Read a process's memory through /proc/PID/mem."""
    with Path(path).open("rb", 0) as file:
        file.seek(address)
        return file.read(64).decode("latin-1")


# ---- processes


def send_signal(pid: int, number: int) -> None:
    os.kill(pid, number)


def signal_by_descriptor(pid: int, number: int) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def trace(pid: int, request: int = _PTRACE_ATTACH) -> int:
    return _checked(_libc.ptrace(request, pid, 0, 0))


def seize(pid: int) -> int:
    return trace(pid, _PTRACE_SEIZE)


def read_memory(pid: int, address: int) -> int:
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    buffer = ctypes.create_string_buffer(64)
    here, there = Vector(ctypes.addressof(buffer), 64), Vector(address, 64)
    return _checked(_libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))


def steal_descriptor(pid: int, number: int) -> int:
    descriptor = os.pidfd_open(pid)
    try:
        return _checked(_libc.syscall(_PIDFD_GETFD, descriptor, number, 0))
    finally:
        os.close(descriptor)


def limit(pid: int) -> None:
    import resource

    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))


def pin(pid: int) -> None:
    os.sched_setaffinity(pid, {0})


def slow_down(pid: int) -> None:
    os.setpriority(os.PRIO_PROCESS, pid, 19)


def join_namespace(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return _checked(_libc.setns(descriptor, 0))
    finally:
        os.close(descriptor)


# ---- sockets


def connect_unix(path: str, said: str) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(path)
        client.sendall(said.encode("latin-1"))
        return client.recv(1 << 16).decode("latin-1")


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _open(port: int, *, tls: bool = True, protocols: tuple[str, ...] = ()) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    if not tls:
        return client
    context = _tls()
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(client, server_hostname="localhost")


def ask(port: int, said: str, tls: bool = True, protocols: tuple[str, ...] = ()) -> str:
    """Send bytes, and return all that comes until the server closes; at most 15 s."""
    answer = b""
    with (
        contextlib.suppress(ConnectionError, ssl.SSLError, TimeoutError),
        _open(port, tls=tls, protocols=tuple(protocols)) as client,
    ):
        client.settimeout(15)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            client.sendall(said.encode("latin-1"))
        while len(answer) < 1 << 20 and (more := client.recv(1 << 16)):
            answer += more
    return answer.decode("latin-1")


def talk(port: int, said: str) -> str:
    """Say something to a plain TCP port, and return what comes within 2 s."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.settimeout(2)
        client.sendall(said.encode("latin-1"))
        with contextlib.suppress(TimeoutError, ConnectionError):
            return client.recv(1 << 16).decode("latin-1")
    return ""


# ---- connections without end


def hold_idle(port: int, count: int) -> int:
    """Open connections that say nothing."""
    return _hold(port, count, b"", tls=False)


def hold_half_hello(port: int, count: int) -> int:
    """Open connections that begin a TLS handshake."""
    return _hold(port, count, b"\x16\x03\x01\x02\x00\x01", tls=False)


def hold_half_head(port: int, count: int) -> int:
    """Open TLS connections with half of a head."""
    return _hold(port, count, b"GET /api HTTP/1.1\r\nHost: x", tls=True)


def hold_slow_body(port: int, count: int) -> int:
    """Open TLS connections with a body whose rest does not come."""
    head = f"POST /api/v1/namespaces HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 1000000\r\n\r\n["
    return _hold(port, count, head.encode(), tls=True)


def hold_large_head(port: int, count: int) -> int:
    """Open TLS connections with as large a head as the server takes, without its end."""
    lines = "".join(f"X-{number}: {'a' * 15000}\r\n" for number in range(200))
    return _hold(port, count, f"GET /api HTTP/1.1\r\n{lines}".encode(), tls=True)


def _hold(port: int, count: int, said: bytes, *, tls: bool) -> int:
    opened = 0
    for _ in range(count):
        with contextlib.suppress(OSError):
            client = _open(port, tls=tls)
            _held.append(client)
            opened += 1
            client.settimeout(0.5)
            client.sendall(said)
    return opened


def hold_by_turns(port: int, seconds: float) -> int:
    """Open connections without a pause, and keep the last 1,000; return how many there were."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            client = socket.create_connection(("127.0.0.1", port), timeout=5)
            client.sendall(b"\x16\x03\x01")
            _held.append(client)
            count += 1
        if len(_held) > 1000:
            _held.pop(0).close()
    return count


def still_open() -> int:
    """How many held connections the server has not closed."""
    count = 0
    for client in _held:
        plain = socket.socket(fileno=os.dup(client.fileno()))
        plain.setblocking(False)
        try:
            while plain.recv(1 << 16):
                pass
        except BlockingIOError:
            count += 1
        except OSError:
            pass
        finally:
            plain.close()
    return count


def release() -> None:
    while _held:
        with contextlib.suppress(OSError):
            _held.pop().close()


def run(words: list[str], environ: dict[str, str], seconds: float) -> list[Any]:
    """Run a program to its end; return its exit code and what it says."""
    import subprocess

    try:
        done = subprocess.run(
            words, env={**os.environ, **environ}, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        return [None, (error.stdout or b"").decode("latin-1")]
    return [done.returncode, (done.stdout + done.stderr).decode("latin-1")]


_ACTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        ask, connect_unix, create, enter, hard_link, hold_by_turns, hold_half_head, hold_half_hello,
        hold_idle, hold_large_head, hold_slow_body, join_namespace, limit, link, listing, mode, own, pin,
        read, read_link, read_memory, release, remove, rename, run, seek_and_read, seize, send_signal,
        signal_by_descriptor,
        slow_down, steal_descriptor, still_open, talk, trace, write,
    )
}  # fmt: skip


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer: dict[str, Any] = {"value": _ACTIONS[order["do"]](*order["with"])}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    import resource

    _, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))
    main()
