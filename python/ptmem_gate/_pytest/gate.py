"""Records one test and judges it."""

from __future__ import annotations

import gc
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

import pytest

from .. import _commands
from .._history import Figures, History, import_torch
from .._program import ToolError
from .._recording import MAX_ENTRIES
from ..results import Comparison, Leaks, Snapshot
from .limits import Limits
from .stored import stored_profile
from .summary import headline

SECTION = "GPU memory"

#: The fact about a measured test that it needs a recording, with the verdict on its counters.
MEASURED = "gpu_memory.measured"

Judged = Union[Comparison, Snapshot, Leaks]


@dataclass(frozen=True)
class Settings:
    """The requests of pytest's command line and configuration."""

    update: bool
    measures: bool
    simulated: bool
    root: str

    def measures_first(self, limits: Limits) -> bool:
        """True if the counters of a test are compared before it is recorded."""
        return self.measures and not self.update and limits.is_counted


class Gate:
    """The recording of one test, from before its fixtures are made."""

    def __init__(self, item: pytest.Item, limits: Limits, settings: Settings) -> None:
        self.item = item
        self.limits = limits
        self.settings = settings
        self.torch = import_torch()
        self.measures = settings.measures_first(limits)
        self.history = Figures(self.torch) if self.measures else History(self.torch, MAX_ENTRIES, limits.stacks)
        # Of a test that runs several times, each run is recorded.
        self.history.goes_on = True
        self.folder = tempfile.TemporaryDirectory(prefix="ptmem-gate-")
        self.options = [f"--config={self._config()}"]
        self.stored = stored_profile(item, settings.simulated)

    def _config(self) -> str:
        """The configuration for the tool. The rest of the nearest ptmem.toml is about the program, not its tests."""
        path = Path(self.folder.name) / "ptmem.toml"
        # Strings of JSON are strings of TOML.
        root = json.dumps(self.settings.root, ensure_ascii=False)
        # A recording covers a whole test, so that none is truncated; what is accepted is stored.
        text = f"strip-prefix = {root}\nallow-partial = true\naccept = []\n"
        path.write_text(text, encoding="utf-8", errors="replace")
        return str(path)

    def begin(self) -> None:
        """What earlier tests left behind is not this test's."""
        release_cache(self.torch)
        self.history.begin()

    def end(self) -> None:
        """Also after a test that failed."""
        self.history.stop()
        self.folder.cleanup()

    def explain(self, error: BaseException) -> None:
        """Adds to the report of a test whose memory ran out which stacks held it."""
        if not (self.history.is_on and self.history.is_out_of_memory(error)):
            return
        if self.measures:
            self._property("measured", "regression")
            return
        try:
            shown = _commands.show(self._write(1), at="oom", options=self.options)
        except (ToolError, OSError, ValueError) as reason:
            self.item.add_report_section("call", SECTION, f"the memory of this test cannot be shown: {reason}")
        else:
            self.item.add_report_section("call", SECTION, shown.report)

    def judge(self) -> None:
        """Fails the test where a limit is exceeded, or cannot be checked."""
        if not self.history.is_on:
            pytest.fail("the test used no GPU, and has a limit on its memory", pytrace=False)
        snapshot = self._write(1)
        try:
            failed = [*self._judge_growth(snapshot), *self._judge_leaks(snapshot)]
        except ToolError as error:
            pytest.fail(f"the memory of this test cannot be judged: {error}", pytrace=False)
        if failed:
            pytest.fail("\n\n".join(failed), pytrace=False)

    def _write(self, number: int) -> str:
        path = str(Path(self.folder.name) / f"run{number}.{'json' if self.measures else 'pkl'}")
        lacks = self.history.write(path)
        if lacks is not None:
            self.item.warn(pytest.PytestWarning(lacks))
        return path

    def _judge_growth(self, snapshot: str) -> list[str]:
        limits = self.limits
        strict, options = limits.strict, self.options
        if not limits.max_growth:
            if not limits.max:
                return []
            checked = _commands.check(snapshot, max=limits.max, strict=strict, options=options)
            self._note(_peak_of(checked), None)
            return self._failure(checked, "")
        if self.settings.update:
            return self._store(snapshot)
        if not self.stored.is_file():
            return [f"no stored profile {self._name()} to compare with\n\n{self._how_to_store()}"]
        compared = _commands.compare(
            self.stored,
            snapshot,
            max_growth=limits.max_growth,
            max=limits.max,
            strict=strict,
            options=options,
        )
        peaks = [device.metrics.peak for device in compared.devices]
        if peaks:
            highest = max(peaks, key=lambda peak: peak.after or 0)
            self._note(highest.after, highest.before)
        return self._failure(compared, f"\n\n{self._how_to_store()}")

    def _store(self, snapshot: str) -> list[str]:
        """Takes the recording as the new before. Absolute limits hold all the same."""
        shown = _commands.show(snapshot, options=self.options)
        self._note(_peak_of(shown), None)
        failed = []
        if self.limits.max:
            limits = self.limits
            checked = _commands.check(snapshot, max=limits.max, strict=limits.strict, options=self.options)
            failed = self._failure(checked, "")
        self.stored.parent.mkdir(parents=True, exist_ok=True)
        _commands.save_profile(snapshot, self.stored, options=self.options)
        self._property("stored", self._name())
        return failed

    def _judge_leaks(self, first: str) -> list[str]:
        if not self.limits.leak:
            return []
        ends = [first]
        for number in range(2, self.limits.rounds + 1):
            self.item.runtest()
            gc.collect()
            ends.append(self._write(number))
        limits = self.limits
        # The runs are equal, so growth below the default minimum of a series is not noise.
        options = [*self.options, "--min-growth", "1B"]
        found = _commands.find_leaks(ends, max_leak=limits.max_leak, skip=1, strict=limits.strict, options=options)
        self._property("leaked_per_run", round(sum(leak.bytes_per_step for leak in found.leaks)))
        hint = f"the test ran {limits.rounds} times; Python's garbage collector ran before each dump but the first"
        return self._failure(found, f"\n\n{hint}")

    def _failure(self, result: Judged, hint: str) -> list[str]:
        before = dict(self.item.user_properties).get("gpu_memory.verdict", "pass")
        if before == "pass":
            self._property("verdict", str(result.verdict))
        if self.measures and not result.passed:
            self._property("measured", str(result.verdict))
        return [] if result.passed else [f"{headline(result.checks)}\n\n{result.report.rstrip()}{hint}"]

    def _note(self, peak: Optional[int], stored: Optional[int]) -> None:
        if peak is not None:
            self._property("peak", peak)
        if stored is not None:
            self._property("stored_peak", stored)

    def _property(self, name: str, value: Any) -> None:
        """A fact about the test: pytest passes them on to JUnit, to the summary, and between processes."""
        key = f"gpu_memory.{name}"
        self.item.user_properties[:] = [(k, v) for k, v in self.item.user_properties if k != key]
        self.item.user_properties.append((key, value))

    def _name(self) -> str:
        try:
            return str(self.stored.relative_to(self.item.config.rootpath))
        except ValueError:
            return str(self.stored)

    def _how_to_store(self) -> str:
        simulate = " --ptmem-simulate" if self.settings.simulated else ""
        return f"to take what it needs now as the stored profile: pytest --ptmem-update{simulate} '{self.item.nodeid}'"


def release_cache(torch: Any) -> None:
    """Gives memory back that nothing uses."""
    gc.collect()
    if torch.cuda.is_initialized():
        # The library of matrix products keeps its memory for the next user.
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            clear()
        torch.cuda.empty_cache()


def _peak_of(snapshot: Snapshot) -> Optional[int]:
    """The peak of the device that needed most."""
    return max((device.allocated.peak or 0 for device in snapshot.devices), default=None)
