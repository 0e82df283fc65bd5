"""A stand-in for PyTorch with the signatures of its releases. It notes the calls that it gets."""

from __future__ import annotations

import enum
from types import ModuleType, SimpleNamespace
from typing import Any, Callable, Optional


class Release(enum.Enum):
    """Releases from which on the signature of _record_memory_history is another one."""

    V2_0 = "2.0"
    V2_1 = "2.1"
    V2_8 = "2.8"
    V2_14 = "2.14"


class Event(str):
    """An event without frames, written as its name."""

    def get(self, key: str, other: object) -> object:
        return other


class OutOfMemoryError(RuntimeError):
    """As PyTorch raises it."""


def module_class() -> type:
    """A class of modules, which a recorder may change."""

    class Module:
        def __call__(self, *arguments: Any) -> Any:
            return self.forward(*arguments)

        def forward(self, *arguments: Any) -> Any:
            raise NotImplementedError

    return Module


class FakeOptimizer:
    """An optimizer with one parameter."""

    def __init__(self, device: str = "cuda") -> None:
        self.param_groups = [{"params": [SimpleNamespace(device=SimpleNamespace(type=device))]}]


class FakeTorch:
    """The parts of PyTorch that a recording uses."""

    def __init__(self, release: Release, kind: str = "cuda") -> None:
        self.release = release
        #: The part of PyTorch for its GPUs: cuda or xpu.
        self.kind = kind
        self.calls: list[str] = []
        self.names: list[str] = []
        self.events: list[str] = []
        self.enabled = False
        #: Whether pinned host memory is recorded.
        self.pinned = False
        self.initialized = True
        self.cuda_is_built = True
        self.has_gpu = True
        self.allocated = 0
        self.highest = 0
        self.max_entries = 0
        self.stacks = ""
        self.counted = 0
        #: Errors of a snapshot, and of naming C++ frames; and how often that was tried.
        self.snapshot_error = ""
        self.symbol_error = ""
        self.symbolized = 0
        #: Addresses of the blocks that are held, and the number of frees.
        self.held: list[int] = []
        self.freed = 0
        self.failed = 0
        self.waiting: list[Callable[[], None]] = []
        self.observers: list[Callable[..., None]] = []
        self.hooks: list[Callable[..., None]] = []
        #: PyTorch's binary.
        self.core: Any = None

    # --- The program ---------------------------------------------------------------------------------------------

    def allocate(self, name: str) -> None:
        """An allocation, which is recorded where the history is on."""
        self.use_cuda()
        self.counted += 1
        if self.enabled:
            self.events.append(name)
            del self.events[: -self.max_entries]

    def free(self, address: int) -> None:
        self.held.remove(address)
        self.freed += 1

    def use_cuda(self) -> None:
        self.initialized = True
        for call in self.waiting:
            call()
        self.waiting.clear()

    def run_out_of_memory(self) -> None:
        self.allocate("oom")
        for observe in self.observers:
            observe(0, 1, 2, 3)
        raise OutOfMemoryError("CUDA out of memory")

    def step_optimizer(self, optimizer: object) -> None:
        for hook in list(self.hooks):
            hook(optimizer, (), {})

    # --- PyTorch -------------------------------------------------------------------------------------------------

    def record_memory_history(self, *args: Any, **options: Any) -> None:
        if self.release is Release.V2_0:
            self._record_2_0(*args, **options)
        elif self.release is Release.V2_1:
            self._record_2_1(*args, **options)
        elif self.release is Release.V2_8:
            self._record_2_8(*args, **options)
        else:
            self.pinned = options.pop("record_pinned_host_memory", False)
            self._record_2_8(*args, **options)

    def _record_2_0(
        self, enabled: bool, *, trace_alloc_max_entries: int = 1, trace_alloc_record_context: bool = False
    ) -> None:
        assert isinstance(enabled, bool), "PyTorch 2.0 takes a truth"
        assert trace_alloc_record_context or not enabled, "events would have no stacks"
        self._set(enabled, trace_alloc_max_entries, clears=True)

    def _record_2_1(self, enabled: Optional[str] = "all", *, max_entries: int = 1, stacks: str = "all") -> None:
        self.stacks = stacks
        # Releases of this signature differ: the stricter ones keep the events until it is off.
        self._set(enabled is not None, max_entries, clears=enabled is None)

    def _record_2_8(
        self,
        enabled: Optional[str] = "all",
        *,
        max_entries: int = 1,
        stacks: str = "all",
        clear_history: bool = False,
    ) -> None:
        self.stacks = stacks
        self._set(enabled is not None, max_entries, clears=clear_history or enabled is None)

    def _set(self, enabled: bool, max_entries: int, clears: bool) -> None:
        self.calls.append("on" if enabled else "off")
        self.enabled = enabled
        if enabled:
            self.max_entries = max_entries
        if clears:
            self.events.clear()

    def lazy_call(self, call: Callable[[], None]) -> None:
        if self.initialized:
            call()
        else:
            self.waiting.append(call)

    def snapshot(self) -> dict[str, Any]:
        self.calls.append("dump")
        if self.snapshot_error:
            raise RuntimeError(self.snapshot_error)
        blocks = [{"address": place, "size": 512, "state": "active_allocated"} for place in self.held]
        segments = [{"device": 0, "address": 0, "blocks": blocks}]
        return {"segments": segments, "device_traces": [[Event(event) for event in self.events]]}

    def symbolize(self, tracebacks: list[str]) -> list[str]:
        self.symbolized += 1
        if self.symbol_error:
            raise ValueError(self.symbol_error)
        return tracebacks

    def memory_stats(self, device: int) -> dict[str, Any]:
        peak = max(self.highest, self.allocated)
        counter = {"all": {"current": self.allocated, "peak": peak, "allocated": self.counted, "freed": self.freed}}
        held = 10 << 20 if self.counted else 0
        reserved = {"all": {"current": held, "peak": max(held, peak)}}
        return {
            "allocated_bytes": counter,
            "reserved_bytes": reserved,
            "allocation": counter,
            "num_ooms": self.failed,
        }

    def reset_peak_memory_stats(self, device: int) -> None:
        getattr(self.core, f"_{self.kind}_resetPeakMemoryStats")(device)

    def reset_peaks(self, device: int) -> None:
        self.highest = self.allocated

    def record_function(self, name: str) -> Any:
        fake = self

        class Function:
            def __enter__(self) -> None:
                fake.names.append(name)

            def __exit__(self, *_: object) -> None:
                fake.names.append("/" + name)

        return Function()

    def register_hook(self, hook: Callable[..., None]) -> Any:
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def modules(self) -> dict[str, ModuleType]:
        """What `import torch` and its parts give."""
        memory = SimpleNamespace(_record_memory_history=self.record_memory_history, _snapshot=self.snapshot)
        gpu = SimpleNamespace(
            memory=memory,
            _lazy_call=self.lazy_call,
            is_initialized=lambda: self.initialized,
            is_available=lambda: self.cuda_is_built and self.has_gpu,
            _is_compiled=lambda: True,
            memory_allocated=lambda device: self.allocated,
            reset_peak_memory_stats=self.reset_peak_memory_stats,
            device_count=lambda: 1,
            current_device=lambda: 0,
            get_device_properties=lambda device: SimpleNamespace(
                name="Fake", major=9, minor=0, multi_processor_count=132, total_memory=80 << 30
            ),
            mem_get_info=lambda device: ((80 << 30) - (40 << 20), 80 << 30),
            empty_cache=lambda: None,
            OutOfMemoryError=OutOfMemoryError,
        )
        core = SimpleNamespace(
            _profiler=SimpleNamespace(gather_traceback=lambda **_: "", symbolize_tracebacks=self.symbolize),
            **{f"_{self.kind}_memoryStats": self.memory_stats, f"_{self.kind}_resetPeakMemoryStats": self.reset_peaks},
        )
        self.core = core
        setattr(core, f"_{self.kind}_attach_out_of_memory_observer", self.observers.append)
        if self.release is not Release.V2_0:
            setattr(core, f"_{self.kind}_isHistoryEnabled", lambda: self.enabled)
        torch = ModuleType("torch")
        vars(torch).update(
            __version__=f"{self.release.value}.0+fake",
            __path__=[],
            **{"cuda": SimpleNamespace(), self.kind: gpu},
            _C=core,
            nn=SimpleNamespace(Module=module_class()),
            profiler=SimpleNamespace(record_function=self.record_function),
            backends=SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: self.cuda_is_built and self.kind == "cuda")),
        )
        optim = ModuleType("torch.optim")
        vars(optim).update(__path__=[])
        optimizer = ModuleType("torch.optim.optimizer")
        vars(optimizer).update(
            register_optimizer_step_pre_hook=self.register_hook, register_optimizer_step_post_hook=self.register_hook
        )
        utils = ModuleType("torch.utils")
        vars(utils).update(checkpoint=SimpleNamespace())
        return {"torch": torch, "torch.utils": utils, "torch.optim": optim, "torch.optim.optimizer": optimizer}
