"""PyTorch's own counters over a part of a program: figures without a recording."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any, Optional

from ._facts import Peaks, path_of_rank, write_figures
from ._history import RecordingError, import_torch
from ._result import PathLike


@contextlib.contextmanager
def measure(path: PathLike, *, case: Optional[str] = None) -> Iterator[None]:
    """Writes peaks and ends of PyTorch's counters over a part of a program, as JSON that `compare` and `check` read.

        with measure("memory.json", case="train"):
            train()

    With a case, the file keeps the figures of other cases. It costs nothing, and says nothing about stacks. It resets
    PyTorch's peaks at the beginning, so parts do not overlap. A part that raises is not written. Each rank of a job
    writes a file of its own, as with record().

    Raises RecordingError where the program used no GPU, or the file holds something else.
    """
    torch = import_torch()
    target = path_of_rank(os.fspath(path), None)
    others = _cases(target) if case is not None else {}
    peaks = Peaks(torch)
    peaks.begin()
    try:
        yield
        devices = peaks.figures()
    finally:
        peaks.stop()
    if not devices:
        raise RecordingError(f"{target} was not written: the program used no GPU in this part")
    figures = devices if case is None else {**others, case: devices}
    write_figures(target, figures)


def _cases(path: str) -> dict[str, Any]:
    """The cases that a file holds already."""
    try:
        with open(path, encoding="utf-8") as file:
            cases = json.load(file)
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as error:
        raise RecordingError(f"{path} is not a file of measured cases: {error}") from error
    if not isinstance(cases, dict) or "schema" in cases or any(name.startswith(("cuda:", "xpu:")) for name in cases):
        raise RecordingError(f"{path} is not a file of measured cases; give another one")
    return cases
