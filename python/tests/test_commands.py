"""The commands as functions, run by the real tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PACKAGE
from ptmem_gate import ToolError, _commands, _program, check, compare, find_leaks, program, save_profile, show, version


def test_the_tool_proves_to_be_this_one() -> None:
    assert version()[0].isdigit()
    assert Path(program()).is_file()


def test_a_tool_of_the_same_name_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "ptmem"
    other.write_text("#!/bin/sh\necho ptmem 9.0\n")
    other.chmod(0o755)
    monkeypatch.setattr(_program, "program", lambda: str(other))
    _program.version.cache_clear()
    try:
        with pytest.raises(ToolError, match=r"says 'ptmem 9\.0' of itself"):
            version()
    finally:
        _program.version.cache_clear()


def test_a_missing_tool_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _program.program.cache_clear()
    try:
        monkeypatch.setenv(_program.VARIABLE, str(tmp_path / "nothing"))
        with pytest.raises(ToolError, match=r"the file '.*nothing' does not exist; expected the path of ptmem-gate"):
            program()
        monkeypatch.delenv(_program.VARIABLE)
        monkeypatch.setattr(_program, "_folders", lambda: iter([tmp_path]))
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(ToolError, match="pip install --force-reinstall ptmem-gate"):
            program()
        installed = tmp_path / ("ptmem-gate.exe" if sys.platform == "win32" else "ptmem-gate")
        installed.write_text("")
        assert program() == str(installed)
    finally:
        _program.program.cache_clear()


def test_a_comparison_has_figures_and_rows(fixtures: Path) -> None:
    result = compare(
        fixtures / "before.pkl", fixtures / "after.pkl", max_growth={"peak": "5%", "reserved": "50%"}, config=False
    )
    (device,) = result.devices
    assert device.metrics.peak.delta == (device.metrics.peak.after or 0) - (device.metrics.peak.before or 0) > 0
    assert [(one.metric, one.result) for one in result.checks] == [("peak", "exceeded"), ("reserved", "pass")]
    assert "attention (model.py:40)" in device.stacks[0].label
    assert "FAIL peak grew" in result.report


def test_a_snapshot_is_held_to_absolute_limits(fixtures: Path) -> None:
    assert check(fixtures / "after.pkl", max="1GiB", config=False).passed
    failed = check(fixtures / "after.pkl", max=["1GiB", "reserved=1MiB"], config=False)
    assert failed.verdict == "regression"
    assert failed.checks is not None
    assert {one.metric: one.result for one in failed.checks} == {"peak": "pass", "reserved": "exceeded"}


def test_leaks_are_found_in_one_snapshot_and_in_a_series(fixtures: Path) -> None:
    one = find_leaks(fixtures / "leak.pkl", config=False)
    assert (one.mode, one.verdict) == ("steps", "regression")
    series = find_leaks(sorted((fixtures / "leak-series").glob("*.pkl")), config=False)
    assert (series.mode, series.verdict) == ("series", "regression")
    assert series.leaks[0].bytes_per_step > 0
    assert find_leaks(fixtures / "leak.pkl", max_leak="1GiB", skip=2, config=False).passed


def test_a_profile_stands_in_for_its_snapshot(fixtures: Path, tmp_path: Path) -> None:
    save_profile(fixtures / "before.pkl", tmp_path / "before.ptmem.json", config=False)
    assert compare(tmp_path / "before.ptmem.json", fixtures / "before.pkl", max_growth="0", config=False).passed
    snapshot = show(fixtures / "before.pkl", at="baseline", group_by="function", options=["--top", "1"], config=False)
    assert (snapshot.at, snapshot.group_by, snapshot.verdict) == ("baseline", "function", None)


def test_further_reports_are_written_in_the_same_run(fixtures: Path, tmp_path: Path) -> None:
    export = {"junit": tmp_path / "report.xml", "markdown": tmp_path / "report.md"}
    compare(fixtures / "before.pkl", fixtures / "after.pkl", max_growth="5%", export=export, config=False)
    assert (tmp_path / "report.xml").read_text(encoding="utf-8").startswith("<?xml")
    assert "attention" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_the_configuration_is_the_nearest_a_named_one_or_none(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ptmem.toml").write_text('max-growth = ["0"]\n')
    before, after = fixtures / "before.pkl", fixtures / "after.pkl"
    monkeypatch.chdir(tmp_path)
    assert compare(before, after).verdict == "regression"
    assert compare(before, after, config=False).checks == []
    monkeypatch.chdir(fixtures)
    assert compare(before, after, config=tmp_path / "ptmem.toml").verdict == "regression"


def test_errors_are_those_of_the_tool(fixtures: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"nothing\.pkl"):
        show(tmp_path / "nothing.pkl")
    with pytest.raises(ToolError, match="many"):
        compare(fixtures / "before.pkl", fixtures / "after.pkl", max_growth="many")


def test_names_that_look_like_options_are_files(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_bytes((fixtures / "before.pkl").read_bytes())
    (tmp_path / "--help").write_bytes((fixtures / "after.pkl").read_bytes())
    assert compare("-", "--help", max_growth="5%", config=False).verdict == "regression"
    assert _commands._path("plain") == "plain"


def test_the_module_runs_the_tool(fixtures: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        command = [sys.executable, "-m", "ptmem_gate", *words]
        return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=fixtures)

    assert run("--version").stdout == f"ptmem-gate {version()}\n"
    assert run("diff", "before.pkl", "after.pkl", "--max-growth", "5%").returncode == 1
    assert run("diff", "before.pkl").returncode == 2


def test_stored_profiles_that_were_edited_are_refused(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ptmem_gate.check_profiles import main

    whole, edited = tmp_path / "whole.ptmem.json", tmp_path / "edited.ptmem.json"
    save_profile(fixtures / "before.pkl", whole, config=False)
    edited.write_text(whole.read_text(encoding="utf-8").replace("model.py", "module.py"), encoding="utf-8")
    assert main([str(whole)]) == 0
    assert main([str(whole), str(edited), str(fixtures / "before.pkl")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert "edited.ptmem.json" in said[0]
    assert "before.pkl: is a snapshot; expected a profile" in said[1]
