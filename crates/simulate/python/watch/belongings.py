"""What belongs to modules whatever ran when it was allocated: parameters, buffers, gradients, state of optimizers."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from typing import Any

from . import purposes
from .passes import Calls
from .shapes import addresses

#: Attributes of parameters that hold gradients: PyTorch's, and Megatron's in the type that it adds up in.
GRADIENTS = ("grad", "main_grad")

#: Notes that are kept until the recorded part begins, and within it.
MOST_NOTES = 500_000
MOST_TABLES = 4

#: Containers inside of one another that are looked into, and their values: longer lists are of numbers.
DEEPEST = 5
MOST_VALUES = 100_000

#: Attributes that a module has once it is built, as far as all modules have them.
BUILT = {"_parameters", "_buffers", "_modules"}

#: The name of the module, and the purpose.
Belonging = tuple[str, str]
#: The calls of the allocator, and what belongs to modules by then, by address.
Note = tuple[Calls, dict[int, Belonging]]


class Belongings:
    """Addresses of blocks, noted again and again: models may be gone when the snapshot is written."""

    def __init__(self, torch: Any, modules: Any) -> None:
        self.torch = torch
        self.modules = modules
        #: The outermost modules that ran, in the order in which they did first.
        self.roots: Any = weakref.WeakKeyDictionary()
        #: The outermost of modules that have not run.
        self.idle: Any = weakref.WeakSet()
        #: Tensors in attributes of each optimizer, found before and after its steps.
        self.optimizers: Any = weakref.WeakKeyDictionary()
        self.optimizers_so_far = 0
        #: The paths of parameters, by their identities.
        self.owners: dict[int, str] = {}
        #: Findings, each with the number of allocator calls before it.
        self.notes: list[Note] = []
        #: Gradients of the backward pass that runs.
        self.gradients: list[Note] = []
        self.tables: list[dict[int, Belonging]] = []

    def take(self) -> None:
        """Notes what belongs to modules now."""
        if not self.torch.cuda.is_initialized():
            return
        found = self.find()
        # Gradients that are still there need no note of their own.
        lost = [(calls, of_one) for calls, of_one in self.gradients if not of_one.items() <= found.items()]
        self.gradients = []
        self.note(*lost)
        # Steps are usually equal, so they share one table.
        found = next((table for table in self.tables if table == found), found)
        self.tables = [found, *(table for table in self.tables if table is not found)][:MOST_TABLES]
        self.note((self.modules.passes.calls(), found))

    def run(self, module: Any) -> None:
        """Takes a module that runs for one that owns its parameters."""
        if module in self.idle:
            self.idle.discard(module)
            self.roots[module] = None

    def find_all(self) -> None:
        """Finds what may have changed since modules ran and optimizers stepped."""
        self.find_roots()
        for optimizer in list(self.optimizers):
            self.find_attributes(optimizer)

    def add_optimizer(self, optimizer: Any) -> None:
        """Adds an optimizer that steps. For many, the program is searched only each time their number doubles."""
        if optimizer not in self.optimizers:
            self.optimizers_so_far += 1
            if self.optimizers_so_far & (self.optimizers_so_far - 1) == 0:
                self.find_roots()
        self.find_attributes(optimizer)

    def find_attributes(self, optimizer: Any) -> None:
        """Finds tensors in attributes and groups of an optimizer; its state and parameters are found by name."""
        attributes = {**vars(optimizer), "state": None, "param_groups": None}
        groups = [{**group, "params": None} for group in optimizer.param_groups]
        found = contained(self.torch, [attributes, *groups])
        self.optimizers[optimizer] = [weakref.ref(tensor) for tensor in found]

    def find_roots(self) -> None:
        """Adds the outermost of the modules that have not run, such as copies that hold averages."""
        module = self.torch.nn.Module
        loaded = [of for of in gc.get_objects() if issubclass(type(of), module) and vars(of).keys() >= BUILT]
        unnamed = [one for one in loaded if type(one).__hash__ is not None and one not in self.modules.paths]
        parts = {id(part) for one in unnamed for part in parts_of(one) if part is not one}
        for one in unnamed:
            if id(one) not in parts:
                with contextlib.suppress(Exception):  # As in `parts_of`.
                    self.modules.name_parts(one, "")
                    self.idle.add(one)

    def note(self, *notes: Note) -> None:
        if len(self.notes) < MOST_NOTES:
            self.notes.extend(notes)

    def find(self) -> dict[int, Belonging]:
        found: dict[int, Belonging] = {}
        seen: set[int] = set()
        for root in list(self.roots):
            self.find_parts(found, root, seen)
        of_idle: dict[int, Belonging] = {}
        for root in sorted(self.idle, key=self.modules.paths.get):
            self.find_parts(of_idle, root, seen)
        found.update({place: one for place, one in of_idle.items() if place not in found})
        for optimizer in list(self.optimizers):
            self.find_state(found, optimizer)
        return found

    def find_parts(self, found: dict[int, Belonging], root: Any, seen: set[int]) -> None:
        """Finds parameters and buffers of a module, with their gradients. Each belongs to the first that holds it."""
        for part in parts_of(root):
            path = self.modules.paths.get(part) or self.modules.path(part)
            for tensor in [*part._parameters.values(), *part._buffers.values()]:
                if tensor is None or id(tensor) in seen:
                    continue
                seen.add(id(tensor))
                self.owners[id(tensor)] = path
                self.add(found, tensor, path, purposes.PARAMETERS)
                for name in GRADIENTS:
                    self.add(found, getattr(tensor, name, None), path, purposes.GRADIENTS)

    def find_state(self, found: dict[int, Belonging], optimizer: Any) -> None:
        for parameter, state in optimizer.state.items():
            path = self.owners.get(id(parameter), "<optimizer>")
            for value in contained(self.torch, [state]):
                self.add(found, value, path, purposes.STATE)
        # Copies of the weights that an optimizer keeps for itself, and their gradients.
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in self.owners:
                    self.add(found, parameter, "<optimizer>", purposes.STATE)
                    self.add(found, parameter.grad, "<optimizer>", purposes.GRADIENTS)
        of_optimizer: dict[int, Belonging] = {}
        for tensor in self.optimizers.get(optimizer, ()):
            self.add(of_optimizer, tensor(), "<optimizer>", purposes.STATE)
        found.update({place: one for place, one in of_optimizer.items() if place not in found})

    def add(self, found: dict[int, Belonging], tensor: Any, path: str, purpose: str) -> None:
        for place in addresses(self.torch, tensor):
            if place not in found:
                found[place] = (path, purpose)
            elif found[place][0] != path:  # a block of several tensors
                found[place] = (common(found[place][0], path), found[place][1])

    def take_gradient(self, parameter: Any, gradient: Any) -> None:
        """Notes a gradient where the backward pass adds it up: it may be gone when the pass ends."""
        path = self.owners.get(id(parameter), "")
        self.modules.stand_outside(self.modules.number(path))
        found = dict.fromkeys(addresses(self.torch, gradient), (path, purposes.GRADIENTS))
        if found:
            device = gradient.device.index
            self.gradients.append(({device: self.modules.passes.calls_of(device)}, found))


def parts_of(root: Any) -> list[Any]:
    """The modules in a module and itself; none while another thread changes it, or where its own code fails."""
    try:
        return list(root.modules())
    except Exception:
        return []


def contained(torch: Any, values: list[Any]) -> Iterator[Any]:
    """The tensors in dictionaries, lists and tuples inside of one another, the outer ones first."""
    containers: list[Any] = [values]
    room = MOST_VALUES
    for _ in range(DEEPEST):
        inner = []
        for container in containers:
            if len(container) > room:
                continue
            room -= len(container)
            held = list(container.values() if isinstance(container, dict) else container)
            # Many values are of few types, mostly numbers.
            if any(issubclass(kind, (torch.Tensor, dict, list, tuple)) for kind in set(map(type, held))):
                yield from (value for value in held if isinstance(value, torch.Tensor))
                inner += [value for value in held if isinstance(value, (dict, list, tuple))]
        containers = inner


def common(one: str, other: str) -> str:
    """The path that two paths begin with."""
    parts = []
    for mine, theirs in zip(one.split("."), other.split(".")):
        if mine != theirs:
            break
        parts.append(mine)
    return ".".join(parts) or "<several modules>"
