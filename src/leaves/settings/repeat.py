"""Repeats the requests of a recording on PyTorch's own allocator, and records the memory history of that.

Writes the snapshot to the file that PTMEM_SNAPSHOT names. Arguments: the file of requests, "recorded" if
memory from before the recording comes in segments as recorded, "no_split" if private pools never split a
segment, and the bytes of the card that PyTorch may use, if not all.
"""

import os
import sys

try:
    import torch
except ImportError:
    sys.exit("unusable: has no PyTorch")
if not (hasattr(torch, "version") and torch.version.cuda):
    sys.exit(f"unusable: has PyTorch {torch.__version__} without CUDA")
if not hasattr(torch.cuda.memory, "_set_allocator_settings") or torch.__version__.startswith("2.0."):
    sys.exit(f"unusable: has PyTorch {torch.__version__}, which cannot record the requests; 2.1 or later is needed")


class Allocator:
    """Streams, private pools and blocks by their numbers."""

    def __init__(self, pools):
        self.options = {"no_split": True} if pools == "no_split" else {}
        self.streams = [0]
        self.pools = {}
        self.blocks = {}
        self.entered = None
        self.pool = 0

    def stream(self, number):
        while len(self.streams) <= number:
            known = len(self.streams) - 1
            self.streams.append(torch.cuda.Stream(priority=-(known // 32)).cuda_stream)
            if known >= 64:
                sys.exit("more than 65 streams")
        return self.streams[number]

    def enter(self, pool):
        """Directs requests to a pool."""
        if pool == self.pool:
            return
        if self.entered is not None:
            self.entered.__exit__(None, None, None)
            self.entered = None
        if pool:
            if not hasattr(torch.cuda, "use_mem_pool"):
                sys.exit("private pools need PyTorch 2.6 or later")
            if pool not in self.pools:
                try:
                    self.pools[pool] = torch.cuda.MemPool(**self.options)
                except TypeError:
                    sys.exit("pools that never split need PyTorch 2.10 or later")
            self.entered = torch.cuda.use_mem_pool(self.pools[pool])
            self.entered.__enter__()
        self.pool = pool

    def allocate(self, size, stream, pool):
        """The address of a block, or None if there is no room for one."""
        self.enter(pool)
        try:
            return torch.cuda.caching_allocator_alloc(size, 0, self.stream(stream))
        except torch.cuda.OutOfMemoryError:
            return None

    def free(self, block):
        address = self.blocks.pop(block, None)
        if address is not None:
            torch.cuda.caching_allocator_delete(address)

    def drop(self, pool):
        """Lets a private pool go."""
        self.enter(0)
        self.pools.pop(pool, None)


def main(requests, earlier, pools, limit):
    torch.cuda.init()
    settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") if earlier == "recorded" else None
    if settings:
        # Sizes of recorded blocks are rounded already. Only expandable_segments stays as it is.
        torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:1")
    for size in limit:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(int(size) / total)
    allocator = Allocator(pools)
    for line in requests:
        kind, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        if kind == "a":
            allocator.blocks[numbers[0]] = allocator.allocate(*numbers[1:])
        elif kind == "f":
            allocator.free(numbers[0])
        elif kind == "o":
            address = allocator.allocate(*numbers)
            if address is not None:
                torch.cuda.caching_allocator_delete(address)
        elif kind == "e":
            # Within a pool it empties that pool only.
            allocator.enter(0)
            torch.cuda.empty_cache()
        elif kind == "d":
            allocator.drop(numbers[0])
        else:
            if settings:
                torch.cuda.memory._set_allocator_settings(settings)
            torch.cuda.memory._record_memory_history("all", context=None, max_entries=1 << 40)
    torch.cuda.memory._dump_snapshot(os.environ["PTMEM_SNAPSHOT"])
    print(torch.__version__)
    # Blocks and pools need not be given back.
    sys.stdout.flush()
    os._exit(0)


with open(sys.argv[1], encoding="ascii") as file:
    main(file, *sys.argv[2:4], sys.argv[4:])
