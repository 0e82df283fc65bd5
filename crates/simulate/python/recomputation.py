"""Lets checkpointing without re-entry stop a recomputation while call stacks are recorded.

The exception that stops it passes through operators, which free memory. To record the stack of a free, PyTorch 2.11 and
later ask for a traceback of the forward pass, and drop that exception: the backward pass then fails with "returned NULL
without setting an exception".
"""


class Stops:
    """Exceptions that stop recomputations, which each thread of autograd can have."""

    def __init__(self, set_context):
        #: Takes what stacks are recorded of, in PyTorch's words: `alloc` is of allocations alone, `all` of frees, too.
        self.set_context = set_context
        self.passing = 0

    def install(self, torch):
        """Notes where they begin to pass, and where PyTorch catches them."""
        from torch.utils import checkpoint

        # Earlier releases drop no exception, but annotations when the history is turned on again.
        if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11):
            return

        error = getattr(checkpoint, "_StopRecomputationError", None)
        recomputation = getattr(checkpoint, "_recomputation_hook", None)
        if error is None or recomputation is None:
            return
        leave = recomputation.__exit__

        def begin(*_):
            self.passing += 1
            self.set_context("alloc")

        def end_and_leave(hooks, kind, *rest):
            if kind is error:
                self.passing -= 1
                if not self.passing:
                    self.set_context("all")
            return leave(hooks, kind, *rest)

        error.__init__ = begin
        recomputation.__exit__ = end_and_leave
