"""PyTorch's history of its allocator: start, restart, read, stop. Knows the signatures of PyTorch 2.0 and later."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Literal, Optional

from ._facts import (
    Facts,
    HeldHistory,
    Peaks,
    allocations_of_devices,
    collected,
    collector_paused,
    gpu_of,
    has_xpu,
    kind_of,
    lack_of_cpp_names,
    last_line,
    native,
    write,
    write_figures,
)
from ._outermost import OutermostCalls
from ._recomputation import Stops
from ._watch import Watch

#: Frames of a call stack that are recorded: of Python and C++, or only of Python.
Stacks = Literal["all", "python"]


class RecordingError(RuntimeError):
    """Memory cannot be recorded, or nothing was recorded."""


class RecordingWarning(UserWarning):
    """The recording lacks something that a comparison needs."""


def import_torch() -> Any:
    """PyTorch, built for GPUs. Asks no driver: a process that did so could no longer fork."""
    try:
        import torch
    except ImportError as error:
        raise RecordingError(f"PyTorch cannot be imported: {error}; install a build for your GPU") from error
    if not (torch.backends.cuda.is_built() or has_xpu(torch)):
        raise RecordingError(
            f"PyTorch {torch.__version__} is built without CUDA, ROCm and XPU; install a build for your GPU"
        )
    return torch


class History:
    """The history of all devices of this process."""

    def __init__(self, torch: Any, max_entries: int, stacks: Stacks = "all") -> None:
        self.torch = torch
        self.max_entries = max_entries
        self.stacks = checked(stacks)
        #: The program had it on already, and it stays on.
        self.was_on = False
        self.is_on = False
        #: Whether it goes on after a snapshot was written.
        self.goes_on = False
        #: Keeps the program from turning it on and off meanwhile.
        self._held = HeldHistory(torch)
        #: The options that turned it on; None while it is off.
        self._options: Optional[dict[str, Any]] = None
        self._stops = Stops(torch, self._set_context)
        #: What turns it off: PyTorch 2.0 takes a truth, later releases take None.
        self._off: Optional[bool] = None
        #: The facts about the run in the snapshot.
        self.facts = Facts("ptmem_gate", None)
        self.facts.calls = OutermostCalls(allocations_of_devices)
        #: Why C++ frames have no names here, once that was asked; empty if they have.
        self._unnamed: Optional[str] = None
        #: Facts about the program that hooks collect, if requested.
        self.watch: Optional[Watch] = None

    def check_free(self) -> None:
        """Refuses to record where another recorder does: its events are not dropped where a part begins."""
        if self._held.is_held_by_another():
            raise RecordingError(
                "another recorder holds PyTorch's history, such as ptmem simulate or ptmem gate; record a part with "
                "one of them alone"
            )

    def begin(self) -> None:
        """Turns it on, at once or when the program first uses the GPU: nothing here is the first use."""
        gpu_of(self.torch)._lazy_call(self._turn_on)

    def _turn_on(self) -> None:
        is_enabled = native(self.torch, "isHistoryEnabled")
        self.was_on = is_enabled is not None and bool(is_enabled())
        self.restart()

    def restart(self) -> None:
        """Drops the recorded events, and continues recording. Blocks keep the stacks of their allocation."""
        record = gpu_of(self.torch).memory._record_memory_history
        self.facts.torch = self.torch
        self._held.hold()
        with collected(), self._held.opened():
            options: dict[str, Any] = {"max_entries": self.max_entries, "stacks": self._frames(), "clear_history": True}
            # PyTorch 2.14 and later, 2.8 and later
            for newer in ({"record_pinned_host_memory": True}, {}):
                try:
                    self._options = {**options, **newer}
                    record(**self._options)
                    break
                except TypeError:
                    continue
            else:
                self._restart_before_2_8(record)
            self.facts.begin()
        self.is_on = True
        if kind_of(self.torch) == "cuda":
            self._stops.install()

    def _set_context(self, context: str) -> None:
        """Records stacks of allocations alone, or of frees, too, from now on. The recorded events stay."""
        if self._options is not None:
            with self._held.opened():
                record = self.torch.cuda.memory._record_memory_history
                record(**{**self._options, "context": context, "clear_history": False})

    def _frames(self) -> Stacks:
        """The frames to record: those of Python alone where C++ frames would make the snapshot fail."""
        if self.stacks == "all" and self._unnamed is None:
            if names_frames_itself(self.torch):
                # Takes no seconds, and cannot fail as addr2line does. It is read when PyTorch first names a frame.
                os.environ.setdefault("TORCH_SYMBOLIZE_MODE", "dladdr")
            self._unnamed = lack_of_cpp_names(self.torch) or ""
        return "python" if self._unnamed else self.stacks

    def _restart_before_2_8(self, record: Callable[..., None]) -> None:
        if self.is_on:
            # Some of these releases keep the old events unless it was off in between.
            record(self._off)
        try:
            record(max_entries=self.max_entries, stacks=self._frames())
        except TypeError:  # PyTorch 2.0, which records no C++ frames
            self._off = False
            record(True, trace_alloc_max_entries=self.max_entries, trace_alloc_record_context=True)

    def stop(self) -> None:
        """Turns it off, which drops the recorded events."""
        self.facts.stop()
        self._options = None
        self._stops.remove()
        if self.is_on and not self.was_on:
            with self._held.opened():
                gpu_of(self.torch).memory._record_memory_history(self._off)
            self.is_on = False
        self._held.release()

    def write(self, path: str, ending: str = "whole", message: str = "") -> Optional[str]:
        """Writes the snapshot with the facts about the run; returns what is missing, if anything."""
        with collector_paused():
            try:
                snapshot = self.facts.snapshot(ending, message)
            except RuntimeError as error:
                raise RecordingError(
                    f"{path} was not written: PyTorch cannot give its history: {last_line(error)}; "
                    'record with stacks="python", or set TORCH_SYMBOLIZE_MODE=dladdr'
                ) from error
            if self.watch is not None:
                self.watch.add_to(snapshot)
            # A history that was on before the recording stays on.
            if ending == "whole" and not self.was_on and not self.goes_on:
                self.facts.note_collected(snapshot, self.stop)
        write(path, snapshot)
        return self._lacks(snapshot)

    def _lacks(self, snapshot: Any) -> Optional[str]:
        lacks = []
        if self._unnamed:
            lacks.append(
                f"PyTorch cannot name C++ frames here ({self._unnamed}): only Python frames were recorded; "
                'record the other side of a comparison with stacks="python"'
            )
        traces = snapshot.get("device_traces", []) if isinstance(snapshot, dict) else []
        full = [device for device, events in enumerate(traces) if len(events) >= self.max_entries]
        lacks.extend(
            f"the history of device {device} is full: it holds the last {len(traces[device]):,} events, and the "
            "beginning may be lost; give a larger max_entries, or record fewer steps"
            for device in full[:1]
        )
        return "; ".join(lacks) or None

    def watch_failures(self, observer: Callable[[], None]) -> None:
        """Calls the observer when memory has run out, once the GPU is in use. PyTorch cannot remove an observer."""
        attach = native(self.torch, "attach_out_of_memory_observer")
        if attach is not None:
            gpu_of(self.torch)._lazy_call(lambda: attach(lambda *_: observer()))

    def has_gpu(self) -> bool:
        """Asks the driver, so only where the program will not fork any more."""
        return bool(gpu_of(self.torch).is_available())

    def is_out_of_memory(self, error: Optional[BaseException]) -> bool:
        kind = getattr(gpu_of(self.torch), "OutOfMemoryError", getattr(self.torch, "OutOfMemoryError", None))
        return kind is not None and isinstance(error, kind)


class Figures(History):
    """The counters of all devices, in place of a history: peaks and ends alone, which cost nothing."""

    def __init__(self, torch: Any) -> None:
        super().__init__(torch, 1)
        self.facts.calls = None
        self._peaks = Peaks(torch)

    def _turn_on(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.facts.torch = self.torch
        self._peaks.begin()
        self.facts.begin()
        self.is_on = True

    def stop(self) -> None:
        self.facts.stop()
        self._peaks.stop()
        self.is_on = False

    def write(self, path: str, ending: str = "whole", message: str = "") -> Optional[str]:
        write_figures(path, self.facts.figures(self._peaks, ending, message))
        return None


def names_frames_itself(torch: Any) -> bool:
    """True for releases that find the names of C++ frames without addr2line: PyTorch 2.8 and later."""
    return tuple(int(part) for part in re.findall(r"\d+", str(torch.__version__))[:2]) >= (2, 8)


def checked(stacks: Stacks) -> Stacks:
    """Refuses anything else, which PyTorch would take for "all"."""
    if stacks not in ("all", "python"):
        raise ValueError(f"stacks: found {stacks!r}, expected 'all' or 'python'")
    return stacks


def warn_of_old_blocks(torch: Any) -> Optional[str]:
    """Memory without a stack because it was allocated before the recording."""
    gpu = gpu_of(torch)
    if not gpu.is_initialized():
        return None
    held = sum(gpu.memory_allocated(device) for device in range(gpu.device_count()))
    if held == 0:
        return None
    return (
        f"{held:,} bytes were allocated before the recording began and have no call stacks; "
        "call ptmem_gate.start() first of all, or make the model inside the recording"
    )
