"""Lets checkpointing without re-entry stop a recomputation while call stacks are recorded.

The exception that stops it passes through operators, which free memory. To record the stack of a free, PyTorch 2.11 and
later ask for a traceback of the forward pass, and drop that exception: the backward pass then fails with "returned NULL
without setting an exception".
"""

from __future__ import annotations

from typing import Any, Callable


class Stops:
    """Exceptions that stop recomputations, which each thread of autograd can have."""

    def __init__(self, torch: Any, set_context: Callable[[str], None]) -> None:
        self._torch = torch
        #: Takes what stacks are recorded of, in PyTorch's words: `alloc` is of allocations alone, `all` of frees, too.
        self._set_context = set_context
        self._passing = 0
        self._replaced: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Notes where they begin to pass, and where PyTorch catches them."""
        # Earlier releases drop no exception, but annotations when the history is turned on again.
        if self._replaced or tuple(map(int, self._torch.__version__.split(".")[:2])) < (2, 11):
            return
        from torch.utils import checkpoint

        error = getattr(checkpoint, "_StopRecomputationError", None)
        recomputation = getattr(checkpoint, "_recomputation_hook", None)
        if error is None or recomputation is None:
            return
        leave = recomputation.__exit__

        def begin(*_: Any) -> None:
            self._passing += 1
            self._set_context("alloc")

        def end_and_leave(hooks: Any, kind: Any, *rest: Any) -> Any:
            if kind is error:
                self._passing -= 1
                if not self._passing:
                    self._set_context("all")
            return leave(hooks, kind, *rest)

        self._replace(error, "__init__", begin)
        self._replace(recomputation, "__exit__", end_and_leave)

    def _replace(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        self._replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, function)

    def remove(self) -> None:
        """Restores PyTorch's functions."""
        for owner, name, function in self._replaced:
            setattr(owner, name, function)
        self._replaced.clear()
