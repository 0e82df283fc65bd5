"""Records random allocation programs, and what PyTorch's own counters say of them.

ptmem simulate --gpus 2 -- python3 benches/random_programs.py FOLDER 0 500

Each seed is a process of its own, with its own allocator settings. FOLDER/SEED.pickle is the snapshot; SEED.json has
torch.cuda.memory_stats() of every device right before the recording and right before the dump. Whatever `ptmem show
--format json` calls exact must equal them, and a bound must contain them. A program that PyTorch itself refuses is left
out.
"""

import gc
import json
import os
import random
import sys
import traceback

import torch

RELEASE = tuple(int(number) for number in torch.__version__.split(".")[:2])
MIB = 1 << 20
MOST_LIVE = 40
OUT_OF_MEMORY = getattr(torch.cuda, "OutOfMemoryError", RuntimeError)


def random_settings(choose):
    """A value for PYTORCH_CUDA_ALLOC_CONF."""
    texts = [
        f"expandable_segments:{choose.choice(['True', 'True', 'False'])}",
        f"max_split_size_mb:{choose.choice([21, 32, 64, 128, 200])}",
        f"garbage_collection_threshold:{choose.choice([0.3, 0.6, 0.8])}",
        f"roundup_power2_divisions:{choose.choice(['2', '4', '8', '[256:1,512:2,1024:4,>:8]'])}",
    ]
    return ",".join(text for text in texts if choose.random() < 0.35)


def set_settings(text):
    """Switches the settings at run time."""
    setter = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (setter or torch.cuda.memory._set_allocator_settings)(text)


class Program:
    """One random program."""

    def __init__(self, seed):
        self.choose = random.Random(seed)
        self.devices = self.choose.choice([[0], [0], [0], [0, 1]])
        self.settings = self.choose.choice(["", random_settings(self.choose)])
        self.switches = self.choose.random() < 0.2
        self.uses_pools = RELEASE >= (2, 5) and self.choose.random() < 0.3
        self.largest = self.choose.choice([20, 25, 28])
        self.live = []
        self.pools = []
        self.graphs = []

    def size(self):
        """Bytes of a request, often at a limit of the allocator."""
        if self.choose.random() < 0.3:
            limit = self.choose.choice([512, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 64 * MIB])
            return max(1, limit + self.choose.choice([-512, -1, 0, 1, 512, MIB]))
        return int(2 ** self.choose.uniform(0, self.largest))

    def allocate(self):
        """Allocates on some device, stream and pool."""
        device = self.choose.choice(self.devices)
        streams = self.streams[device]
        try:
            with torch.cuda.device(device), torch.cuda.stream(self.choose.choice(streams)):
                if self.pools and self.choose.random() < 0.4:
                    with torch.cuda.use_mem_pool(self.choose.choice(self.pools)):
                        tensor = torch.empty(self.size(), dtype=torch.uint8, device="cuda")
                else:
                    tensor = torch.empty(self.size(), dtype=torch.uint8, device="cuda")
        except OUT_OF_MEMORY:
            self.live.clear()
            return
        if self.choose.random() < 0.2:
            tensor.record_stream(self.choose.choice(streams))
        self.live.append(tensor)
        if len(self.live) > MOST_LIVE:
            self.free()

    def free(self):
        """Frees any block."""
        if self.live:
            self.live.pop(self.choose.randrange(len(self.live)))

    def capture(self):
        """Captures a graph, or deletes the captured ones."""
        if self.graphs and self.choose.random() < 0.4:
            self.graphs.clear()
            return
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = [torch.empty(self.size() % (40 * MIB) + 1, dtype=torch.uint8, device="cuda") for _ in range(8)]
            del kept[::2]
        self.graphs.append((graph, kept))

    def rare(self):
        """Does one of what programs seldom do."""
        what = self.choose.randrange(6)
        if what == 0:
            torch.cuda.empty_cache()
        elif what == 1:
            torch.cuda.synchronize()
        elif what == 2:
            self.capture()
        elif what == 3 and self.switches:
            set_settings(random_settings(self.choose) or "expandable_segments:False")
        elif what == 4 and self.uses_pools:
            self.pools.append(torch.cuda.MemPool())
        else:
            self.pools.clear()
            gc.collect()

    def work(self, steps):
        """Does so many random steps."""
        steps_of = [(self.allocate, 55), (self.free, 42), (self.rare, 3)]
        actions, weights = zip(*steps_of)
        for action in self.choose.choices(actions, weights, k=steps):
            action()

    def counters(self):
        """PyTorch's own counters, by device."""
        return {device: torch.cuda.memory_stats(device) for device in self.devices}

    def record(self):
        """Starts the recording; the peaks count from here on."""
        for device in self.devices:
            torch.cuda.reset_peak_memory_stats(device)
        start = self.counters()
        if RELEASE >= (2, 1):
            torch.cuda.memory._record_memory_history(
                context=self.choose.choice(["all", "alloc", "state", None]), stacks="python"
            )
        else:
            torch.cuda.memory._record_memory_history(True, trace_alloc_max_entries=1_000_000)
        return start

    def run(self, path):
        """Runs the program, and writes the snapshot and the counters."""
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = self.settings
        for device in self.devices:
            torch.empty(0, device=f"cuda:{device}")
        count = self.choose.choice([0, 2])
        self.streams = {
            device: [torch.cuda.default_stream(device), *(torch.cuda.Stream(device) for _ in range(count))]
            for device in self.devices
        }
        steps = self.choose.choice([10, 60, 200, 500, 1200])
        # Half of the recordings begin in the middle of the run.
        self.work(self.choose.choice([0, steps]))
        start = self.record()
        self.work(steps)
        end = self.counters()
        torch.cuda.memory._dump_snapshot(f"{path}.pickle")
        devices = {device: {"start": start[device], "end": end[device]} for device in self.devices}
        with open(f"{path}.json", "w") as file:
            json.dump({"torch": torch.__version__, "settings": self.settings, "devices": devices}, file, indent=1)


def main(folder, first, last):
    """Runs the programs of some seeds, one after another."""
    os.makedirs(folder, exist_ok=True)
    for seed in range(int(first), int(last)):
        child = os.fork()
        if child == 0:
            try:
                Program(seed).run(os.path.join(folder, f"{seed:05}"))
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.waitpid(child, 0)


main(*sys.argv[1:])
