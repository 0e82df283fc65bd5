"""Facts about a run, which a snapshot keeps under the key `ptmem`. Other readers of snapshots ignore them.

`ptmem simulate` copies this file to the programs that it records: it imports nothing of the package.
docs/snapshot-format.md describes the key.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import glob
import hashlib
import importlib.metadata
import json
import os
import pickle
import platform
import sys
import sysconfig
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Callable, Optional

#: Version of the key. A reader ignores what it does not know, so only a change of meaning needs another.
FORMAT = 1

#: Counters of PyTorch's allocator, to check a snapshot against.
COUNTERS = ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes")

#: The counter of requests that failed.
FAILED = "num_ooms"

#: Bounds, so that facts stay small beside the history.
LONGEST_MESSAGE = 500
MOST_FILES_OF_A_PACKAGE = 5_000

#: Folders of a checkout in which its packages lie.
FOLDERS_OF_PACKAGES = ("", "src", "python", "lib", "*/src", "packages/*", "packages/*/src", "libs/*", "libs/*/src")

#: Folders of installed packages.
INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


class Facts:
    """Facts about a run, collected while it is recorded."""

    def __init__(self, recorder: str, asked: Optional[tuple[int, int]]) -> None:
        #: PyTorch, once it is imported.
        self.torch: Any = None
        #: The digests that identify the program (`Ran`), if recorded.
        self.ran: Any = None
        #: What counts steps (`StepCounter`), unless the program marks them.
        self.counter: Any = None
        #: The outermost calls of modules (`OutermostCalls`), where a history is recorded.
        self.calls: Any = None
        self.recorder = recorder
        #: The first and the last step that were to be recorded; None for all of the program.
        self.asked = asked
        #: The rank of this process and the number of ranks, once it has been one of several.
        self.rank: Optional[tuple[int, int]] = None
        #: Pairs of a number of ranks and how many communicators of NCCL have as many.
        self.communicators: list[list[int]] = []
        self._start: dict[int, Any] = {}
        self._dumped: dict[int, Any] = {}
        self.collections = Collections()
        self.number_steps(1)

    def begin(self) -> None:
        """Notes the counters where the recorded part begins, which is at the beginning of a step."""
        self.number_steps(self._last + 1)
        self._start = self._counters()
        self.collections.begin(self.torch)
        if self.counter is not None:
            self.counter.begin()
        if self.calls is not None:
            self.calls.begin(self.torch)

    def stop(self) -> None:
        """Notes nothing from here on."""
        self.collections.stop()
        if self.calls is not None:
            self.calls.stop()

    def number_steps(self, first: int) -> None:
        """Restarts the count of steps: the next step that ends has this number."""
        self._first = first
        self._last = first - 1

    def end_step(self) -> None:
        """Notes that a step has ended; one that began in the recorded part is whole."""
        self._last += 1
        self.note_rank()

    def note_rank(self) -> None:
        """Asks PyTorch for the rank of this process and its groups, which are no longer known once these are gone."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            self.rank = (distributed.get_rank(), distributed.get_world_size())
            self.communicators = [list(pair) for pair in sorted(Counter(self._sizes_of_communicators()).items())]

    def _sizes_of_communicators(self) -> Iterator[int]:
        """The number of ranks of each communicator that NCCL has made."""
        world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
        for group in list(getattr(world, "pg_map", ())):
            try:
                backend = group._get_backend(self.torch.device("cuda"))
                # A group makes its communicator when it is first used; releases before 2.4 do not report it.
                if backend.name() == "nccl" and getattr(backend, "_is_initialized", lambda: True)():
                    yield group.size()
            except (AttributeError, RuntimeError):
                continue  # It has no backend for this device.

    def allocates(self) -> bool:
        """True if this process has allocated memory."""
        return any(found["calls"][0] > 0 for found in self._counters().values())

    def snapshot(self, ending: str = "whole", message: str = "") -> Any:
        """A snapshot with the facts about it. `ending` is whole, exception or oom."""
        with collector_paused():
            before = self._counters()
            snapshot = snapshot_of(self.torch)
            after = self._counters()
        if not isinstance(snapshot, dict):
            return snapshot
        # Another thread may have allocated in between: the counters are then those of no known moment.
        dumped = {device: counters for device, counters in after.items() if before.get(device) == counters}
        self._dumped = dumped
        _end_step_of_optimizer(snapshot)
        frames = Frames(snapshot, self.calls)
        snapshot["ptmem"] = {
            **self._about(frames.modules(), ending, message),
            "functions": frames.functions(),
            "counters": self._memory(dumped),
            "calls": self.calls and self.calls.facts({device: of["calls"][0] for device, of in dumped.items()}),
            "optimizers": self.calls and self.calls.optimizers(),
            "cards": self._cards(after),
        }
        return snapshot

    def note_collected(self, snapshot: Any, stop: Callable[[], object]) -> None:
        """Adds to the facts of a snapshot the blocks that Python's garbage collector frees: reference cycles hold them.

        `stop` turns the history off, which would be read again. The snapshot must have been taken with the collector
        paused, and nothing is taken from it: its figures are those of the program.
        """
        if not isinstance(snapshot, dict):
            return
        stop()
        self.collections.stop()
        before = _held(snapshot) & _held(snapshot_of(self.torch))
        gc.collect()
        freed = before - _held(snapshot_of(self.torch))
        snapshot["ptmem"]["collected"] = [
            {
                "device": device,
                "blocks": sorted(place for of, place in freed if of == device),
                "frees": self.collections.of_device(device),
                "freed": counters["calls"][1],
            }
            for device, counters in self._dumped.items()
        ]

    def _about(self, modules: list[str], ending: str, message: str) -> dict[str, Any]:
        """The facts that need no history."""
        checkout = Checkout.around(os.getcwd())
        idle = self.counter.idle() if self.counter and ending == "whole" else 0
        return {
            "format": FORMAT,
            "recorder": self.recorder,
            "steps": {
                "first": self._first,
                "last": self._last,
                "asked": self.asked and list(self.asked),
                **({"idle_optimizers": idle} if idle else {}),
            },
            "ending": {"kind": ending, "message": message[:LONGEST_MESSAGE]},
            "rank": self.rank and list(self.rank),
            "versions": self._versions(modules),
            "commit": checkout.commit() if checkout else None,
            "packages": checkout.packages(modules) if checkout else [],
            "program": self.ran.facts(checkout and checkout.root) if self.ran else None,
        }

    def figures(self, peaks: Peaks, ending: str = "whole", message: str = "") -> dict[str, Any]:
        """Peaks and ends of the counters alone, with the facts about the run."""
        return {**peaks.figures(), "ptmem": self._about(loaded_modules(), ending, message)}

    def _counters(self) -> dict[int, Any]:
        """PyTorch's counters of each device, and the numbers of allocations and frees."""
        found = {}
        for device, stats in stats_of_devices(self.torch):
            bytes_of = {name: stats[name]["all"] for name in COUNTERS if name in stats}
            found[device] = {
                "current": {name: counter["current"] for name, counter in bytes_of.items()},
                "peak": {name: counter["peak"] for name, counter in bytes_of.items()},
                "calls": [stats["allocation"]["all"][which] for which in ("allocated", "freed")],
            }
        return found

    def _memory(self, dumped: dict[int, Any]) -> list[dict[str, Any]]:
        """The counters at the start and at the dump."""
        return [
            {"device": device, "start": self._start[device], "dump": dump}
            for device, dump in dumped.items()
            if device in self._start
        ]

    def _cards(self, dumped: dict[int, Any]) -> list[dict[str, Any]]:
        """The cards of NVIDIA and AMD that this process used. Communicators are on the one that is current."""
        found = []
        for device, counters in dumped.items():
            if counters["calls"][0] == 0 or kind_of(self.torch) != "cuda":
                continue
            card = self.torch.cuda.get_device_properties(device)
            is_current = device == self.torch.cuda.current_device()
            found.append(
                {
                    "device": device,
                    "name": card.name,
                    "capability": [card.major, card.minor],
                    "processors": card.multi_processor_count,
                    "communicators": self.communicators if is_current else [],
                    "others": self._others(device, counters["current"]),
                    "memory": int(card.total_memory),
                }
            )
        return found

    def _others(self, device: int, held: dict[str, int]) -> Optional[int]:
        """Bytes in use on a card that PyTorch's allocator has not reserved; a simulated one has none."""
        if "PTMEM_SIMULATE" in os.environ or "reserved_bytes" not in held:
            return None
        free, total = self.torch.cuda.mem_get_info(device)
        return max(0, int(total) - int(free) - held["reserved_bytes"])

    def _versions(self, modules: list[str]) -> list[list[str]]:
        """Versions of Python, PyTorch and these packages: as pairs, since names may be any."""
        versions = {"python": platform.python_version(), "torch": str(self.torch.__version__)}
        for name in modules:
            version = _version(name)
            if version is not None:
                versions.setdefault(name, version)
        return [[name, version] for name, version in sorted(versions.items())]


