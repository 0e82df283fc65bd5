"""Repeats the requests of a recording on PyTorch's own allocator, and records the memory history of that.

The argument is a file with a line for each repetition, of values between tabs: NAME, where NAME.txt has the requests
and NAME.log gets what is printed; "recorded" if memory from before the recording comes in segments as recorded;
"no_split" if private pools never split a segment; the bytes of the card that PyTorch may use, if not all; and the
settings. The snapshots go beside the file that PTMEM_SNAPSHOT names.
"""

import os
import pickle
import sys
import traceback

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


def repeat(requests, earlier, pools, limit, settings, path):
    """Repeats the requests of a file with these settings, and writes the snapshot of that."""
    # Read when PyTorch first needs an allocator, which is here.
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = settings
    torch.cuda.init()
    resets = settings and earlier == "recorded"
    if resets:
        # Sizes of recorded blocks are rounded already. Only expandable_segments stays as it is.
        torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:1")
    if limit:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(int(limit) / total)
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
            if resets:
                torch.cuda.memory._set_allocator_settings(settings)
            torch.cuda.memory._record_memory_history("all", context=None, max_entries=1 << 40)
    snapshot = torch.cuda.memory._snapshot()
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)


def start(name, earlier, pools, limit, settings):
    """Starts a process for some settings: PyTorch, which takes seconds to import, is there already."""
    process = os.fork()
    if process:
        return process
    # Blocks and pools need not be given back.
    try:
        with open(name + ".log", "w", encoding="utf-8") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        path = os.path.join(os.path.dirname(os.environ["PTMEM_SNAPSHOT"]), os.path.basename(name) + ".pkl")
        with open(name + ".txt", encoding="ascii") as requests:
            repeat(requests, earlier, pools, limit, settings, path)
    except SystemExit as error:
        os.write(2, str(error).encode())
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(0)


def main(jobs):
    """Repeats the requests once for each line, in as many processes at a time as there are cores."""
    running = set()
    for job in jobs:
        if len(running) >= len(os.sched_getaffinity(0)):
            running.discard(os.wait()[0])
        running.add(start(*job.rstrip("\n").split("\t")))
    for _ in running:
        os.wait()
    print(torch.__version__)


with open(sys.argv[1], encoding="utf-8") as file:
    main(file.readlines())
