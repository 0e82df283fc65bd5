"""Numbers of modules and operators in front of the metadata of PyTorch's allocator."""

from __future__ import annotations

from typing import Any

#: Around the numbers.
MARK = "\x01"


def marked(text: str, module: int, operator: int) -> str:
    """The metadata of the program, with the numbers of what runs in front of it."""
    return f"{MARK}{module},{operator}{MARK}{text}" if module or operator else text


def take_mark(event: Any) -> tuple[int, int]:
    """Takes the mark out of the metadata of an event: the numbers of a module and of an operator."""
    text = event.get("user_metadata") or ""
    if not text.startswith(MARK):
        return 0, 0
    numbers, event["user_metadata"] = text[1:].split(MARK, 1)
    module, _, operator = numbers.partition(",")
    return int(module), int(operator)