class Collections:
    """Notes what Python's garbage collector frees while a program is recorded."""

    def __init__(self) -> None:
        self._torch: Any = None
        self._process = 0
        #: The numbers of frees of each device where a collection began.
        self._before: dict[int, int] = {}
        #: Pairs of such numbers, before and after collections that freed something.
        self._frees: dict[int, list[list[int]]] = {}

    def begin(self, torch: Any) -> None:
        """Begins with nothing noted."""
        self._torch = torch
        self._process = os.getpid()
        self._frees.clear()
        if self._note not in gc.callbacks:
            gc.callbacks.append(self._note)

    def stop(self) -> None:
        if self._note in gc.callbacks:
            gc.callbacks.remove(self._note)

    def of_device(self, device: int) -> list[list[int]]:
        return self._frees.get(device, [])

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if os.getpid() != self._process or (phase == "stop" and not info["collected"]):
            return
        frees = {device: stats["allocation"]["all"]["freed"] for device, stats in stats_of_devices(self._torch)}
        if phase == "start":
            self._before = frees
            return
        for device, after in frees.items():
            before = self._before.get(device, after)
            if before < after:
                self._frees.setdefault(device, []).append([before, after])


def holds_figures(path: str) -> bool:
    """True for a file into which the counters are written, in place of a history."""
    return path.endswith(".json")


