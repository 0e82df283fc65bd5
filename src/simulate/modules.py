"""Names of the modules that allocate: of the forward and the backward pass, of parameters and of what belongs to them.

While a module runs, its number stands in front of the metadata of PyTorch's allocator, which is a text for each thread.
In the backward pass, each node has the module that ran when it was made. Before a snapshot is written, the numbers are
taken out of it again, and the names go to its facts.
"""

import bisect
import sys
import threading
import weakref

# Around the number of a module in the metadata of the allocator.
MARK = "\x01"
# A snapshot with more changes of module than this has no names: its facts must stay small beside its history.
MOST_RUNS = 100_000
# Changes of module that are kept for graphs of which no backward pass has run yet.
MOST_CHANGES = 2_000_000
OPTIMIZER = "<optimizer>"
# What is made between the end of the outermost module and that of its backward pass.
LOSS = "<loss>"


def name_modules(torch):
    """Begins to name modules. None where this PyTorch, before 2.10, has no metadata of allocations."""
    if not hasattr(torch._C, "_cuda_setMemoryMetadata"):
        sys.stderr.write(f"ptmem simulate: --modules needs PyTorch 2.10 or later; this is {torch.__version__}\n")
        return None
    names = Modules(torch)
    names.install()
    return names


class Thread(threading.local):
    """What runs in a thread."""

    def __init__(self):
        self.running = []
        # Stands for what runs where no module does.
        self.outside = 0
        self.user = ""
        # From which number of a node on which module runs.
        self.numbers = []
        self.modules = []


