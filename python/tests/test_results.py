"""Results: made from the schemas, and equal to what the tool prints."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import PACKAGE, ROOT
from ptmem_gate import Comparison, Leaks, Ranks, Result, Snapshot, Suite, _program
from ptmem_gate._result import read

SCHEMAS = ROOT / "docs" / "schemas"


def test_generated_files_are_what_the_schemas_say(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("generate", PACKAGE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "generate", generate)
    spec.loader.exec_module(generate)
    for path, text in {**generate.published(), generate.OUTPUT: generate.generate()}.items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run python3 python/generate.py"


COMMANDS: Sequence[tuple[type[Result], list[str]]] = [
    (Comparison, ["diff", "before.pkl", "after.pkl", "--max-growth", "5%", "--max-growth", "stack=10%"]),
    (Comparison, ["diff", "phases-before.pkl", "phases-after.pkl", "--phases", "--tree", "--all"]),
    (Comparison, ["diff", "two-devices-before.pkl", "two-devices-after.pkl", "--max", "peak=1GiB"]),
    (Comparison, ["diff", "state-only.pkl", "after.pkl", "--max-growth", "5%"]),
    (Snapshot, ["show", "after.pkl", "--tree", "--every", "10events"]),
    (Snapshot, ["show", "oom.pkl", "--at", "oom"]),
    (Snapshot, ["show", "torch-1.13.pkl"]),
    (Snapshot, ["show", "phases-after.pkl"]),
    (Snapshot, ["show", "state-only.pkl"]),
    (Snapshot, ["check", "after.pkl", "--max", "peak=1MiB"]),
    (Leaks, ["leak", "leak.pkl"]),
    (Leaks, ["leak", "leak-series"]),
    (Leaks, ["leak", "no-leak.pkl", "--device-memory", "80GiB"]),
    (Suite, ["diff", "ranks-before", "ranks-after", "--max-growth", "5%", "--max-growth", "imbalance=1MiB"]),
    (Ranks, ["show", "ranks-after"]),
    (Ranks, ["check", "ranks-after", "--max", "peak=1GiB"]),
]


def assert_same(result: Any, printed: Any, place: str) -> None:
    """Every key that was printed is in the result with its value, and every other field of the result is None."""
    if dataclasses.is_dataclass(result):
        names = {field.name for field in dataclasses.fields(result)}
        assert set(printed) <= names, place
        for name in names:
            value = getattr(result, name)
            if name in printed:
                assert_same(value, printed[name], f"{place}.{name}")
            else:
                assert value is None, f"{place}.{name}"
    elif isinstance(result, list):
        assert len(result) == len(printed), place
        for number, item in enumerate(result):
            assert_same(item, printed[number], f"{place}[{number}]")
    else:
        assert result == printed, place


@pytest.mark.parametrize(
    ("kind", "words"), COMMANDS, ids=lambda value: "-".join(value) if isinstance(value, list) else ""
)
def test_nothing_that_the_tool_prints_is_lost(kind: type[Result], words: list[str], fixtures: Path) -> None:
    known = {path.name for path in fixtures.iterdir()}
    words = [str(fixtures / word) if word in known else word for word in words]
    text = _program.run_plain([*words, "--format", "json", "--config=none"], _program.VERDICTS)
    result = read(kind, text, "the table")
    assert result.report == "the table"
    assert_same(result, json.loads(text), kind.__name__)


def test_the_verdict_is_also_an_assertion(fixtures: Path) -> None:
    from ptmem_gate import MemoryVerdictError, compare, show

    result = compare(fixtures / "before.pkl", fixtures / "after.pkl", max_growth="5%", config=False)
    assert (result.verdict, result.exit_code, result.passed) == ("regression", 1, False)
    with pytest.raises(MemoryVerdictError, match="FAIL peak grew") as caught:
        result.require_pass()
    assert isinstance(caught.value, AssertionError)
    # A check that was not judged has not passed.
    with pytest.raises(MemoryVerdictError, match="not judged"):
        show(fixtures / "before.pkl").require_pass()
    compare(fixtures / "before.pkl", fixtures / "before.pkl", max_growth="0", config=False).require_pass()


def test_a_result_fits_a_screen(fixtures: Path) -> None:
    from ptmem_gate import compare

    text = repr(compare(fixtures / "before.pkl", fixtures / "after.pkl", max_growth="5%", config=False))
    assert text.startswith("Comparison(\n")
    assert "  verdict='regression',\n" in text
    assert "  devices=[1 x DeviceDiff],\n" in text, text
    assert len(text.splitlines()) < 30
    assert max(map(len, text.splitlines())) <= 120


def test_keys_of_a_later_release_are_left_out() -> None:
    text = (SCHEMAS.parent.parent / "fixtures" / "before.pkl").as_posix()
    printed = json.loads(_program.run_plain(["show", text, "--format", "json", "--config=none"]))
    printed["new"] = {"anything": 1}
    printed["devices"][0]["allocated"]["new"] = None
    result = read(Snapshot, json.dumps(printed), "")
    assert result.devices[0].allocated.peak == printed["devices"][0]["allocated"]["peak"]


def test_a_missing_key_or_a_wrong_type_names_its_place() -> None:
    path = str(ROOT / "fixtures" / "before.pkl")
    printed = json.loads(_program.run_plain(["show", path, "--format", "json", "--config=none"]))
    peak = printed["devices"][0]["allocated"].pop("peak")
    with pytest.raises(ValueError, match=r"Snapshot\.devices\[0\]\.allocated: there is no 'peak'"):
        read(Snapshot, json.dumps(printed), "")
    printed["devices"][0]["allocated"]["peak"] = str(peak)
    with pytest.raises(ValueError, match=r"allocated\.peak: found '\d+', expected int"):
        read(Snapshot, json.dumps(printed), "")


def test_one_result_is_not_read_as_another(fixtures: Path) -> None:
    from ptmem_gate import compare, compare_ranks

    with pytest.raises(ValueError, match=r"printed ptmem\.suite/1, where ptmem\.diff/2 was expected; .* compare_ranks"):
        compare(fixtures / "ranks-before", fixtures / "ranks-after", max_growth="5%")
    suite = compare_ranks(fixtures / "ranks-before", fixtures / "ranks-after", max_growth="5%", config=False)
    assert suite.ranks[0].table[0].peak is not None
