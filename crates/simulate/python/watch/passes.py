"""The passes of training: setup, forward, backward, optimizer, and the step around them."""

from __future__ import annotations

from typing import Any, Optional

#: Passes of which a snapshot keeps the borders.
MOST_PASSES = 50_000

#: The numbers of allocations and of frees of each device.
Calls = dict[int, tuple[int, int]]


class Pass:
    """A pass, with the calls of the allocator before its beginning and before its end."""

    def __init__(self, name: str, start: Calls) -> None:
        self.name = name
        self.start = start
        self.end: Optional[Calls] = None


class Passes:
    """The passes of a program, as hooks find their borders."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._all: list[Pass] = []
        #: The pass that runs, and the step around it.
        self._open: Optional[Pass] = None
        self._step: Optional[Pass] = None
        #: The calls where the recorded part begins.
        self.start: Calls = {}
        self._begin("setup", {})

    def calls(self) -> Calls:
        """The numbers of allocations and frees of each device since the process began."""
        found: Calls = {}
        if self._torch.cuda.is_initialized():
            for device in range(self._torch.cuda.device_count()):
                found[device] = self.calls_of(device)
        return found

    def calls_of(self, device: int) -> tuple[int, int]:
        """The same of one device."""
        calls = self._torch._C._cuda_memoryStats(device)["allocation"]["all"]
        return calls["allocated"], calls["freed"]

    @property
    def name(self) -> str:
        """The name of the pass that runs; empty between two."""
        return self._open.name if self._open is not None else ""

    def _begin(self, name: str, calls: Calls) -> Pass:
        begun = Pass(name, calls)
        self._open = begun
        self._keep(begun)
        return begun

    def _keep(self, begun: Pass) -> None:
        if len(self._all) < MOST_PASSES:
            self._all.append(begun)

    def enter(self, name: str) -> None:
        """A pass begins, unless it runs already; the one before it ends."""
        if self.name == name:
            return
        calls = self.calls()
        if self._open is not None:
            self._open.end = calls
        if self._step is None:
            self._step = Pass("step", calls)
            self._keep(self._step)
        self._begin(name, calls)

    def leave(self, ends_step: bool = False) -> None:
        """The pass that runs ends, and with the optimizer the step."""
        calls = self.calls()
        if self._open is not None:
            self._open.end = calls
        self._open = None
        if ends_step and self._step is not None:
            self._step.end = calls
            self._step = None

    def begin(self) -> None:
        """Notes where the recorded part begins."""
        self.start = self.calls()

    def of_device(self, device: int) -> list[tuple[str, Optional[list[int]], Optional[list[int]]]]:
        """The passes in the recorded part, each with the number of allocator calls since that part began."""
        first = self.start.get(device, (0, 0))
        found: list[tuple[str, Optional[list[int]], Optional[list[int]]]] = []
        for one in self._all:
            start = _since(first, one.start.get(device, (0, 0)))
            end = None if one.end is None else _since(first, one.end.get(device, (0, 0)))
            if end is None or (min(end) >= 0 and max(end) > 0):
                found.append((one.name, start if min(start) >= 0 else None, end))
        return found


def _since(first: tuple[int, int], calls: tuple[int, int]) -> list[int]:
    return [calls[0] - first[0], calls[1] - first[1]]
