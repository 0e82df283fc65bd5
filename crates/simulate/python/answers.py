"""Answers that a program asks the device for, and that a simulated GPU cannot give.

Each function here replaces one of PyTorch's or of transformers'. What it allocates is what it allocated before.
"""

import os
import time

# Seconds that the end of a process waits for threads of the backward pass, which need microseconds.
LONGEST_REST = 1.0
# Times in a row, a millisecond apart, that they are seen asleep.
ENOUGH_RESTS = 3


def name_the_driver(build):
    """Tells Triton before 2.2, which knows only drivers that are installed, where that of the simulated GPU lies."""
    folder = os.environ["TRITON_LIBCUDA_PATH"]
    build.libcuda_dirs = lambda: [folder]


def settle_threads(torch):
    """Lets the threads of the backward pass come to rest before Python ends.

    Each gives a Python object back after its last work. If Python ends first, the process is aborted. On a real GPU the
    pass takes longer than that.
    """
    import atexit

    @atexit.register
    def wait():
        deadline = time.monotonic() + LONGEST_REST
        rests = 0  # A thread can be seen asleep between two pieces of work.
        while torch.cuda.is_initialized() and rests < ENOUGH_RESTS and time.monotonic() < deadline:
            time.sleep(0.001)
            rests = rests + 1 if backward_rests() else 0


def backward_rests():
    """True if no thread of the backward pass of this process works."""
    import glob

    for path in glob.glob("/proc/self/task/*/stat"):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError:
            continue  # The thread has ended.
        if "(pt_autograd" in text and text.rpartition(") ")[2][0] != "S":
            return False
    return True


def end_program(tell):
    """Ends the process with success, as nothing that comes later is recorded. Calls `tell` before it does.

    An exception might be caught, or arise in a thread of the backward pass. What the program registered for its end
    runs.
    """
    import atexit
    import contextlib
    import multiprocessing.util
    import signal
    import sys
    import threading

    if others_rely_on_it():
        return
    tell()
    if threading.current_thread() is threading.main_thread():
        # The workers of a DataLoader end first; PyTorch would report them as failed.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # A process of multiprocessing ends without what `atexit` has.
    is_child = multiprocessing.parent_process() is not None
    with contextlib.suppress(Exception):
        (multiprocessing.util._exit_function if is_child else atexit._run_exitfuncs)()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)


def others_rely_on_it():
    """True for a rank of a job whose ranks do not wait for each other at the end: one of them has the store."""
    import torch.distributed as public

    if "PTMEM_SIMULATE_ALONE" in os.environ or not public.is_available() or not public.is_initialized():
        return False
    return public.get_world_size() > 1 and "nccl" not in str(public.get_backend()).lower()


def end_beams(utils):
    """Ends the search with beams of transformers' generate() at its greatest length, which the host knows.

    It asks the device, after each token, whether a beam can still improve, which follows from scores.
    """
    mixin, criteria = utils.GenerationMixin, utils.StoppingCriteriaList
    goes_on = getattr(mixin, "_beam_search_has_unfinished_sequences", None)
    if goes_on is None:
        return  # An older release.
    check = criteria.__call__
    long_enough = []

    def check_and_measure(self, input_ids, scores, *rest, **options):
        lengths = [limit.max_length for limit in self if hasattr(limit, "max_length")]
        if lengths and input_ids.shape[-1] >= min(lengths):
            long_enough.append(True)
        return check(self, input_ids, scores, *rest, **options)

    def goes_on_until_long_enough(*arguments, **options):
        goes_on(*arguments, **options)
        ended = bool(long_enough)
        long_enough.clear()
        return not ended

    criteria.__call__ = check_and_measure
    mixin._beam_search_has_unfinished_sequences = staticmethod(goes_on_until_long_enough)


def hide_from_compiler(rules):
    """Keeps torch.compile from compiling functions of ptmem, which operators call while a program is compiled.

    Hooks of modules, in a package beside these files, are compiled: they find out there that they have nothing to do.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    rules.SKIP_DIRS += [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".py")]
    rules._recompile_re()