class Peaks:
    """The highest values of PyTorch's counters since begin(), also where the program resets them."""

    #: Functions of PyTorch's binary that reset them.
    RESETS = ("_cuda_resetPeakMemoryStats", "_xpu_resetPeakMemoryStats", "_accelerator_resetPeakStats")

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self._highest: dict[str, dict[str, int]] = {}
        #: The requests of each device that had failed before.
        self._failed: dict[int, int] = {}
        self._replaced: dict[str, Any] = {}

    def begin(self) -> None:
        """Resets the counters of the devices in use."""
        for name in self.RESETS:
            if hasattr(self.torch._C, name) and name not in self._replaced:
                self._replace(name, getattr(self.torch._C, name))
        gpu = gpu_of(self.torch)
        if gpu.is_initialized():
            for device in range(gpu.device_count()):
                gpu.reset_peak_memory_stats(device)
            self._failed = {device: stats.get(FAILED, 0) for device, stats in stats_of_devices(self.torch)}
        self._highest.clear()

    def _replace(self, name: str, reset: Callable[..., Any]) -> None:
        def note_and_reset(*arguments: Any) -> Any:
            self._highest = self.figures()
            return reset(*arguments)

        self._replaced[name] = reset
        setattr(self.torch._C, name, note_and_reset)

    def stop(self) -> None:
        """Gives the functions of PyTorch back."""
        for name, reset in self._replaced.items():
            setattr(self.torch._C, name, reset)
        self._replaced.clear()

    def figures(self) -> dict[str, dict[str, int]]:
        """Peaks and current values in bytes, and the number of failed requests, of each device that was used."""
        found = {}
        for device, stats in stats_of_devices(self.torch):
            key = f"{kind_of(self.torch)}:{device}"
            highest = self._highest.get(key, {})
            figures = {}
            for name in COUNTERS:
                if name in stats:
                    counter = stats[name]["all"]
                    peak = f"{name}.all.peak"
                    figures[peak] = max(counter["peak"], highest.get(peak, 0))
                    figures[f"{name}.all.current"] = counter["current"]
            failed = stats.get(FAILED, 0) - self._failed.get(device, 0)
            if failed > 0:
                figures[FAILED] = failed
            if any(figures.values()):
                found[key] = figures
        return found


