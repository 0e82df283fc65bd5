"""The programs of the package as a module: python -m ptmem_gate diff BEFORE AFTER."""

from __future__ import annotations

import os
import subprocess
import sys

from ._program import ToolError, program


def main() -> int:
    """Hands this process over to the tool."""
    try:
        command = [program(), *sys.argv[1:]]
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if os.name != "nt":
        os.execv(command[0], command)
    # On Windows a process cannot become another one.
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
