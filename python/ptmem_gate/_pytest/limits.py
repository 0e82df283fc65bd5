"""Limits of a test: those of ptmem.toml, and what the marker gpu_memory says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import pytest

from .._history import Stacks, checked
from .rules import Rule, Rules

#: Growth over the stored profile that is allowed where a test limits nothing.
MAX_GROWTH = "5%"

#: How often a test runs whose leaks are looked for: the first run warms up.
ROUNDS = 6

MARKER = """gpu_memory(leak=True): record the GPU memory of the test and hold it to the limits of [[pytest]] in \
ptmem.toml; without any, the peak may exceed that of the profile stored beside the test file by 5 %. leak: run the \
test several times, and fail if memory stays. rounds: how often it runs then. stacks: "python" records only Python \
frames, which is faster."""

#: Arguments of the marker, and former ones that limited something.
ARGUMENTS = ("leak", "rounds", "stacks")
FORMER = ("max", "max_growth", "strict")

#: Metrics that PyTorch's counters give.
COUNTED = ("peak", "end", "active", "requested", "reserved")


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
        metrics = [limit.partition("=")[0] for limit in (*self.max_growth, *self.max)]
        return not self.leak and all(metric in COUNTED for metric in metrics)

    @classmethod
    def of(cls, item: pytest.Item, rules: Rules) -> Optional[Limits]:
        """The limits of a test, None without a marker. A marker of the function overrides those of class and module."""
        markers = list(item.iter_markers("gpu_memory"))
        if not markers:
            return None
        given: dict[str, Any] = {}
        for marker in reversed(markers):
            if marker.args:
                raise pytest.UsageError(
                    f"{item.nodeid}: gpu_memory takes its arguments by name: {', '.join(ARGUMENTS)}"
                )
            given.update(marker.kwargs)
        return cls._read(item.nodeid, given, rules.of(item.nodeid))

    @classmethod
    def _read(cls, test: str, given: dict[str, Any], rules: Rule) -> Limits:
        unknown = sorted(set(given) - set(ARGUMENTS))
        if unknown:
            where = "limits are in [[pytest]] of ptmem.toml; " if unknown[0] in FORMER else ""
            raise pytest.UsageError(
                f"{test}: gpu_memory does not know '{unknown[0]}'; {where}expected one of: {', '.join(ARGUMENTS)}"
            )
        leak = given.get("leak", False)
        rounds = given.get("rounds", ROUNDS)
        if not isinstance(leak, bool):
            raise pytest.UsageError(
                f"{test}: gpu_memory: leak: found {leak!r}, expected True; max-leak of ptmem.toml allows some"
            )
        if not isinstance(rounds, int) or rounds < 3:
            raise pytest.UsageError(f"{test}: gpu_memory: rounds: found {rounds!r}, expected a number from 3 on")
        try:
            stacks = checked(given.get("stacks", "all"))
        except ValueError as error:
            raise pytest.UsageError(f"{test}: gpu_memory: {error}") from error
        growth = rules.max_growth
        # A mark without limits is a gate, too.
        if not growth and not rules.max and not leak:
            growth = {"peak": MAX_GROWTH}
        return cls(
            # What a test leaves behind is no matter of its stored profile.
            max_growth=() if leak else _options(growth),
            max=_options(rules.max),
            leak=leak,
            max_leak=rules.max_leak if leak else None,
            rounds=rounds,
            strict=rules.strict,
            stacks=stacks,
        )


def _options(limits: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{metric}={limit}" for metric, limit in limits.items())
