"""Data-parallel linear regression: each rank has points of its own, and gradients are averaged."""

import torch.distributed as dist

import torch

STEPS = 100

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
points = torch.randn(256, 4, generator=torch.Generator().manual_seed(rank))
labels = points @ torch.tensor([1.0, 2.0, 3.0, 4.0])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(STEPS):
    optimizer.zero_grad()
    loss = ((model(points).squeeze(1) - labels) ** 2).mean()
    loss.backward()
    optimizer.step()
weights = " ".join(f"{weight:.4f}" for weight in model.module.weight.flatten().tolist())
print(f"rank {rank} of {size}: weights {weights}", flush=True)
dist.barrier()
dist.destroy_process_group()
