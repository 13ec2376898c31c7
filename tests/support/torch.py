"""The real torchrun, and a program for it. `make torch` installs it."""

import functools
import os
import subprocess
from pathlib import Path

from support.fixtures import unavailable

SCRIPT = Path(__file__).parents[2] / "hack/torch"
PROGRAM = """
import os, sys, time
from pathlib import Path
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
total = torch.tensor([float(rank)])
dist.all_reduce(total)
names = [None] * dist.get_world_size()
dist.all_gather_object(names, os.environ["HOSTNAME"])
print("sum", int(total), dist.get_world_size(), rank, os.environ["LOCAL_RANK"], names[rank], flush=True)
dist.barrier()
if len(sys.argv) > 1 and rank == int(sys.argv[1]):
    Path("raised").write_text(str(time.time()))
    raise RuntimeError("the loss is not a number")
if len(sys.argv) > 1:
    dist.barrier()
dist.destroy_process_group()
"""


@functools.cache
def torch_bin() -> Path:
    folder = subprocess.run([SCRIPT, "path"], check=True, capture_output=True, text=True).stdout.strip()
    found = Path(folder) / "bin"
    if not os.access(found / "torchrun", os.X_OK):
        raise unavailable(f"no torchrun in {found}: run `make torch`")
    return found
