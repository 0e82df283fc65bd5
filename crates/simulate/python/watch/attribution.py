"""The module, purpose and shape of each allocation of a trace, from what was noted while it was made."""

from __future__ import annotations

from typing import Any

from . import purposes
from .marks import take_mark

#: The name of the module, the purpose, and the shape.
Entry = tuple[str, str, str]
NOTHING: Entry = ("", "", "")


class Reader:
    """Reads a trace event by event."""

    def __init__(self, modules: Any, device: int) -> None:
        self.modules = modules
        first = modules.passes.start.get(device, (0, 0))
        #: Notes with the number of calls before each, the latest first.
        self.notes = [
            ((calls[device][0] - first[0], calls[device][1] - first[1]), found)
            for calls, found in modules.belongings.notes
            if device in calls
        ]
        self.notes.reverse()
        passes = [one for one in modules.passes.of_device(device) if one[0] != "step"]
        self.passes = passes[::-1]
        #: From which allocation on which module runs, the last first; and the one that runs.
        self.shown = [(calls - first[0], number) for calls, number in reversed(modules.shown.get(device, ()))]
        self.module = 0
        self.name = "data"
        self.end: Any = None
        #: Number of the pass that runs.
        self.number = 0
        #: Numbers of allocations and frees so far.
        self.calls = [0, 0]
        self.frames = purposes.Frames()
        self.allocated: list[Entry] = []
        #: The pass of each allocation; 0 for those whose purpose does not follow from it.
        self.born: list[int] = []
        #: The blocks that are alive: those of the trace as places in it, and those from before.
        self.places: dict[int, int] = {}
        self.blocks: dict[int, Entry] = dict(modules.blocks)

    def read(self, trace: Any) -> None:
        for event in trace:
            mark = take_mark(event)
            if event["action"] == "alloc":
                self.follow()
                self.allocate(event, *mark)
                self.calls[0] += 1
            elif event["action"] == "free_requested":
                self.follow()
                self.free(event["addr"])
                self.calls[1] += 1
        self.follow()
        for _, found in reversed(self.notes):
            self.belong(found)

    def alive(self) -> dict[int, Entry]:
        """The blocks that are alive at the end."""
        return {**self.blocks, **{place: self.allocated[index] for place, index in self.places.items()}}

    def is_reached(self, calls: Any) -> bool:
        return calls is None or (self.calls[0] >= calls[0] and self.calls[1] >= calls[1])

    def follow(self) -> None:
        """Takes in what was noted up to here, and moves to the pass that runs."""
        while self.notes and self.is_reached(self.notes[-1][0]):
            self.belong(self.notes.pop()[1])
        if self.end is not None and self.is_reached(self.end):
            # What follows a backward pass works on its gradients; what follows a step prepares the next.
            self.name = "between" if self.name == "backward" else "data"
            self.number += 1
            self.end = None
        while self.passes and self.is_reached(self.passes[-1][1]):
            self.name, _, self.end = self.passes.pop()
            self.number += 1
            if self.end is not None and self.is_reached(self.end):
                self.end = None
                self.name = "between" if self.name == "backward" else "data"

    def belong(self, found: dict[int, Any]) -> None:
        """Gives blocks that are alive to the modules that they belong to."""
        for place, (path, purpose) in found.items():
            if place in self.places:
                index = self.places[place]
                self.allocated[index] = (path, purpose, self.allocated[index][2])
                self.born[index] = 0
            elif place in self.blocks:
                self.blocks[place] = (path, purpose, self.blocks[place][2])

    def allocate(self, event: Any, module: int, operator: int) -> None:
        while self.shown and self.shown[-1][0] <= self.calls[0]:
            self.module = self.shown.pop()[1]
        module = module or self.module
        place = event["addr"]
        by_frames = self.frames.purpose(event)
        is_again = module in self.modules.recomputed
        purpose = by_frames or purposes.of_pass(self.name, is_again)
        shape = self.modules.shapes.of(operator, place) if self.modules.shapes is not None else ""
        self.blocks.pop(place, None)
        self.places[place] = len(self.allocated)
        name = self.modules.names[module] or purposes.OUTSIDE.get(purpose) or self.frames.place(event)
        self.allocated.append((name, purpose, shape))
        self.born.append(0 if by_frames or is_again else self.number)

    def free(self, place: int) -> None:
        self.blocks.pop(place, None)
        index = self.places.pop(place, None)
        if index is None:
            return
        module, purpose, shape = self.allocated[index]
        # Memory that does not outlive the pass is not an activation for the backward pass.
        if purpose == purposes.ACTIVATIONS and self.born[index] == self.number:
            self.allocated[index] = (module, purposes.TEMPORARY, shape)