class StepCounter:
    """Counts the steps of training by those of one optimizer: the first that steps parameters on a device.

    Until there is one, the first on the host counts, if the device allocates between its steps: parameters may be
    offloaded.
    """

    def __init__(self, torch: Any, facts: Facts) -> None:
        self._torch = torch
        self._facts = facts
        self.steps = 0
        #: Steps of other optimizers on a device.
        self.others = 0
        #: The optimizer that counts. Without a reference, another one may get its address.
        self._counted: Any = _nothing
        self.is_on_device = False
        #: The numbers of allocations at the last step of an optimizer on the host, once there is one.
        self._allocated: Optional[dict[int, int]] = None
        #: The optimizers that made steps in the recorded part.
        self._stepped: list[Any] = []

    def begin(self) -> None:
        """Notes where the recorded part begins."""
        self._stepped.clear()

    def count(self, optimizer: Any) -> bool:
        """Notes a step of an optimizer; True if a step of training ends with it."""
        is_on_device = self._has_device_parameters(optimizer)
        if not any(known() is optimizer for known in self._stepped):
            self._stepped.append(weakref.ref(optimizer))
        if self._counted is _nothing or (is_on_device and not self.is_on_device):
            self._count_by(optimizer, is_on_device)
        elif self._counted() is not optimizer:
            self.others += is_on_device
            return False
        if not is_on_device and not self._has_allocated():
            return False
        self.steps += 1
        return True

    def _count_by(self, optimizer: Any, is_on_device: bool) -> None:
        self._counted = weakref.ref(optimizer)
        self.is_on_device = is_on_device
        if self.steps > 0:
            self.steps = 0
            self._facts.number_steps(1)

    def _has_device_parameters(self, optimizer: Any) -> bool:
        return any(tensor.device.type == kind_of(self._torch) for tensor in _parameters(optimizer))

    def idle(self) -> int:
        """The number of optimizers on a device whose parameters no optimizer stepped in the recorded part."""
        stepped = {id(tensor) for known in self._stepped for tensor in _parameters(known())}
        kind = getattr(sys.modules.get("torch.optim"), "Optimizer", None)
        if not stepped or kind is None:
            return 0
        optimizers = [found for found in gc.get_objects() if issubclass(type(found), kind)]
        on_device = filter(self._has_device_parameters, optimizers)
        return sum(stepped.isdisjoint(map(id, _parameters(optimizer))) for optimizer in on_device)

    def _has_allocated(self) -> bool:
        before = self._allocated
        is_used = gpu_of(self._torch).is_initialized()
        self._allocated = dict(allocations_of_devices(self._torch)) if is_used else {}
        return before is not None and self._allocated != before

    def made(self) -> str:
        """What was counted, in words."""
        made = f"the optimizer made {_steps(self.steps)}"
        return f"{made} and others {self.others}" if self.others else made


def _nothing() -> None:
    return None


