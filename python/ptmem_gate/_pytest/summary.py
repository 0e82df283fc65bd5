"""The section of the terminal summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

if TYPE_CHECKING:
    from ..results import Check, LeakCheck

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Bytes in the unit that people read, as the tool writes them."""
    for unit in UNITS:
        if abs(count) < 1024 or unit == UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    raise AssertionError("the last unit takes all")


def headline(checks: Optional[Sequence[Union[Check, LeakCheck]]]) -> str:
    """The worst check in a line: pytest shows it beside the name of a test that failed."""
    failed = [one for one in checks or () if one.level == "fail" and one.result != "pass"]
    if not failed:
        return "GPU memory: not judged"
    worst = failed[0]
    what = f"{worst.scope}: " if worst.scope else ""
    name = f"GPU memory: {what}{worst.metric}"
    if worst.result == "inconclusive":
        return f"{name} is inconclusive: {worst.reason or 'it cannot be compared'}"
    if worst.before is None or worst.delta is None:
        return f"{name} is {size(worst.delta or worst.after or 0)}, allowed {worst.limit}"
    return f"{name} grew by {size(worst.delta)} to {size(worst.after or 0)}, allowed {worst.limit}"


def lines(stats: Mapping[str, list[Any]]) -> list[str]:
    """A line for each test whose memory was judged, in order of their names."""
    facts = {}
    for reports in stats.values():
        for report in reports:
            found = {
                name.partition(".")[2]: value
                for name, value in getattr(report, "user_properties", ())
                if str(name).startswith("gpu_memory.")
            }
            if found and report.when == "call":
                facts[report.nodeid] = found
    width = max(map(len, facts), default=0)
    return [f"{test:<{width}}  {line(facts[test])}" for test in sorted(facts)]


def line(facts: Mapping[str, Any]) -> str:
    """The figures and the verdict of a test."""
    parts = []
    if "peak" in facts:
        parts.append(f"peak {size(facts['peak'])}{change(facts['peak'], facts.get('stored_peak'))}")
    if "leaked_per_run" in facts:
        leaked = facts["leaked_per_run"]
        parts.append(f"{size(leaked)} stay in each run" if leaked else "nothing stays")
    if "stored" in facts:
        parts.append(f"stored as {facts['stored']}")
    words = {"pass": "ok", "regression": "FAIL", "inconclusive": "INCONCLUSIVE"}
    parts.append(words.get(facts.get("verdict", "pass"), "FAIL"))
    return ", ".join(parts)


def change(peak: int, stored: Optional[int]) -> str:
    """How the peak compares with the stored one."""
    if stored is None:
        return ""
    if peak == stored:
        return " (as stored)"
    percent = f", {100 * (peak - stored) / stored:+.1f} %" if stored else ""
    sign = "+" if peak > stored else "-"
    return f" ({sign}{size(abs(peak - stored))}{percent})"
