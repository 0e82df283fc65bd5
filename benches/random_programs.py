"""Records random allocation programs, and what PyTorch's own counters say of them.

ptmem simulate --gpus 2 -- python3 benches/random_programs.py FOLDER 0 500

Each seed is a process of its own, with its own allocator settings and way of recording. FOLDER/SEED.pickle is the
snapshot; SEED.json has torch.cuda.memory_stats() of every device right before the recording and right before the
dump. Whatever `ptmem show --format json` calls exact must equal them, and a bound must contain them. Where a ring
buffer kept the last events alone, "ring" has the counters of what it kept: those at its start, where they are known
(else null), and the least and the most that the peak can be. A program that PyTorch itself refuses is left out.
"""

import gc
import json
import os
import pickle
import random
import sys
import traceback

import torch

RELEASE = tuple(int(number) for number in torch.__version__.split(".")[:2])
MIB = 1 << 20
MOST_LIVE = 40
SKIPPABLE = [
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
]
OUT_OF_MEMORY = getattr(torch.cuda, "OutOfMemoryError", RuntimeError)


def random_settings(choose):
    """A value for PYTORCH_CUDA_ALLOC_CONF."""
    texts = [
        f"max_split_size_mb:{choose.choice([21, 32, 64, 128, 200])}",
        f"garbage_collection_threshold:{choose.choice([0.3, 0.6, 0.8])}",
        f"roundup_power2_divisions:{choose.choice(['2', '4', '8', '[256:1,512:2,1024:4,>:8]'])}",
    ]
    if RELEASE >= (2, 1):
        texts.append(f"expandable_segments:{choose.choice(['True', 'True', 'False'])}")
    chosen = [text for text in texts if choose.random() < 0.35]
    if RELEASE >= (2, 6) and choose.random() < 0.1:
        chosen.append(f"max_non_split_rounding_mb:{choose.choice([21, 32, 64])}")
    return ",".join(chosen)


def set_settings(text):
    """Switches the settings at run time."""
    setter = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (setter or torch.cuda.memory._set_allocator_settings)(text)


def bytes_of(stats, which):
    """The current values, or the peaks, of the counters of bytes."""
    ends = f"_bytes.all.{which}"
    return {name[: -len(which) - 1]: stats[name] for name in stats if name.endswith(ends)}


class Ledger:
    """The counters of a device after each step of a program, to know what they were where a ring buffer begins."""

    def __init__(self, device):
        self.device = device
        self.steps = []
        self.add()

    def add(self):
        """Notes the counters after a step, and resets the peaks."""
        stats = torch.cuda.memory_stats(self.device)
        made = (
            stats["allocation.all.allocated"],
            stats["allocation.all.freed"],
            stats["active.all.freed"],
        )
        self.steps.append((made, bytes_of(stats, "current"), bytes_of(stats, "peak")))
        torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self):
        """The peaks of all steps."""
        return self.highest([peak for _, _, peak in self.steps])

    @staticmethod
    def highest(levels):
        """The highest value of each counter."""
        return {name: max(level[name] for level in levels) for name in levels[0]}

    def window(self, trace):
        """The counters within the events that a ring buffer kept."""
        actions = [event["action"] for event in trace]
        kept = [actions.count(action) for action in ("alloc", "free_requested", "free_completed")]
        missing = [all_made - count for all_made, count in zip(self.steps[-1][0], kept)]
        reached = [all(a <= b for a, b in zip(made, missing)) for made, _, _ in self.steps]
        begun = [any(a > b for a, b in zip(made, missing)) for made, _, _ in self.steps]
        # The last step that ended before any event that was kept, and the first that ended after one.
        last = max(step for step, is_reached in enumerate(reached) if is_reached)
        first = next((step for step, has_begun in enumerate(begun) if has_begun), len(self.steps))
        edge = [now for made, now, _ in self.steps if list(made) == missing]
        inside = [peak for _, _, peak in self.steps[first + 1 :]] + [now for _, now, _ in self.steps[first:]]
        around = [peak for _, _, peak in self.steps[first:]] + edge + [self.steps[last][1]]
        # Events of segments are not counted: the buffer may begin among those of the first step.
        reserved = [level["reserved_bytes.all"] for step in self.steps[first : first + 1] for level in step[1:]]
        same = bool(edge) and all(now == edge[0] for now in edge)
        same = same and all(level == edge[0]["reserved_bytes.all"] for level in reserved)
        return {
            "kept": len(trace),
            "exact_start": same,
            "start": edge[0] if same else None,
            "peak": self.highest(inside + edge if same else inside or edge),
            "peak_upper": self.highest(around),
        }


