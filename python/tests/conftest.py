"""Shared by the tests: fixtures of snapshots, the tool, PyTorch where there is one, and a stand-in for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

import pytest
from fake_torch import FakeTorch, Release

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "python"


@pytest.fixture
def fixtures() -> Path:
    """Snapshots of known content."""
    return ROOT / "fixtures"


@pytest.fixture
def tool() -> str:
    """The tool that these tests run."""
    from ptmem_gate import program

    return program()


KINDS = [(release, "cuda") for release in Release] + [(Release.V2_8, "xpu")]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0].value}-{kind[1]}")
def any_torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTorch]:
    """A stand-in for each release of PyTorch whose signatures differ, and for GPUs of Intel."""
    yield from installed(FakeTorch(*request.param), monkeypatch)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTorch]:
    """A stand-in for the newest release of PyTorch."""
    yield from installed(FakeTorch(Release.V2_8), monkeypatch)


def installed(fake: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTorch]:
    for name, module in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    yield fake


@pytest.fixture(scope="session")
def real_torch() -> dict[str, str]:
    """The environment of a process with PyTorch and this package; skips without PyTorch."""
    python = os.environ.get("PTMEM_TEST_PYTHON")
    if not python or not sys.platform.startswith("linux"):
        pytest.skip("PTMEM_TEST_PYTHON names no Python with PyTorch: .ci/torch lays one out")
    ask = "import sys, sysconfig; print(sys.version_info[:2], sysconfig.get_path('purelib'))"
    words = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
    version, _, folder = words.rpartition(" ")
    if version != str(sys.version_info[:2]):
        pytest.skip(f"the Python with PyTorch is {version}, and this one is {sys.version_info[:2]}")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), folder])}


def module(name: str, **values: Any) -> ModuleType:
    """A module with these values."""
    made = ModuleType(name)
    vars(made).update(values)
    return made


def text_of(path: Optional[Path]) -> str:
    assert path is not None
    return path.read_text(encoding="utf-8")
