"""The profile that a test is compared with, in a folder beside its file."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

FOLDER = "__gpu_memory__"

#: A longer name of a file is cut: some file systems take 255 bytes, and there are suffixes.
LONGEST = 120


def stored_profile(item: pytest.Item, simulated: bool) -> Path:
    """Where the profile of a test is kept. One of simulated GPUs is another file than that of the real ones."""
    name = ".".join([*(node.name for node in item.listchain() if isinstance(node, pytest.Class)), item.name])
    suffix = ".simulated.ptmem.json" if simulated else ".ptmem.json"
    return item.path.parent / FOLDER / item.path.stem / (file_name(name) + suffix)


def file_name(test: str) -> str:
    """The name of a test as that of a file. Two tests never share one."""
    plain = re.sub(r"[^\w.\-\[\]=,+]", "_", test, flags=re.ASCII)
    if plain == test and len(plain) <= LONGEST:
        return plain
    return f"{plain[:LONGEST]}-{hashlib.sha1(test.encode()).hexdigest()[:8]}"
