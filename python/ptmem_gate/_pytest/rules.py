"""The limits of tests in ptmem.toml: the entries of [[pytest]]."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Optional, Union

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    # pytest needs it as well.
    import tomli as tomllib

#: Places of the file in a folder, as the tool knows them; the first that exists counts.
PLACES = ("ptmem.toml", ".github/ptmem.toml")

#: The metric of a limit that names none.
DEFAULT = "peak"

KEYS = ("tests", "max-growth", "max", "max-leak", "strict")

OneOrMore = Union[str, list[str], dict[str, str]]


@dataclass(frozen=True)
class Rule:
    """The limits of a test, by metric."""

    max_growth: dict[str, str] = field(default_factory=dict)
    max: dict[str, str] = field(default_factory=dict)
    max_leak: Optional[str] = None
    strict: bool = False


@dataclass(frozen=True)
class Rules:
    """The entries of a file, in order."""

    entries: tuple[dict[str, Any], ...] = ()

    @classmethod
    def nearest(cls, root: Path) -> Rules:
        """Those of the nearest file from a folder up to the root of the repository."""
        for folder in (root, *root.parents):
            for place in PLACES:
                if (folder / place).is_file():
                    return cls._of_file(folder / place)
            if (folder / ".git").exists():
                break
        return cls()

    @classmethod
    def _of_file(cls, path: Path) -> Rules:
        try:
            entries = tomllib.loads(path.read_text(encoding="utf-8")).get("pytest", [])
            unknown = [key for entry in entries for key in entry if key not in KEYS]
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise pytest.UsageError(f"{path}: the entries [[pytest]] cannot be read: {error}") from error
        if unknown:
            raise pytest.UsageError(f"{path}: [[pytest]] has no key '{unknown[0]}'; expected one of: {', '.join(KEYS)}")
        return cls(tuple(entries))

    def of(self, test: str) -> Rule:
        """The limits of a test: of several entries on the same metric, the last one counts."""
        rule = Rule()
        for entry in self.entries:
            if _is_of(entry.get("tests", "*"), test):
                rule = replace(
                    rule,
                    max_growth={**rule.max_growth, **_by_metric(entry.get("max-growth", {}))},
                    max={**rule.max, **_by_metric(entry.get("max", {}))},
                    max_leak=entry.get("max-leak", rule.max_leak),
                    strict=entry.get("strict", rule.strict),
                )
        return rule


def _is_of(patterns: Union[str, list[str]], test: str) -> bool:
    """Brackets in names of tests are those of parameters: only an asterisk stands for anything."""
    several = [patterns] if isinstance(patterns, str) else patterns
    return any(re.fullmatch(".*".join(map(re.escape, one.split("*"))), test, re.DOTALL) for one in several)


def _by_metric(limits: OneOrMore) -> dict[str, str]:
    if isinstance(limits, dict):
        return limits
    several = [limits] if isinstance(limits, str) else limits
    # A pattern of stacks may hold the sign, too, but no limit does.
    parts = [one.rpartition("=") for one in several]
    return {metric or DEFAULT: limit for metric, _, limit in parts}
