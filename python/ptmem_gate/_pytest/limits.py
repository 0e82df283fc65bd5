"""Limits of a test: reads and checks the marker gpu_memory."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Optional, Union

import pytest

from .._history import Stacks, checked

#: Growth over the stored profile that is allowed where a test limits nothing.
MAX_GROWTH = "5%"

#: How often a test runs whose leaks are looked for: the first run warms up.
ROUNDS = 6

MARKER = """gpu_memory(max_growth="5%", max="12GiB", leak=True): record the GPU memory of the test and hold it to \
limits. max_growth: over the profile stored beside the test file, of the peak or, as "METRIC=LIMIT", another metric; a \
list holds several. max: absolute limits. leak: run the test several times, and fail if memory stays; a size such as \
"1MiB" is how much may stay in each run. rounds: how often it runs then. strict: untrustworthy figures fail the test. \
stacks: "python" records only Python frames, which is faster."""

#: Metrics that PyTorch's counters give.
COUNTED = ("peak", "end", "active", "requested", "reserved")

Several = Union[str, list[str], tuple[str, ...], None]


@dataclass(frozen=True)
class Limits:
    """The limits of a test."""

    max_growth: tuple[str, ...] = ()
    max: tuple[str, ...] = ()
    leak: bool = False
    max_leak: Optional[str] = None
    rounds: int = ROUNDS
    strict: bool = False
    stacks: Stacks = "all"

    @property
    def is_counted(self) -> bool:
        """True if PyTorch's counters can decide each limit."""
        metrics = [limit.partition("=")[0] for limit in (*self.max_growth, *self.max) if "=" in limit]
        return not self.leak and all(metric in COUNTED for metric in metrics)

    @classmethod
    def of(cls, item: pytest.Item) -> Optional[Limits]:
        """The limits of a test, None without a marker. A marker of the function overrides those of class and module."""
        markers = list(item.iter_markers("gpu_memory"))
        if not markers:
            return None
        given: dict[str, Any] = {}
        for marker in reversed(markers):
            if marker.args:
                raise pytest.UsageError(f"{item.nodeid}: gpu_memory takes its limits by name: max_growth=, max=, leak=")
            given.update(marker.kwargs)
        return cls._read(item.nodeid, given)

    @classmethod
    def _read(cls, test: str, given: dict[str, Any]) -> Limits:
        known = {field.name for field in fields(cls)} - {"max_leak"}
        unknown = sorted(set(given) - known)
        if unknown:
            raise pytest.UsageError(
                f"{test}: gpu_memory does not know '{unknown[0]}'; expected one of: {', '.join(sorted(known))}"
            )
        leak = given.get("leak", False)
        rounds = given.get("rounds", ROUNDS)
        if not isinstance(leak, (bool, str)):
            raise pytest.UsageError(f"{test}: gpu_memory: leak: found {leak!r}, expected True or a size such as '1MiB'")
        if not isinstance(rounds, int) or rounds < 3:
            raise pytest.UsageError(f"{test}: gpu_memory: rounds: found {rounds!r}, expected a number from 3 on")
        try:
            stacks = checked(given.get("stacks", "all"))
        except ValueError as error:
            raise pytest.UsageError(f"{test}: gpu_memory: {error}") from error
        limits = cls(
            max_growth=_several(test, "max_growth", given.get("max_growth")),
            max=_several(test, "max", given.get("max")),
            leak=bool(leak),
            max_leak=leak if isinstance(leak, str) else None,
            rounds=rounds,
            strict=bool(given.get("strict", False)),
            stacks=stacks,
        )
        if limits.max_growth or limits.max or limits.leak:
            return limits
        # A marker without arguments is a gate, too.
        return cls(max_growth=(MAX_GROWTH,), strict=limits.strict, stacks=stacks)


def _several(test: str, name: str, value: Several) -> tuple[str, ...]:
    if value is None:
        return ()
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(one, str) for one in values):
        raise pytest.UsageError(
            f"{test}: gpu_memory: {name}: found {value!r}, expected a limit such as '5%', or several"
        )
    return values
