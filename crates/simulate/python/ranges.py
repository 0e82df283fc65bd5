"""Lets a recording name the parts of a program that NVTX ranges and Megatron's timers name.

A snapshot holds PyTorch's annotations alone, so each of these becomes one.
"""

import threading

# Ranges of a process that are named: a program may make one for each operator.
MOST_RANGES = 10_000


class Ranges(threading.local):
    """The NVTX ranges of a thread that are open. The outermost one is named: some programs nest thousands."""

    depth = 0
    annotation = None


def annotate(name):
    """Begins an annotation, which its `__exit__` ends."""
    from torch.autograd.profiler import record_function

    annotation = record_function(str(name))
    annotation.__enter__()
    return annotation


def name_ranges(nvtx):
    """Annotates ranges of torch.cuda.nvtx."""
    push, pop = nvtx.range_push, nvtx.range_pop
    ranges, left = Ranges(), iter(range(MOST_RANGES))

    def range_push(msg):
        if ranges.depth == 0 and next(left, None) is not None:
            ranges.annotation = annotate(msg)
        ranges.depth += 1
        return push(msg)

    def range_pop():
        ranges.depth = max(ranges.depth - 1, 0)
        if ranges.depth == 0 and ranges.annotation is not None:
            ranges.annotation.__exit__(None, None, None)
            ranges.annotation = None
        return pop()

    nvtx.range_push, nvtx.range_pop = range_push, range_pop


def name_timers(timers):
    """Annotates what Megatron's timers measure. Those that its options leave out are of another class."""
    timer = timers.Timer
    start, stop = timer.start, timer.stop

    def start_named(self, *arguments, **options):
        start(self, *arguments, **options)
        self.ptmem_annotation = annotate(self.name)

    def stop_named(self, *arguments, **options):
        annotation = vars(self).pop("ptmem_annotation", None)
        if annotation is not None:
            annotation.__exit__(None, None, None)
        stop(self, *arguments, **options)

    timer.start, timer.stop = start_named, stop_named
