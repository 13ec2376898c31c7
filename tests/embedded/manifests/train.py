"""A program for torchrun: it says who it is; with the argument `fail`, rank 3 fails and the others wait."""

import os
import socket
import sys
import time
from pathlib import Path

env = os.environ
print(
    f"rank {env['RANK']}/{env['WORLD_SIZE']} local {env['LOCAL_RANK']} on {socket.gethostname()}",
    f"cwd {Path.cwd()} LENV={env.get('LENV')} BOTH={env.get('BOTH')} argv {sys.argv[1:]}",
    flush=True,
)
if sys.argv[1:2] == ["fail"]:
    if env["RANK"] == "3":
        sys.exit(17)
    time.sleep(60)
