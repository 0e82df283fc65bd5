"""Watches a program while it is recorded: modules, purposes and shapes of memory.

`ptmem simulate` copies this folder to the programs that it records: it imports nothing else of the package.
"""

from __future__ import annotations

from typing import Any, Optional

from .modules import Modules
from .passes import Passes
from .shapes import Shapes


class Watch:
    """Facts about a program from PyTorch's hooks, for its snapshot."""

    def __init__(self, torch: Any, shapes: bool) -> None:
        self._passes = Passes(torch)
        self._shapes = Shapes(torch) if shapes else None
        self._modules = Modules(torch, self._passes, self._shapes)
        self._modules.install()

    def lacks(self) -> Optional[str]:
        """Why this PyTorch release provides fewer facts, if it does."""
        return self._modules.lacks()

    def begin(self, snapshot: Any) -> None:
        """Notes where the recorded part begins; the snapshot has what was recorded before it."""
        self._modules.begin(snapshot)
        self._passes.begin()

    def add_to(self, snapshot: Any) -> None:
        """Adds to the facts of a snapshot, and takes the marks out of its metadata."""
        if isinstance(snapshot, dict) and isinstance(snapshot.get("ptmem"), dict):
            # Names of rows come from stacks.
            if self._shapes is not None:
                self._shapes.leave(snapshot)
            snapshot["ptmem"]["modules"] = self._modules.facts(snapshot)

    def stop(self) -> None:
        """Takes the hooks away."""
        self._modules.remove()
