"""Runs pytest on simulated GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NoReturn

import pytest

from .._program import ToolError, program


def begin_again(config: pytest.Config) -> NoReturn:
    """Runs the same command line under `ptmem simulate`, in place of this process where it is pytest's own."""
    gpu = config.known_args_namespace.ptmem_gpu or config.getini("ptmem_gpu")
    try:
        command = [program(), "simulate", "--gpu", str(gpu), "--", *_this_pytest(), *config.invocation_params.args]
    except ToolError as error:
        raise pytest.UsageError(str(error)) from error
    sys.stdout.flush()
    sys.stderr.flush()
    if _is_own_process():
        os.execv(command[0], command)
    # pytest.main() in another program, which goes on.
    raise SystemExit(subprocess.run(command, check=False, cwd=config.invocation_params.dir).returncode)


def _is_own_process() -> bool:
    name = os.path.basename(sys.argv[0])
    return os.name != "nt" and name in ("pytest", "py.test", "__main__.py")


def _this_pytest() -> list[str]:
    """Pytest as it was called: `python -m pytest` also looks for modules in the current folder."""
    script = sys.argv[0]
    if os.path.basename(script) in ("pytest", "py.test") and os.path.isfile(script):
        return [sys.executable, script]
    return [sys.executable, "-m", "pytest"]
