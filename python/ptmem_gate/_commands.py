"""The commands of the tool as functions: they run it and return what it found.

Each function repeats the parameters that it has in common with others: in one place, as a TypedDict for **keywords,
they would be missing from help(), from signatures, and from the errors for misspelled names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Optional, TypeVar, Union

from . import results
from ._program import run, run_plain
from ._result import PathLike, Result, read

#: One limit, such as "5%" or "reserved=10%+1GiB", several, or one per metric: {"peak": "5%", "stack:train.py*": "0"}.
Limits = Union[str, Iterable[str], Mapping[str, str], None]

#: The configuration file; None uses the nearest ptmem.toml, False disables it.
Config = Union[PathLike, Literal[False], None]

#: Further reports to write, by format: {"html": "report.html", "junit": "report.xml"}.
Exports = Mapping[str, PathLike]

R = TypeVar("R", bound=Result)


def compare(
    before: PathLike,
    after: PathLike,
    *,
    max_growth: Limits = None,
    warn_growth: Limits = None,
    max: Limits = None,
    min_delta: Optional[str] = None,
    strict: bool = False,
    config: Config = None,
    export: Optional[Exports] = None,
    options: Sequence[str] = (),
) -> results.Comparison:
    """Compares two snapshots or saved profiles, like `ptmem diff`.

    A limit is for the peak unless it names another metric. `options` are further options of `ptmem diff`, such as
    ["--group-by", "line"]. Raises ToolError where the comparison could not be made.
    """
    words = _diff(before, after, max_growth, warn_growth, max, min_delta)
    return _report(results.Comparison, [*words, *_common(strict, config, options)], export)


def compare_ranks(
    before: PathLike,
    after: PathLike,
    *,
    max_growth: Limits = None,
    warn_growth: Limits = None,
    max: Limits = None,
    min_delta: Optional[str] = None,
    strict: bool = False,
    config: Config = None,
    export: Optional[Exports] = None,
    options: Sequence[str] = (),
) -> results.Suite:
    """Compares the ranks of two jobs: folders or globs with a file for each rank. Otherwise like compare()."""
    words = _diff(before, after, max_growth, warn_growth, max, min_delta)
    return _report(results.Suite, [*words, *_common(strict, config, options)], export)


def check(
    snapshot: PathLike,
    *,
    max: Limits = None,
    device_memory: Optional[str] = None,
    min_headroom: Optional[str] = None,
    strict: bool = False,
    config: Config = None,
    export: Optional[Exports] = None,
    options: Sequence[str] = (),
) -> results.Snapshot:
    """Gates one snapshot by absolute limits, like `ptmem check`: max="12GiB" or max={"reserved": "16GiB"}."""
    words = _check(snapshot, max, device_memory, min_headroom)
    return _report(results.Snapshot, [*words, *_common(strict, config, options)], export)


def check_ranks(
    snapshots: PathLike,
    *,
    max: Limits = None,
    device_memory: Optional[str] = None,
    min_headroom: Optional[str] = None,
    strict: bool = False,
    config: Config = None,
    export: Optional[Exports] = None,
    options: Sequence[str] = (),
) -> results.Ranks:
    """Gates the ranks of a job by absolute limits: a folder or a glob with a file for each rank."""
    words = _check(snapshots, max, device_memory, min_headroom)
    return _report(results.Ranks, [*words, *_common(strict, config, options)], export)


def find_leaks(
    snapshots: Union[PathLike, Sequence[PathLike]],
    *,
    max_leak: Optional[str] = None,
    skip: Optional[int] = None,
    step: Optional[str] = None,
    strict: bool = False,
    config: Config = None,
    export: Optional[Exports] = None,
    options: Sequence[str] = (),
) -> results.Leaks:
    """Finds what grows over a series of snapshots, or over the steps of one, like `ptmem leak`."""
    inputs = [snapshots] if isinstance(snapshots, (str, os.PathLike)) else snapshots
    words = ["leak", *map(_path, inputs), *_option("max-leak", max_leak), *_option("step", step)]
    words += _option("skip", None if skip is None else str(skip))
    return _report(results.Leaks, [*words, *_common(strict, config, options)], export)


def show(
    snapshot: PathLike,
    *,
    at: Optional[str] = None,
    group_by: Optional[results.GroupBy] = None,
    config: Config = None,
    export: Optional[Exports] = None,
    options: Sequence[str] = (),
) -> results.Snapshot:
    """The figures and the largest stacks of a snapshot, like `ptmem show`."""
    words = ["show", _path(snapshot), *_option("at", at), *_option("group-by", group_by)]
    return _report(results.Snapshot, [*words, *_common(False, config, options)], export)


def show_ranks(
    snapshots: PathLike,
    *,
    at: Optional[str] = None,
    group_by: Optional[results.GroupBy] = None,
    config: Config = None,
    export: Optional[Exports] = None,
    options: Sequence[str] = (),
) -> results.Ranks:
    """The figures of the ranks of a job: a folder or a glob with a file for each rank."""
    words = ["show", _path(snapshots), *_option("at", at), *_option("group-by", group_by)]
    return _report(results.Ranks, [*words, *_common(False, config, options)], export)


def save_profile(snapshot: PathLike, output: PathLike, *, config: Config = None, options: Sequence[str] = ()) -> None:
    """Writes the compact profile of a snapshot, to keep as the stored before, like `ptmem profile`."""
    run_plain(["profile", _path(snapshot), f"--output={os.fspath(output)}", *_common(False, config, options)])


def _diff(
    before: PathLike, after: PathLike, max_growth: Limits, warn_growth: Limits, most: Limits, min_delta: Optional[str]
) -> list[str]:
    words = ["diff", _path(before), _path(after)]
    words += [f"--max-growth={limit}" for limit in _limits(max_growth)]
    words += [f"--warn-growth={limit}" for limit in _limits(warn_growth)]
    return words + [f"--max={limit}" for limit in _maxima(most)] + _option("min-delta", min_delta)


def _check(snapshot: PathLike, most: Limits, device_memory: Optional[str], min_headroom: Optional[str]) -> list[str]:
    words = ["check", _path(snapshot), *(f"--max={limit}" for limit in _maxima(most))]
    return words + _option("device-memory", device_memory) + _option("min-headroom", min_headroom)


def _report(kind: type[R], words: Sequence[str], export: Optional[Exports]) -> R:
    output = run(words, export or {})
    return read(kind, output.json, output.table)


def _common(strict: bool, config: Config, options: Sequence[str]) -> list[str]:
    words = ["--strict"] if strict else []
    if config is False:
        words.append("--config=none")
    elif config is not None:
        words.append(f"--config={os.fspath(config)}")
    return [*words, *options]


def _path(path: PathLike) -> str:
    """A path that cannot be taken for an option or for standard input."""
    text = os.fspath(path)
    return os.path.join(".", text) if text.startswith("-") else text


def _option(name: str, value: Optional[str]) -> list[str]:
    return [] if value is None else [f"--{name}={value}"]


def _limits(limits: Limits) -> list[str]:
    if limits is None:
        return []
    if isinstance(limits, str):
        return [limits]
    if isinstance(limits, Mapping):
        return [f"{metric}={limit}" for metric, limit in limits.items()]
    return list(limits)


def _maxima(limits: Limits) -> list[str]:
    """Absolute limits always name their metric on the command line."""
    return [limit if "=" in limit else f"peak={limit}" for limit in _limits(limits)]