class Modules:
    """The modules that run, by their paths from the outermost."""

    def __init__(self, torch):
        self.torch = torch
        self.number_of_node = torch._C._autograd._get_sequence_nr
        self.set = torch._C._cuda_setMemoryMetadata
        self.names = [""]
        self.numbers = {"": 0}
        self.paths = weakref.WeakKeyDictionary()
        self.roots = weakref.WeakSet()
        self.finished = weakref.WeakSet()
        self.optimizers = weakref.WeakSet()
        self.thread = Thread()
        # Of blocks alive where the recorded part begins; and after how many allocations of a device it begins.
        self.blocks = {}
        self.start = {}
        # Belongings, each with the device and the number of allocations by then.
        self.notes = []
        self.noted = {}

    def install(self):
        """Adds the hooks."""
        from torch.nn.modules import module
        from torch.optim import optimizer

        autograd, memory = self.torch.autograd, self.torch.cuda.memory
        module.register_module_forward_pre_hook(self.enter)
        module.register_module_forward_hook(self.leave, always_call=True)
        optimizer.register_optimizer_step_pre_hook(self.begin_step)
        optimizer.register_optimizer_step_post_hook(self.end_step)
        self.run_backward = autograd._engine_run_backward
        autograd._engine_run_backward = self.backward
        memory._set_memory_metadata, memory._get_memory_metadata = self.set_of_user, self.get_of_user

    def number(self, name):
        if name not in self.numbers:
            self.numbers[name] = len(self.names)
            self.names.append(name)
        return self.numbers[name]

    def show(self, number):
        """Puts the number of a module into the metadata."""
        user = self.thread.user
        self.set(f"{MARK}{number}{MARK}{user}" if number else user)

    def current(self):
        return self.thread.running[-1] if self.thread.running else self.thread.outside

    def set_of_user(self, metadata):
        self.thread.user = metadata
        self.show(self.current())

    def get_of_user(self):
        return self.thread.user

    def change(self):
        """Notes which module makes nodes from now on."""
        thread = self.thread
        running = self.current()
        if len(thread.numbers) > MOST_CHANGES:
            del thread.numbers[: MOST_CHANGES // 2], thread.modules[: MOST_CHANGES // 2]
        thread.numbers.append(self.number_of_node())
        thread.modules.append(running)
        self.show(running)

    def path(self, module):
        """The path of a module; one that nobody knows yet is the outermost, or a part of one that runs."""
        if module not in self.paths:
            if not self.thread.running:
                self.roots.add(module)
            self.name_parts(module, self.name_of_running())
        return self.paths[module]

    def name_of_running(self):
        return self.names[self.thread.running[-1]] if self.thread.running else ""

    def name_parts(self, root, before):
        """Names the parts of a module that have no name."""
        for path, part in root.named_modules():
            own = path or type(part).__name__
            self.paths.setdefault(part, f"{before}.{own}" if before else own)

    def enter(self, module, _):
        self.thread.running.append(self.number(self.path(module)))
        self.change()

    def leave(self, module, *_):
        if self.thread.running:
            self.thread.running.pop()
        if module is not None and not self.thread.running and self.torch.is_grad_enabled():
            self.thread.outside = self.number(LOSS)
        if module is not None and not self.thread.running and module not in self.finished:
            self.finished.add(module)
            self.note_belongings()
        self.change()

    def begin_step(self, optimizer, *_):
        self.optimizers.add(optimizer)
        self.thread.running.append(self.number(OPTIMIZER))
        self.change()

    def end_step(self, *_):
        self.note_belongings()
        self.leave(None)

    def backward(self, outputs, *arguments, **options):
        """Has each node of the graph set the module that made it, in whatever thread it runs."""
        self.label(outputs)
        try:
            return self.run_backward(outputs, *arguments, **options)
        finally:
            self.thread.outside = 0
            self.change()

    def label(self, outputs):
        waiting = [output.grad_fn for output in outputs if getattr(output, "grad_fn", None) is not None]
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            if not hasattr(node, "variable") and node.metadata.get("ptmem") is None:
                self.label_node(node)
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    waiting.append(following)

    def label_node(self, node):
        thread = self.thread
        at = bisect.bisect_right(thread.numbers, node._sequence_nr())
        module = thread.modules[at - 1] if at else 0
        node.metadata["ptmem"] = module
        node.register_prehook(lambda _: self.show(module))

    def belongings(self):
        """Addresses of blocks that are parameters, buffers, gradients or state of an optimizer, with their modules."""
        found = {}
        owners = {}
        for root in list(self.roots):
            for part in root.modules():
                number = self.number(self.paths.get(part) or self.path(part))
                for tensor in [*part._parameters.values(), *part._buffers.values()]:
                    if tensor is not None:
                        owners[id(tensor)] = number
                        self.note(found, tensor, number)
                        self.note(found, tensor.grad, number)
        for optimizer in list(self.optimizers):
            for parameter, state in optimizer.state.items():
                number = owners.get(id(parameter), self.number(OPTIMIZER))
                for value in state.values() if isinstance(state, dict) else ():
                    self.note(found, value, number)
        return found

    def note(self, found, tensor, number):
        torch = self.torch
        local = getattr(tensor, "_local_tensor", tensor)  # of one that is spread over ranks
        if isinstance(local, torch.Tensor) and local.is_cuda:
            address = local.untyped_storage().data_ptr()
            if found.setdefault(address, number) != number:  # a buffer of several modules
                found[address] = self.number(common(self.names[found[address]], self.names[number]))

    def count(self, device):
        """The number of allocations on a device."""
        return self.torch._C._cuda_memoryStats(device)["allocation"]["all"]["allocated"]

    def note_belongings(self):
        """Keeps what belongs to modules now: models may be gone when the snapshot is written."""
        if not self.torch.cuda.is_initialized():
            return
        found = self.belongings()
        new = dict(found.items() - self.noted.items())
        self.noted = found
        if new:
            device = self.torch.cuda.current_device()
            self.notes.append((device, self.count(device), new))

    def attribute(self, device, trace):
        """The module of each allocation of a trace, in order, and the module of each block that is alive at its end."""
        allocated, places = [], {}
        start = self.start.get(device, 0)
        notes = [(count - start, found) for noted, count, found in self.notes if noted == device]
        notes.reverse()
        alive = dict(self.blocks)
        for event in trace:
            if event["action"] == "alloc":
                while notes and notes[-1][0] <= len(allocated):
                    belong(notes.pop()[1], alive, places, allocated)
                number, text = 0, event.get("user_metadata") or ""
                if text.startswith(MARK):
                    number, event["user_metadata"] = text[1:].split(MARK, 1)
                places[event["addr"]] = len(allocated)
                alive[event["addr"]] = int(number)
                allocated.append(int(number))
            elif event["action"] == "free_requested":
                alive.pop(event["addr"], None)
                places.pop(event["addr"], None)
        for _, found in reversed(notes):
            belong(found, alive, places, allocated)
        return allocated, alive

    def begin(self, snapshot):
        """Notes the modules of the blocks that are alive where the recorded part begins."""
        self.note_belongings()
        for device, trace in enumerate(snapshot["device_traces"]):
            if trace:
                self.blocks = self.attribute(device, trace)[1]
                self.start[device] = self.count(device)
        self.notes = []

    def facts(self, snapshot):
        """The modules of each device, for the facts of a snapshot, from which the marks are taken out."""
        self.note_belongings()
        blocks = [[address, number] for address, number in sorted(self.blocks.items()) if number]
        found = []
        for device, trace in enumerate(snapshot["device_traces"]):
            runs = []
            for number in self.attribute(device, trace)[0]:
                if runs and runs[-1][1] == number:
                    runs[-1][0] += 1
                else:
                    runs.append([1, number])
            if runs and len(runs) <= MOST_RUNS:
                found.append({"device": device, "names": self.names, "allocations": runs, "blocks": blocks})
        return found


def belong(found, alive, places, allocated):
    """Gives blocks that are alive to the modules that they belong to."""
    for address, number in found.items():
        if address in alive:
            alive[address] = number
        if address in places:
            allocated[places[address]] = number


def common(one, other):
    """The path that two paths begin with."""
    parts = []
    for mine, theirs in zip(one.split("."), other.split(".")):
        if mine != theirs:
            break
        parts.append(mine)
    return ".".join(parts) or "<several modules>"
