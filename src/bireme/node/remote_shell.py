"""`bireme-agent POD COMMAND…`: what mpirun uses instead of ssh in the embedded mode.

As ssh does, it joins the words with spaces and lets a shell read them, in the environment and directory of
the pod's main container; input, output and errors are the caller's own descriptors, handed over to the pod's
shim. It ends with the command's exit code; 255 means that the pod could not be reached.

It runs where a pod runs, with nothing but the standard library.
"""

import os
import signal
import sys
from typing import Final

from bireme.node.shim import wire

PODS: Final = "BIREME_PODS"
"""The variable that names the folder with a link to each pod's folder, by the pod's name."""
UNREACHABLE: Final = 255
_FORWARDED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: list[str]) -> int:
    """Run a command in a pod; return its exit code."""
    if len(arguments) < 2:
        return _fail("usage: bireme-agent POD COMMAND…")
    pod, words = arguments[0], arguments[1:]
    folder = f"{os.environ.get(PODS, '')}/{pod}"
    try:
        channel = wire.Channel(wire.connect(folder))
    except FileNotFoundError:
        return _fail(f'pods "{pod}" not found (NotFound)')
    except OSError as error:
        return _fail(f"{pod}: {error.strerror}")
    order = {"do": "exec", "argv": ["/bin/sh", "-c", " ".join(words)]}
    if container := os.environ.get("BIREME_MAIN_CONTAINER"):
        order["like"] = container
    try:
        channel.send(order, [0, 1, 2])
        return _wait(channel, pod)
    except OSError as error:
        return _fail(f"{pod}: {error.strerror}")


def _wait(channel: wire.Channel, pod: str) -> int:
    def forward(signum: int, _frame: object) -> None:
        try:
            channel.send({"do": "signal-exec", "signal": signum})
        except OSError:
            os._exit(128 + signum)

    for signum in _FORWARDED:
        signal.signal(signum, forward)
    while (messages := channel.receive()) is not None:
        for message in messages:
            if message.get("error"):
                print(f"bireme: {pod}: {message['error']}", file=sys.stderr)
            if "exited" in message:
                code: int = message["exited"]
                return code
    return _fail(f"{pod}: the pod has ended")


def _fail(why: str) -> int:
    print(f"bireme: {why}", file=sys.stderr)
    return UNREACHABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