class Program:
    """One random program."""

    def __init__(self, seed):
        self.choose = random.Random(seed)
        self.devices = self.choose.choice([[0], [0], [0], [0, 1]])
        self.settings = self.choose.choice(["", random_settings(self.choose)])
        self.switches = self.choose.random() < 0.2
        self.uses_pools = RELEASE >= (2, 5) and self.choose.random() < 0.3
        self.largest = self.choose.choice([20, 25, 28])
        # The last events alone, one event alone, or all but some actions.
        self.ring = self.choose.choice([None, None, None, 100, 300, 1000]) if self.devices == [0] else None
        self.keeps_state = self.ring is None and self.choose.random() < 0.1
        self.skipped = []
        if RELEASE >= (2, 11) and self.choose.random() < 0.2:
            self.skipped = self.choose.sample(SKIPPABLE, self.choose.choice([1, 1, 2]))
            self.ring = None
        self.live = []
        self.pools = []
        self.graphs = []
        self.ledgers = []

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
            set_settings(random_settings(self.choose) or "garbage_collection_threshold:0.5")
        elif what == 4 and self.uses_pools:
            self.pools.append(torch.cuda.MemPool())
        else:
            self.pools.clear()
            gc.collect()

    def work(self, steps):
        """Runs this number of random steps."""
        steps_of = [(self.allocate, 55), (self.free, 42), (self.rare, 3)]
        actions, weights = zip(*steps_of)
        for action in self.choose.choices(actions, weights, k=steps):
            action()
            for ledger in self.ledgers:
                ledger.add()

    def counters(self):
        """PyTorch's own counters, by device."""
        return {device: torch.cuda.memory_stats(device) for device in self.devices}

    def record(self):
        """Starts the recording, and resets the peaks."""
        for device in self.devices:
            torch.cuda.reset_peak_memory_stats(device)
        start = self.counters()
        if self.ring and not self.skipped:
            self.ledgers = [Ledger(device) for device in self.devices]
        if RELEASE >= (2, 1):
            options = {"max_entries": self.ring} if self.ring else {}
            if self.skipped:
                options["skip_actions"] = self.skipped
            torch.cuda.memory._record_memory_history(
                enabled="state" if self.keeps_state else "all",
                context=self.choose.choice(["all", "alloc", "state", None]),
                stacks="python",
                **options,
            )
        elif self.keeps_state:
            # The stacks of blocks without their history: a trace of one event.
            torch.cuda.memory._record_memory_history(True)
        else:
            torch.cuda.memory._record_memory_history(True, trace_alloc_max_entries=self.ring or 1_000_000)
        return start

    def end(self):
        """The counters at the end, with the peaks of the whole recording."""
        end = self.counters()
        for ledger in self.ledgers:
            ledger.add()
            for name, peak in ledger.peak().items():
                end[ledger.device][f"{name}.peak"] = peak
        return end

    def truth(self, start, end, path):
        """Everything that is known of the recording."""
        devices = {device: {"start": start[device], "end": end[device]} for device in self.devices}
        known = {
            "torch": torch.__version__,
            "settings": self.settings,
            "switches": self.switches,
            "max_entries": self.ring,
            "state": self.keeps_state,
            "skipped": self.skipped,
            "devices": devices,
        }
        with open(f"{path}.pickle", "rb") as file:
            traces = pickle.load(file)["device_traces"]
        for ledger in self.ledgers:
            if len(traces[ledger.device]) == self.ring:
                known["ring"] = ledger.window(traces[ledger.device])
        return known

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
        before = self.choose.choice([0, steps])
        if before and RELEASE < (2, 1):
            # Frees of older blocks are not recorded there, so the beginning of a ring buffer is unknown.
            self.ring = None
        self.work(before)
        start = self.record()
        self.work(steps)
        end = self.end()
        with open(f"{path}.pickle", "wb") as file:
            pickle.dump(torch.cuda.memory._snapshot(), file)
        with open(f"{path}.json", "w") as file:
            json.dump(self.truth(start, end, path), file, indent=1)


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
