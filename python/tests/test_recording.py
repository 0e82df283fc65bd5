"""The contents of a recording, under each signature that PyTorch has had."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import traceback
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_torch
import pytest
from fake_torch import FakeOptimizer, FakeTorch, OutOfMemoryError, Release
from ptmem_gate import Recording, RecordingError, RecordingWarning, record, start
from ptmem_gate._facts import Frames, HeldHistory, _version, path_of_rank
from ptmem_gate._outermost import OutermostCalls
from ptmem_gate._recording import Span


def events_in(path: Path) -> Any:
    with path.open("rb") as file:
        return pickle.load(file)["device_traces"][0]


def run_steps(torch: FakeTorch, recording: Recording, count: int) -> None:
    for number in range(1, count + 1):
        with recording.step():
            torch.allocate(f"step {number}")


def test_all_that_runs_inside_is_recorded(any_torch: FakeTorch, tmp_path: Path) -> None:
    any_torch.allocate("before")
    with record(tmp_path / "all.pkl"):
        any_torch.allocate("first")
        any_torch.allocate("second")
    any_torch.allocate("after")
    assert events_in(tmp_path / "all.pkl") == ["first", "second"]
    # Turning it off drops the events, so they are read before. Then the garbage collector runs between two looks.
    assert any_torch.calls[-4:] == ["dump", "off", "dump", "dump"]


def test_the_program_itself_cannot_turn_the_history_off_meanwhile(any_torch: FakeTorch, tmp_path: Path) -> None:
    calls: list[object] = []
    core: Any = sys.modules["torch"]._C
    core._cuda_record_memory_history = calls.append
    with record(tmp_path / "all.pkl"):
        core._cuda_record_memory_history(None)
    assert calls == []
    core._cuda_record_memory_history("all")
    assert calls == ["all"]


class Block:
    """A tensor in a reference cycle, which is freed when the garbage collector finds it."""

    def __init__(self, torch: FakeTorch, address: int) -> None:
        torch.allocate(str(address))
        torch.held.append(address)
        self.cycle = self
        weakref.finalize(self, torch.free, address)


def test_the_outermost_calls_of_modules_are_noted(any_torch: FakeTorch, tmp_path: Path) -> None:
    kind: Any = sys.modules["torch"].nn.Module
    call = kind.__call__

    class Layer(kind):  # type: ignore[misc]
        def forward(self, fails: bool) -> int:
            any_torch.allocate("of a layer")
            if fails:
                raise ValueError("a bad batch")
            return 7

    class Model(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            self.layers = [Layer(), Layer()]

        def forward(self, fails: bool = False) -> int:
            return sum(layer(fails) for layer in self.layers)

    model = Model()
    any_torch.allocate("before")
    with record(tmp_path / "all.pkl"):
        assert model() == 14
        with pytest.raises(ValueError, match="a bad batch"):
            model(True)
        model.layers[1](False)
        model()
    with open(tmp_path / "all.pkl", "rb") as file:
        calls = pickle.load(file)["ptmem"]["calls"]
    begins = [[1, 0], [3, 0], [4, 1], [5, 0]]
    assert calls == [{"device": 0, "modules": ["Model", "Layer"], "begins": begins, "allocated": 7}]
    assert kind.__call__ is call
    # Counters alone need no calls.
    with record(tmp_path / "all.json"):
        assert kind.__call__ is call
        model()


def test_calls_are_those_of_the_recorded_steps(torch: FakeTorch, tmp_path: Path) -> None:
    kind: Any = sys.modules["torch"].nn.Module

    class Model(kind):  # type: ignore[misc]
        def forward(self) -> None:
            torch.allocate("of a model")

    start()
    with record(tmp_path / "one.pkl", steps=2) as recording:
        for _ in range(3):
            with recording.step():
                Model()()
    with open(tmp_path / "one.pkl", "rb") as file:
        calls = pickle.load(file)["ptmem"]["calls"]
    assert [(of["begins"], of["allocated"]) for of in calls] == [([[1, 0]], 2)]
    assert kind.__call__.__name__ == "__call__"


def test_the_optimizer_of_each_call_is_noted(torch: FakeTorch, tmp_path: Path) -> None:
    first, second = FakeOptimizer(), FakeOptimizer()
    start()
    torch.step_optimizer(second)
    with record(tmp_path / "all.pkl"):
        torch.allocate("of a model")
        for optimizer in (first, second, first, second):
            torch.step_optimizer(optimizer)
    with open(tmp_path / "all.pkl", "rb") as file:
        assert pickle.load(file)["ptmem"]["optimizers"] == [0, 1, 0, 1]
    assert torch.hooks == []


def test_frames_of_the_recorder_are_no_frames_of_the_program() -> None:
    fake = FakeTorch(Release.V2_8)
    torch = fake.modules()["torch"]
    calls = OutermostCalls(lambda _: iter(()))
    calls.install(torch)

    class Model(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self) -> list[dict[str, Any]]:
            frames = list(traceback.walk_stack(sys._getframe()))
            return [{"name": f.f_code.co_name, "filename": f.f_code.co_filename, "line": at} for f, at in frames]

    frames = Model()()
    own = [frame for frame in frames if calls.is_own(frame)]
    assert [frame["filename"] for frame in own] == [fake_torch.__file__], "it has the file of PyTorch's function"
    others = [frame for frame in frames if frame not in own]
    blocks = [{"frames": frames}, {"frames": frames}]
    snapshot = {"segments": [{"frames": list(frames), "blocks": blocks}], "host_traces": [{"frames": list(frames)}]}
    Frames(snapshot, calls)
    assert blocks[0]["frames"] == others
    assert [snapshot["segments"][0]["frames"], snapshot["host_traces"][0]["frames"]] == [others, others]
    calls.stop()


@pytest.mark.skipif(sys.version_info < (3, 10), reason="older releases do not list their standard library")
def test_the_standard_library_has_the_version_of_python() -> None:
    assert (_version("re"), _version("pytest")) == (None, pytest.__version__)


@pytest.fixture
def no_other_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_other_collections")
def test_what_reference_cycles_hold_is_noted(any_torch: FakeTorch, tmp_path: Path) -> None:
    callbacks = list(gc.callbacks)
    with record(tmp_path / "all.pkl"):
        Block(any_torch, 512)
        gc.collect(0)
        any_torch.held.append(4096)
        any_torch.free(4096)
        kept = Block(any_torch, 1024)
        Block(any_torch, 2048)
    assert kept.cycle is kept
    with open(tmp_path / "all.pkl", "rb") as file:
        snapshot = pickle.load(file)
    # The snapshot has what the program had.
    assert [block["address"] for block in snapshot["segments"][0]["blocks"]] == [1024, 2048]
    assert snapshot["ptmem"]["collected"] == [{"device": 0, "blocks": [2048], "frees": [[0, 1]], "freed": 2}]
    assert gc.callbacks == callbacks


@pytest.mark.usefixtures("no_other_collections")
def test_what_was_garbage_before_is_not_recorded(any_torch: FakeTorch, tmp_path: Path) -> None:
    Block(any_torch, 512)
    with record(tmp_path / "all.pkl"):
        assert any_torch.held == []


def test_of_a_program_that_failed_nothing_is_collected(any_torch: FakeTorch, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="out of luck"), record(tmp_path / "all.pkl"):
        Block(any_torch, 512)
        raise ValueError("out of luck")
    with open(tmp_path / "all.pkl", "rb") as file:
        assert "collected" not in pickle.load(file)["ptmem"]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, ["step 1"]),
        (3, ["step 3"]),
        ((2, 3), ["step 2", "step 3"]),
        (range(2, 5), ["step 2", "step 3", "step 4"]),
        ("2..4", ["step 2", "step 3", "step 4"]),
        ("4", ["step 4"]),
    ],
)
def test_marked_steps_are_recorded_alone(any_torch: FakeTorch, tmp_path: Path, steps: Any, expected: list[str]) -> None:
    with record(tmp_path / "steps.pkl", steps=steps) as recording:
        any_torch.allocate("model")
        run_steps(any_torch, recording, 5)
    assert events_in(tmp_path / "steps.pkl") == expected
    assert any_torch.names[:2] == ["ProfilerStep#1", "/ProfilerStep#1"]


def test_without_marks_the_optimizer_counts(any_torch: FakeTorch, tmp_path: Path) -> None:
    first, second = FakeOptimizer(any_torch.kind), FakeOptimizer(any_torch.kind)
    with record(tmp_path / "optimizer.pkl", steps="2..3"):
        for number in range(1, 6):
            any_torch.allocate(f"step {number}")
            any_torch.step_optimizer(first)
            # That of another network in the same step.
            any_torch.step_optimizer(second)
    assert events_in(tmp_path / "optimizer.pkl") == ["step 2", "step 3"]
    assert any_torch.hooks == []


def test_an_optimizer_on_the_host_counts_only_while_none_on_a_device_does(torch: FakeTorch, tmp_path: Path) -> None:
    offloaded, on_device = FakeOptimizer("cpu"), FakeOptimizer()
    with record(tmp_path / "device.pkl", steps=2):
        torch.allocate("features")
        for _ in range(3):
            torch.step_optimizer(offloaded)
        for number in range(1, 4):
            torch.allocate(f"step {number}")
            torch.step_optimizer(on_device)
            torch.step_optimizer(offloaded)
    assert events_in(tmp_path / "device.pkl") == ["step 2"]
    with record(tmp_path / "host.pkl", steps=2):
        for number in range(1, 4):
            torch.allocate(f"step {number}")
            torch.step_optimizer(offloaded)
    # What the device allocated before the first may be no part of a step.
    assert events_in(tmp_path / "host.pkl") == ["step 3"]


def test_training_on_the_host_alone_makes_no_first_step(torch: FakeTorch, tmp_path: Path) -> None:
    on_host, on_device = FakeOptimizer("cpu"), FakeOptimizer()
    with record(tmp_path / "device.pkl", steps="1..1"):
        torch.allocate("model")
        for _ in range(3):
            torch.step_optimizer(on_host)
        torch.allocate("step 1")
        torch.step_optimizer(on_device)
    assert "step 1" in events_in(tmp_path / "device.pkl")


def test_an_optimizer_that_is_gone_is_not_mistaken_for_another(torch: FakeTorch, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="the program made 1 steps"), record(tmp_path / "stages.pkl", steps=3):
        for number in range(1, 4):
            torch.allocate(f"step {number}")
            torch.step_optimizer(FakeOptimizer())


@pytest.mark.parametrize(("steps", "told"), [("1..2", "3 2"), (None, "3 ")])
def test_who_waits_learns_how_far_it_is(
    torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: Any, told: str
) -> None:
    monkeypatch.setenv("PTMEM_SIMULATE_STEPS", str(tmp_path / "steps"))
    with record(tmp_path / "some.pkl", steps=steps) as recording:
        for _ in range(3):
            with recording.step():
                torch.allocate("step")
    assert (tmp_path / "steps").read_text() == told


def test_marks_go_before_the_optimizer(torch: FakeTorch, tmp_path: Path) -> None:
    with record(tmp_path / "both.pkl", steps=2) as recording:
        for number in range(1, 4):
            with recording.step():
                for part in "ab":
                    torch.allocate(f"{number}{part}")
                    torch.step_optimizer(torch)
    assert events_in(tmp_path / "both.pkl") == ["2a", "2b"]


@pytest.mark.parametrize("since", [Release.V2_1, Release.V2_8])
def test_only_python_frames_are_recorded_if_asked(torch: FakeTorch, tmp_path: Path, since: Release) -> None:
    torch.release = since
    with record(tmp_path / "all.pkl"):
        assert torch.stacks == "all"
    start(stacks="python")
    assert torch.stacks == "python"
    with record(tmp_path / "python.pkl", stacks="python"):
        assert torch.stacks == "python"
    with pytest.raises(ValueError, match="stacks: found 'c', expected 'all' or 'python'"):
        record(tmp_path / "wrong.pkl", stacks="c")  # type: ignore[arg-type]


@pytest.mark.parametrize("release", Release)
def test_pinned_host_memory_is_recorded_where_pytorch_can(torch: FakeTorch, tmp_path: Path, release: Release) -> None:
    torch.release = release
    with record(tmp_path / "pinned.pkl"):
        assert torch.pinned == (release is Release.V2_14)


def test_what_was_started_before_is_on_until_the_recording_ends(torch: FakeTorch, tmp_path: Path) -> None:
    torch.initialized = False
    start()
    assert torch.calls == [], "the history is not the first use of CUDA"
    torch.allocate("model")
    assert torch.calls == ["on"]
    torch.allocated = 1 << 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with record(tmp_path / "started.pkl"):
            torch.allocate("step")
    assert events_in(tmp_path / "started.pkl") == ["step"]
    assert not torch.enabled


def test_a_model_from_before_is_a_warning(torch: FakeTorch, tmp_path: Path) -> None:
    torch.allocated = 123_456
    with pytest.warns(RecordingWarning, match="123,456 bytes were allocated before"), record(tmp_path / "late.pkl"):
        torch.allocate("step")


def test_a_history_that_was_on_stays_on(torch: FakeTorch, tmp_path: Path) -> None:
    torch.record_memory_history(max_entries=10)
    with record(tmp_path / "on.pkl"):
        torch.allocate("step")
    assert torch.enabled


def test_a_history_that_is_full_is_a_warning(any_torch: FakeTorch, tmp_path: Path) -> None:
    with pytest.warns(RecordingWarning, match="holds the last 3 events"), record(tmp_path / "full.pkl", max_entries=3):
        for number in range(5):
            any_torch.allocate(str(number))
    assert events_in(tmp_path / "full.pkl") == ["2", "3", "4"]


def test_memory_that_runs_out_is_written_at_that_moment(any_torch: FakeTorch, tmp_path: Path) -> None:
    with pytest.raises(OutOfMemoryError), record(tmp_path / "oom.pkl", steps=7):
        try:
            any_torch.allocate("model")
            any_torch.run_out_of_memory()
        finally:
            any_torch.allocate("later")
    assert events_in(tmp_path / "oom.pkl") == ["model", "oom"]


def test_a_program_that_goes_on_after_running_out_is_written_at_its_end(torch: FakeTorch, tmp_path: Path) -> None:
    with record(tmp_path / "probed.pkl"):
        with pytest.raises(OutOfMemoryError):
            torch.run_out_of_memory()
        torch.allocate("smaller")
    assert events_in(tmp_path / "probed.pkl") == ["oom", "smaller"]


def test_observers_of_ended_recordings_write_nothing(torch: FakeTorch, tmp_path: Path) -> None:
    with record(tmp_path / "first.pkl"):
        torch.allocate("first")
    with pytest.raises(OutOfMemoryError):
        torch.run_out_of_memory()
    assert events_in(tmp_path / "first.pkl") == ["first"]


def test_too_few_steps_are_an_error_and_leave_no_file(torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "few.pkl"
    with pytest.raises(RecordingError, match="made 2 steps; expected at least 3"), record(path, steps=3) as recording:
        run_steps(torch, recording, 2)
    assert not path.exists()
    assert not torch.enabled


def test_a_span_that_ends_early_is_written_with_a_warning(torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "early.pkl"
    with pytest.warns(RecordingWarning, match="made 3 steps, and 5"), record(path, steps="2..5") as recording:
        run_steps(torch, recording, 3)
    assert events_in(path) == ["step 2", "step 3"]


def test_a_program_without_a_gpu_is_an_error(torch: FakeTorch, tmp_path: Path) -> None:
    torch.initialized = False
    with pytest.raises(RecordingError, match="the program used no GPU"), record(tmp_path / "none.pkl"):
        pass
    torch.has_gpu = False
    with (
        pytest.raises(RecordingError, match=r"no GPU was found; .*: ptmem simulate -- python "),
        record(tmp_path / "none.pkl"),
    ):
        pass
    with pytest.raises(RecordingError, match="ptmem simulate") as caught, record(tmp_path / "none.pkl"):
        raise RuntimeError("Found no NVIDIA driver on your system")
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ValueError, match="unrelated"), record(tmp_path / "none.pkl"):
        raise ValueError("unrelated")
    torch.cuda_is_built = False
    with pytest.raises(RecordingError, match="built without CUDA"), record(tmp_path / "none.pkl"):
        pass
    assert os.listdir(tmp_path) == []


def test_an_error_of_the_program_is_its_own(torch: FakeTorch, tmp_path: Path) -> None:
    torch.initialized = False
    with pytest.raises(KeyError, match="mine"), record(tmp_path / "error.pkl", steps=3):
        raise KeyError("mine")


def test_one_recording_at_a_time(torch: FakeTorch, tmp_path: Path) -> None:
    with record(tmp_path / "outer.pkl"):
        torch.allocate("outer")
        with pytest.raises(RecordingError, match=r"outer\.pkl is being recorded"), record(tmp_path / "inner.pkl"):
            pass
    assert events_in(tmp_path / "outer.pkl") == ["outer"]
    recording = record(tmp_path / "never.pkl")
    with pytest.raises(RecordingError, match="outside of its recording"), recording.step():
        pass


def test_a_function_is_recorded_each_time_it_runs(torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "function.pkl"

    @record(path)
    def train(name: str) -> None:
        torch.allocate(name)

    for name in ("first", "second"):
        train(name)
        assert events_in(path) == [name]
    assert os.listdir(path.parent) == ["function.pkl"], "no temporary file stays"


@pytest.mark.parametrize("steps", [0, -1, "x", "1..", "3..2", "..2", (3, 2), (0, 1), range(3, 3), range(1, 9, 2)])
def test_steps_that_make_no_sense_are_refused(steps: Any) -> None:
    with pytest.raises(ValueError, match="steps: found"):
        Span.parse(steps)


def test_each_rank_writes_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert path_of_rank("a/after.pkl", None) == "a/after.pkl"
    assert path_of_rank("after-{rank}.pkl", None) == "after-0.pkl"
    assert path_of_rank("after.pkl", (1, 2)) == "after_rank1.pkl"
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert path_of_rank("a/after.pkl.gz", None) == os.path.join("a", "after_rank3.pkl.gz")
    assert path_of_rank("{rank}/after.pkl", None) == "3/after.pkl"
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert path_of_rank("after.pkl", None) == "after.pkl"


def facts_in(path: Path) -> Any:
    with path.open("rb") as file:
        return pickle.load(file)["ptmem"]


def test_the_snapshot_says_which_steps_it_has_whole(any_torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "steps.pkl"
    with pytest.warns(RecordingWarning, match="made 3 steps"), record(path, steps="2..5") as recording:
        run_steps(any_torch, recording, 3)
    facts = facts_in(path)
    assert facts["steps"] == {"first": 2, "last": 3, "asked": [2, 5]}
    assert facts["ending"] == {"kind": "whole", "message": ""}


def test_the_snapshot_says_how_the_program_failed(any_torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "failed.pkl"
    with pytest.raises(ValueError, match="bad"), record(path) as recording:
        run_steps(any_torch, recording, 1)
        with recording.step():
            any_torch.allocate("half a step")
            raise ValueError("bad batch\nof the second line")
    facts = facts_in(path)
    assert facts["ending"] == {"kind": "exception", "message": "ValueError: bad batch"}
    assert (facts["steps"]["first"], facts["steps"]["last"]) == (1, 1)


def test_the_snapshot_says_what_others_hold_of_the_card(any_torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "card.pkl"
    with record(path) as recording:
        run_steps(any_torch, recording, 1)
    cards = facts_in(path)["cards"]
    if any_torch.kind == "xpu":
        assert cards == []
        return
    (card,) = cards
    assert (card["name"], card["capability"], card["processors"]) == ("Fake", [9, 0], 132)
    # Of 100 MiB, 60 are free and PyTorch has reserved 10.
    assert (card["others"], card["communicators"], card["memory"]) == (30 << 20, [], 80 << 30)


class Cycle:
    """Holds memory of the GPU until the collector runs."""

    def __init__(self, torch: FakeTorch) -> None:
        self.torch = torch
        self.me = self
        torch.allocated = 8 << 20

    def __del__(self) -> None:
        self.torch.allocated = 0


def test_the_collector_frees_nothing_between_the_snapshot_and_the_counters(
    any_torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cycle.pkl"
    memory = getattr(sys.modules["torch"], any_torch.kind).memory

    def many_objects(make: Any = memory._snapshot) -> Any:
        snapshot = make()
        snapshot["objects"] = [[number] for number in range(100_000)]
        return snapshot

    monkeypatch.setattr(memory, "_snapshot", many_objects)
    with record(path):
        any_torch.allocate("memory")
        Cycle(any_torch)
    (counters,) = facts_in(path)["counters"]
    assert counters["dump"]["current"]["allocated_bytes"] == 8 << 20
    assert gc.isenabled()
    gc.collect()
    assert any_torch.allocated == 0


def test_counters_of_another_moment_than_the_snapshot_are_left_out(
    any_torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = getattr(sys.modules["torch"], any_torch.kind).memory

    def as_another_thread_allocates(make: Any = memory._snapshot) -> Any:
        snapshot = make()
        any_torch.allocate("by another thread")
        return snapshot

    monkeypatch.setattr(memory, "_snapshot", as_another_thread_allocates)
    with record(tmp_path / "threads.pkl"):
        any_torch.allocate("memory")
    assert facts_in(tmp_path / "threads.pkl")["counters"] == []


def test_the_compiler_is_imported_for_no_snapshot(
    any_torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = sys.modules["torch"]
    memory = getattr(torch, any_torch.kind).memory
    found = []

    # As PyTorch names frames: where `hasattr` finds nothing, its module imports it.
    def names_frames(make: Any = memory._snapshot) -> Any:
        found.append(getattr(torch, "_inductor", "imported"))
        return make()

    monkeypatch.setattr(memory, "_snapshot", names_frames)
    with record(tmp_path / "plain.pkl"):
        any_torch.allocate("memory")
    assert set(found) == {None}
    assert not hasattr(torch, "_inductor")
    # The compiler of a program that has it names the frames of what it compiled.
    found.clear()
    compiler = ModuleType("torch._inductor")
    monkeypatch.setattr(torch, "_inductor", compiler, raising=False)
    with record(tmp_path / "compiled.pkl"):
        any_torch.allocate("memory")
    assert set(found) == {compiler}
    assert torch._inductor is compiler


def test_an_earlier_recording_is_not_left_where_nothing_is_recorded(torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "last-week.pkl"
    path.write_bytes(b"old")
    torch.initialized = False
    with pytest.raises(KeyError, match="mine"), record(path):
        raise KeyError("mine")
    assert not path.exists()


def test_modules_are_recorded_on_cuda_alone(any_torch: FakeTorch, tmp_path: Path) -> None:
    if any_torch.kind == "cuda":
        pytest.skip("for GPUs of Intel")
    with pytest.raises(RecordingError, match="GPUs of NVIDIA and AMD alone"), record(tmp_path / "m.pkl", modules=True):
        pass


def test_an_optimizer_may_have_groups_without_parameters(torch: FakeTorch, tmp_path: Path) -> None:
    optimizer = FakeOptimizer()
    optimizer.param_groups.append({})
    with record(tmp_path / "groups.pkl", steps=1):
        torch.allocate("step 1")
        torch.step_optimizer(optimizer)
    assert events_in(tmp_path / "groups.pkl") == ["step 1"]


def test_a_history_that_another_recorder_holds_is_refused(
    torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["torch"]._C, "_cuda_record_memory_history", lambda *_: None, raising=False)
    other = HeldHistory(sys.modules["torch"])
    other.hold()
    with pytest.raises(RecordingError, match="another recorder holds"), record(tmp_path / "part.pkl", steps=1):
        pass
    other.release()
    with record(tmp_path / "part.pkl", steps=1):
        torch.allocate("step 1")
        torch.step_optimizer(FakeOptimizer())
