"""Records the GPU memory of PyTorch programs, compares recordings, and gives a verdict.

from ptmem_gate import compare, record

with record("after.pkl", steps=3):
    train()
result = compare("before.pkl", "after.pkl", max_growth="5%")
print(result.report)
result.require_pass()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._callbacks import lightning_callback, on_oom, trainer_callback
    from ._commands import (
        check,
        check_ranks,
        compare,
        compare_ranks,
        find_leaks,
        save_profile,
        show,
        show_ranks,
    )
    from ._history import RecordingError, RecordingWarning
    from ._measure import measure
    from ._program import ToolError, program, version
    from ._recording import Recording, record, start
    from ._result import MemoryVerdictError, Result
    from ._serve import serve
    from .results import Comparison, Leaks, Ranks, Snapshot, Suite

__all__ = [
    "Comparison",
    "Leaks",
    "MemoryVerdictError",
    "Ranks",
    "Recording",
    "RecordingError",
    "RecordingWarning",
    "Result",
    "Snapshot",
    "Suite",
    "ToolError",
    "check",
    "check_ranks",
    "compare",
    "compare_ranks",
    "find_leaks",
    "lightning_callback",
    "measure",
    "on_oom",
    "program",
    "record",
    "save_profile",
    "serve",
    "show",
    "show_ranks",
    "start",
    "trainer_callback",
    "version",
]

#: Where the names are. They are imported when they are used: the plugin of pytest is loaded by every run of it.
_PLACES = {
    "_callbacks": ("lightning_callback", "on_oom", "trainer_callback"),
    "_commands": (
        "check",
        "check_ranks",
        "compare",
        "compare_ranks",
        "find_leaks",
        "save_profile",
        "show",
        "show_ranks",
    ),
    "_history": ("RecordingError", "RecordingWarning"),
    "_measure": ("measure",),
    "_program": ("ToolError", "program", "version"),
    "_recording": ("Recording", "record", "start"),
    "_result": ("MemoryVerdictError", "Result"),
    "_serve": ("serve",),
    "results": ("Comparison", "Leaks", "Ranks", "Snapshot", "Suite"),
}


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            value = getattr(importlib.import_module(f"{__name__}.{place}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
