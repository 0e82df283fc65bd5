"""Purposes of memory: from whom an address belongs to, the pass in which it was allocated, and the code that did."""

from __future__ import annotations

import os
from typing import Any, Optional

PARAMETERS = "parameters"
GRADIENTS = "gradients"
STATE = "optimizer state"
ACTIVATIONS = "activations"
TEMPORARY = "temporary"
COMMUNICATION = "communication"
WORKSPACE = "workspace"
DATA = "data"
OTHER = "other"

#: Parts of the names of C++ functions that allocate for NVIDIA's libraries.
WORKSPACES = ("orkspace", "CUDABlasHandle", "conv_plan")

#: Code that passes calls on.
BETWEEN = ("torch/_ops.py", "torch/_library/", "torch/utils/", "torch/_compile.py", "torch/_tensor.py")

#: Code that allocates for whoever calls it.
CALLED = ("torch/functional.py", "torch/nn/functional.py", "torch/autograd/")

#: Code of PyTorch for several ranks that only calls the operators of the program.
NOT_COMMUNICATION = (
    "torch/distributed/tensor/",
    "torch/distributed/algorithms/_checkpoint",
    "torch/distributed/pipelining/microbatch",
    "torch/distributed/pipelining/schedules",
)

#: Rows for memory outside of all modules.
OUTSIDE = {COMMUNICATION: "<communication>", WORKSPACE: "<workspace>", DATA: "<data>"}


class Frames:
    """Purposes that call stacks show. Equal stacks of a snapshot are one list, so that each is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, Optional[str]] = {}
        self._places: dict[int, str] = {}

    def purpose(self, event: dict[str, Any]) -> Optional[str]:
        """The purpose of an allocation that its stack shows, if it does."""
        frames = event.get("frames") or ()
        if id(frames) not in self._known:
            self._known[id(frames)] = _purpose(frames)
        return self._known[id(frames)]

    def place(self, event: dict[str, Any]) -> str:
        """A row for memory outside of all modules: the function that requested it; empty without a stack."""
        frames = event.get("frames") or ()
        if id(frames) not in self._places:
            self._places[id(frames)] = _place(frames)
        return self._places[id(frames)]


def _place(frames: Any) -> str:
    for frame in frames:
        path = frame["filename"]
        if path.endswith(".py") and not any(part in path for part in (*BETWEEN, *CALLED)):
            # No dot: it would divide the name into a module and its part.
            file = os.path.basename(path)[:-3]
            return f"<outside of modules: {frame['name']} in {file}>"
    return ""


def _purpose(frames: Any) -> Optional[str]:
    for frame in frames:
        path, name = frame["filename"], frame["name"]
        if not path.endswith(".py"):
            if any(part in name for part in WORKSPACES):
                return WORKSPACE
            if "c10d" in name:
                return COMMUNICATION
        elif not any(part in path for part in BETWEEN):
            is_distributed = "torch/distributed/" in path and not any(part in path for part in NOT_COMMUNICATION)
            return COMMUNICATION if is_distributed else None
    return None


def of_pass(name: str, is_recomputed: bool) -> str:
    """The purpose of an allocation in a pass, as long as nothing else is known of it."""
    if name == "forward" or is_recomputed:
        return ACTIVATIONS
    return {"setup": OTHER, "data": DATA}.get(name, TEMPORARY)
