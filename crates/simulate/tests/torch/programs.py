#!/usr/bin/env python3
"""Programs that PyTorch runs on simulated GPUs, by name: programs.py NAME COUNTERS

Each ends by writing PyTorch's own counters to COUNTERS (of rank N: COUNTERS with _rankN before the suffix), against
which the recorded snapshot is held. Nothing here knows of ptmem.
"""

import json
import os
import sys

import frozen_torch  # noqa: F401
import torch
from decisions import differences
from torch import nn
from torch.nn import functional
from unknown_values import unknown, unknown_values, wrong_shares  # noqa: F401
from whole_numbers import boxes, fractions, sizes_and_positions, sparse

COUNTERS = ("allocated", "active", "requested", "reserved")
# Elements of 100 that pass a condition on values that are not known.
KEPT = int(os.environ.get("KEPT", "50"))
RANK = int(os.environ.get("RANK", "0"))


def write_counters(path):
    stem, dot, suffix = os.path.basename(path).partition(".")
    if "RANK" in os.environ:
        path = os.path.join(os.path.dirname(path), f"{stem}_rank{RANK}{dot}{suffix}")
    stats = torch.cuda.memory_stats()
    counters = {
        name: {which: stats[f"{name}_bytes.all.{which}"] for which in ("current", "peak")}
        for name in COUNTERS
        if f"{name}_bytes.all.current" in stats
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "counters": counters}, file, indent=1)
        file.write("\n")


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        parts = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def small_transformer(width=256, layers=2, vocabulary=4001):
    return nn.Sequential(
        nn.Embedding(vocabulary, width),
        *(Layer(width, 8) for _ in range(layers)),
        nn.LayerNorm(width),
        nn.Linear(width, vocabulary, bias=False),
    )


def train(model, steps=2, batch=4, optimizer=None, vocabulary=4001):
    optimizer = optimizer or torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        tokens = torch.randint(vocabulary, (batch, 128), device="cuda")
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def transformer():
    train(small_transformer().to("cuda", torch.bfloat16))


def fused():
    model = small_transformer().cuda()
    train(model, optimizer=torch.optim.AdamW(model.parameters(), fused=True))


