"""Notes where the outermost calls of modules (nn.Module) begin: a call that no other module makes may be a step.
Notes which optimizer each step() is of: a step may call several.

`ptmem simulate` copies this file to the programs that it records: it imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Callable, Optional

#: Maximum number of calls. If a program makes more, the facts omit them all.
MOST_CALLS = 20_000


class Thread(threading.local):
    """Whether a module runs in a thread."""

    is_inside = False


class OutermostCalls:
    """The outermost calls of modules since begin()."""

    def __init__(self, numbers: Callable[[Any], Iterator[tuple[int, int]]]) -> None:
        #: The devices in use, each with the number of allocations since the process began.
        self._numbers = numbers
        self._torch: Any = None
        self._process = 0
        self._thread = Thread()
        self._call_of_pytorch: Any = None
        self._call_and_note: Any = None
        #: The file of PyTorch's function, which this one replaces.
        self._file = ""
        self._count = 0
        self._modules: dict[tuple[int, str], int] = {}
        #: For each device, the number of allocations before each call, and that of its module.
        self._begins: dict[int, list[list[int]]] = {}
        #: The number of the optimizer of each call, and the numbers of those that are there.
        self._optimizers: list[int] = []
        self._numbers_of_optimizers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._hook: Any = None

    def begin(self, torch: Any) -> None:
        """Begins with nothing noted."""
        self.install(torch)
        self._process = os.getpid()
        self._count = 0
        self._modules.clear()
        self._begins.clear()
        self._optimizers.clear()
        self._numbers_of_optimizers.clear()

    def install(self, torch: Any) -> None:
        """Notes calls from here on. PyTorch's hooks of modules would slow down inner calls, and show in stacks."""
        if self._call_and_note is not None:
            return
        self._torch = torch
        self._call_of_pytorch = torch.nn.Module.__call__
        self._call_and_note = torch.nn.Module.__call__ = self._around(self._call_of_pytorch)
        # PyTorch 2.0 and later
        with contextlib.suppress(ImportError):
            from torch.optim.optimizer import register_optimizer_step_pre_hook

            self._hook = register_optimizer_step_pre_hook(self._note_optimizer)

    def _around(self, call: Any) -> Any:
        thread, note = self._thread, self._note
        is_compiling = getattr(getattr(self._torch, "compiler", None), "is_compiling", _never)

        # PyTorch's profiler reads the local variable `self` of this function, and fails if there is none.
        # https://github.com/pytorch/pytorch/blob/main/torch/csrc/autograd/profiler_python.cpp
        def call_and_note(self: Any, *arguments: Any, **options: Any) -> Any:
            if is_compiling() or thread.is_inside:
                return call(self, *arguments, **options)
            note(self)
            thread.is_inside = True
            try:
                return call(self, *arguments, **options)
            finally:
                thread.is_inside = False

        # torch.compile treats code by its file: this function must look like PyTorch's own.
        own = call.__code__
        self._file = own.co_filename
        code = call_and_note.__code__.replace(co_filename=self._file, co_firstlineno=own.co_firstlineno)
        call_and_note.__code__ = code
        return call_and_note

    def _note(self, module: Any) -> None:
        if os.getpid() != self._process or self._count > MOST_CALLS:
            return
        self._count += 1
        number = self._modules.setdefault((id(module), type(module).__name__), len(self._modules))
        for device, allocations in self._numbers(self._torch):
            self._begins.setdefault(device, []).append([allocations, number])

    def _note_optimizer(self, optimizer: Any, *_: Any) -> None:
        if os.getpid() == self._process and len(self._optimizers) <= MOST_CALLS:
            new = max(self._optimizers, default=-1) + 1
            self._optimizers.append(self._numbers_of_optimizers.setdefault(optimizer, new))

    def stop(self) -> None:
        """Restores PyTorch's function, unless the program has replaced it since."""
        self._process = 0
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        if self._call_and_note is not None and self._torch.nn.Module.__call__ is self._call_and_note:
            self._torch.nn.Module.__call__ = self._call_of_pytorch
            self._call_and_note = None

    def facts(self, allocated: dict[int, int]) -> Optional[list[dict[str, Any]]]:
        """The calls on each device; None if they are not known. `allocated` has the current numbers of allocations."""
        if self._process == 0 or self._count > MOST_CALLS:
            return None
        modules = [name for _, name in self._modules]
        return [
            {"device": device, "modules": modules, "begins": self._begins.get(device, []), "allocated": number}
            for device, number in allocated.items()
        ]

    def optimizers(self) -> Optional[list[int]]:
        """The number of the optimizer of each call of step(); None if they are not known."""
        if self._process == 0 or len(self._optimizers) > MOST_CALLS:
            return None
        return self._optimizers.copy()

    def is_own(self, frame: dict[str, Any]) -> bool:
        """True for the frame of the function here, which stacks without a recording do not have."""
        return bool(frame["name"] == "call_and_note" and frame["filename"] == self._file)


def _never() -> bool:
    return False
