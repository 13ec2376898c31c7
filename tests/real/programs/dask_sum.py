"""dask-mpi: rank 0 schedules, rank 1 is the client, the others are workers."""

import dask.array as da
import dask_mpi
from distributed import Client

dask_mpi.initialize(nthreads=1)
with Client() as client:
    client.wait_for_workers(2, timeout=60)
    total = da.arange(4_000_000, chunks=200_000).astype("int64").sum().compute()
    print(f"workers {len(client.scheduler_info(n_workers=-1)['workers'])} total {total}", flush=True)
