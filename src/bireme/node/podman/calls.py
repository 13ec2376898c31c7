"""How a program in a container runs something in another pod: `bireme-agent`, and who answers it.

The agent is a shell script, as images need not have Python. It makes a folder with a pipe for each stream,
below a folder that it shares with the attendant of its container, and rings a bell there. The attendant opens
the pipes, and hands them to the shim of the other pod. It imports nothing but the standard library.
"""

import os
import select
import signal
import threading
from typing import Any, Final

from bireme.node.shim import wire

BELL: Final = "bell"
VARIABLE: Final = "BIREME_CALLS"
UNREACHABLE: Final = 255
_LONGEST: Final = 4096


def serve(folder: str, pods: str) -> None:
    """Answer calls until this process ends; `pods` is the folder with a link to each pod's folder."""
    # For writing too: else it would end whenever nobody rings.
    bell = os.open(f"{folder}/{BELL}", os.O_RDWR | os.O_CLOEXEC)
    threading.Thread(target=_listen, args=(bell, folder, pods), daemon=True).start()


def _listen(bell: int, folder: str, pods: str) -> None:
    with os.fdopen(bell, buffering=1) as file:
        for line in file:
            name = line.strip()
            if name and "/" not in name and not name.startswith("."):
                threading.Thread(target=_answer, args=(f"{folder}/{name}", pods), daemon=True).start()


def _answer(call: str, pods: str) -> None:
    try:
        # In the order in which the agent opens them.
        alive = os.open(f"{call}/alive", os.O_RDONLY | os.O_CLOEXEC)
        opened = [os.open(f"{call}/in", os.O_RDONLY | os.O_CLOEXEC)]
        opened += [os.open(f"{call}/{name}", os.O_WRONLY | os.O_CLOEXEC) for name in ("out", "err")]
        code = _run(_read(f"{call}/command"), pods, opened, alive)
        os.close(alive)
        with open(f"{call}/end", "w") as end:  # noqa: PTH123
            end.write(f"{code}\n")
    except OSError:
        # The agent is gone, and nobody waits for the answer.
        return


def _read(path: str) -> list[str]:
    """Pod, container and command."""
    with open(path, errors="surrogateescape") as file:  # noqa: PTH123
        pod, container, command = file.read().split("\n", 2)
        return [pod, container, command]


def _run(wanted: list[str], pods: str, streams: list[int], alive: int) -> int:
    """The exit code of a command. The streams are closed at its end, or its agent would wait for more."""
    pod = wanted[0]
    try:
        channel = _call(wanted, pods, streams)
    except OSError as error:
        os.write(streams[2], f'bireme: pods "{pod}": {error.strerror} (NotFound)\n'.encode())
        return UNREACHABLE
    else:
        for each in streams[:2]:
            os.close(each)
        del streams[:2]
        try:
            return _wait(channel, streams[-1], alive, pod)
        finally:
            channel.close()
    finally:
        for each in streams:
            os.close(each)


def _call(wanted: list[str], pods: str, streams: list[int]) -> wire.Channel:
    pod, container, command = wanted
    if "/" in pod or pod.startswith("."):
        raise FileNotFoundError(2, os.strerror(2), pod)
    channel = wire.Channel(wire.connect(f"{pods}/{pod}"))
    order: dict[str, Any] = {"do": "exec", "argv": ["/bin/sh", "-c", command]}
    channel.send(order | ({"like": container} if container else {}), streams)
    return channel


def _wait(channel: wire.Channel, err: int, alive: int, pod: str) -> int:
    """The exit code; a command whose agent is gone goes too."""
    while True:
        ready, _, _ = select.select([channel.connection.fileno(), alive], [], [])
        if alive in ready:
            told = os.read(alive, _LONGEST)
            if not told:
                return UNREACHABLE
            for name in told.decode().split():
                channel.send({"do": "signal-exec", "signal": int(signal.Signals[f"SIG{name}"])})
            continue
        messages = channel.receive()
        if messages is None:
            os.write(err, f"bireme: {pod}: the pod has ended\n".encode())
            return UNREACHABLE
        for message in messages:
            if message.get("error"):
                os.write(err, f"bireme: {pod}: {message['error']}\n".encode())
            if "exited" in message:
                code: int = message["exited"]
                return code