def _parameters(optimizer: Any) -> list[Any]:
    return [tensor for group in getattr(optimizer, "param_groups", ()) for tensor in group.get("params", ())]


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


class HeldHistory:
    """The allocator's history, which only the recorder turns on and off between hold() and release().

    A program that does so itself would drop what was recorded. Its snapshots have the history of the recorder.
    """

    #: Functions of PyTorch's binary that turn it on and off.
    SWITCHES = (
        "_cuda_record_memory_history",
        "_cuda_record_memory_history_legacy",
        "_cuda_recordMemoryHistory",  # PyTorch 2.0
        "_xpu_recordMemoryHistory",
    )

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._is_own = False
        #: For each switch, PyTorch's function and the one in its place.
        self._replaced: dict[str, tuple[Any, Any]] = {}

    def hold(self) -> None:
        for name in self.SWITCHES:
            if hasattr(self._torch._C, name) and name not in self._replaced:
                self._replace(name, getattr(self._torch._C, name))

    def _replace(self, name: str, switch: Callable[..., Any]) -> None:
        def switch_for_recorder(*arguments: Any, **options: Any) -> Any:
            return switch(*arguments, **options) if self._is_own else None

        switch_for_recorder.holder = self  # type: ignore[attr-defined]
        self._replaced[name] = (switch, switch_for_recorder)
        setattr(self._torch._C, name, switch_for_recorder)

    def is_held_by_another(self) -> bool:
        """True where another recorder holds the history, such as `ptmem simulate`."""
        switches = [getattr(self._torch._C, name, None) for name in self.SWITCHES]
        return any(getattr(switch, "holder", self) is not self for switch in switches)

    def release(self) -> None:
        """Restores PyTorch's functions, unless others have replaced them since."""
        for name, (switch, own) in self._replaced.items():
            if getattr(self._torch._C, name) is own:
                setattr(self._torch._C, name, switch)
        self._replaced.clear()

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Lets the recorder turn it on and off."""
        self._is_own = True
        try:
            yield
        finally:
            self._is_own = False


def stats_of_devices(torch: Any) -> Iterator[tuple[int, Any]]:
    """The statistics of each device in use."""
    memory_stats = native(torch, "memoryStats")
    for device in range(gpu_of(torch).device_count()):
        try:
            yield device, memory_stats(device)
        except RuntimeError:
            continue  # The GPU is not in use yet.


def allocations_of_devices(torch: Any) -> Iterator[tuple[int, int]]:
    """The number of allocations on each device in use, since the process began."""
    for device, stats in stats_of_devices(torch):
        yield device, stats["allocation"]["all"]["allocated"]


def gpu_of(torch: Any) -> Any:
    """The part of PyTorch for the GPUs that it is built for: torch.cuda, also for ROCm, or else torch.xpu."""
    if torch.backends.cuda.is_built() or not has_xpu(torch):
        return torch.cuda
    return torch.xpu


def snapshot_of(torch: Any) -> Any:
    """PyTorch's own snapshot.

    To name Python frames, PyTorch asks whether it has `torch._inductor`, which imports its compiler for the
    question: seconds of each recording. A program that did not import it has no compiled code to name.
    https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/python/combined_traceback.cpp
    """
    # During its import it is not an attribute yet.
    is_hidden = "torch._inductor" not in sys.modules and vars(torch).setdefault("_inductor", None) is None
    try:
        return gpu_of(torch).memory._snapshot()
    finally:
        # Another thread may have imported it in between.
        if is_hidden and vars(torch).get("_inductor") is None:
            vars(torch).pop("_inductor", None)


def has_xpu(torch: Any) -> bool:
    """True for a build for GPUs of Intel that can record their memory: PyTorch 2.11 and later."""
    xpu = getattr(torch, "xpu", None)
    is_compiled = getattr(xpu, "_is_compiled", lambda: False)
    return is_compiled() and hasattr(getattr(xpu, "memory", None), "_record_memory_history")


def lack_of_cpp_names(torch: Any) -> Optional[str]:
    """Why PyTorch cannot name C++ frames here; None if it can, or cannot be asked.

    It reads line numbers from the output of addr2line, and a snapshot fails where that is missing or prints another
    text. A process that has failed so once must not try again: it may wait forever, or give frames the names of others.
    """
    profiler = getattr(torch._C, "_profiler", None)
    gather = getattr(profiler, "gather_traceback", None)
    symbolize = getattr(profiler, "symbolize_tracebacks", None)
    if gather is None or symbolize is None:
        return None
    try:
        symbolize([gather(python=False, script=False, cpp=True)])
    except (RuntimeError, ValueError) as error:
        return last_line(error)
    return None


def native(torch: Any, name: str) -> Any:
    """A function of PyTorch's binary for these GPUs; None if the release lacks it."""
    return getattr(torch._C, f"_{kind_of(torch)}_{name}", None)


