"""Names of the modules that allocate: of the forward and the backward pass, of parameters and of what belongs to them.

While a module runs, its number stands in front of the metadata of PyTorch's allocator, which is a text for each thread.
In the backward pass, each node has the module that ran when it was made. Before a snapshot is written, the numbers are
taken out of it again, and the names go to its facts.
"""

from __future__ import annotations

import bisect
import threading
import weakref
from typing import Any, Optional

from . import marks
from .attribution import NOTHING, Entry, Reader
from .belongings import Belongings
from .passes import Passes
from .shapes import Shapes

#: A snapshot with more changes of module than this has no names: its facts must stay small beside its history.
MOST_RUNS = 500_000
#: Changes of module that are kept for graphs of which no backward pass has run yet.
MOST_CHANGES = 2_000_000
#: Memory allocated between the end of the outermost module and the end of its backward pass.
LOSS = "<loss>"
OPTIMIZER = "<optimizer>"


class Thread(threading.local):
    """What runs in a thread."""

    def __init__(self) -> None:
        self.running: list[int] = []
        #: Stands for what runs where no module does.
        self.outside = 0
        self.operator = 0
        self.user = ""
        #: From which number of a node on which module runs.
        self.nodes: list[int] = []
        self.modules: list[int] = []


class Modules:
    """The modules that run, by their paths from the outermost."""

    def __init__(self, torch: Any, passes: Passes, shapes: Optional[Shapes]) -> None:
        self.torch = torch
        self.passes = passes
        self.shapes = shapes
        #: Releases before 2.10 keep no metadata: there it is noted after how many allocations which module runs.
        self.set = getattr(torch._C, "_cuda_setMemoryMetadata", None)
        self.shown: dict[int, list[tuple[int, int]]] = {}
        self.names = [""]
        self.numbers = {"": 0}
        #: Numbers of modules that run again in the backward pass, by those of the modules.
        self.again: dict[int, int] = {}
        self.recomputed: set[int] = set()
        self.paths: Any = weakref.WeakKeyDictionary()
        self.belongings = Belongings(torch, self)
        self.finished: Any = weakref.WeakSet()
        self.backwards = 0
        self.thread = Thread()
        #: Of blocks alive where the recorded part begins.
        self.blocks: dict[int, Entry] = {}
        self.removers: list[Any] = []
        self.replaced: list[tuple[Any, str, Any]] = []

    def lacks(self) -> Optional[str]:
        if self.set is not None or self.shapes is None:
            return None
        return f"shapes need PyTorch 2.10 or later; this is {self.torch.__version__}"

    def install(self) -> None:
        """Adds the hooks. While a program is compiled they do nothing, so that no graph breaks at them."""
        from torch.nn.modules import module
        from torch.optim import optimizer

        compiler = getattr(self.torch, "compiler", None)
        is_compiling = getattr(compiler, "is_compiling", None) or _never

        def enter(entered: Any, _: Any) -> None:
            if not is_compiling():
                self.enter(entered)

        def leave(left: Any, *_: Any) -> None:
            if not is_compiling():
                self.leave(left)

        self.removers += [
            module.register_module_forward_pre_hook(enter),
            module.register_module_forward_hook(leave, always_call=True),
            optimizer.register_optimizer_step_pre_hook(self.begin_step),
            optimizer.register_optimizer_step_post_hook(self.end_step),
        ]
        autograd, memory = self.torch.autograd, self.torch.cuda.memory
        # Releases before 2.4 run the engine in each of two functions.
        engine = "_engine_run_backward"
        for name in [engine] if hasattr(autograd, engine) else ["backward", "grad"]:
            self.replace(autograd, name, self.around_backward(getattr(autograd, name)))
        if self.set is not None:
            self.replace(memory, "_set_memory_metadata", self.set_of_user)
            self.replace(memory, "_get_memory_metadata", self.get_of_user)
        if self.shapes is not None:
            self.shapes.install(self.run_operator)

    def replace(self, place: Any, name: str, function: Any) -> None:
        self.replaced.append((place, name, getattr(place, name)))
        setattr(place, name, function)

    def remove(self) -> None:
        """Takes the hooks away. Nodes that are labelled already stay so."""
        for remover in self.removers:
            remover.remove()
        for place, name, function in self.replaced:
            setattr(place, name, function)
        if self.shapes is not None:
            self.shapes.remove()

    def number(self, name: str) -> int:
        if name not in self.numbers:
            self.numbers[name] = len(self.names)
            self.names.append(name)
        return self.numbers[name]

    def running_again(self, number: int) -> int:
        """The number of a module that runs again in the backward pass."""
        if number not in self.again:
            self.again[number] = len(self.names)
            self.recomputed.add(len(self.names))
            self.names.append(self.names[number])
        return self.again[number]

    def show(self, number: int) -> None:
        """Puts the number of a module into the metadata."""
        if self.set is not None:
            self.set(marks.marked(self.thread.user, number, self.thread.operator))
        elif self.torch.cuda.is_initialized():
            device = self.torch.cuda.current_device()
            shown = self.shown.setdefault(device, [])
            if len(shown) < MOST_CHANGES:
                shown.append((self.passes.calls_of(device)[0], number))

    def run_operator(self, operator: int) -> None:
        self.thread.operator = operator
        self.show(self.current())

    def current(self) -> int:
        return self.thread.running[-1] if self.thread.running else self.thread.outside

    def stand_outside(self, number: int) -> None:
        """A module stands for what runs in this thread from now on where no module does."""
        self.thread.outside = number
        self.show(self.current())

    def set_of_user(self, metadata: str) -> None:
        self.thread.user = metadata
        self.show(self.current())

    def get_of_user(self) -> str:
        return self.thread.user

    def change(self) -> None:
        """Notes the module that creates the following nodes."""
        thread = self.thread
        running = self.current()
        if len(thread.nodes) > MOST_CHANGES:
            del thread.nodes[: MOST_CHANGES // 2], thread.modules[: MOST_CHANGES // 2]
        thread.nodes.append(self.torch._C._autograd._get_sequence_nr())
        thread.modules.append(running)
        self.show(running)

    def path(self, module: Any) -> str:
        """The path of a module; an unknown one is the outermost, or a part of a running one."""
        if module not in self.paths:
            if not self.thread.running:
                self.belongings.roots[module] = None
            self.name_parts(module, self.names[self.thread.running[-1]] if self.thread.running else "")
        return str(self.paths[module])

    def name_parts(self, root: Any, before: str) -> None:
        """Names the parts of a module that have no name."""
        # A compiled module holds the original under a name of its own.
        inner = getattr(root, "_orig_mod", root)
        for path, part in [("", root), *inner.named_modules()]:
            own = path or type(inner).__name__
            self.paths.setdefault(part, f"{before}.{own}" if before else own)

    def enter(self, module: Any) -> None:
        if not self.thread.running and not self.backwards:
            self.passes.enter("forward")
            self.belongings.run(module)
        number = self.number(self.path(module))
        self.thread.running.append(self.running_again(number) if self.backwards else number)
        self.change()

    def leave(self, module: Any) -> None:
        if self.thread.running:
            self.thread.running.pop()
        if module is not None and not self.thread.running and not self.backwards:
            if self.torch.is_grad_enabled():
                self.thread.outside = self.number(LOSS)
            else:
                self.passes.leave()
            if module not in self.finished:
                self.finished.add(module)
                self.belongings.take()
        self.change()

    def begin_step(self, optimizer: Any, arguments: Any, options: Any) -> Any:
        """The step begins; one with a closure, which runs forward and backward, works on the weights after that."""
        self.belongings.add_optimizer(optimizer)
        self.belongings.take()
        self.thread.running.append(self.number(OPTIMIZER))
        closure = options.get("closure") or (arguments[1] if len(arguments) > 1 else None)
        if not callable(closure):
            self.passes.enter("optimizer")
            self.change()
            return None
        inside = self.outside_of_step(closure)
        if options.get("closure"):
            return arguments, {**options, "closure": inside}
        return (arguments[0], inside, *arguments[2:]), options

    def outside_of_step(self, closure: Any) -> Any:
        """The closure of an optimizer, which runs as if the step began only after it."""

        def run() -> Any:
            running = self.thread.running
            self.thread.running = []
            self.change()
            try:
                return closure()
            finally:
                self.belongings.take()
                self.thread.running = running
                self.passes.enter("optimizer")
                self.change()

        return run

    def end_step(self, optimizer: Any, *_: Any) -> None:
        self.belongings.find_attributes(optimizer)
        self.belongings.take()
        self.leave(None)
        self.passes.leave(ends_step=True)

    def around_backward(self, run: Any) -> Any:
        """Has each node of the graph set the module that made it, in whatever thread it runs."""

        def backward(outputs: Any, *arguments: Any, **options: Any) -> Any:
            self.label([outputs] if isinstance(outputs, self.torch.Tensor) else outputs)
            if not self.backwards:
                self.passes.enter("backward")
            self.backwards += 1
            try:
                return run(outputs, *arguments, **options)
            finally:
                self.backwards -= 1
                if not self.backwards:
                    self.passes.leave()
                self.thread.outside = 0
                self.change()

        return backward

    def label(self, outputs: Any) -> None:
        waiting = [output.grad_fn for output in outputs if getattr(output, "grad_fn", None) is not None]
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            if node.metadata.get("ptmem") is None:
                self.label_node(node)
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    waiting.append(following)

    def label_node(self, node: Any) -> None:
        if hasattr(node, "variable"):
            node.metadata["ptmem"] = 0
            # The node lives as long as its parameter, which must not keep what it no longer needs.
            parameter = weakref.ref(node.variable)
            node.register_prehook(lambda gradients: self.belongings.take_gradient(parameter(), gradients[0]))
            return
        thread = self.thread
        at = bisect.bisect_right(thread.nodes, node._sequence_nr())
        module = thread.modules[at - 1] if at else 0
        node.metadata["ptmem"] = module
        node.register_prehook(lambda _: self.stand_outside(module))

    def read(self, device: int, trace: Any) -> Reader:
        reader = Reader(self, device)
        reader.read(trace)
        return reader

    def begin(self, snapshot: Any) -> None:
        """Notes the modules of the blocks that are alive where the recorded part begins."""
        self.belongings.find_all()
        self.belongings.take()
        if snapshot is not None:
            for device, trace in enumerate(snapshot["device_traces"]):
                if trace:
                    self.blocks = self.read(device, trace).alive()
        self.belongings.notes.clear()

    def facts(self, snapshot: Any) -> list[dict[str, Any]]:
        """The modules of each device, for the facts of a snapshot, from which the marks are taken out."""
        self.belongings.find_all()
        self.belongings.take()
        found = []
        for device, trace in enumerate(snapshot["device_traces"]):
            entries = {NOTHING: 0}
            runs: list[list[int]] = []
            for entry in self.read(device, trace).allocated:
                number = entries.setdefault(entry, len(entries))
                if runs and runs[-1][1] == number:
                    runs[-1][0] += 1
                else:
                    runs.append([1, number])
            blocks = sorted((place, entries.setdefault(entry, len(entries))) for place, entry in self.blocks.items())
            if runs and len(runs) <= MOST_RUNS:
                lists = [[entry[part] for entry in entries] for part in range(3)]
                named = dict(zip(("names", "purposes", "shapes"), lists))
                found.append({"device": device, **named, "allocations": runs, "blocks": [list(one) for one in blocks]})
        return found


def _never() -> bool:
    return False
