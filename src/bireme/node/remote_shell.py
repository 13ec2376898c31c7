"""`bireme-agent POD COMMAND…`: what mpirun uses instead of ssh in the embedded mode.

As ssh does, it joins the words with spaces and lets a shell read them, in the environment and directory of
the pod's main container; input, output and errors are the caller's own descriptors, handed over to the pod's
shim. It ends with the command's exit code; 255 means that the pod could not be reached.

`bireme-agent --free-port` prints the number of a port that nobody listens on.

It runs where a pod runs, with nothing but the standard library. A job starts it twice for each worker, and
waits for it: so it talks as `shim.wire` does, but without `socket`, `json` and `typing`, which would take two
thirds of its time.
"""

import os
import signal
import sys
import time
from _json import encode_basestring_ascii
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

from bireme.node.prrte import UNKNOWN_PART, name_daemon

PODS = "BIREME_PODS"
"""The variable that names the folder with a link to each pod's folder, by the pod's name."""
WAITS = "BIREME_AGENT_WAITS"
"""The variable that has it wait for a pod that is not there yet, as long as it takes."""
ONE_NAME = "BIREME_ONE_NAME"
"""The variable that says that all pods have the host name of their machine."""
TERMINATION_LOG = "BIREME_TERMINATION_LOG"
UNREACHABLE = 255
_PATIENCE_SECONDS = 1.0
"""How long it waits otherwise: pods of a job begin at about the same time, though not in step."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.1
_SILENT_SECONDS = 10.0
_CHUNK = 1 << 16
_EXITED = b'{"exited":'
_STARTED = b'{"started":'
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: list[str]) -> int:
    """Run a command in a pod; return its exit code."""
    if arguments == ["--free-port"]:
        print(_free_port())
        return 0
    if len(arguments) < 2:
        return _fail("usage: bireme-agent POD COMMAND…")
    pod, words = arguments[0], arguments[1:]
    folder = f"{os.environ.get(PODS, '')}/{pod}"
    try:
        connection = _connect(folder, pod)
    except FileNotFoundError:
        return _fail(f'pods "{pod}" not found (NotFound)')
    except OSError as error:
        return _fail(f"{pod}: {error.strerror}")
    try:
        return _run(connection, pod, " ".join(words))
    except OSError as error:
        return _fail(f"{pod}: {error.strerror}")


def _run(connection: socket, pod: str, line: str) -> int:
    line, env = name_daemon(line, pod) if os.environ.get(ONE_NAME) else (line, {})
    _ask(connection, line, env)
    code = _wait(connection, pod)
    if env and code == UNKNOWN_PART:
        _explain(pod)
    return code


def _connect(folder: str, pod: str) -> socket:
    begun, told, pause = time.monotonic(), False, _FIRST_PAUSE_SECONDS
    while True:
        try:
            return _connect_once(folder)
        except (FileNotFoundError, ConnectionRefusedError):
            if not os.environ.get(WAITS) and time.monotonic() - begun > _PATIENCE_SECONDS:
                raise
        if not told and time.monotonic() - begun > _SILENT_SECONDS:
            told = True
            print(f"bireme: waiting for {pod}", file=sys.stderr)
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE_SECONDS, pause * 1.5)


def _connect_once(folder: str) -> socket:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    made = socket(AF_UNIX, SOCK_STREAM)
    try:
        made.connect(f"/proc/self/fd/{descriptor}/shim.sock")
    except OSError:
        made.close()
        raise
    finally:
        os.close(descriptor)
    return made


def _ask(connection: socket, line: str, env: dict[str, str]) -> None:
    quote = encode_basestring_ascii
    order = f'{{"do":"exec","argv":["/bin/sh","-c",{quote(line)}]'
    if like := os.environ.get("BIREME_MAIN_CONTAINER"):
        order += f',"like":{quote(like)}'
    if env:
        order += f',"env":{{{",".join(f"{quote(name)}:{quote(value)}" for name, value in env.items())}}}'
    data = f"{order}}}\n".encode()
    descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    sent = connection.sendmsg([data], [(SOL_SOCKET, SCM_RIGHTS, descriptors)])
    connection.sendall(data[sent:])


def _wait(connection: socket, pod: str) -> int:
    def forward(signum: int, _frame: object) -> None:
        try:
            connection.sendall(b'{"do":"signal-exec","signal":%d}\n' % signum)
        except OSError:
            os._exit(128 + signum)

    for signum in _FORWARDED:
        signal.signal(signum, forward)
    rest = b""
    while data := connection.recv(_CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_EXITED):
                return int(line[len(_EXITED) :].partition(b",")[0])
            _tell_problem(line, pod)
    return _fail(f"{pod}: the pod has ended")


def _tell_problem(line: bytes, pod: str) -> None:
    """Say what went wrong, if the line says that something did."""
    if line.startswith(_STARTED) and b'"error"' not in line:
        return
    # Only now: mostly nothing does.
    import json

    if problem := json.loads(line).get("error"):
        print(f"bireme: {pod}: {problem}", file=sys.stderr)


def _explain(pod: str) -> None:
    """Say why a daemon could not begin, on the terminal and as the last word of the launcher."""
    why = (
        f"Open MPI could not begin on {pod}. Without user namespaces pods have no host names, and then"
        " Open MPI 5 needs its part for Slurm, which is missing here: allow user namespaces, or use"
        " Open MPI 4.1, or one worker"
    )
    print(f"bireme: {why}", file=sys.stderr)
    try:
        with open(os.environ[TERMINATION_LOG], "w") as file:  # noqa: PTH123 - pathlib costs its start
            file.write(f"{why}\n")
    except (KeyError, OSError):
        return


def _free_port() -> int:
    tried = socket()
    tried.bind(("127.0.0.1", 0))
    port: int = tried.getsockname()[1]
    tried.close()
    return port


def _fail(why: str) -> int:
    print(f"bireme: {why}", file=sys.stderr)
    return UNREACHABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
