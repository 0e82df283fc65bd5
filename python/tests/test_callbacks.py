"""Callbacks of trainers, and snapshots of memory that ran out."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fake_torch import FakeOptimizer, FakeTorch, OutOfMemoryError
from ptmem_gate import lightning_callback, on_oom, record, trainer_callback
from test_recording import events_in, facts_in


class Callback:
    """The base class of a framework."""


@pytest.fixture
def frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("transformers", "lightning", "lightning.pytorch"):
        module = ModuleType(name)
        module.TrainerCallback = module.Callback = Callback  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)


def train(torch: FakeTorch, begin: Any, end: Any) -> None:
    torch.allocate("model")
    optimizer = FakeOptimizer(torch.kind)
    begin()
    for number in range(1, 5):
        torch.allocate(f"step {number}")
        torch.step_optimizer(optimizer)
    end()


@pytest.mark.usefixtures("frameworks")
def test_a_trainer_of_hugging_face_records_steps(any_torch: FakeTorch, tmp_path: Path) -> None:
    callback = trainer_callback(tmp_path / "steps.pkl", steps=3)
    assert issubclass(type(callback), Callback)
    train(
        any_torch,
        lambda: callback.on_train_begin(1, 2, 3, model=4),
        lambda: callback.on_train_end(1, 2, 3, model=4),
    )
    assert events_in(tmp_path / "steps.pkl") == ["step 3"]
    assert not any_torch.enabled


@pytest.mark.usefixtures("frameworks")
def test_a_trainer_of_lightning_records_and_says_how_it_failed(torch: FakeTorch, tmp_path: Path) -> None:
    callback = lightning_callback(tmp_path / "steps.pkl", steps="2..3")
    train(torch, lambda: callback.on_fit_start(1, 2), lambda: callback.on_fit_end(1, 2))
    assert events_in(tmp_path / "steps.pkl") == ["step 2", "step 3"]
    failing = lightning_callback(tmp_path / "failed.pkl")
    train(torch, lambda: failing.on_fit_start(1, 2), lambda: failing.on_exception(1, 2, ValueError("no such layer")))
    assert facts_in(tmp_path / "failed.pkl")["ending"] == {"kind": "exception", "message": "ValueError: no such layer"}


def test_a_framework_that_is_missing_is_named(torch: FakeTorch, tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="found neither lightning nor pytorch_lightning; install one of them"):
        lightning_callback(tmp_path / "a.pkl")


def test_memory_that_runs_out_is_written_each_time(any_torch: FakeTorch, tmp_path: Path) -> None:
    on_oom(tmp_path / "oom.pkl")
    any_torch.allocate("model")
    for _ in range(2):
        with pytest.raises(OutOfMemoryError):
            any_torch.run_out_of_memory()
    assert events_in(tmp_path / "oom.pkl") == ["model", "oom", "oom"]
    assert facts_in(tmp_path / "oom.pkl")["ending"]["kind"] == "oom"


def test_a_recording_leaves_the_history_for_memory_that_runs_out(torch: FakeTorch, tmp_path: Path) -> None:
    on_oom(tmp_path / "oom.pkl")
    with record(tmp_path / "all.pkl"):
        torch.allocate("inside")
    with pytest.raises(OutOfMemoryError):
        torch.run_out_of_memory()
    assert events_in(tmp_path / "oom.pkl")[-1:] == ["oom"]
