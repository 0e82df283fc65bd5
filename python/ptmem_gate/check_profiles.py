"""Checks that stored profiles are whole: python -m ptmem_gate.check_profiles FILE...

A profile that was edited by hand, badly merged or cut off no longer has the checksum in it, and a gate that
compares with it would refuse to run. This says so before the commit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ._commands import show
from ._program import ToolError


def main(paths: Sequence[str]) -> int:
    """0 if every file is a readable saved profile; otherwise 1, with a line for each that is not."""
    failed = 0
    for path in paths:
        try:
            kind = show(path, config=False).source.kind
        except ToolError as error:
            print(error, file=sys.stderr)
            failed = 1
        else:
            if kind != "profile":
                print(f"{path}: is a {kind}; expected a profile, which ptmem profile writes", file=sys.stderr)
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
