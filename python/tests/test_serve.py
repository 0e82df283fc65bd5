"""Recordings that are begun and ended from outside, and PyTorch without names of C++ frames."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_torch import FakeTorch, OutOfMemoryError, Release
from ptmem_gate import RecordingError, RecordingWarning, on_oom, record
from ptmem_gate._history import History, import_torch
from ptmem_gate._serve import Server
from test_recording import events_in, facts_in


def server_at(path: Path) -> Server:
    """One that looks when the test says so."""
    server = Server(str(path), History(import_torch(), 100))
    server.history.begin()
    server.history.watch_failures(server.out_of_memory)
    return server


def test_memory_is_recorded_while_a_file_exists(any_torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "server.pkl"
    server = server_at(path)
    trigger = Path(server.trigger)
    assert trigger.name == "server.pkl.record"
    any_torch.allocate("model")
    for name in ("first", "second"):
        trigger.touch()
        server.look()
        assert not path.exists(), "an earlier recording is not taken for this one"
        any_torch.allocate(name)
        server.look()
        trigger.unlink()
        server.look()
        assert events_in(path) == [name]
        any_torch.allocate("between")
        server.look()
        assert events_in(path) == [name]
    assert any_torch.enabled
    assert facts_in(path)["ending"]["kind"] == "whole"


def test_a_signal_begins_and_the_next_one_ends(torch: FakeTorch, tmp_path: Path) -> None:
    heard = []
    before = signal.signal(signal.SIGUSR2, lambda *_: heard.append("the program's own"))
    try:
        server = server_at(tmp_path / "server.pkl")
        server.listen(signal.SIGUSR2)
        signal.raise_signal(signal.SIGUSR2)
        server.look()
        torch.allocate("request")
        signal.raise_signal(signal.SIGUSR2)
        server.look()
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert events_in(tmp_path / "server.pkl") == ["request"]
    assert heard == ["the program's own"] * 2


def test_a_recording_that_is_on_at_the_end_is_written(torch: FakeTorch, tmp_path: Path) -> None:
    server = server_at(tmp_path / "server.pkl")
    Path(server.trigger).touch()
    server.look()
    torch.allocate("request")
    server.close()
    assert events_in(tmp_path / "server.pkl") == ["request"]


def test_a_server_writes_what_held_memory_when_it_ran_out(any_torch: FakeTorch, tmp_path: Path) -> None:
    server_at(tmp_path / "server.pkl")
    any_torch.allocate("model")
    with pytest.raises(OutOfMemoryError):
        any_torch.run_out_of_memory()
    assert events_in(tmp_path / "server-oom.pkl") == ["model", "oom"]
    assert not (tmp_path / "server.pkl").exists()


def test_a_server_goes_on_where_nothing_can_be_written(
    torch: FakeTorch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = server_at(tmp_path / "server.pkl")
    Path(server.trigger).touch()
    server.look()
    torch.snapshot_error = "stoi"
    Path(server.trigger).unlink()
    server.look()
    server.look()
    assert capsys.readouterr().err.count("PyTorch cannot give its history: RuntimeError: stoi") == 1


def test_the_gpu_is_not_used_before_the_program_does(torch: FakeTorch, tmp_path: Path) -> None:
    torch.initialized = False
    on_oom(tmp_path / "oom.pkl")
    server = server_at(tmp_path / "server.pkl")
    Path(server.trigger).touch()
    server.look()
    assert (torch.calls, torch.observers) == ([], [])
    torch.allocate("model")
    assert len(torch.observers) == 2
    server.look()
    torch.allocate("request")
    server.close()
    assert events_in(tmp_path / "server.pkl") == ["request"]


@pytest.mark.parametrize("release", [Release.V2_1, Release.V2_8])
def test_without_names_of_cpp_frames_those_of_python_are_recorded(
    torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: Release
) -> None:
    monkeypatch.delenv("TORCH_SYMBOLIZE_MODE", raising=False)
    torch.release = release
    torch.symbol_error = "stoi"
    with (
        pytest.warns(RecordingWarning, match=r"cannot name C\+\+ frames here \(ValueError: stoi\)"),
        record(tmp_path / "a.pkl", steps=2) as recording,
    ):
        for _ in range(2):
            with recording.step():
                torch.allocate("step")
                assert torch.stacks == "python"
    assert events_in(tmp_path / "a.pkl") == ["step"]
    assert torch.symbolized == 1, "a second try may wait forever"


@pytest.mark.parametrize(("version", "expected"), [("2.7.1", None), ("2.8.0+cu126", "dladdr"), ("3.0.0a0", "dladdr")])
def test_releases_that_can_name_cpp_frames_themselves_do(
    torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, expected: Any
) -> None:
    monkeypatch.setattr(import_torch(), "__version__", version)
    monkeypatch.setenv("TORCH_SYMBOLIZE_MODE", "of the user")
    with record(tmp_path / "a.pkl"):
        torch.allocate("a")
    assert os.environ["TORCH_SYMBOLIZE_MODE"] == "of the user"
    monkeypatch.delenv("TORCH_SYMBOLIZE_MODE")
    with record(tmp_path / "a.pkl"):
        torch.allocate("a")
    assert os.environ.get("TORCH_SYMBOLIZE_MODE") == expected


def test_a_history_that_cannot_be_read_does_not_end_the_program(torch: FakeTorch, tmp_path: Path) -> None:
    torch.snapshot_error = "stoi"
    steps = []
    with (
        pytest.raises(RecordingError, match="stoi; record with stacks"),
        record(tmp_path / "a.pkl", steps=1) as recording,
    ):
        for number in range(3):
            with recording.step():
                torch.allocate("step")
            steps.append(number)
    assert steps == [0, 1, 2]
    with pytest.raises(KeyError, match="mine"), record(tmp_path / "a.pkl"):
        raise KeyError("mine")
    assert os.listdir(tmp_path) == []


SERVER = """
import pathlib, sys, time
import ptmem_gate, torch
ptmem_gate.serve("server.pkl")
assert not torch.cuda.is_initialized()
layer = torch.nn.Linear(1024, 1024).cuda()
recorded, trigger = pathlib.Path("server.pkl"), pathlib.Path("server.pkl.record")