def kind_of(torch: Any) -> str:
    """The type of these devices, as PyTorch names it: cuda, also for ROCm, or xpu."""
    return "cuda" if gpu_of(torch) is torch.cuda else "xpu"


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Keeps Python's garbage collector from running: it frees memory of the GPU that reference cycles hold.

    PyTorch makes the Python objects of a snapshot after it has copied the allocator's state, and the number of objects
    makes the collector run before anything else can be read.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def collected() -> Iterator[None]:
    """Begins a recording: Python's garbage collector runs now, and then no more until it has begun.

    When it runs next then depends on what is recorded alone. Without this, it depends on all that Python did before,
    such as reading the names of the installed packages, and garbage of that time counts into the figures.
    """
    with collector_paused():
        gc.collect()
        yield


def _held(snapshot: Any) -> set[tuple[int, int]]:
    """The devices and addresses of the blocks that are held."""
    held = set()
    for segment in snapshot["segments"]:
        place = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                held.add((segment["device"], block.get("address", place)))
            place += block["size"]
    return held


def _end_step_of_optimizer(snapshot: dict[str, Any]) -> None:
    """Ends the annotation of the step in whose hook the snapshot is taken: PyTorch ends it after the hook."""
    marks = snapshot.get("external_annotations")
    times = [trace[-1]["time_us"] for trace in snapshot.get("device_traces", ()) if trace and "time_us" in trace[-1]]
    if not marks or not times:
        return
    open_steps: dict[str, Any] = {}
    for mark in marks:
        if mark["name"].startswith("Optimizer.step#"):
            if mark["stage"] == "START":
                open_steps[mark["name"]] = mark
            else:
                open_steps.pop(mark["name"], None)
    for mark in open_steps.values():
        marks.append({**mark, "stage": "END", "time_us": max(mark["time_us"], *times)})


