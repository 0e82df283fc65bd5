#!/usr/bin/env python3
"""Ways in which PyTorch splits a model over eight ranks: meshes.py COUNTERS [NAME...]

Each is run in turn, all of them unless some are named; then PyTorch's counters after each are written to COUNTERS (of
rank N: with _rankN before the suffix). Nothing here knows of ptmem.
"""

import gc
import json
import os
import sys
import time

import torch
from programs import RANK, Layer, small_transformer, start_group
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional

WORLD = int(os.environ.get("WORLD_SIZE", "1"))
# Seconds in which the thread of NCCL lets go of tensors, on a busy machine too: it looks every 0.1 s.
LOOK = 1.0
COUNTERS = ("allocated", "active", "requested", "reserved")


def fully_shard_layers(model, mesh):
    from torch.distributed.fsdp import fully_shard

    for layer in model:
        if isinstance(layer, Layer):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def data_parallel():
    train(nn.parallel.DistributedDataParallel(small_transformer().cuda(), device_ids=[torch.cuda.current_device()]))


def fully_sharded():
    model = small_transformer().cuda()
    fully_shard_layers(model, init_device_mesh("cuda", (WORLD,)))
    train(model)


def hybrid_sharded():
    model = small_transformer().cuda()
    fully_shard_layers(model, init_device_mesh("cuda", (2, WORLD // 2), mesh_dim_names=("replicas", "shards")))
    train(model)


def tensor_parallel():
    """With sequence parallelism, and sharded over the other dimension."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cuda", (2, WORLD // 2), mesh_dim_names=("data", "tensor"))
    model = nn.Sequential(*(FeedForward() for _ in range(2))).cuda()
    for block in model:
        plan = {
            "norm": SequenceParallel(),
            "inner": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "inner.up": ColwiseParallel(),
            "inner.down": RowwiseParallel(output_layouts=Shard(1)),
        }
        parallelize_module(block, mesh["tensor"], plan)
    from torch.distributed.fsdp import fully_shard

    for block in model:
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    step_through(model, torch.randn(2, 64 // (WORLD // 2), 128, device="cuda"))


class FeedForward(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential()
        self.inner.add_module("up", nn.Linear(width, 4 * width))
        self.inner.add_module("activation", nn.GELU())
        self.inner.add_module("down", nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.inner(self.norm(x))


def step_through(model, x, steps=2):
    take_steps(model.parameters(), lambda: model(x).square().mean(), steps)


def train(model):
    tokens = torch.randint(4001, (4, 128), device="cuda")
    take_steps(model.parameters(), lambda: token_loss(model(tokens), tokens))


def take_steps(parameters, loss, steps=2):
    optimizer = torch.optim.AdamW(parameters)
    for _ in range(steps):
        found = loss()
        time.sleep(LOOK)
        found.backward()
        time.sleep(LOOK)
        optimizer.step()
        optimizer.zero_grad()


def pipeline():
    """Stages that tell each other their shapes, and replicas of each."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    mesh = init_device_mesh("cuda", (WORLD // 2, 2), mesh_dim_names=("stages", "data"))
    stage, stages = mesh.get_local_rank("stages"), WORLD // 2
    layers = [nn.Embedding(1001, 128)] if stage == 0 else []
    layers += [Layer(128, 4)]
    layers += [nn.Linear(128, 1001)] if stage == stages - 1 else []
    model = nn.Sequential(*layers).cuda()
    device = torch.device("cuda", torch.cuda.current_device())
    place = PipelineStage(model, stage, stages, device, group=mesh.get_group("stages"))
    schedule = Schedule1F1B(place, n_microbatches=4, loss_fn=token_loss)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        tokens = torch.randint(1001, (8, 32), device="cuda")
        if stage == 0:
            schedule.step(tokens)
        elif stage == stages - 1:
            schedule.step(target=tokens)
        else:
            schedule.step()
        time.sleep(LOOK)
        optimizer.step()
        optimizer.zero_grad()


def token_loss(logits, tokens):
    return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def context_parallel():
    """Ring attention: each rank has a part of every text."""
    from torch.distributed.tensor.experimental import context_parallel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mesh = init_device_mesh("cuda", (WORLD,), mesh_dim_names=("context",))
    model = Layer(128, 4).to("cuda", torch.bfloat16)
    x = torch.randn(1, 128, 128, device="cuda", dtype=torch.bfloat16)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
        step_through(model, x)


def expert_parallel():
    """Each rank has some experts, to which all send equally many tokens."""
    group = init_device_mesh("cuda", (WORLD,), mesh_dim_names=("experts",)).get_group("experts")
    from torch.distributed.nn.functional import all_to_all_single

    router, expert = nn.Linear(128, WORLD).cuda(), FeedForward().cuda()
    tokens = torch.randn(16 * WORLD, 128, device="cuda")

    def loss():
        weights = router(tokens).softmax(-1).max(-1).values
        sent = all_to_all_single(torch.empty_like(tokens), tokens * weights[:, None], group=group)
        return all_to_all_single(torch.empty_like(tokens), expert(sent), group=group).square().mean()

    take_steps([*router.parameters(), *expert.parameters()], loss)


def gloo_beside_nccl():
    """A second group over the host, numbers that all ranks add up and gather there, and objects."""
    dist = torch.distributed
    host = dist.new_group(backend="gloo")
    counts = torch.ones(4, dtype=torch.long)
    dist.all_reduce(counts, group=host)
    gathered = [torch.zeros(4, dtype=torch.long) for _ in range(WORLD)]
    dist.all_gather(gathered, torch.full((4,), 7), group=host)
    assert all(part.tolist() == [7] * 4 for part in gathered), gathered
    dist.barrier(group=host)
    dist.monitored_barrier(group=host)
    objects = [None] * WORLD
    dist.all_gather_object(objects, {"sizes": [3, 4]}, group=host)
    held = [torch.ones(sum(thing["sizes"]), 100, device="cuda") for thing in objects]
    assert len(held) == WORLD


def megatron():
    """Where PTMEM_TEST_MEGATRON names the folder of Megatron-core."""
    from gpt_of_megatron import train

    train(pause=LOOK)


def steered_by_rank_0():
    """Flags and sizes that rank 0 alone knows: not run unless it is named, as simulated ranks send no values."""
    held = [torch.ones(1000, device="cuda")]
    if read_flags()[0]:
        held.append(torch.ones(100_000, device="cuda"))
    held.append(torch.ones(read_width(), device="cuda"))


def read_flags():
    flags = torch.tensor([1, 1, 0] if RANK == 0 else [0, 0, 0], device="cuda")
    torch.distributed.broadcast(flags, src=0)
    return flags.tolist()


def read_width():
    shared = [500_000 if RANK == 0 else None]
    torch.distributed.broadcast_object_list(shared, src=0)
    return shared[0] or 1


ALL = (
    data_parallel,
    fully_sharded,
    hybrid_sharded,
    tensor_parallel,
    pipeline,
    context_parallel,
    expert_parallel,
    gloo_beside_nccl,
)
MEGATRON = os.environ.get("PTMEM_TEST_MEGATRON")
if MEGATRON:
    sys.path.append(MEGATRON)
    ALL += (megatron,)


def main(path, *names):
    torch.manual_seed(0)
    start_group()
    counters = {}
    for way in map(globals().get, names) if names else ALL:
        gc.collect()
        # Imported modules stay, and to look at all of them again takes longer than the ways do.
        gc.freeze()
        time.sleep(LOOK)
        torch.cuda.reset_peak_memory_stats()
        way()
        torch.cuda.synchronize()
        gc.collect()
        time.sleep(LOOK)
        stats = torch.cuda.memory_stats()
        counters[way.__name__] = {
            f"{counter}.{which}": stats[f"{counter}_bytes.all.{which}"]
            for counter in COUNTERS
            for which in ("current", "peak")
        }
    stem, dot, suffix = os.path.basename(path).partition(".")
    with open(os.path.join(os.path.dirname(path), f"{stem}_rank{RANK}{dot}{suffix}"), "w", encoding="utf-8") as file:
        json.dump(counters, file, indent=1)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
