"""Records a program, or some of its steps, into a snapshot."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import ContextDecorator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional, Union

from ._facts import Facts, StepCounter, collected, holds_figures, kind_of, last_line, path_of_rank, snapshot_of
from ._history import (
    Figures,
    History,
    RecordingError,
    RecordingWarning,
    Stacks,
    checked,
    import_torch,
    warn_of_old_blocks,
)
from ._ran import Ran
from ._result import PathLike
from ._watch import Watch

#: Steps to record, counted from 1: the third, the third to the fifth, and the same as text.
Steps = Union[int, tuple[int, int], range, str, None]

#: Events of a device that are kept. A training step has some thousands to some ten thousands.
MAX_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Span:
    """The first and the last step to record."""

    first: int
    last: int

    @classmethod
    def parse(cls, steps: Steps) -> Optional[Span]:
        """Reads the argument of the user; None records the whole program."""
        if steps is None:
            return None
        if isinstance(steps, str):
            found = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", steps)
            if found is None:
                raise ValueError(f"steps: found '{steps}', expected a step or a span of them, such as '3' or '3..5'")
            steps = (int(found[1]), int(found[2] or found[1]))
        if isinstance(steps, int):
            steps = (steps, steps)
        if isinstance(steps, range):
            if steps.step != 1 or not steps:
                raise ValueError(f"steps: found {steps}, expected a range of steps one after the other")
            steps = (steps[0], steps[-1])
        first_step, last_step = steps
        if not 1 <= first_step <= last_step:
            raise ValueError(f"steps: found {first_step} to {last_step}, expected a span that begins at 1 or later")
        return cls(first_step, last_step)


#: The history of this process, on since start() or since a recording, and the recording that has it now.
_started: Optional[History] = None
_active: Optional[Recording] = None


def start(*, max_entries: int = MAX_ENTRIES, stacks: Stacks = "all") -> None:
    """Turns the history on from here, so that all that is allocated has a call stack.

    For the top of a program whose recording begins later: weights and optimizer state are then named. It is turned on
    when the program first uses CUDA, and does not use it itself. Give it the `stacks` of the recording.
    """
    global _started
    if _started is None and _active is None:
        _started = History(import_torch(), max_entries, stacks)
        _started.begin()


def record(
    path: PathLike,
    *,
    steps: Steps = None,
    max_entries: int = MAX_ENTRIES,
    modules: bool = False,
    shapes: bool = False,
    stacks: Stacks = "all",
) -> Recording:
    """Records the GPU memory of what runs inside, as a context manager or a decorator.

        with record("after.pkl", steps=3) as recording:
            model, optimizer = build()
            for batch in loader:
                with recording.step():
                    train(batch)

    Without `steps` the snapshot has all that ran inside. With `steps`, such as 3, (3, 5) or "3..5", it has these steps,
    counted from 1. A step is what runs in `recording.step()`; where that is not used, each step() of the first
    optimizer with parameters on the device ends one. Make the model inside, or call start() first, so that its weights
    have call stacks.

    Where memory runs out, the snapshot of that moment is written. Each rank of a job writes a file of its own:
    after_rank0.pkl, after_rank1.pkl, or wherever {rank} stands in the path. Raises RecordingError if nothing was
    recorded, and warns with RecordingWarning where the history was too short.

    With `modules`, hooks of PyTorch note which nn.Module allocates and the purpose of the memory, for --group-by module
    and --group-by purpose. With `shapes`, they note types and shapes of tensors too, which takes time for each
    operator.

    Into a file whose name ends in .json go PyTorch's peak and end counters alone, as from measure(): this costs
    nothing, and tells nothing of stacks and modules.

    With stacks="python", only Python frames are recorded, which takes less time and space: reports then name no C++
    operators, and memory of the backward pass has no stack. Record both sides of a comparison alike.
    """
    return Recording(path, Span.parse(steps), max_entries, modules, shapes, stacks)


class Recording(ContextDecorator):
    """A recording; see record()."""

    def __init__(
        self,
        path: PathLike,
        span: Optional[Span],
        max_entries: int,
        modules: bool = False,
        shapes: bool = False,
        stacks: Stacks = "all",
    ) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries: found {max_entries}, expected at least 1")
        self._path = os.fspath(path)
        self.span = span
        self.max_entries = max_entries
        self._measures = holds_figures(self._path)
        self._watches = (modules or shapes) and not self._measures
        self._shapes = shapes
        self._stacks = checked(stacks)
        self._reset()

    @property
    def path(self) -> str:
        """The file that this process writes."""
        return path_of_rank(self._path, self._facts.rank)

    def _reset(self) -> None:
        #: Steps that have ended.
        self.steps = 0
        self._by_hand = False
        self._written = False
        self._failed = False
        #: Why the snapshot of the last step could not be written: the program goes on.
        self._problem: Optional[RecordingError] = None
        self._counter: Optional[StepCounter] = None
        self._hook: Any = None
        asked = (self.span.first, self.span.last) if self.span else None
        self._facts = Facts("ptmem_gate.record", asked)
        self._facts.ran = Ran()
        self._watch: Optional[Watch] = None

    def __enter__(self) -> Recording:
        global _active
        if _active is not None:
            raise RecordingError(f"{_active.path} is being recorded; end that recording before another one begins")
        self._reset()
        torch = import_torch()
        if self._watches and kind_of(torch) != "cuda":
            raise RecordingError(
                "modules, purposes and shapes are recorded on GPUs of NVIDIA and AMD alone; leave them out"
            )
        self._process = os.getpid()
        self._facts.note_rank()
        # If this run writes nothing, nothing must be taken for its recording.
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path)
        self._history = self._history_to_use(torch)
        if not self._measures:
            self._history.check_free()
        self._history.max_entries = self.max_entries
        self._history.stacks = self._stacks
        self._facts.calls = self._history.facts.calls
        self._history.facts = self._facts
        if self._history is not _started:
            if not self._measures:
                _warn(warn_of_old_blocks(torch))
            self._history.begin()
        elif self._history.is_on:
            self._history.restart()
        if self._watches:
            self._watch = self._history.watch = Watch(torch, self._shapes)
            _warn(self._watch.lacks())
            self._watch.begin(None)
        self._history.watch_failures(self._out_of_memory)
        if self.span is not None:
            self._facts.counter = self._counter = StepCounter(torch, self._facts)
            self._hook = _hook_of_optimizers(self._optimizer_stepped)
        _active = self
        return self

    def _history_to_use(self, torch: Any) -> History:
        """That of start(), or one of its own. Counters need none."""
        global _started
        if not self._measures:
            return _started or History(torch, self.max_entries)
        if _started is not None:
            _started.stop()
            _started = None
        return Figures(torch)

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        global _active, _started
        _active = None
        if self._hook is not None:
            self._hook.remove()
        if self._watch is not None:
            self._watch.stop()
        if os.getpid() != self._process:
            return  # A forked child that leaves the block is not the one that records.
        try:
            if self._problem is not None and error is None:
                raise self._problem
            if not self._written and not (self._failed and self._history.is_out_of_memory(error)):
                self._write_at_end(error)
        finally:
            _started = None
            self._history.stop()

    def _write_at_end(self, error: Optional[BaseException]) -> None:
        is_failure = error is not None and not (isinstance(error, SystemExit) and error.code in (None, 0))
        reason = self._nothing_recorded(is_failure)
        # PyTorch's first use of CUDA fails with a RuntimeError; a program that asks first runs on without a GPU.
        if not self._history.is_on and isinstance(error, (RuntimeError, type(None))) and not self._history.has_gpu():
            command = "python " + " ".join(sys.argv)
            raise RecordingError(
                f"{self.path} was not written: no GPU was found; "
                f"to record on a simulated one: ptmem simulate -- {command}"
            ) from error
        if reason is None and is_failure:
            # The error of the program is its own.
            with contextlib.suppress(RecordingError):
                self._write("exception", last_line(error) if error else "")
        elif reason is None:
            self._write("whole")
            if self.span is not None and self.steps < self.span.last:
                _warn(f"the program made {self.steps} steps, and {self.span.last} were to be recorded")
        elif error is None:
            raise RecordingError(reason)

    def _nothing_recorded(self, is_failure: bool = False) -> Optional[str]:
        if not self._history.is_on:
            return f"{self.path} was not written: the program used no GPU"
        # A step that failed has begun.
        if self.span is not None and self.steps < self.span.first - is_failure:
            return (
                f"{self.path} was not written: the program made {self.steps} steps; "
                f"expected at least {self.span.first}, from which on to record"
            )
        return None

    def _write(self, ending: str, message: str = "") -> None:
        self._facts.note_rank()
        _warn(self._history.write(self.path, ending, message))
        self._written = True

    @contextlib.contextmanager
    def step(self) -> Iterator[int]:
        """Marks a step, from 1, and names it in the snapshot, where PyTorch 2.5 and later keep names."""
        if _active is not self:
            raise RecordingError("a step is marked outside of its recording; mark it inside the with block of record()")
        if not self._by_hand:
            self._by_hand = True
            self._facts.counter = None
            self.steps = 0
            self._facts.number_steps(1)
        number = self.steps + 1
        if self.span is not None and number == self.span.first and self._history.is_on:
            self._begin_anew()
        with self._history.torch.profiler.record_function(f"ProfilerStep#{number}"):
            yield number
        self._step_ended(number)

    def _optimizer_stepped(self, optimizer: Any, *_: Any) -> None:
        """Counts the steps of an optimizer, unless steps are marked."""
        if self._by_hand or self._counter is None or not self._counter.count(optimizer):
            return
        self._step_ended(self._counter.steps)
        # The first step begins where the recording does: its beginning is seen by nobody.
        if self.span is not None and self.steps + 1 == self.span.first and self._history.is_on:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Discards the history from before the steps to record."""
        with collected():
            if self._watch is not None:
                self._watch.begin(snapshot_of(self._history.torch))
            self._history.restart()

    def _step_ended(self, number: int) -> None:
        self.steps = number
        self._tell_steps()
        if not self._written:
            self._facts.end_step()
        if self.span is not None and number == self.span.last and self._nothing_recorded() is None:
            try:
                self._write("whole")
            except RecordingError as error:
                self._problem = error
            # Stops recording, so that later events take no memory.
            self._history.stop()

    def _tell_steps(self) -> None:
        """Writes the number of steps, and the last one to record, for the progress of `ptmem gate`."""
        path = os.environ.get("PTMEM_SIMULATE_STEPS")
        if path and os.getpid() == self._process:
            # Nobody may read it any more.
            with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as file:
                file.write(f"{self.steps} {self.span.last if self.span else ''}")

    def _out_of_memory(self) -> None:
        if _active is self and not self._written and os.getpid() == self._process:
            # Inside the allocator's error path nothing may raise.
            with contextlib.suppress(Exception):
                self._write("oom")
                self._failed = True
            # The program may go on.
            self._written = False


def _hook_of_optimizers(hook: Any) -> Any:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    return register_optimizer_step_post_hook(hook)


def _warn(text: Optional[str]) -> None:
    if text is not None:
        warnings.warn(text, RecordingWarning, stacklevel=3)
