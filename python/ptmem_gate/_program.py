"""Finds the tool that this package installs, and runs it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ._result import PathLike

#: The tool to use in place of the installed one.
VARIABLE = "PTMEM_GATE_PROGRAM"

#: Exit codes that are a verdict: pass, regression, inconclusive.
VERDICTS = (0, 1, 3)


class ToolError(Exception):
    """The tool could not be found or could not run: wrong arguments, an input that cannot be read, an invalid limit."""


@dataclass(frozen=True)
class Output:
    """The output of a run of the tool: the result for machines, and the table for people."""

    json: str
    table: str


@functools.cache
def program() -> str:
    """The path of the tool: `ptmem-gate` of this package, or what the variable PTMEM_GATE_PROGRAM names."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        if not os.path.isfile(chosen):
            raise ToolError(f"{VARIABLE}: the file '{chosen}' does not exist; expected the path of ptmem-gate")
        return os.path.abspath(chosen)
    name = "ptmem-gate" + (".exe" if sys.platform == "win32" else "")
    for folder in _folders():
        path = folder / name
        if path.is_file():
            return str(path)
    found = shutil.which("ptmem-gate")
    if found is None:
        raise ToolError("the program ptmem-gate is not installed; pip install --force-reinstall ptmem-gate installs it")
    return found


def _folders() -> Iterator[Path]:
    """Where installers put the programs of this package: beside Python, for this user, below --target or --prefix."""
    yield Path(sysconfig.get_path("scripts"))
    yield Path(sysconfig.get_path("scripts", scheme=_user_scheme()))
    package = Path(__file__).resolve().parent
    yield package.parent / "bin"
    yield package.parent / "Scripts"
    if len(package.parents) > 3:
        yield package.parents[3] / "bin"


def _user_scheme() -> str:
    if os.name == "nt":
        return "nt_user"
    return "osx_framework_user" if sys.platform == "darwin" and sys._framework else "posix_user"


@functools.cache
def version() -> str:
    """The version of the tool."""
    words = run_plain(["--version"]).split()
    if len(words) != 2 or words[0] != "ptmem-gate":
        raise ToolError(f"{program()}: says '{' '.join(words)}' of itself; expected 'ptmem-gate' and its version")
    return words[1]


def is_simulated() -> bool:
    """This process runs under `ptmem simulate`."""
    return any(name.startswith("PTMEM_SIMULATE") for name in os.environ)


def environment() -> dict[str, str]:
    """The environment for the tool: of a program on simulated GPUs without what simulates them."""
    variables = dict(os.environ)
    if is_simulated():
        for name in ("LD_PRELOAD", "PYTHONPATH"):
            variables.pop(name, None)
    # Tables are as wide wherever they are made, and in no colour.
    variables["COLUMNS"] = "100"
    variables["NO_COLOR"] = "1"
    variables.pop("CLICOLOR_FORCE", None)
    return variables


def run_plain(arguments: Sequence[str], accepted: Sequence[int] = (0,)) -> str:
    """Runs the tool and returns what it prints on standard output."""
    command = [program(), *arguments]
    try:
        finished = subprocess.run(
            command, check=False, capture_output=True, stdin=subprocess.DEVNULL, env=environment()
        )
    except OSError as error:
        raise ToolError(f"{command[0]}: cannot be started: {error}") from error
    if finished.returncode not in accepted:
        said = finished.stderr.decode(errors="replace").strip()
        raise ToolError(said.removeprefix("error: ") or f"{command[0]}: ended with {finished.returncode}")
    return finished.stdout.decode()


def run(arguments: Sequence[str], export: Mapping[str, PathLike]) -> Output:
    """Runs a command of the tool that reports, and exports its report in other formats as well."""
    with tempfile.TemporaryDirectory(prefix="ptmem-gate-") as folder:
        table = Path(folder) / "table.txt"
        exports = [f"{name}={os.fspath(path)}" for name, path in export.items()]
        words = [*arguments, "--format", "json", "--export", f"table={table}"]
        for one in exports:
            words += ["--export", one]
        json = run_plain(words, VERDICTS)
        return Output(json, table.read_text(encoding="utf-8"))