def serve_until(there):
    for _ in range(2000):
        layer(torch.randn(64, 1024, device="cuda"))
        if recorded.exists() == there:
            return
        time.sleep(0.02)
    sys.exit(f"{recorded}: expected {there}")

recorded.touch()
trigger.touch()
serve_until(False)
trigger.unlink()
serve_until(True)
try:
    torch.empty(1 << 50, device="cuda")
except torch.cuda.OutOfMemoryError:
    print("served")
"""


def simulated(folder: Path, environment: dict[str, str], tool: str, program: str, *options: str) -> str:
    """Runs a program with PyTorch on a simulated card, and gives what it prints."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    command = [tool, "simulate", *options, "--", os.environ["PTMEM_TEST_PYTHON"], "program.py"]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def test_a_server_of_pytorch_is_recorded_while_it_runs(real_torch: dict[str, str], tool: str, tmp_path: Path) -> None:
    assert "served" in simulated(tmp_path, real_torch, tool, SERVER)
    for name in ("server.pkl", "server-oom.pkl"):
        weights = [block for block in blocks_in(tmp_path / name) if block["size"] == 4 << 20]
        assert [
            frame["name"] for block in weights for frame in block["frames"] if frame["filename"].endswith("program.py")
        ]
    assert facts_in(tmp_path / "server-oom.pkl")["ending"]["kind"] == "oom"
    assert events_in(tmp_path / "server.pkl")


def blocks_in(path: Path) -> Any:
    with path.open("rb") as file:
        segments = pickle.load(file)["segments"]
    return [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]


LAYER = """
import ptmem_gate, torch
with ptmem_gate.record("own.pkl"):
    torch.nn.Linear(1024, 1024).cuda()
"""


def test_pytorch_without_a_working_addr2line_is_recorded(real_torch: dict[str, str], tool: str, tmp_path: Path) -> None:
    addr2line = tmp_path / "bin" / "addr2line"
    addr2line.parent.mkdir()
    addr2line.write_text("#!/bin/sh\nwhile read -r line; do echo name; echo 'program.cpp:none'; done\n")
    addr2line.chmod(0o755)
    path = f"{addr2line.parent}:{os.environ['PATH']}"
    environment = {**real_torch, "PATH": path, "TORCH_SYMBOLIZE_MODE": "addr2line"}
    said = simulated(tmp_path, environment, tool, LAYER)
    assert "RecordingWarning: PyTorch cannot name C++ frames here (" in said
    assert "stoi" in said
    said = simulated(
        tmp_path, environment, tool, LAYER.replace("with ptmem_gate.record", "if str"), "--record", "all.pkl"
    )
    assert "ptmem simulate: PyTorch cannot name C++ frames here (" in said
    for name in ("own.pkl", "all.pkl"):
        frames = [frame for event in events_in(tmp_path / name) for frame in event["frames"]]
        assert frames, name
        assert all(frame["filename"].endswith(".py") for frame in frames), name