def _version(name: str) -> Optional[str]:
    """The version of an installed package; none for a module of the user or of the standard library."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        # Some of the standard library, such as `re`, state one, and are in stacks where garbage was collected.
        if name in getattr(sys, "stdlib_module_names", ()):
            return None
        version = getattr(sys.modules.get(name), "__version__", None)
        return version if isinstance(version, str) else None


class Frames:
    """The Python frames of a snapshot, by file. Takes out of its stacks those of the recorder that calls modules."""

    def __init__(self, snapshot: dict[str, Any], calls: Any) -> None:
        #: Lines by file and name.
        self.files: dict[str, dict[str, set[int]]] = {}
        seen: set[int] = set()
        own: set[int] = set()
        for frames in _stacks(snapshot):
            if id(frames) in seen:
                continue  # Equal stacks are one list.
            seen.add(id(frames))
            for frame in frames:
                if id(frame) not in seen:
                    seen.add(id(frame))
                    if calls is not None and calls.is_own(frame):
                        own.add(id(frame))
                    else:
                        self._add(frame)
            if not own.isdisjoint(map(id, frames)):
                frames[:] = [frame for frame in frames if id(frame) not in own]

    def _add(self, frame: Any) -> None:
        name = frame["filename"]
        if name.endswith(".py"):
            self.files.setdefault(name, {}).setdefault(frame["name"], set()).add(frame["line"])

    def modules(self) -> list[str]:
        """Names of the top-level modules whose code occurs."""
        found = []
        for name, module in list(sys.modules.items()):
            place = None if "." in name else _place(module)
            if place is not None and any(file == place or file.startswith(place + os.sep) for file in self.files):
                found.append(name)
        return sorted(found)

    def functions(self) -> list[Any]:
        """Qualified names of functions by file, each with its first and last line.

        Functions of PyTorch and of the standard library are left out: the name of the file is enough.
        """
        pytorch = _place(sys.modules.get("torch")) or INSTALLED[0] + "torch"
        library = sysconfig.get_paths()["stdlib"] + os.sep
        found = []
        for file, lines in sorted(self.files.items()):
            if file.startswith(pytorch + os.sep) or (file.startswith(library) and not _is_installed(file)):
                continue
            functions = [span for span in _functions(file) if _occurs(span, lines)]
            if functions:
                found.append([file, functions])
        return found


def loaded_modules() -> list[str]:
    """Names of the top-level modules that are imported, those of the standard library left out."""
    library = sysconfig.get_paths()["stdlib"] + os.sep
    found = []
    for name, module in list(sys.modules.items()):
        place = None if "." in name else _place(module)
        if place is not None and (not place.startswith(library) or _is_installed(place + os.sep)):
            found.append(name)
    return sorted(found)


def _stacks(snapshot: dict[str, Any]) -> Iterator[Any]:
    for trace in (*snapshot.get("device_traces", ()), snapshot.get("host_traces", ())):
        for event in trace:
            yield event.get("frames", ())
    for segment in (*snapshot.get("segments", ()), *snapshot.get("host_segments", ())):
        yield segment.get("frames", ())
        for block in segment["blocks"]:
            yield block.get("frames", ())


def _place(module: Any) -> Optional[str]:
    """The folder of a package, or the file of a module."""
    file = getattr(module, "__file__", None)
    if file is None:  # A package without an __init__.py.
        return next(iter(getattr(module, "__path__", ())), None)
    if not isinstance(file, str) or not file.endswith(".py"):
        return None
    folder, name = os.path.split(file)
    return folder if name == "__init__.py" else file


def _is_installed(path: str) -> bool:
    return any(folder in path for folder in INSTALLED)


def _occurs(span: tuple[int, int, str], lines: dict[str, set[int]]) -> bool:
    first, last, qualified = span
    return any(first <= line <= last for line in lines.get(qualified.rpartition(".")[2], ()))


def _functions(file: str) -> Iterable[tuple[int, int, str]]:
    """The functions of a source file, with their first and last lines."""
    try:
        with open(file, "rb") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    return _functions_below(tree, "")


def _functions_below(tree: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            # A decorator belongs to the function: its line is that of the frame while it is called.
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield first, node.end_lineno or first, prefix + node.name
            yield from _functions_below(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from _functions_below(node, f"{prefix}{node.name}.")
        else:
            yield from _functions_below(node, prefix)


class Checkout:
    """The repository in which a program runs."""

    def __init__(self, root: str) -> None:
        self.root = root

    @classmethod
    def around(cls, folder: str) -> Optional[Checkout]:
        """The repository around a folder, if there is one."""
        while not os.path.exists(os.path.join(folder, ".git")):
            parent = os.path.dirname(folder)
            if parent == folder:
                return None
            folder = parent
        return cls(os.path.realpath(folder))

    def commit(self) -> Optional[str]:
        """The commit that is checked out, from git's files: git itself may not be there."""
        folder = os.path.join(self.root, ".git")
        if os.path.isfile(folder):  # A worktree: the file names its folder.
            folder = os.path.join(self.root, _read(folder).partition("gitdir:")[2].strip())
        head = _read(os.path.join(folder, "HEAD")).strip()
        name = head.partition("ref:")[2].strip()
        if not name:
            return head or None
        common = os.path.join(folder, _read(os.path.join(folder, "commondir")).strip())
        for place in (folder, common):
            commit = _read(os.path.join(place, *name.split("/"))).strip()
            if commit:
                return commit
        packed = (line.split(" ") for line in _read(os.path.join(common, "packed-refs")).splitlines())
        return next((line[0] for line in packed if line[1:] == [name]), None)

    def packages(self, modules: list[str]) -> list[dict[str, Any]]:
        """The repository's own packages of these modules, and where they were imported from."""
        found = []
        for name in modules:
            place = os.path.realpath(_place(sys.modules[name]) or "")
            # An environment in the checkout holds installed copies.
            inside = place.startswith(self.root + os.sep) and not _is_installed(place)
            here = place if inside else self._find(name)
            if here is None:
                continue
            code = _digests(place)
            found.append(
                {
                    "name": name,
                    "path": os.path.relpath(place, self.root) if inside else place,
                    "inside": inside,
                    "digest": _digest(code),
                    "same": inside or _is_same_code(code, _digests(here)),
                }
            )
        return found

    def _find(self, name: str) -> Optional[str]:
        """The folder of a package, or the file of a module, that the repository holds."""
        for folder in FOLDERS_OF_PACKAGES:
            place = os.path.join(glob.escape(self.root), folder, name)
            for found in sorted(glob.glob(place)) + sorted(glob.glob(place + ".py")):
                if os.path.isfile(found) or glob.glob(os.path.join(glob.escape(found), "*.py")):
                    return found
        return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def _digests(place: str) -> dict[str, str]:
    """Digests of the Python files of a package or module, by their paths in it."""
    if not os.path.isdir(place):
        return {"": _digest_of_file(place)}
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py") and len(found) < MOST_FILES_OF_A_PACKAGE:
                found[os.path.relpath(path, place)] = _digest_of_file(path)
    return found


