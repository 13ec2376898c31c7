"""A program for torchrun: it says who it is; with the argument `fail`, rank 3 fails and the others wait."""

import os
import socket
import sys
import time
from pathlib import Path

env = os.environ
line = (
    f"rank {env['RANK']}/{env['WORLD_SIZE']} local {env['LOCAL_RANK']} on {socket.gethostname()}"
    f" cwd {Path.cwd()} LENV={env.get('LENV')} BOTH={env.get('BOTH')} argv {sys.argv[1:]}\n"
)
# One write: ranks share their standard output, and print would write each piece by itself.
os.write(1, line.encode())
if sys.argv[1:2] == ["fail"]:
    if env["RANK"] == "3":
        sys.exit(17)
    time.sleep(60)
