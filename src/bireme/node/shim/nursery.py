"""Where shims come from: a process that has all of their code in memory, and forks.

So a shim begins in a few milliseconds, and shares most of its memory with its like. The nursery goes with the
daemon that started it; the shims do not.
"""

import gc
import os
import signal
import socket
import sys
from typing import Final

from bireme.node.shim import kernel, main

LONGEST_MESSAGE: Final = 1 << 16


def serve() -> None:
    """Start a shim for each message on descriptor 0, a pod's folder; until the other end is closed.

    The shim itself answers, once: the folder, a zero byte, and why it could not begin, or nothing.
    """
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    kernel.set_name("bireme-nursery")
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    # What is there now stays: a collection would only write to memory that is shared.
    gc.freeze()
    while message := connection.recv(LONGEST_MESSAGE):
        child = os.fork()
        if child == 0:
            _become_shim(connection, message)
        os.waitpid(child, 0)


def _become_shim(connection: socket.socket, message: bytes) -> None:
    """In a new child: be a shim to its end, and never return."""
    folder = os.fsdecode(message)
    code = 1
    try:
        os.setsid()
        kernel.detach()
        log = os.open(f"{folder}/shim.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        for number in (1, 2):
            os.dup2(log, number)
        os.close(log)

        def tell(problem: str) -> None:
            connection.send(message + b"\0" + problem.encode())
            connection.close()

        main.main(folder, tell)
        code = 0
    except SystemExit:
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)
