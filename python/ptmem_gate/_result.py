"""What all results have in common, and reading them from JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import textwrap
from typing import Any, Literal, Optional, TypeVar, Union, cast, get_args, get_origin, get_type_hints

PathLike = Union[str, "os.PathLike[str]"]

R = TypeVar("R", bound="Result")


class MemoryVerdictError(AssertionError):
    """The verdict is not a pass. Its text is the table for people."""


class Result:
    """The result of a command."""

    #: None for a command that judges nothing.
    verdict: Optional[Literal["pass", "regression", "inconclusive"]]

    def __repr__(self) -> str:
        """A line per field: lists and objects, which can be thousands of lines long, by their kind and number."""
        fields = dataclasses.fields(cast(Any, self))
        lines = [f"  {field.name}={_brief(getattr(self, field.name))},\n" for field in fields]
        return f"{type(self).__name__}(\n{''.join(lines)})"

    @property
    def report(self) -> str:
        """The report for people, as a table."""
        return str(getattr(self, "_report", ""))

    @property
    def passed(self) -> bool:
        """The verdict is a pass. An input that was not judged has not passed."""
        return self.verdict == "pass"

    def require_pass(self) -> None:
        """Raises MemoryVerdictError, an AssertionError, unless the verdict is a pass."""
        if not self.passed:
            raise MemoryVerdictError(f"{self.verdict or 'not judged'}\n\n{self.report}")


def _brief(value: Any) -> str:
    """A value in at most a line."""
    if isinstance(value, list):
        kind = type(value[0]).__name__ if value else ""
        return f"[{len(value)} x {kind}]" if value else "[]"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(...)"
    return textwrap.shorten(repr(value), 96)


def read(result: type[R], text: str, report: str) -> R:
    """The result that a command printed as JSON."""
    printed = json.loads(text)
    hints = _hints(cast(Any, result))
    expected = get_args(hints["schema"])[0]
    if printed.get("schema") != expected:
        raise ValueError(
            f"the program printed {printed.get('schema')}, where {expected} was expected; "
            "folders and globs of ranks are for compare_ranks, check_ranks and show_ranks, single files for the others"
        )
    value: R = _decode(result, printed, result.__name__)
    # Not a field, because it is not part of the contract.
    object.__setattr__(value, "_report", report)
    return value


@functools.cache
def _hints(of: Any) -> dict[str, Any]:
    return get_type_hints(of)


def _decode(hint: Any, value: Any, place: str) -> Any:
    """A value of JSON as a type says. Unknown keys are left out: a later release may have written them."""
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return _decode_object(hint, value, place)
    if origin is Union:
        choice = next(one for one in get_args(hint) if one is not type(None))
        return None if value is None else _decode(choice, value, place)
    if origin is list:
        return [
            _decode(get_args(hint)[0], item, f"{place}[{at}]") for at, item in enumerate(_expect(list, value, place))
        ]
    if origin is dict:
        items = _expect(dict, value, place).items()
        return {key: _decode(get_args(hint)[1], item, f"{place}.{key}") for key, item in items}
    if origin is Literal:
        # A later release may know more of them.
        return _expect(str, value, place)
    return _expect((int, float) if hint is float else hint, value, place)


def _decode_object(of: Any, value: Any, place: str) -> Any:
    value = _expect(dict, value, place)
    fields = {}
    for field in dataclasses.fields(of):
        if field.name in value:
            fields[field.name] = _decode(_hints(of)[field.name], value[field.name], f"{place}.{field.name}")
        elif field.default is dataclasses.MISSING:
            raise ValueError(
                f"{place}: there is no '{field.name}'; is the program of another release than this package?"
            )
    return of(**fields)


def _expect(kind: Any, value: Any, place: str) -> Any:
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise ValueError(f"{place}: found {value!r:.60}, expected {getattr(kind, '__name__', kind)}")