def mixed_precision():
    model = small_transformer().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.cuda.amp.GradScaler()
    for _ in range(2):
        tokens = torch.randint(4001, (4, 128), device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def metadata_of_user():
    """A program that names its allocations itself, as PyTorch 2.10 and later can."""
    memory = torch.cuda.memory
    layer = nn.Linear(64, 64).cuda()
    memory._set_memory_metadata("mine")
    layer(torch.randn(8, 64, device="cuda")).sum().backward()
    assert memory._get_memory_metadata() == "mine"
    memory._set_memory_metadata("")
    layer(torch.randn(8, 64, device="cuda"))


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    model = small_transformer(layers=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for reentrant in (False, True):
        tokens = torch.randint(4001, (4, 128), device="cuda")
        x = model[0](tokens)
        for layer in model[1:-2]:
            x = checkpoint(layer, x, use_reentrant=reentrant)
        functional.cross_entropy(model[-1](model[-2](x)).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def recomputation_stopped():
    """PyTorch stops the recomputation in the last operator, by an exception that frees its results."""
    from torch.utils.checkpoint import checkpoint

    model = nn.Sequential(*(nn.Sequential(nn.Linear(500, 500), nn.Dropout(0.1)) for _ in range(3))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        x = torch.randn(64, 500, device="cuda")
        for layer in model:
            x = checkpoint(layer, x, use_reentrant=False)
        x.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def convolutional():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, stride=2, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        images = torch.randn(16, 3, 64, 64, device="cuda")
        functional.cross_entropy(model(images), torch.randint(10, (16,), device="cuda")).backward()
        optimizer.step()
        optimizer.zero_grad()


def recurrent():
    model = nn.LSTM(64, 128, num_layers=2, bidirectional=True, dropout=0.1).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.randn(20, 8, 64, device="cuda"))[0].sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def out_of_memory():
    held = []
    free, total = torch.cuda.mem_get_info()
    assert free < total, (free, total)
    try:
        while True:
            held.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        assert len(held) == free // (64 << 20), (len(held), free)
        held.clear()
    torch.ones(1000, device="cuda")


def graph():
    model = small_transformer().cuda()
    tokens = torch.randint(4001, (4, 128), device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        model(tokens)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured), torch.no_grad():
        logits = model(tokens)
    for _ in range(3):
        captured.replay()
    torch.cuda.synchronize()
    del logits


def compiled():
    train(torch.compile(small_transformer().to("cuda", torch.bfloat16)))


def start_group(backend="nccl"):
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    torch.distributed.init_process_group(backend)
    return local


def data_parallel():
    local = start_group()
    model = nn.parallel.DistributedDataParallel(small_transformer().cuda(), device_ids=[local])
    train(model)
    torch.distributed.destroy_process_group()


def objects_of_two_backends():
    """The same where objects go over Gloo, as with FSDP that keeps its parameters on the host."""
    objects("cpu:gloo,cuda:nccl")
    torch.ones(1000, device="cuda")


def objects(backend="nccl"):
    """Ranks that send each other Python objects get those of the others, and find that they have the same lists."""
    local = start_group(backend)
    dist = torch.distributed
    gathered = [None, None]
    dist.all_gather_object(gathered, {"rank": local})
    assert gathered == [{"rank": 0}, {"rank": 1}], gathered
    shared = ["from 1" if local == 1 else None]
    dist.broadcast_object_list(shared, src=1)
    assert shared == ["from 1"], shared
    mine = [None]
    both = ["for 0", "for 1"]
    dist.scatter_object_list(
        scatter_object_output_list=mine, scatter_object_input_list=both if local == 0 else None, src=0
    )
    assert mine == [f"for {local}"], mine
    if hasattr(dist, "send_object_list"):
        letter = ["a letter", local] if local == 0 else [None, None]
        dist.send_object_list(letter, dst=1) if local == 0 else dist.recv_object_list(letter, src=0)
        assert letter == ["a letter", 0], letter
    collected = [None, None] if local == 0 else None
    dist.gather_object(local, collected, dst=0)
    assert local == 1 or collected == [0, 1], collected
    dist.barrier()
    same_lists()


def adversarial():
    """Two models with an optimizer each, in turn. A loss of each step stays."""
    maker = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 784)).cuda()
    judge = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    of_maker, of_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
    losses = []
    for _ in range(8):
        made = maker(torch.randn(128, 64, device="cuda"))
        loss = judge(made.detach()).mean() - judge(torch.randn(128, 784, device="cuda")).mean()
        of_judge.zero_grad()
        loss.backward()
        of_judge.step()
        losses.append(loss.detach())
        of_maker.zero_grad()
        (-judge(made).mean()).backward()
        of_maker.step()


def ensemble():
    """A function trains four models, with dropout. A loss of each step stays."""

    def train(model, optimizer, batch):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    models = [nn.Sequential(nn.Linear(64, 256), nn.Dropout(0.1), nn.Linear(256, 64)).cuda() for _ in range(4)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    losses = []
    for _ in range(8):
        batch = torch.randn(128, 64, device="cuda")
        losses.append(sum(train(model, optimizer, batch) for model, optimizer in zip(models, optimizers)))


def converted():
    """Weights that are moved and converted one by one."""

    def convert(weight):
        return weight.cuda().to(torch.bfloat16)

    return [convert(torch.randn(256, 256)) for _ in range(24)]


def small_values():
    """What a rank knows and sends is known where it arrives."""
    rank = start_group()
    dist = torch.distributed
    own = torch.tensor([10 + rank, 7 - rank], device="cuda")
    flags = torch.tensor([3, 5] if rank == 0 else [0, 0], device="cuda")
    dist.broadcast(flags, 0)
    assert flags.tolist() == [3, 5], flags
    for kind, expected in (("SUM", [21, 13]), ("MAX", [11, 7]), ("MIN", [10, 6])):
        reduced = own.clone()
        dist.all_reduce(reduced, getattr(dist.ReduceOp, kind))
        assert reduced.tolist() == expected, (kind, reduced)
    gathered = [torch.zeros_like(own) for _ in range(2)]
    dist.all_gather(gathered, own)
    assert [part.tolist() for part in gathered] == [[10, 7], [11, 6]], gathered
    together = torch.zeros(4, dtype=own.dtype, device="cuda")
    dist.all_gather_into_tensor(together, own)
    assert together.tolist() == [10, 7, 11, 6], together
    send_by_operators(own)
    # Both receive before they send.
    arrived = torch.zeros_like(own)
    work = dist.irecv(arrived, 1 - rank)
    dist.isend(own, 1 - rank).wait()
    work.wait()
    assert arrived.tolist() == [11 - rank, 6 + rank], arrived
    if rank == 0:
        dist.send(own * 2, 1)
    else:
        dist.recv(arrived, 0)
        assert arrived.tolist() == [20, 14], arrived
    batch = [dist.P2POp(dist.irecv, arrived, 1 - rank), dist.P2POp(dist.isend, own, 1 - rank)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert arrived.tolist() == [11 - rank, 6 + rank], arrived
    # As many steps on all ranks, by what one of them knows.
    steps = torch.tensor([2 if rank == 0 else 0], device="cuda")
    dist.all_reduce(steps, dist.ReduceOp.MAX)
    train(nn.parallel.DistributedDataParallel(small_transformer().cuda(), device_ids=[rank]), steps=steps.item())
    dist.destroy_process_group()


def send_by_operators(own):
    """The collectives that return what they make: all ranks are those of the job."""
    if not hasattr(torch.ops, "_c10d_functional") or not hasattr(torch.ops._c10d_functional, "broadcast"):
        return  # Releases before 2.3.
    operators, group = torch.ops._c10d_functional, torch.distributed.group.WORLD.group_name
    for result, expected in (
        (operators.all_reduce(own, "max", group), [11, 7]),
        (operators.all_reduce(own, "sum", group), [21, 13]),
        (operators.all_gather_into_tensor(own, 2, group), [10, 7, 11, 6]),
        (operators.broadcast(own, 1, group), [11, 6]),
    ):
        result = operators.wait_tensor(result)
        assert result.tolist() == expected, (result, expected)


def checks():
    """Checks of values pass, a batch of factorizations has valid arguments, and the context takes memory."""
    free, total = torch.cuda.mem_get_info()
    assert total - free - torch.cuda.memory_reserved() == (150 + 3 * 108) << 20, (free, total)
    weights = torch.rand(4, 10, device="cuda")
    assert torch.isfinite(weights).all()
    torch.multinomial(weights, 1)
    torch.distributions.Categorical(weights).sample()
    torch.linalg.qr(torch.randn(3, 6, 4, device="cuda"))
    torch.linalg.eigvals(torch.randn(4, 4, device="cuda"))
    assert not torch.isnan(weights).any()
    # As many bins as a table of two classes has.
    classes = torch.randint(0, 9, (1000,), device="cuda")
    torch.bincount(classes * 9 + classes, minlength=81).reshape(9, 9)


def finite():
    """A loop that checks whether its loss is finite: an unknown number is. Its text decides nothing."""
    loss = unknown(()).exp()
    assert str(loss)
    assert str(unknown(9, 9))
    assert torch.isfinite(loss)
    assert not torch.isnan(loss)
    assert not torch.isinf(loss)


class Node:
    """An object that only the collector of Python can free."""

    def __init__(self):
        self.me = self
        self.x = torch.zeros(8 << 20, device="cuda")


def cycles():
    for _ in range(3):
        Node()


def fully_sharded():
    start_group()
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = FullyShardedDataParallel(small_transformer().cuda(), auto_wrap_policy=ModuleWrapPolicy({Layer}))
    train(model)


def fully_sharded_2():
    start_group()
    from torch.distributed.fsdp import fully_shard

    model = small_transformer().cuda()
    for layer in model[1:-2]:
        fully_shard(layer)
    fully_shard(model)
    train(model)


def scratch():
    """Scratch memory of `nonzero` on an A100: 4 bytes for each of 5 x 8 blocks on each of 108 processors."""
    flags = torch.zeros(5000, dtype=torch.bool, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.nonzero(flags)
    taken = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
    # Recorded on a real A100: 17,663 bytes, beside the count, and in some releases beside other scratch.
    assert taken in (17_663 + 4, 17_663 + 4 + 767), taken


def default_device():
    """Optimizers whose counts of steps lie on the device."""
    torch.set_default_device("cuda")
    train(small_transformer())
    model = small_transformer()
    train(model, optimizer=torch.optim.NAdam(model.parameters(), foreach=False))


def default_devices():
    """Where the device is the default, also in the way of earlier releases, the same calls allocate the same."""
    torch.cuda.init()
    expected = allocated_by_calls()
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    of_type = allocated_by_calls()
    torch.set_default_tensor_type("torch.FloatTensor")
    torch.set_default_device("cuda")
    of_device = allocated_by_calls()
    assert expected == of_type == of_device, (expected, of_type, of_device)


def allocated_by_calls():
    """Number, sum and peak of what calls request whose results the host computes, draws or supposes."""
    before = torch.cuda.memory_stats()
    torch.cuda.reset_peak_memory_stats()
    sizes_and_positions("cuda")
    assert not wrong_shares(7, 40)
    for draw in (torch.rand, torch.randn):
        assert draw(1000, 256, device="cuda").numel() == 256_000
    assert sorted(unknown(100).argsort().tolist()) == sorted(torch.randperm(100, device="cuda").tolist())
    for kind in (torch.float16, torch.float64):
        unknown(100).to(kind).uniform_().normal_().bernoulli_().topk(10)
    torch.multinomial(functional.softmax(unknown(3, 1000), -1), 1)
    after = torch.cuda.memory_stats()
    counters = ("allocation.all.allocated", "requested_bytes.all.allocated", "requested_bytes.all.peak")
    return [after[counter] - before[counter] * (not counter.endswith("peak")) for counter in counters]


def generation():
    """A loop with a cache of keys and values that grows by one token a step."""
    layers, heads, width = 2, 8, 32
    cache = [
        (torch.randn(2, heads, 16, width, device="cuda"), torch.randn(2, heads, 16, width, device="cuda"))
        for _ in range(layers)
    ]
    for _ in range(8):
        for index, (keys, values) in enumerate(cache):
            q, k, v = torch.randn(3, 2, heads, 1, width, device="cuda").unbind(0)
            keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
            functional.scaled_dot_product_attention(q, keys, values)
            cache[index] = keys, values


def values():
    """What kernels of PyTorch's compute of whole numbers is the same on the device and on the host."""
    for compute in (sizes_and_positions, sparse, boxes, fractions):
        on_device, on_host = compute("cuda"), compute("cpu")
        for name, expected in on_host.items():
            assert torch.equal(on_device[name].cpu(), expected), (name, on_device[name].cpu(), expected)
    # A position in a cache of keys and values, as a loop that makes tokens moves it on.
    position = torch.arange(11, device="cuda")
    for step in range(4):
        assert torch.zeros(2, 11 + step, device="cuda")[:, position[-1] + 1 - len(position) :].shape[1] == len(position)
        position = position[-1:] + 1
    # One that nobody knows moves on from where it is said to be.
    unknown = torch.empty((), dtype=torch.long, device="cuda")
    assert (unknown + 1).item() == unknown.item() + 1
    # Where the place of a write is unknown, no value stays known.
    filled = torch.zeros(100, device="cuda").index_fill_(0, torch.empty(2, dtype=torch.long, device="cuda"), 1)
    assert len((filled > 0).nonzero()) == KEPT
    # The length of a text of which no token is known, as a search with beams measures it.
    beams = torch.empty(2, 12, dtype=torch.int32, device="cuda")
    assert (beams + 1).bool().sum(dim=1).max().item() == 12


def supposed():
    """Where values are not known, the program takes its usual course, and indices are those of something."""
    logits = unknown(64, 8)
    tokens = torch.multinomial(functional.softmax(unknown(3, 1000), -1), 1)
    assert not (tokens == 2).all()
    assert tokens.min() >= 0
    assert tokens.max() < 1000
    assert unknown(()) != 0
    # Where only the best tokens are left, none of them is the first.
    best, places = unknown(3, 1000).topk(10)
    left = torch.full((3, 1000), float("-inf"), device="cuda").scatter_(1, places, best)
    assert not (torch.multinomial(functional.softmax(left, -1), 1) == 0).any()
    assert not (left.argmax(-1) == 0).any()
    _, experts = functional.softmax(logits, -1).topk(2)
    counts = functional.one_hot(experts, 8).sum((0, 1)).tolist()
    assert counts == [16] * 8, counts
    assert [len(part) for part in logits.repeat(2, 1).split(counts)] == counts
    for places in (torch.randperm(100, device="cuda"), unknown(100).argsort()):
        assert sorted(places.tolist()) == list(range(100)), places
    boxes = unknown(200, 4)
    large, small = boxes[:, 2] > 0.5, boxes[:, 2] <= 0.5
    assert (len(boxes[large]), len(boxes[small])) == (KEPT * 2, KEPT * 2)


def sparse_product():
    """A product of sparse matrices, whose elements a library of the device counts."""
    matrix = torch.eye(9).to_sparse().cuda()
    torch.sparse.mm(matrix, matrix)


def masks():
    """One mask of known numbers in three forms, and a mask that a limit of what is computed would leave out."""
    points = torch.linspace(0, 640, 8400).cuda()
    low = torch.linspace(0, 600, 600).cuda().unsqueeze(1)
    deltas = torch.stack((points - low, low + 8 - points), -1)
    counts = [len(mask.nonzero()) for mask in (deltas.amin(-1) > 0, (deltas > 0).all(-1), (deltas > 0).sum(-1) == 2)]
    assert counts == [62_992] * 3, counts


def supposed_sizes():
    """Memory that follows from a supposed size, beside memory that does not, of which there can be more."""
    large = torch.empty(int(os.environ.get("LARGE", "64")) << 20, dtype=torch.uint8, device="cuda")
    chosen = unknown(4 << 20)[unknown(4 << 20) > 0]
    normal = functional.layer_norm(chosen.view(1, -1), (len(chosen),))
    rows = torch.zeros(len(chosen), 4, device="cuda") + normal.view(-1, 1)
    del large, chosen, normal, rows


def decided():
    """Sizes that follow from values, in ten programs that the CPU runs as well."""
    wrong = differences()
    assert not wrong, wrong


def padded_encoder():
    """Layers that leave out the padding: the lengths of the texts come from the device."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).cuda().eval()
    lengths = torch.tensor([5, 12, 9], device="cuda")
    padding = torch.arange(12, device="cuda") >= lengths[:, None]
    with torch.no_grad():
        encoded = encoder(torch.randn(3, 12, 64, device="cuda"), src_key_padding_mask=padding)
    assert encoded.shape == (3, 12, 64), encoded.shape


def doubtful():
    """Values that were set, and that kernels which are not computed change: each is read once."""
    zeros = torch.zeros(5, device="cuda")
    zeros.clone().uniform_().cpu()
    zeros.clone().normal_().cpu()
    # Code that is compiled when it is needed may write anywhere.
    torch.cuda.jiterator._create_jit_fn("template <typename T> T next(T x) { return x + 1; }")(zeros)
    zeros.cpu()
    torch.zeros(4, 4, device="cuda").addmm_(torch.ones(4, 4, device="cuda"), torch.ones(4, 4, device="cuda")).cpu()
    torch.zeros(5, 4, 4, device="cuda").baddbmm_(
        torch.ones(5, 4, 4, device="cuda"), torch.ones(5, 4, 4, device="cuda")
    ).cpu()


def backward_last():
    """Processes that end right after a backward pass, whose threads may be at work still."""
    for _ in range(6):
        process = os.fork()
        if process == 0:
            (torch.randn(50, 4, device="cuda", requires_grad=True) * 2).sum().backward()
            sys.exit()
        assert os.waitpid(process, 0)[1] == 0


def hybrid_sharded():
    """Shards within groups of two ranks, and replicas between them: NCCL splits the group of all."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    start_group()
    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicas", "shards"))
    model = small_transformer().cuda()
    for layer in model[1:-2]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model)


def same_lists():
    """Ranks that make sure that they have the same list, as DeepSpeed's function of this name does it."""
    import tempfile
    import textwrap

    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(place, "deepspeed", "runtime", "zero")
        os.makedirs(folder)
        for package in ("deepspeed", "deepspeed/runtime", "deepspeed/runtime/zero"):
            open(os.path.join(place, package, "__init__.py"), "w").close()  # It comes before one that is installed.
        source = """
            import torch
            import torch.distributed as dist

            def assert_ints_same_as_other_ranks(ints):
                sent = ints if dist.get_rank() == 0 else [-1] * len(ints)
                tensor = torch.tensor(sent, device="cuda")
                dist.broadcast(tensor, src=0)
                assert tensor.cpu().tolist() == ints, tensor
        """
        with open(os.path.join(folder, "utils.py"), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(source))
        sys.path.insert(0, place)
        from deepspeed.runtime.zero.utils import assert_ints_same_as_other_ranks
    assert_ints_same_as_other_ranks([3, 1, 4])
    assert torch.distributed.get_rank() == RANK


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
    torch.cuda.synchronize()
    write_counters(sys.argv[2])
