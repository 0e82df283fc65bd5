"""Counters of parts of a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_torch import FakeTorch
from ptmem_gate import RecordingError, measure, record, start


def use(torch: FakeTorch, peak: int, end: int) -> None:
    torch.allocate("tensor")
    torch.highest, torch.allocated = max(torch.highest, peak), end


def test_parts_have_peaks_of_their_own(any_torch: FakeTorch, tmp_path: Path) -> None:
    device = f"{any_torch.kind}:0"
    path = tmp_path / "memory.json"
    for case, peak, end in [("train", 900, 300), ("evaluate", 500, 300)]:
        with measure(path, case=case):
            use(any_torch, peak, end)
    cases = json.loads(path.read_text())
    peaks = {name: devices[device]["allocated_bytes.all.peak"] for name, devices in cases.items()}
    assert peaks == {"train": 900, "evaluate": 500}
    assert cases["train"][device]["allocated_bytes.all.current"] == 300


def test_requests_that_failed_in_a_part_are_counted(torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    use(torch, 100, 100)
    torch.failed = 2
    counts = []
    for failed in [0, 3]:
        with measure(path):
            use(torch, 900, 300)
            torch.failed += failed
        counts.append(json.loads(path.read_text())["cuda:0"].get("num_ooms"))
    assert counts == [None, 3]


def test_without_a_case_a_file_holds_one_part(
    torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for _ in range(2):
        with measure(tmp_path / "memory.json"):
            use(torch, 900, 300)
    assert list(json.loads((tmp_path / "memory_rank1.json").read_text())) == ["cuda:0"]
    with (
        pytest.raises(RecordingError, match="is not a file of measured cases"),
        measure(tmp_path / "memory.json", case="x"),
    ):
        pass


def test_nothing_is_written_without_figures(torch: FakeTorch, tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    with pytest.raises(RecordingError, match="used no GPU"), measure(path):
        pass
    with pytest.raises(ValueError, match="broken"), measure(path):
        use(torch, 900, 300)
        raise ValueError("broken")
    path.write_text("not JSON")
    with pytest.raises(RecordingError, match="is not a file of measured cases"), measure(path, case="train"):
        pass
    assert path.read_text() == "not JSON"


def test_a_recording_into_json_has_counters_and_facts_alone(any_torch: FakeTorch, tmp_path: Path) -> None:
    start()
    with record(tmp_path / "after.json", steps=2, modules=any_torch.kind == "cuda") as recording:
        for peak in (900, 700):
            with recording.step():
                use(any_torch, peak, 300)
                # A program may look at its own peaks: they count all the same.
                any_torch.reset_peak_memory_stats(0)
    assert not any_torch.enabled
    assert "dump" not in any_torch.calls
    found = json.loads((tmp_path / "after.json").read_text())
    assert found[f"{any_torch.kind}:0"]["allocated_bytes.all.peak"] == 700
    assert found["ptmem"]["steps"] == {"first": 2, "last": 2, "asked": [2, 2]}
    assert found["ptmem"]["ending"]["kind"] == "whole"