def _digest_of_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha1(file.read()).hexdigest()
    except OSError:
        return ""


def _digest(code: dict[str, str]) -> str:
    return hashlib.sha1(repr(sorted(code.items())).encode()).hexdigest()


def _is_same_code(imported: dict[str, str], here: dict[str, str]) -> bool:
    """True if the files that both have are the same: an installed package may have files that its build wrote."""
    both = imported.keys() & here.keys()
    return bool(both) and all(imported[name] == here[name] for name in both)


def last_line(error: BaseException) -> str:
    """An exception as the last line of its traceback."""
    text = str(error).strip().splitlines()
    name = type(error).__name__
    return f"{name}: {text[0]}" if text else name


def path_of_rank(path: str, rank: Optional[tuple[int, int]]) -> str:
    """The file of this process. Each rank of a job writes one of its own."""
    if rank is None and os.environ.get("RANK", "").isdigit():
        size = os.environ.get("WORLD_SIZE", "1")
        rank = (int(os.environ["RANK"]), int(size) if size.isdigit() else 1)
    if "{rank}" in path:
        return path.replace("{rank}", str(rank[0] if rank else 0))
    if rank is None or rank[1] == 1:
        return path
    stem, dot, suffix = os.path.basename(path).partition(".")
    return os.path.join(os.path.dirname(path), f"{stem}_rank{rank[0]}{dot}{suffix}")


def write(path: str, snapshot: Any) -> None:
    """Writes a snapshot."""
    write_whole(path, lambda file: pickle.dump(snapshot, file))


def write_figures(path: str, figures: dict[str, Any]) -> None:
    """Writes counters."""
    text = json.dumps(figures, indent=1, sort_keys=True) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def write_whole(path: str, fill: Callable[[BinaryIO], object]) -> None:
    """Writes a file whole: a reader never sees a part of it."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    """The mask of this process, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
