"""The entry point of pytest. With releases of pytest that are too old for the hooks it has none, and breaks nothing."""

from __future__ import annotations

import pytest
from pluggy import __version__ as pluggy_version


def is_supported(pytest_version: str, pluggy_version: str) -> bool:
    """pytest 7 brought what tests keep for plugins, pluggy 1.2 the wrappers that can fail a test."""
    return _numbers(pytest_version) >= (7, 0) and _numbers(pluggy_version) >= (1, 2)


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


if is_supported(pytest.__version__, pluggy_version):
    from .hooks import (  # noqa: F401
        pytest_addoption,
        pytest_collection_modifyitems,
        pytest_configure,
        pytest_load_initial_conftests,
        pytest_runtest_call,
        pytest_runtest_protocol,
        pytest_runtest_setup,
        pytest_runtest_teardown,
        pytest_terminal_summary,
    )
