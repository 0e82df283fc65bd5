"""Digests of a program's code are equal for equal programs, and unknown if they cannot be determined."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Optional

import pytest
from ptmem_gate import _ran
from ptmem_gate._ran import Ran


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a program, its configuration, and files that git does not track."""
    git(tmp_path, "init", "--quiet")
    for name in ("train.py", "config.yaml", "deep/down/of/a/name that is long.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    git(tmp_path, "add", ".")
    (tmp_path / "notes.txt").write_text("untracked")
    (tmp_path / "local.json").write_text("untracked")
    return tmp_path


def opened_in(root: Path, *names: str) -> Optional[str]:
    return Ran(lambda: [str(root / name) for name in names]).facts(str(root))["opened"]


def test_a_configuration_that_changed_is_another_program_and_notes_are_not(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened_in(checkout, "config.yaml", "local.json")
    (checkout / "notes.txt").write_text("more")
    assert before == opened_in(checkout, "config.yaml", "local.json") != opened_in(checkout, "config.yaml")
    # Whether git tracks it or not.
    for name in ("config.yaml", "local.json"):
        (checkout / name).write_text("batch: 64")
        assert before != opened_in(checkout, "config.yaml", "local.json")
        before = opened_in(checkout, "config.yaml", "local.json")
    # Files of installed packages and of modules are code.
    installed = "venv/lib/python3.12/site-packages/package.py"
    model = types.ModuleType("model")
    model.__file__ = str(checkout / "train.py")
    monkeypatch.setitem(sys.modules, "model", model)
    assert before == opened_in(checkout, "config.yaml", "local.json", installed, "train.py", "deep")


def test_opened_files_that_are_gone_or_large_are_not_known(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened_in(checkout, "config.yaml", "gone") is None
    monkeypatch.setattr(_ran, "MOST_READ", 3)
    assert opened_in(checkout, "config.yaml") is None
    assert Ran().facts(str(checkout))["opened"] is None
    assert Ran(list).facts(None)["opened"] is None


def test_an_installed_library_counts_by_its_contents(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "kernels.so"
    library.parent.mkdir()
    library.write_bytes(b"64")
    before = _ran._of_code(str(library))
    library.write_bytes(b"32")
    assert before != _ran._of_code(str(library))


def test_the_environment_is_that_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Ran().facts("/repo/a")["environment"]
    monkeypatch.setenv("GITHUB_RUN_ID", "7")
    monkeypatch.setenv("DATA", "")
    monkeypatch.delenv("DATA")
    assert Ran().facts("/repo/a")["environment"] == before
    monkeypatch.setenv("DATA", "/repo/a/data")
    in_a = Ran().facts("/repo/a")["environment"]
    monkeypatch.setenv("DATA", "/repo/b/data")
    assert (in_a == before, in_a == Ran().facts("/repo/b")["environment"]) == (False, True)


PROGRAM = """
import sys
sys.path[:0] = [{package!r}, {folder!r}]
import model
from ptmem_gate._ran import Ran
print(Ran().facts(None)["code"])
"""


def test_the_code_is_that_of_all_modules(tmp_path: Path) -> None:
    package = str(Path(__file__).resolve().parent.parent)

    def code(source: str, *, typed: bool = False) -> str:
        (tmp_path / "model.py").write_text(source)
        (tmp_path / "train.py").write_text(PROGRAM.format(package=package, folder=str(tmp_path)))
        words = ["-"] if typed else [str(tmp_path / "train.py")]
        program = (tmp_path / "train.py").read_text()
        run = subprocess.run([sys.executable, "-B", *words], input=program, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    if sys.platform.startswith("linux"):
        assert code("SIZE = 1") == code("SIZE = 1") != "None"
        assert code("SIZE = 1") != code("SIZE = 2")
    assert code("SIZE = 1", typed=True) == "None"
