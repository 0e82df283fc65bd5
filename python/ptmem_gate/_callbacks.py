"""Recordings where people already are: a trainer of Hugging Face or Lightning, and wherever memory runs out."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Any, Optional

from ._facts import path_of_rank
from ._history import History, Stacks, import_torch
from ._recording import MAX_ENTRIES, Recording, Steps, record, start
from ._result import PathLike


def on_oom(path: PathLike, *, max_entries: int = MAX_ENTRIES, stacks: Stacks = "all") -> None:
    """Writes a snapshot whenever memory runs out, for the top of a program.

    The history is on from here, so that the snapshot names what holds memory. Each time replaces the snapshot of the
    time before. Each rank of a job writes a file of its own, as with record().
    """
    history = History(import_torch(), max_entries, stacks)
    history.begin()
    process = os.getpid()
    # A forked child is not the one that asked.
    history.watch_failures(lambda: write_failure(history, os.fspath(path)) if os.getpid() == process else None)


def write_failure(history: History, path: str) -> None:
    """Writes what there is where memory ran out: inside the allocator's error path, where nothing may raise."""
    with contextlib.suppress(Exception):
        history.facts.note_rank()
        history.write(path_of_rank(path, history.facts.rank), "oom")


class _Training:
    """A recording that callbacks begin and end. The history is on from the first, so that weights have call stacks."""

    def __init__(self, path: PathLike, steps: Steps, options: dict[str, Any]) -> None:
        self._asked = (path, steps, options)
        self._recording: Optional[Recording] = None
        start(max_entries=options.get("max_entries", MAX_ENTRIES), stacks=options.get("stacks", "all"))

    def begin(self) -> None:
        path, steps, options = self._asked
        if self._recording is None:
            self._recording = record(path, steps=steps, **options)
            self._recording.__enter__()

    def end(self, error: Optional[BaseException] = None) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.__exit__(type(error) if error else None, error, None)


def trainer_callback(path: PathLike, *, steps: Steps = None, **options: Any) -> Any:
    """A callback for the Trainer of Hugging Face that records its training, or some of its optimizer's steps.

        Trainer(..., callbacks=[trainer_callback("after.pkl", steps=3)])

    Make it before the model, so that weights have call stacks. The options are those of record().
    """
    training = _Training(path, steps, options)

    class RecordMemory(importlib.import_module("transformers").TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            training.begin()

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            training.end()

    return RecordMemory()


def lightning_callback(path: PathLike, *, steps: Steps = None, **options: Any) -> Any:
    """A callback for the Trainer of Lightning that records its training, or some of its optimizer's steps.

        Trainer(..., callbacks=[lightning_callback("after.pkl", steps=3)])

    Make it before the model, so that weights have call stacks. The options are those of record().
    """
    training = _Training(path, steps, options)

    class RecordMemory(_lightning().Callback):  # type: ignore[misc]
        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            training.begin()

        def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
            training.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            training.end(exception)

    return RecordMemory()


def _lightning() -> Any:
    """Lightning, under either of its names: a callback of one is none of the other."""
    import sys

    names = ("lightning.pytorch", "pytorch_lightning")
    imported = [name for name in names if name in sys.modules]
    for name in imported or names:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    raise ImportError(
        "Lightning cannot be imported: found neither lightning nor pytorch_lightning; install one of them"
    )
